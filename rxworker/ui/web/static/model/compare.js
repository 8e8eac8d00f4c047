// Two runs side by side: the steps of their conversations, aligned, and the parts of two texts that differ. Pure.
//
// Steps are aligned twice: equal ones with each other, and what lies between them by its kind, so that the same call with other arguments, or the same
// speaker with another text, is one row.

import { pretty } from "./format.js";
import { totalsOf } from "./numbers.js";
import { textOf } from "./run_state.js";

const MAX = 1_000; // differences; what differs more is taken as a whole
const LEAST = 0.2; // the part of two texts that must be equal for their parts to be shown
const WORDS = 8_000; // words of a text beyond which lines are compared

// The pairs of places with equal values, in order: what is the same at both ends, and of the rest Myers' shortest edit script.
export function pairsOf(a, b) {
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start += 1;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  const first = Array.from({ length: start }, (_, n) => [n, n]), last = Array.from({ length: a.length - endA }, (_, n) => [endA + n, endB + n]);
  return [...first, ...between(a.slice(start, endA), b.slice(start, endB)).map(([x, y]) => [start + x, start + y]), ...last];
}

function between(a, b) {
  const most = Math.min(MAX, a.length + b.length), zero = most + 1, ends = new Int32Array(2 * most + 3), before = [];
  for (let d = 0; d <= most; d += 1) {
    for (let k = -d; k <= d; k += 2) {
      let x = isDown(ends, zero, d, k) ? ends[zero + k + 1] : ends[zero + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      ends[zero + k] = x;
      if (x >= a.length && x - k >= b.length) return traced(before, d, a.length, b.length);
    }
    before.push(ends.slice(zero - d - 1, zero + d + 2));
  }
  return [];
}

const isDown = (ends, zero, d, k) => k === -d || (k !== d && ends[zero + k - 1] < ends[zero + k + 1]);

function traced(before, last, x, y) {
  const pairs = [];
  for (let d = last; d >= 0; d -= 1) {
    const ends = before[d - 1], k = x - y, by = d === 0 ? 0 : isDown(ends, d, d, k) ? 1 : -1, from = d === 0 ? 0 : ends[d + k + by];
    while (x > from + (by < 0 ? 1 : 0)) pairs.push([(x -= 1), (y -= 1)]);
    x = from;
    y = from - k - by;
  }
  return pairs.reverse();
}

// What lies between pairs, and the pairs themselves, in order: [from, to] of both sides.
function hunks(pairs, lengthA, lengthB) {
  const found = [];
  let a = 0, b = 0;
  for (const [x, y] of [...pairs, [lengthA, lengthB]]) {
    if (x > a || y > b) found.push({ isEqual: false, a: [a, x], b: [b, y] });
    if (x < lengthA || y < lengthB) {
      const last = found.at(-1);
      if (last?.isEqual) [last.a[1], last.b[1]] = [x + 1, y + 1];
      else found.push({ isEqual: true, a: [x, x + 1], b: [y, y + 1] });
    }
    [a, b] = [x + 1, y + 1];
  }
  return found;
}

// The parts of two texts: { text, isEqual } of each side. Words are compared, or lines of long texts.
export function partsOf(a, b) {
  let [one, other] = [wordsIn(a), wordsIn(b)];
  if (one.length + other.length > WORDS) [one, other] = [linesIn(a), linesIn(b)];
  const all = hunks(pairsOf(one, other), one.length, other.length), equal = all.filter((hunk) => hunk.isEqual).map((hunk) => one.slice(...hunk.a).join(""));
  const isAkin = equal.reduce((sum, text) => sum + text.length, 0) >= LEAST * Math.max(a.length, b.length);
  return [side(all, one, "a", isAkin), side(all, other, "b", isAkin)];
}

// Spaces and signs between two differences do not make two texts alike, and neither do single words.
function side(all, tokens, name, isAkin) {
  const parts = [];
  all.forEach((hunk, n) => {
    const text = tokens.slice(...hunk[name]).join(""), isEqual = isAkin && hunk.isEqual && (n === 0 || n === all.length - 1 || /[\p{L}\p{N}]/u.test(text));
    if (parts.at(-1)?.isEqual === isEqual) parts.at(-1).text += text;
    else if (text !== "") parts.push({ text, isEqual });
  });
  return parts;
}

const wordsIn = (text) => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];
const linesIn = (text) => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

// The steps of a run that can be compared: messages, blocks and calls, with those of nested runs.
export function stepsOf(items, depth = 0) {
  const found = [];
  for (const item of items) {
    if (item.retracted || item.kind === "note" || (item.kind === "block" && item.size === 0)) continue;
    found.push({ item, depth, ...keysOf(item, depth) });
    if (item.inner) found.push(...stepsOf(item.inner.items, depth + 1));
  }
  return found;
}

// The texts of a step: of a call its arguments and its result.
export function textsOf(item) {
  if (item.kind === "message") return [item.text];
  if (item.kind === "block") return [textOf(item)];
  return [item.input === undefined ? textOf(item) : pretty(item.input), item.result ?? ""];
}

// The step that has the most of the words of a text, the first of several; undefined if none has any.
export function stepWith(run, text) {
  const sought = text.toLowerCase().split(/\s+/).filter(Boolean);
  let best, most = 0;
  for (const { item } of stepsOf(run.root.items)) {
    const said = textsOf(item).join("\n").toLowerCase(), n = sought.filter((word) => said.includes(word)).length;
    if (n > most) [best, most] = [item, n];
  }
  return best;
}

function keysOf(item, depth) {
  const kind = `${depth} ${item.kind} ${item.kind === "message" ? item.role : item.kind === "block" ? item.type : item.name}`;
  return { kind, key: JSON.stringify([kind, item.isError ?? false, item.result === null, ...textsOf(item)]) };
}

// The rows of two lists of steps: { a, b, isEqual }, where `a` or `b` is null if only the other run has the step.
export function rowsOf(a, b) {
  const rows = [];
  for (const hunk of hunks(pairsOf(a.map(({ key }) => key), b.map(({ key }) => key)), a.length, b.length)) {
    const ours = a.slice(...hunk.a), theirs = b.slice(...hunk.b);
    if (hunk.isEqual) rows.push(...ours.map((step, n) => ({ a: step, b: theirs[n], isEqual: true })));
    else rows.push(...changed(ours, theirs));
  }
  return rows;
}

function changed(a, b) {
  return hunks(pairsOf(a.map(({ kind }) => kind), b.map(({ kind }) => kind)), a.length, b.length).flatMap((hunk) => {
    const ours = a.slice(...hunk.a), theirs = b.slice(...hunk.b);
    if (hunk.isEqual) return ours.map((step, n) => ({ a: step, b: theirs[n], isEqual: false }));
    return [...ours.map((step) => ({ a: step, b: null, isEqual: false })), ...theirs.map((step) => ({ a: null, b: step, isEqual: false }))];
  });
}

// The run that a run was forked from; null if it is not a fork.
export function sourceOf(tape) {
  return tape.find(({ event }) => event.type === "fork")?.event.source ?? null;
}

// A run in numbers.
export function figuresOf(run, now) {
  const { usage, isEstimate } = totalsOf(run);
  const end = run.status === "running" ? Math.max(now, run.last ?? now) : run.last;
  return {
    turns: run.turns, requests: run.attempts, calls: run.toolCalls + run.innerToolCalls, seconds: run.started === null ? null : end - run.started,
    input: usage.input_tokens, output: usage.output_tokens, isEstimate,
  };
}
