// Folds the records of a run into the state that the page shows. Pure: it does not depend on the page.
//
// `newRun` is a run without records; `step(run, record)` takes the next record. What a record changed is added to
// `run.changed`, which the renderer clears: a frame costs what changed in it, whatever the length of the run. A record that was
// already folded changes nothing. Records may cover several others (`covers`), and belong to nested runs (`path`).
// The same records give the same conversation, numbers and status as `fold_run` in Python; a test checks that the two agree.

import { addMessage, backgroundStart, BLOCK_STEPS, closeCalls, closeOpen, isSame, TOOL_STEPS } from "./fold_content.js";
import { addUsage, lastCall, makeMessage, makeNote, makeSpan, newResponse, newScope, newUsage, put, scopeAt } from "./run_state.js";
import { bytesOf, MESSAGE_TOKENS, tokensIn } from "./estimate.js";
import { fill, words } from "./language.js";

export function note(run, scope, record, tone, title, text, fields) {
  const made = makeNote(scope, tone, title, text, { time: record.time, turn: record.turn, ...fields });
  run.notes.push(made);
  run.changed.add(made);
  if (made.inline) put(run, scope, made);
  if (scope.turn && !["info", "quiet"].includes(tone)) {
    scope.turn.marks.push(made);
    run.changed.add(scope.turn);
  }
  return made;
}

// An error or a limit and its consequence share one note.
export function conclude(run, scope, record, tone, title, reason, more = "") {
  const cause = scope.trouble;
  scope.trouble = null;
  if (cause === null || cause.turn !== record.turn) return note(run, scope, record, tone, title, `${reason}${more}`, { inline: true });
  const isContained = reason === "" || cause.text.includes(reason);
  Object.assign(cause, { tone, title, text: `${isContained ? cause.text : reason}${more}` });
  run.changed.add(cause);
  return cause;
}

function error(run, scope, event, record) {
  const what = event.kind && event.kind !== "unknown" ? ` (${event.kind})` : "";
  scope.trouble = note(run, scope, record, "bad", words.notes.error, `${event.message || event.code}${what}`, { inline: true });
}

function hookMessage(run, scope, event, record) {
  const isDebug = event.level === "debug";
  note(run, scope, record, isDebug ? "quiet" : "info", event.hook, event.content, { inline: !isDebug, level: event.level, data: event.data });
}

function custom(run, scope, event, record) {
  const { name, data = {} } = event, hasPassed = name === "rxworker.gate" && data.verdict === "pass";
  if (name === "rxworker.annotation") annotation(run, scope, data, record);
  else note(run, scope, record, hasPassed ? "quiet" : "info", name, "", { inline: !hasPassed, data });
}

function annotation(run, scope, { name, value, comment = "", by = "", seq = 0 }, record) {
  const { notes } = words, shown = typeof value === "string" ? value : JSON.stringify(value);
  const about = seq > 0 ? [fill(words.time.record, { seq })] : [];
  note(run, scope, record, "info", by ? fill(notes.annotationBy, { name, by }) : fill(notes.annotation, { name }), [shown, ...about, comment].filter(Boolean).join(" · "), { inline: true });
}

function hookVerdict(run, scope, event, record) {
  const call = event.call_id ? lastCall(scope, event.call_id) : null;
  if (call) {
    call.verdicts.push({ hook: event.hook, verdict: event.verdict, reason: event.reason ?? "" });
    run.changed.add(call);
  }
  // The verdict's reason is shown at the call.
  if (call) note(run, scope, record, "verdict", `${event.verdict} · ${call.name}`, event.hook);
  else note(run, scope, record, "verdict", event.verdict, `${event.hook}${event.reason ? `: ${event.reason}` : ""}`);
}

function limitReached(run, scope, event, record) {
  if (scope.depth === 0) run.reason = event.limit;
  scope.trouble = note(run, scope, record, "bad", words.notes.limit, `${event.limit} (${event.value})`, { inline: true });
}

function watcherDetach(run, scope, event, record) {
  note(run, scope, record, "warn", words.notes.detached, `${event.watcher}: ${event.error}`);
}

function gap(run, scope, event, record) {
  note(run, scope, record, "warn", words.notes.notShown, fill(words.notes.records, event), { inline: true });
}

function sharedStateChange(run, scope, event, record) {
  const value = event.op === "remove" ? words.notes.removed : JSON.stringify(event.value ?? null);
  note(run, scope, record, "quiet", words.notes.sharedState, `${event.path ?? ""} ${value}`.trim());
}

function conversationCompact(run, scope, event, record) {
  scope.spent = addUsage(scope.spent, event.usage ?? null);
  const what = event.replaced ? fill(words.notes.compactedWhat, { n: event.replaced }) : words.notes.notCompacted;
  note(run, scope, record, event.replaced ? "info" : "warn", words.notes.compacted, what, { inline: true });
}

export const NOTE_STEPS = {
  error, limit_reached: limitReached, hook_message: hookMessage, custom, hook_verdict: hookVerdict, watcher_detach: watcherDetach, gap,
  shared_state_change: sharedStateChange, conversation_compact: conversationCompact,
};

