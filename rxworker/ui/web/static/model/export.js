// A folded run as a text of its own: Markdown, lines of JSON, or a page in one file. Pure.

import { money, plural, pretty, readable, seconds, statusWord } from "./format.js";
import { fill, words } from "./language.js";
import { textOf, usageOf } from "./run_state.js";

// The facts about a run in one line: its worker, model, status, and what it took.
export function factsOf({ run, summary, elapsed, cost, currency }) {
  const usage = usageOf(run), total = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const facts = [summary?.worker, run.model, statusWord(run.status, run.cause), run.started === null ? "" : new Date(run.started * 1000).toLocaleString(), seconds(elapsed)];
  facts.push(plural(words.run.turns, run.turns), plural(words.run.calls, run.toolCalls + run.innerToolCalls), plural(words.run.tokens, total));
  if (cost !== null && total > 0) facts.push(fill(words.run.cost, { cost: money(cost, currency) }));
  return facts.filter(Boolean).map(readable);
}

const { talk } = words;
const SPEAKER = { user: talk.you, system: talk.instructions, assistant: talk.model };

// The conversation as Markdown. What the model has written is Markdown itself; what tools were given and returned is code.
export function markdownOf(title, facts, run) {
  const parts = [`# ${oneLine(title)}`, facts.map(oneLine).join(" · ")];
  for (const item of run.root.items) parts.push(...markdownItem(item, 2));
  return `${parts.join("\n\n")}\n`;
}

function markdownItem(item, level) {
  if (item.retracted) return [];
  const head = (text) => `${"#".repeat(Math.min(6, level))} ${oneLine(text)}`;
  switch (item.kind) {
    case "message": return [head(SPEAKER[item.role] ?? item.role), readable(item.said)];
    case "note": return [`> **${oneLine(item.title)}** ${oneLine(item.text)}`];
    case "call": return [head(`${words.call.tool}: ${item.name || words.call.tool}`), ...callParts(item), ...(item.inner?.items ?? []).flatMap((inner) => markdownItem(inner, level + 1))];
    case "block": return item.type === "text" ? [head(talk.model), readable(textOf(item))] : [head(talk[item.type] ?? item.label ?? item.type), quoted(readable(textOf(item)))];
    default: return [];
  }
}

function callParts(call) {
  const isText = call.input === undefined || typeof call.input === "string", given = isText ? call.input ?? textOf(call) : pretty(call.input);
  return [fenced(given, isText ? "" : "json"), ...(call.result === null ? [] : [`${words.call.result}:`, fenced(call.result, "")])];
}

const oneLine = (text) => readable(text ?? "").replace(/\s+/g, " ").trim();
const quoted = (text) => text.split("\n").map((line) => `> ${line}`.trimEnd()).join("\n");

// A fence is longer than any within the text.
function fenced(text, language) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([marks]) => marks.length)), fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${readable(text)}\n${fence}`;
}

// The records of a run, one a line, as the server sends them.
export function linesOf(records) {
  return records.map((record) => `${JSON.stringify(record)}\n`).join("");
}

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
export const escaped = (text) => readable(text).replace(/[&<>"]/g, (sign) => ESCAPES[sign]);

// A page in one file, which loads nothing and runs nothing. `body` is HTML, everything else is text.
export function pageOf({ title, facts, language, styles, body }) {
  return `<!doctype html>
<html lang="${escaped(language)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>${escaped(title)}</title>
<style>
${styles.replace(/<\//g, "<\\/")}
</style>
</head>
<body>
<header><h1>${escaped(title)}</h1>
<p>${facts.map(escaped).join(" · ")}</p></header>
${body}
</body>
</html>
`;
}

// The dark colours, which the page sets by a script, by the system's choice.
export const bySystem = (styles) => styles.replace(/:root\[data-theme="dark"\]\s*(\{[^}]*\})/, "@media (prefers-color-scheme: dark) { :root $1 }");
