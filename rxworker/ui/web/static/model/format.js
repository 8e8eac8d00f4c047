// Formats numbers, durations and values. Pure.

import { fill, locale, words } from "./language.js";

// Made with the first number: the first use of `Intl` takes more than 10 ms of the opening of the page.
let whole = null, compact = null;

const inFull = (n) => (whole ??= new Intl.NumberFormat(locale)).format(n);
const inShort = (n) => (compact ??= new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 })).format(n);
export const count = (n) => (n >= 100_000 ? inShort(n) : inFull(n));
export const short = (n) => (n >= 10_000 ? inShort(n) : inFull(n));
export const plural = (text, n) => fill(text, { n }, count);

// A duration in its two largest units. Like `duration` in Python, and `money` below; a test checks that they agree.
export function seconds(s) {
  const { units } = words, n = Math.floor(s + 0.5);
  if (s >= 0.0005 && s < 0.095) return fill(units.millisecond, { n: (s * 1000).toFixed(0) });
  if (n < 60) return fill(units.second, { n: s <= 10 ? Math.max(s, 0).toFixed(1) : String(n) });
  if (n < 3600) return fill(units.minutes, { n: Math.floor(n / 60), s: n % 60 });
  if (n < 86_400) return fill(units.hours, { n: Math.floor(n / 3600), m: Math.floor((n % 3600) / 60) });
  return fill(units.days, { n: Math.floor(n / 86_400), h: Math.floor((n % 86_400) / 3600) }, inFull);
}

// A time to the millisecond if that matters.
export const precise = (s) => (s < 60 ? fill(words.units.second, { n: s < 10 ? s.toFixed(2) : s.toFixed(1) }) : seconds(s));

export function ago(then, now) {
  const s = now - then;
  if (s < 45) return words.units.now;
  if (s < 3600) return fill(words.units.minutesAgo, { n: Math.max(1, Math.round(s / 60)) });
  if (s < 86_400) return fill(words.units.hoursAgo, { n: Math.round(s / 3600) });
  return new Date(then * 1000).toLocaleDateString();
}

export function money(cost, currency = "") {
  const text = Math.abs(cost) >= 1 || !cost ? (cents ??= new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 })).format(cost).replace(/\D00$/, "") : inDigits(cost);
  return `${text} ${currency}`.trim();
}

// A cost, null if no price is known, without that of the models whose prices are not.
export function costWithout(cost, models, currency) {
  const names = models.join(", ");
  return cost === null ? `${words.board.unknown} (${names})` : `${money(cost, currency)} ${fill(words.board.without, { names })}`;
}

let exact = null, cents = null;

const inDigits = (n) => (exact ??= new Intl.NumberFormat(locale, { maximumSignificantDigits: 4 })).format(n);

export const isCurrency = (unit) => /^[A-Z]{3}$/.test(unit);

// A number of a panel with its unit, with four digits that count.
export function amount(n, unit = "") {
  if (unit === "s") return seconds(n).replace(".0 s", " s");
  if (isCurrency(unit)) return money(n, unit);
  const shown = Number.isInteger(n) || Math.abs(n) >= 1000 ? short(Math.round(n)) : inDigits(n);
  return `${shown} ${unit}`.trim();
}

// Text from models and tools in displayable form: control characters become their pictures, and characters that change the direction of
// writing are removed. Like `clean` in Python; a test checks that the two agree.
const UNSHOWN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]/g;

export function readable(text) {
  return text.replace(UNSHOWN, (found) => {
    const code = found.charCodeAt(0);
    if (code === 0x0d || code === 0x061c || code === 0x200e || code === 0x200f) return "";
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return code === 0x2028 || code === 0x2029 ? "\n" : "\ufffd";
  });
}

// A value in full. Free text is unchanged, unless it contains invisible characters: then it is written as JSON.
export function pretty(value) {
  if (value === undefined || value === null) return "";
  return typeof value === "string" && !isUnseen(value) ? value : revealed(JSON.stringify(value, null, 2));
}

// A value as JSON in which nothing is invisible.
export const inJson = (value) => revealed(JSON.stringify(value, null, 2));

export const isUnseen = (text) => text !== revealed(text);

// Invisible characters, and those that reorder text, are escaped as in JSON: the user must see what is approved.
const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udc7f]/g;

function revealed(text) {
  return text.replace(UNSEEN, (found) => found.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
}

// The status of a run in a word. Only a run that a hook ends is called aborted; a running one has a cause only while no process runs it.
export function statusWord(status, cause) {
  const word = cause && (status === "running" || status === "aborted" || cause === "resumed" || cause === "waiting") ? cause : status;
  return words.status[word] ?? (status === "running" ? word : words.status[status] ?? status);
}

// The state of a call in a word; one that is approved waits for the decisions about others.
export const callWord = ({ state, waits }) => words.call[(state === "paused" && waits) || state] ?? state;

// Arguments in one line, for a lane and a closed card.
export function brief(value, most = 80) {
  if (value === undefined || value === null) return "";
  let text;
  if (typeof value === "string") text = value;
  else text = Object.entries(value).map(([name, v]) => `${name}: ${(typeof v === "string" ? v : JSON.stringify(v)).slice(0, most + 2)}`).join(", ");
  return revealed(clip(text, most));
}

export function clip(text, most) {
  const line = text.slice(0, most + 1).replace(/\s+/g, " ").trim();
  return line.length > most || text.length > most + 1 ? `${line.slice(0, most).trimEnd()}…` : line;
}