function begin(run, scope, type, time, fields) {
  const span = makeSpan(scope, type, time, fields);
  run.lanes.push(span);
  run.changed.add(span);
  return span;
}

function finish(run, span, time, phase = "stopped") {
  if (span === null || span.phase !== "open") return;
  Object.assign(span, { phase, to: time ?? span.from });
  run.changed.add(span);
}

// What an attempt took whose provider has not reported it remains an estimate.
function guess(run, request) {
  if (request === null || request.isSettled) return;
  request.isSettled = true;
  if (request.usage !== null || request.bytes === 0) return;
  run.guessed.input_tokens += request.input;
  run.guessed.output_tokens += tokensIn(request.bytes);
}

// The response is over: open blocks are closed, and its tokens are added to the total.
export function settle(run, scope, time) {
  closeOpen(run, scope, time);
  guess(run, scope.request);
  finish(run, scope.request, time);
  scope.spent = addUsage(scope.spent, scope.response.usage);
  scope.response = newResponse();
  scope.attempt = [];
}

function retract(run, scope, time, reason = "") {
  closeOpen(run, scope, time);
  if (scope.request) {
    Object.assign(scope.request, { retracted: true, reason });
    finish(run, scope.request, time, "aborted");
  }
  for (const thing of scope.attempt) {
    thing.retracted = true;
    if (thing.state === "waiting" || thing.state === "running") thing.state = "stopped";
    run.changed.add(thing);
  }
  scope.attempt = [];
}

function attemptStart(run, scope, event, record) {
  settle(run, scope, record.time);
  scope.request = begin(run, scope, "attempt", record.time, { number: record.attempt, model: event.model ?? "", turn: record.turn, input: scope.context });
  if (scope.depth > 0) return;
  run.attempts += 1;
  run.provider = event.provider || run.provider;
  run.model = event.model || run.model;
  run.stopReason = null;
}

function attemptRetract(run, scope, event, record) {
  retract(run, scope, record.time, event.reason);
  settle(run, scope, record.time);
  const again = event.delay ? fill(words.notes.again, { seconds: event.delay.toFixed(1) }) : "";
  conclude(run, scope, record, "warn", words.notes.retracted, event.reason, again);
}

function status(run, scope, event, record) {
  const response = scope.response;
  if (event.status === "Started") {
    if (response.status !== null) {
      retract(run, scope, record.time);
      if (scope.depth > 0) scope.spent = addUsage(scope.spent, response.usage);
      response.usage = null;
    }
    response.status = "Started";
    if (scope.depth === 0) run.model = event.model || run.model;
    return;
  }
  response.status = event.status;
  finish(run, scope.request, record.time, event.status === "Completed" ? "stopped" : "aborted");
  if (event.status !== "Completed") return;
  if (scope.request) scope.context += MESSAGE_TOKENS + tokensIn(scope.request.bytes);
  if (scope.depth === 0) run.stopReason = event.stop_reason ?? null;
}

function usage(run, scope, event, record) {
  scope.response.usage = event;
  if (scope.request) {
    scope.request.usage = event;
    run.changed.add(scope.request);
  }
}

export const ATTEMPT_STEPS = { attempt_start: attemptStart, attempt_retract: attemptRetract, status, usage };

const ENDS = { cancel: ["warn", words.notes.cancelled], limit: ["bad", words.notes.stopped] };

function talk(run, scope, conversation) {
  scope.context = tokensIn(bytesOf(conversation.system ?? ""));
  if (conversation.system && scope.depth === 0) put(run, scope, makeMessage(scope, "system", conversation.system, { source: "start" }));
  for (const message of conversation.messages ?? []) addMessage(run, scope, message, "start");
}

// The calls of a pause that have no result, each with the call that waits, and what for.
function* waiting(scope, pause) {
  for (const one of pause?.calls ?? []) {
    const call = lastCall(scope, one.call.id);
    if (call && call.result === null) yield [call, one.call, waitsFor(one)];
  }
}

// What a call of a pause waits for, as the name of its word: for the reader, also inside it, for something else, or for nothing itself.
function waitsFor({ is_approved: isApproved, begun, held }) {
  if (begun?.paused && !begun.decided) return begun.paused.calls.some((one) => waitsFor(one) === "paused") ? "paused" : "waiting";
  if (begun?.question && !begun.reply) return "paused";
  if ([begun, held].some((one) => (one?.awaits?.length ?? 0) > (one?.woken?.length ?? 0))) return "waiting";
  return isApproved ? "approved" : "paused";
}

function runStart(run, scope, event) {
  if (scope.depth === 0) Object.assign(run, { status: "running", labels: event.labels });
  else settle(run, scope, null);
  talk(run, scope, event.conversation);
}

