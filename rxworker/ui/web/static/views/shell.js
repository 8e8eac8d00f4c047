// The frame of the page: banner, menu, views, theme, and announcements for screen readers.
// The theme is that of the system until the user chooses one.
// Announcements are whole sentences of the answer and changes of the run's status, never single tokens.

import { byId, copy, recalled, remember, setData, setText, show } from "./dom.js";
import { words } from "../model/language.js";

export function banner(text, tone = "") {
  const node = byId("banner");
  setData(node, "tone", tone);
  setText(node, text);
  show(node, text !== "");
}

export function menu(open) {
  if (!open && isMenuOpen() && byId("runs").contains(document.activeElement)) byId("menu").focus(); // the list is hidden next
  document.body.classList.toggle("menu-open", open);
  byId("menu").setAttribute("aria-expanded", String(open));
}

export function view(name) {
  document.body.dataset.view = name;
  for (const button of byId("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === name));
}

// Whether the conversation and the trace are shown side by side.
export function isWide() {
  return !byId("views").checkVisibility();
}

// Whether there is a keyboard, most likely. On a phone a focused field opens one over half of the page.
export function hasKeyboard() {
  return matchMedia("(hover: hover) and (pointer: fine)").matches;
}

// Whether the server has no worker: its page only shows what others perform.
export const isWatchOnly = () => document.body.hasAttribute("data-watch-only");

export function isMenuOpen() {
  return document.body.classList.contains("menu-open");
}

// The banner of a lost connection stays until there is one.
export function clearBanner(tone = null) {
  const shown = byId("banner").dataset.tone;
  if (tone === null ? shown !== "lost" : shown === tone) banner("");
}

// The skip link leads to the decision if there is one, else to the message box.
export function skipTo(decides) {
  const link = document.querySelector(".skip");
  setText(link, decides ? words.app.skipToDecision : words.app.skipToMessage);
  link.setAttribute("href", decides ? "#approval" : "#composer-input");
}

// Copy the address of what is shown.
export async function copyLink(address) {
  banner((await copy(address)) ? words.commands.linkCopied : words.code.notCopied, "copied");
  setTimeout(() => clearBanner("copied"), 1_600);
}

export function initShell() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    (byId("approval").hidden ? byId("composer-input") : byId("approval")).focus();
  });
  byId("menu").addEventListener("click", () => menu(!isMenuOpen()));
  byId("main").addEventListener("click", (event) => isMenuOpen() && (event.preventDefault(), event.stopPropagation(), menu(false)), true);
  for (const button of byId("views").children) button.addEventListener("click", () => view(button.dataset.view));
}

const KEY = "rxworker.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function initTheme(changed = () => {}) {
  const button = byId("theme");
  function apply(theme) {
    document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-label", theme === "dark" ? words.app.lightColours : words.app.darkColours);
    changed();
  }
  function current() {
    return recalled(KEY) ?? (dark.matches ? "dark" : "light");
  }
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    remember(KEY, next);
    apply(next);
  });
  dark.addEventListener("change", () => apply(current()));
  apply(current());
}

const REST = 2_500, MAX = 400;
let pending = "", timer = null;

function flush(all) {
  timer = null;
  if (pending.trim() === "") return;
  const cut = all ? pending.length : sentenceEnd(pending);
  if (cut === 0) return;
  announce(pending.slice(0, cut).trim());
  pending = pending.slice(cut);
}

function sentenceEnd(text) {
  let end = 0;
  for (const match of text.matchAll(/[.!?:。！？]["')\]]?(\s|$)|\n/g)) end = match.index + match[0].length;
  return end === 0 && text.length > MAX ? MAX : end;
}

export function announce(text) {
  const region = byId("announcer");
  const line = document.createElement("p");
  setText(line, text.length > MAX ? `${text.slice(0, MAX)}…` : text);
  region.append(line);
  while (region.childElementCount > 3) region.firstElementChild.remove();
}

// Announces more of the answer; `isWhole` when its block has ended.
export function announceText(text, isWhole) {
  pending = (pending + text).slice(-4 * MAX);
  if (isWhole) {
    clearTimeout(timer);
    flush(true);
  } else timer ??= setTimeout(() => flush(false), REST);
}

export function clearPending() {
  pending = "";
}
