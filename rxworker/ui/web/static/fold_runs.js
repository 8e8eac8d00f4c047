// The life of a run: it starts, goes from turn to turn, pauses, goes on and ends. Pure.

import { settle } from "./fold_attempts.js";
import { closeOpen } from "./fold_blocks.js";
import { conclude, note } from "./fold_notes.js";
import { addMessage, closeCalls, isSame } from "./fold_tools.js";
import { makeMessage } from "./items.js";
import { lastCall, put } from "./scope.js";
import { newUsage, usageOf } from "./usage.js";

const ENDS = { cancel: ["warn", "Cancelled"], limit: ["bad", "Stopped by a limit"] };

function talk(run, scope, conversation) {
  if (conversation.system && scope.depth === 0) put(run, scope, makeMessage(scope, "system", conversation.system, { source: "start" }));
  for (const message of conversation.messages ?? []) addMessage(run, scope, message, "start");
}

// The calls that wait and have come to nothing yet, each with what is known of it.
function* waiting(scope, pending) {
  for (const one of pending ?? []) {
    const call = lastCall(scope, one.id);
    if (call && call.result === null) yield [call, one];
  }
}

function runStart(run, scope, event) {
  if (scope.depth === 0) run.status = "running";
  else settle(run, scope, null);
  talk(run, scope, event.conversation);
}

function runResume(run, scope, event, record) {
  talk(run, scope, event.conversation);
  for (const [call, { input }] of waiting(scope, event.pending)) Object.assign(call, { edited: !isSame(call.input, input), input });
  if (scope.depth > 0) return;
  Object.assign(run, { status: "running", turns: event.turns ?? 0, toolCalls: event.tool_calls ?? 0, pause: null, reason: "" });
  scope.spent = { ...newUsage(), ...event.usage };
  run.series.total(record.time, usageOf(run));
}

function turnStart(run, scope, event, record) {
  settle(run, scope, record.time);
  if (scope.depth > 0) return;
  run.status = "running";
  run.turns += 1;
  run.turnTimes.push(record.time);
}

function turnStop(run, scope, event, record) {
  settle(run, scope, record.time);
}

function runPause(run, scope, event, record) {
  closeOpen(run, scope, record.time);
  for (const [call, { input }] of waiting(scope, event.pending)) {
    Object.assign(call, { state: "paused", input });
    run.changed.add(call);
  }
  note(run, scope, record, "warn", "Paused", event.reason || `by ${event.hook}`);
  if (scope.depth > 0) return;
  Object.assign(run, { status: "paused", pause: event, reason: event.hook });
}

function runStop(run, scope, event, record) {
  settle(run, scope, record.time);
  closeCalls(run, scope, record.time);
  if (scope.depth === 0) run.status = "finished";
}

function runAbort(run, scope, event, record) {
  settle(run, scope, record.time);
  closeCalls(run, scope, record.time);
  const [tone, title] = ENDS[event.cause] ?? ["bad", "Ended early"];
  conclude(run, scope, record, tone, title, event.reason);
  if (scope.depth === 0) Object.assign(run, { status: "aborted", cause: event.cause, reason: event.reason });
}

// The server does not know the run any more: no record follows, so nothing in it is open or at work.
export function lose(run) {
  for (const scope of [run.root, ...run.scopes.values()]) {
    settle(run, scope, run.last);
    closeCalls(run, scope, run.last);
  }
  run.status = "gone";
}

export const RUN_STEPS = {
  run_start: runStart, run_resume: runResume, run_pause: runPause, run_stop: runStop, run_abort: runAbort,
  turn_start: turnStart, turn_stop: turnStop,
};