function runResume(run, scope, event, record) {
  talk(run, scope, event.conversation);
  for (const [call, { input }] of waiting(scope, event.pause)) Object.assign(call, { edited: !isSame(call.input, input), input });
  for (const background of event.background ?? []) backgroundStart(run, scope, { background });
  if (scope.depth > 0) return;
  Object.assign(run, { status: "running", labels: event.labels, turns: event.turns ?? 0, turnsBefore: event.turns ?? 0, toolCalls: event.tool_calls ?? 0, pause: null, reason: "" });
  scope.spent = { ...newUsage(), ...event.usage };
}

function turnStart(run, scope, event, record) {
  settle(run, scope, record.time);
  finish(run, scope.turn, record.time);
  scope.turn = begin(run, scope, "turn", record.time, { number: record.turn + (scope.depth === 0 ? run.turnsBefore : 0), turn: record.turn });
  if (scope.depth > 0) return;
  run.status = "running";
  run.turns += 1;
  run.turnTimes.push(record.time);
}

function turnStop(run, scope, event, record) {
  settle(run, scope, record.time);
  finish(run, scope.turn, record.time);
}

function runPause(run, scope, event, record) {
  closeOpen(run, scope, record.time);
  finish(run, scope.request, record.time);
  finish(run, scope.turn, record.time);
  for (const [call, { input }, waits] of waiting(scope, event.pause)) {
    Object.assign(call, { state: "paused", input, waits });
    run.changed.add(call);
  }
  note(run, scope, record, "warn", words.notes.paused, event.pause.reason || fill(words.notes.by, event.pause));
  if (scope.depth > 0) return;
  Object.assign(run, { status: "paused", pause: event.pause, reason: event.pause.hook });
}

function runStop(run, scope, event, record) {
  settle(run, scope, record.time);
  finish(run, scope.turn, record.time);
  closeCalls(run, scope, record.time);
  if (scope.depth === 0) run.status = "finished";
}

function runAbort(run, scope, event, record) {
  settle(run, scope, record.time);
  finish(run, scope.turn, record.time, "aborted");
  closeCalls(run, scope, record.time);
  const [tone, title] = ENDS[event.cause] ?? ["bad", words.notes.ended];
  conclude(run, scope, record, tone, title, event.reason);
  if (scope.depth === 0) Object.assign(run, { status: "aborted", cause: event.cause, reason: event.reason });
}

// The run was put back: another process continues it.
function runRequeue(run, scope) {
  if (scope.depth === 0) Object.assign(run, { status: "running", cause: "", reason: "" });
}

// The server no longer knows the run: no record will follow, so nothing in it is open or running.
export function lose(run) {
  for (const scope of [run.root, ...run.scopes.values()]) {
    settle(run, scope, run.last);
    finish(run, scope.turn, run.last, "aborted");
    closeCalls(run, scope, run.last);
  }
  run.status = "gone";
}

export const RUN_STEPS = {
  run_start: runStart, run_resume: runResume, run_pause: runPause, run_stop: runStop, run_abort: runAbort, run_requeue: runRequeue,
  turn_start: turnStart, turn_stop: turnStop,
};

const TIMES = ["from", "to", "first", "last", "writtenFrom", "writtenTo", "time"];

// The records before this one are copies from another run. The time until the fork is none of its time: what they are about moves after it.
function fork(run, scope, event, record) {
  const by = Math.max(0, record.time - (run.last ?? record.time));
  if (scope.depth > 0 || by === 0) return;
  for (const thing of [...run.lanes, ...run.notes]) for (const name of TIMES) if (typeof thing[name] === "number") thing[name] += by;
  for (const lane of run.lanes) run.changed.add(lane);
  run.started += by;
  run.turnTimes = run.turnTimes.map((time) => time + by);
  run.forks.push({ at: record.time, by });
}

const STEPS = { fork, ...BLOCK_STEPS, ...NOTE_STEPS, ...ATTEMPT_STEPS, ...TOOL_STEPS, ...RUN_STEPS };

export function newRun(id) {
  return {
    id, seq: 0, status: "new", turns: 0, turnsBefore: 0, attempts: 0, toolCalls: 0, innerToolCalls: 0, missing: 0,
    reason: "", cause: "", pause: null, provider: "", model: "", stopReason: null, started: null, last: null,
    root: newScope([], null), scopes: new Map(), lanes: [], notes: [], turnTimes: [], forks: [], guessed: { input_tokens: 0, output_tokens: 0 }, changed: new Set(),
  };
}

export function step(run, record) {
  if (record.seq <= run.seq) return false;
  const first = record.seq - (record.covers ?? 1) + 1;
  if (first > run.seq + 1) run.missing += first - run.seq - 1;
  run.started ??= record.time;
  const scope = scopeAt(run, record.path ?? []), isAfterwards = record.event.type === "custom" && ["paused", "finished", "aborted"].includes(run.status);
  const act = STEPS[record.event.type];
  if (act) act(run, scope, record.event, record);
  run.seq = record.seq;
  if (!isAfterwards) run.last = record.time; // an annotation does not make a run longer
  return true;
}

export function fold(id, records) {
  const run = newRun(id);
  for (const record of records) step(run, record);
  return run;
}
