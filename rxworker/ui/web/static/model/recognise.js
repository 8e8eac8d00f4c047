// Recognises what the text of a tool's result is: JSON, rows of a table, a unified diff, or text. Pure.

import { isDiff, summaryOf } from "./diff.js";
import { clip, plural } from "./format.js";
import { fill, words } from "./language.js";

const LARGEST = 5_000_000; // characters that are parsed as JSON
const LARGEST_DIFF = 300_000; // characters of a diff that is summed up at once
const LARGEST_OUTLINE = 100_000; // characters of JSON that is summed up at once
const SHORT = 60; // characters of JSON that is shown as it is
const MAX_COLUMNS = 40;

// A number that the page cannot hold exactly. It is shown as it is written.
export class Exact {
  constructor(source) {
    this.source = source;
  }
}

function exact(_key, value, context) {
  if (typeof value !== "number") return value;
  const source = context?.source;
  if (source === undefined ? Number.isSafeInteger(value) || !Number.isInteger(value) : String(value) === source) return value;
  if (source === undefined) throw new RangeError("a number that would not be exact");
  return new Exact(source);
}

// An object or an array, or undefined. A single text, number or null is shown better as text.
function jsonOf(text) {
  if (text.length > LARGEST || !/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text, exact);
  } catch {
    return undefined; // not JSON, or nested too deeply
  }
}

export const isScalar = (value) => value === null || typeof value !== "object" || value instanceof Exact;
export const isEmpty = (value) => (Array.isArray(value) ? value : Object.keys(value)).length === 0;

// The columns of an array of flat objects, or null.
export function columnsOf(value) {
  if (!Array.isArray(value) || value.length === 0) return null;
  const columns = new Set();
  for (const row of value) {
    if (isScalar(row) || Array.isArray(row)) return null;
    for (const [name, cell] of Object.entries(row)) {
      if (!isScalar(cell)) return null;
      columns.add(name);
    }
    if (columns.size > MAX_COLUMNS) return null;
  }
  return columns.size > 0 ? [...columns] : null;
}

// { kind: "table", value, columns }, { kind: "json", value }, { kind: "diff" } or { kind: "text" }
export function recognise(text) {
  const value = jsonOf(text);
  if (value !== undefined && !isEmpty(value)) {
    const columns = columnsOf(value);
    return columns ? { kind: "table", value, columns } : { kind: "json", value };
  }
  return { kind: isDiff(text.slice(0, LARGEST)) ? "diff" : "text" };
}

const lines = new WeakMap(); // of calls, so that a diff is read once

// What JSON contains: the size and the columns of a table, the fields of an object, or the number of items of another array; null for other text.
// Like `outline_json` in Python; a test checks that the two agree.
export function outlineOf(text) {
  const value = text.length > LARGEST_OUTLINE ? undefined : jsonOf(text), { rows, columns, items, fields } = words.result;
  if (value === undefined || isEmpty(value)) return null;
  const found = columnsOf(value), names = found ?? Object.keys(value);
  if (found) return fill(words.result.tableOf, { rows: plural(rows, value.length), columns: plural(columns, names.length), names: names.join(", ") });
  return Array.isArray(value) ? fill(words.result.listOf, { items: plural(items, value.length) }) : fill(words.result.objectOf, { fields: plural(fields, names.length), names: names.join(", ") });
}

function summed(text) {
  if (text.length <= LARGEST_DIFF && isDiff(text)) return summaryOf(text);
  return text.length <= SHORT ? null : outlineOf(text);
}

// The result of a call in one line: of a diff, its files; of a table or a tree, what it contains; else its beginning.
export function outcomeOf(call, most) {
  const text = call.result ?? "";
  let line = lines.get(call);
  if (line?.text !== text) lines.set(call, (line = { text, summary: summed(text) }));
  return clip(line.summary ?? text, most);
}
