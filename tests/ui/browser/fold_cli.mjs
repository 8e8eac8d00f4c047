// Folds runs as the page does. Takes `{"static": folder, "runs": [[record…]…], "prices": prices}`, and tells what each has come to; with
// `"course": true`, what they come to as one: each run went on from the one before. With `"shown": true`, the blocks and calls alone.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { static: folder, runs, prices, course, shown } = JSON.parse(readFileSync(0, "utf8"));
const page = (name) => import(pathToFileURL(`${folder}/${name}`).href);
const { fold } = await page("model/fold.js");
const { costOf, usageOf } = await page("model/run_state.js");
const { totalsOf } = await page("model/numbers.js");
const { Timeline } = await page("model/timeline.js");
const { textOf } = await page("model/run_state.js");

function told(item) {
  switch (item.kind) {
    case "block": return { kind: item.type, role: item.role, text: textOf(item), retracted: item.retracted, phase: item.phase };
    case "call": return { kind: "call", id: item.id, name: item.name, input: item.input ?? null, result: item.result, isError: item.isError, retracted: item.retracted, state: item.state };
    case "message": return { kind: "message", role: item.role, text: item.text };
    default: return { kind: "note", title: item.title, text: item.text };
  }
}

function account(records) {
  const run = fold("run", records);
  return {
    seq: run.seq, status: run.status, turns: run.turns, attempts: run.attempts, toolCalls: run.toolCalls, innerToolCalls: run.innerToolCalls,
    reason: run.reason, cause: run.cause, model: run.model, missing: run.missing, pending: (run.pause?.calls ?? []).map(({ call }) => call.id),
    usage: usageOf(run), totals: totalsOf(run), cost: prices ? costOf(prices, usageOf(run)) : null, items: run.root.items.map(told), lanes: run.lanes.filter((lane) => lane.kind !== "span").length, notes: run.notes.map((note) => note.title),
    inner: [...run.scopes.values()].map((scope) => ({ path: scope.path, items: scope.items.map(told) })),
    open: run.lanes.filter((lane) => lane.kind !== "span" && lane.phase === "open" || lane.state === "running").length,
  };
}

function together() {
  const all = new Timeline(runs.map((records, n) => fold(`run ${n}`, records)));
  all.inherit();
  const elapsed = all.elapsed(0);
  return {
    elapsed, breaks: all.breaks().map(({ at, seconds, reason }) => ({ at, seconds, reason })),
    cost: costOf(prices, usageOf(all.run)),
    twins: all.earlier.map((run) => run.lanes.filter((lane) => lane.kind !== "span").map((lane) => told(all.twin(run, lane)))),
    states: all.run.root.items.filter((item) => item.kind === "call").map((call) => call.state),
    seconds: all.run.root.items.filter((item) => item.kind === "call").map((call) => call.seconds),
    inner: all.run.root.items.filter((item) => item.inner).map((call) => call.inner.items.length),
  };
}

// The blocks and calls that events have made, with the runs inside by their paths.
function shownItems(records) {
  const run = fold("run", records);
  const items = (scope) => scope.items.filter((item) => item.source === undefined && (item.kind === "block" || item.kind === "call")).map((item) => ({
    type: item.type, text: item.byPath ? null : textOf(item), choice: item.choice, retracted: item.retracted,
    id: item.id ?? null, name: item.name ?? null, state: item.state ?? item.phase, result: item.result ?? null,
  }));
  return [[[], items(run.root)], ...[...run.scopes.values()].map((scope) => [scope.path, items(scope)])];
}

console.log(JSON.stringify(course ? together() : runs.map(shown ? shownItems : account)));
