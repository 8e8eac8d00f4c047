// Reads unified diffs: what each line is, and how many lines each file gains and loses. Pure.

import { plural } from "./format.js";
import { words } from "./language.js";

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/;
const FILES = 3; // of more files, the sum is shown
const NAME = 60; // characters of a name

export const isDiff = (text) => /^@@ -\d+(,\d+)? \+\d+(,\d+)? @@/m.test(text) && (/^--- .*\n\+\+\+ /m.test(text) || text.startsWith("@@ "));

// The lines of a diff, each with its kind: "file", "hunk", "added", "removed", or "same". A hunk begins with the numbers of its lines, so
// that a removed line which begins with "-- " is not taken for the name of a file.
export function* linesOf(text) {
  let old = 0, now = 0; // lines that the hunk still has
  for (const line of text.split("\n")) {
    const inHunk = old > 0 || now > 0, hunk = inHunk ? null : HUNK.exec(line);
    if (hunk) {
      [old, now] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
      yield ["hunk", line];
    } else if (!inHunk) {
      yield [/^(\+\+\+|---|diff) /.test(line) ? "file" : "same", line];
    } else if (line.startsWith("+")) {
      now -= 1;
      yield ["added", line];
    } else if (line.startsWith("-")) {
      old -= 1;
      yield ["removed", line];
    } else {
      if (!line.startsWith("\\")) [old, now] = [old - 1, now - 1];
      yield ["same", line];
    }
  }
}

// The files of a diff: their names, without folders, and how many lines were added and removed.
function filesOf(text) {
  const files = [];
  let before = "", file = null;
  for (const [kind, line] of linesOf(text)) {
    if (kind === "file" && line.startsWith("--- ")) before = line.slice(4);
    else if (kind === "file" && line.startsWith("+++ ")) files.push((file = { name: nameOf(line.slice(4), before), added: 0, removed: 0 }));
    else if (kind === "hunk" && file === null) files.push((file = { name: "", added: 0, removed: 0 }));
    else if (kind === "added" || kind === "removed") file[kind] += 1;
  }
  return files;
}

// A file that was removed has the name that it had. A name may be followed by a tab and a time.
function nameOf(after, before) {
  const path = (after.startsWith("/dev/null") ? before : after).split("\t")[0].trim();
  return path.slice(path.lastIndexOf("/") + 1).slice(0, NAME);
}

// A diff in one line, such as "payment.py +2 −2".
export function summaryOf(text) {
  const files = filesOf(text), sum = { added: 0, removed: 0 };
  for (const file of files) for (const kind of ["added", "removed"]) sum[kind] += file[kind];
  const listed = files.length <= FILES ? files : [{ name: plural(words.result.files, files.length), ...sum }];
  return listed.map(({ name, added, removed }) => `${name} +${added} −${removed}`.trim()).join(", ");
}
