// The commands of the page: the table from which its shortcuts, their sheet, the palette and the menu of a run are made. Pure.
//
// A key is written as `KeyboardEvent.key`, with `Mod+` for Ctrl, or Cmd on a Mac. Keys without it work outside of fields only, and can be switched
// off; they only show something. No letter or digit is among them: what is typed goes into the message box, wherever the focus is. The keys of a
// row with `at` are handled by a part of the page and are only listed here.

import { words } from "./language.js";

export const COMMANDS = [
  { id: "palette", group: "page", keys: ["Mod+k"] },
  { id: "shortcuts", group: "page", keys: ["?"] },
  { id: "escape", group: "page", keys: ["Escape"], at: "page" },
  { id: "skip", group: "page", keys: [] },
  { id: "newRun", group: "page", keys: [] },
  { id: "theme", group: "page", keys: [] },
  { id: "fleet", group: "page", keys: [] },
  { id: "boards", group: "page", keys: [] },
  { id: "search", group: "list", keys: ["/"], at: "list" },
  { id: "next", group: "list", keys: ["ArrowDown"], at: "list" },
  { id: "before", group: "list", keys: ["ArrowUp"], at: "list" },
  { id: "conversation", group: "run", keys: [] },
  { id: "timeline", group: "run", keys: [] },
  { id: "wideTrace", group: "run", keys: [] },
  { id: "numbers", group: "run", keys: [] },
  { id: "pause", group: "run", keys: [] },
  { id: "cancel", group: "run", keys: [] },
  { id: "good", group: "run", keys: [] },
  { id: "poor", group: "run", keys: [] },
  { id: "compare", group: "run", keys: [], isInMenu: true },
  { id: "copyLink", group: "run", keys: [], isInMenu: true },
  { id: "share", group: "run", keys: [], isInMenu: true },
  { id: "rerun", group: "run", keys: [], isInMenu: true },
  { id: "saveMarkdown", group: "run", keys: [], isInMenu: true },
  { id: "saveHtml", group: "run", keys: [], isInMenu: true },
  { id: "saveRecords", group: "run", keys: [], isInMenu: true },
  { id: "play", group: "time", keys: [] },
  { id: "stepBack", group: "time", keys: [","] },
  { id: "stepOn", group: "time", keys: ["."] },
  { id: "leave", group: "time", keys: [] },
  { id: "fork", group: "time", keys: [] },
];

// Those of the page of all runs.
export const FLEET_COMMANDS = [
  ...COMMANDS.filter(({ id }) => ["palette", "shortcuts", "theme", "boards"].includes(id)),
  { id: "conversations", group: "page", keys: [] },
  { id: "search", group: "list", keys: ["/"] },
  { id: "everything", group: "list", keys: [] },
  { id: "copyLink", group: "page", keys: [] },
];

// Those of the page of a dashboard.
export const BOARDS_COMMANDS = [
  ...COMMANDS.filter(({ id }) => ["palette", "shortcuts", "theme", "fleet"].includes(id)),
  { id: "conversations", group: "page", keys: [] },
  { id: "filter", group: "page", keys: ["/"] },
  { id: "copyLink", group: "page", keys: [] },
];

export const nameOf = (command) => words.commands[command.id];
export const groupOf = (command) => words.groups[command.group];

const isMac = /Mac|iP(hone|ad)/.test(globalThis.navigator?.platform ?? "");
const SIGNS = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };

// A key as it is written on the keyboard.
export function keyText(key) {
  const name = key.replace("Mod+", "");
  return `${name === key ? "" : isMac ? "⌘ " : "Ctrl "}${SIGNS[name] ?? (name === key ? name : name.toUpperCase())}`;
}

export function fits(event, key) {
  const needsMod = key.startsWith("Mod+"), hasMod = event.ctrlKey || event.metaKey;
  return needsMod === hasMod && !event.altKey && event.key.toLowerCase() === key.replace("Mod+", "").toLowerCase();
}

// How well a text fits a query whose letters it contains in their order, or null. The beginnings of words and neighbours count more.
export function score(query, text) {
  const wanted = query.toLowerCase().replace(/\s+/g, ""), found = text.toLowerCase();
  let at = -1, sum = 0;
  for (const letter of wanted) {
    const start = wordStart(found, letter, at + 1), next = found.indexOf(letter, at + 1);
    if (next === -1) return null;
    const place = next === at + 1 || start === -1 ? next : start;
    sum += place === at + 1 ? 3 : place === start ? 2 : 0;
    sum -= Math.min(20, place - at - 1) / 20;
    at = place;
  }
  return sum - found.length / 1000;
}

function wordStart(text, letter, from) {
  for (let at = text.indexOf(letter, from); at !== -1; at = text.indexOf(letter, at + 1)) {
    if (at === 0 || /[^\p{L}\p{N}]/u.test(text[at - 1])) return at;
  }
  return -1;
}

// The rows that fit a query, the best first; rows that fit equally well keep their order.
export function rank(query, rows, most) {
  if (query.trim() === "") return rows.slice(0, most);
  const scored = rows.map((row) => [score(query, row.text), row]).filter(([fit]) => fit !== null);
  return scored.sort(([a], [b]) => b - a).slice(0, most).map(([, row]) => row);
}
