// What is told beside the conversation: errors, what hooks decide and say, limits, watchers that were lost. Pure.

import { makeNote } from "./items.js";
import { lastCall, put } from "./scope.js";

export function note(run, scope, record, tone, title, text, fields) {
  const made = makeNote(scope, tone, title, text, { time: record.time, turn: record.turn, ...fields });
  run.notes.push(made);
  run.changed.add(made);
  if (made.inline) put(run, scope, made);
  return made;
}

// What an error or a limit has led to. Both are told in one note: people read of one thing that went wrong.
export function conclude(run, scope, record, tone, title, reason, more = "") {
  const cause = scope.trouble;
  scope.trouble = null;
  if (cause === null || cause.turn !== record.turn) return note(run, scope, record, tone, title, `${reason}${more}`, { inline: true });
  const isTold = reason === "" || cause.text.includes(reason);
  Object.assign(cause, { tone, title, text: `${isTold ? cause.text : reason}${more}` });
  run.changed.add(cause);
  return cause;
}

function error(run, scope, event, record) {
  const what = event.kind && event.kind !== "unknown" ? ` (${event.kind})` : "";
  scope.trouble = note(run, scope, record, "bad", "Error", `${event.message || event.code}${what}`, { inline: true });
}

function hookMessage(run, scope, event, record) {
  const isDebug = event.level === "debug";
  note(run, scope, record, isDebug ? "quiet" : "info", event.hook, event.content, { inline: !isDebug, level: event.level, data: event.data });
}

function hookVerdict(run, scope, event, record) {
  const call = event.call_id ? lastCall(scope, event.call_id) : null;
  if (call) {
    call.verdicts.push({ hook: event.hook, verdict: event.verdict, reason: event.reason ?? "" });
    run.changed.add(call);
  }
  // Why a call was decided about stands at the call.
  if (call) note(run, scope, record, "verdict", `${event.verdict} · ${call.name}`, event.hook);
  else note(run, scope, record, "verdict", event.verdict, `${event.hook}${event.reason ? `: ${event.reason}` : ""}`);
}

function limitReached(run, scope, event, record) {
  if (scope.depth === 0) run.reason = event.limit;
  scope.trouble = note(run, scope, record, "bad", "Limit reached", `${event.limit} (${event.value})`, { inline: true });
}

function watcherDetach(run, scope, event, record) {
  note(run, scope, record, "warn", "Watcher detached", `${event.watcher}: ${event.error}`);
}

function gap(run, scope, event, record) {
  note(run, scope, record, "warn", "Not shown here", `records ${event.first} to ${event.last}`, { inline: true });
}

export const NOTE_STEPS = {
  error, limit_reached: limitReached, hook_message: hookMessage, hook_verdict: hookVerdict, watcher_detach: watcherDetach, gap,
};
