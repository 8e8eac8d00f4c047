// Folds blocks, tool calls and messages into a run. Pure.

import { bytesOf, MESSAGE_TOKENS, partTokens, resultTokens } from "./estimate.js";
import { addText, callFor, registerCall, makeBlock, makeCall, makeMessage, put, resultText, textOf } from "./run_state.js";

const TYPE_OF_DELTA = {
  text_delta: "text", citation_delta: "text", thinking_delta: "thinking", signature_delta: "thinking",
  refusal_delta: "refusal", input_json_delta: "tool_use", input_value_delta: "tool_use",
};
const isCall = (type) => type === "tool_use" || type === "server_tool_use";
const isResult = (type) => type === "tool_result" || type === "server_tool_result";

// The open block of an event; a delta or a stop without a start creates it.
function blockFor(run, scope, event, record) {
  const found = scope.open.get(event.index);
  if (found) return found;
  const type = event.block_type ?? TYPE_OF_DELTA[event.type];
  const shared = { index: event.index, choice: event.choice ?? 0, turn: record.turn };
  let made;
  if (isResult(type)) {
    // It is shown at its call, when it is complete.
    made = { kind: "result", ...shared, type, pieces: [], size: 0, echo: null, metadata: null };
    scope.open.set(event.index, made);
    return made;
  }
  if (isCall(type)) {
    made = makeCall(scope, event.metadata?.id ?? "", event.metadata?.name ?? "", { ...shared, writtenFrom: record.time, type });
    registerCall(scope, made);
  } else {
    made = makeBlock(scope, type, { ...shared, from: record.time, label: event.metadata?.kind ?? event.metadata?.name ?? "" });
  }
  scope.open.set(event.index, made);
  scope.attempt.push(made);
  if (scope.request && scope.request.first === null) scope.request.first = record.time;
  run.lanes.push(made);
  return put(run, scope, made);
}

function named(scope, call, metadata) {
  if (!metadata || call.kind !== "call") return;
  call.name = metadata.name || call.name;
  if (metadata.id && metadata.id !== call.id) {
    const same = scope.calls.get(call.id) ?? [];
    scope.calls.set(call.id, same.filter((other) => other !== call));
    call.id = metadata.id;
    registerCall(scope, call);
  }
}

function grow(accepts) {
  return function step(run, scope, event, record) {
    const block = blockFor(run, scope, event, record);
    if (!accepts.includes(block.type)) return;
    addText(block, event.text);
    if (block.kind === "result") return;
    if (scope.request) scope.request.bytes += bytesOf(event.text);
    run.changed.add(block);
  };
}

function inputValue(run, scope, event, record) {
  const call = blockFor(run, scope, event, record);
  if (!isCall(call.type)) return;
  const value = typeof event.value === "string" ? event.value : JSON.stringify(event.value);
  addText(call, event.append ? value : `${call.size ? "\n" : ""}${event.path.replace(/^\$\./, "")}: ${value}`);
  call.byPath = true;
  run.changed.add(call);
}

function start(run, scope, event, record) {
  const block = blockFor(run, scope, event, record);
  block.choice = event.choice ?? 0;
  if (block.kind === "result") {
    learn(block, event);
    return;
  }
  named(scope, block, event.metadata);
  run.changed.add(block);
}

function learn(result, event) {
  result.metadata = event.metadata ?? result.metadata;
  result.echo = event.echo ? { ...result.echo, ...event.echo } : result.echo;
}

function touch(run, scope, event, record) {
  const block = blockFor(run, scope, event, record);
  if (block.kind !== "result") run.changed.add(block);
}

function stop(run, scope, event, record) {
  const block = blockFor(run, scope, event, record);
  scope.open.delete(event.index);
  if (block.kind === "result") {
    learn(block, event);
    if (block.metadata && block.choice === 0) answerOf(run, scope, block);
    return;
  }
  named(scope, block, event.metadata);
  ended(block, "stopped", record.time);
  run.changed.add(block);
}

function abort(run, scope, event, record) {
  const block = blockFor(run, scope, event, record);
  scope.open.delete(event.index);
  if (block.kind === "result") return;
  block.reason = event.reason ?? "";
  ended(block, "aborted", record.time);
  run.changed.add(block);
}

function ended(block, phase, time) {
  block.phase = phase;
  if (block.kind !== "call") {
    block.to = time;
    return;
  }
  block.writtenTo = time;
  if (block.type === "server_tool_use") block.state = phase === "stopped" ? "provider" : "cut";
  else if (block.state === "writing") block.state = phase === "stopped" ? "waiting" : "cut";
  if (block.input === undefined) block.input = argumentsOf(block);
}

// The result of a tool that the provider runs belongs to its call.
function answerOf(run, scope, { metadata, pieces, echo }) {
  const call = callFor(run, scope, metadata.tool_use_id ?? "", metadata.name ?? "", (one) => one.result === null);
  const text = pieces.join("");
  call.result = text || (echo === null ? "" : JSON.stringify(echo));
  if (call.type !== "server_tool_use") call.state = "done";
  run.changed.add(call);
}

export function argumentsOf(call) {
  if (call.byPath) return undefined;
  const text = textOf(call);
  if (text.trim() === "") return {};
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : text;
  } catch {
    return text;
  }
}

// Closes the open blocks of a response that ended without closing them.
export function closeOpen(run, scope, time) {
  for (const block of scope.open.values()) {
    if (block.kind === "result") continue;
    ended(block, "aborted", time);
    run.changed.add(block);
  }
  scope.open.clear();
}

export const BLOCK_STEPS = {
  block_start: start,
  text_delta: grow(["text", "tool_result"]),
  thinking_delta: grow(["thinking"]),
  refusal_delta: grow(["refusal"]),
  input_json_delta: grow(["tool_use", "server_tool_use"]),
  input_value_delta: inputValue,
  signature_delta: touch,
  citation_delta: touch,
  block_stop: stop,
  block_abort: abort,
};

const notStarted = (call) => call.from === null && call.result === null;
const notDone = (call) => call.result === null;
const notEnded = (call) => call.result === null && call.to === null;

function toolStart(run, scope, event, record) {
  const call = callFor(run, scope, event.call.id, event.call.name, notStarted);
  if (call.writtenFrom === null && call.from === null) run.lanes.push(call);
  call.edited ||= call.input !== undefined && !isSame(call.input, event.call.input);
  call.input = event.call.input;
  Object.assign(call, { name: event.call.name, state: "running", from: record.time, to: null, result: null, turn: record.turn });
  if (scope.depth === 0) run.toolCalls += 1;
  else run.innerToolCalls += 1;
  run.changed.add(call);
}

export function isSame(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

function toolProgress(run, scope, event) {
  const running = (call) => call.state === "running";
  const call = callFor(run, scope, event.call_id, "", running);
  call.progress = typeof event.progress === "string" ? event.progress : JSON.stringify(event.progress);
  call.steps += 1;
  run.changed.add(call);
}

function toolStop(run, scope, event, record) {
  const call = callFor(run, scope, event.call_id, event.result?.name ?? "", notEnded);
  // Without a result, the result follows after the hooks.
  if (event.result) answer(call, event.result);
  else call.state = event.is_error ? "failed" : "done";
  call.seconds = event.seconds ?? 0;
  if (call.from !== null) call.to = record.time;
  else if (call.isError) {
    call.state = "skipped";
    if (call.writtenFrom === null) run.lanes.push(call); // its lane is that of the run before, in which it has waited
  }
  run.changed.add(call);
}

function toolOutput(run, scope, event) {
  const call = callFor(run, scope, event.result.tool_use_id, event.result.name ?? "", notDone);
  answer(call, event.result);
  run.changed.add(call);
}

// The result of a call in the background comes as a message. Until then the call shows what it reports, beside its placeholder.
export function backgroundStart(run, scope, { background: { id, call } }) {
  const shown = callFor(run, scope, call.id, call.name, notEnded);
  shown.background = true;
  scope.background.set(id, shown);
  run.changed.add(shown);
}

function backgroundProgress(run, scope, { id, progress }) {
  const call = scope.background.get(id);
  if (!call) return;
  call.progress = typeof progress === "string" ? progress : JSON.stringify(progress);
  call.steps += 1;
  run.changed.add(call);
}

function backgroundStop(run, scope, event) {
  const call = scope.background.get(event.id);
  if (!call) return;
  Object.assign(call, { background: false, seconds: event.seconds ?? 0 });
  scope.background.delete(event.id);
  run.changed.add(call);
}

function answer(call, result) {
  call.scope.context += resultTokens(result.content);
  call.result = resultText(result.content ?? "");
  call.parts = Array.isArray(result.content) ? result.content : null;
  call.isError = result.is_error ?? false;
  call.state = call.isError ? "failed" : "done";
}

// One message of a conversation: texts, thinking and calls become items, results are added to their calls.
export function addMessage(run, scope, message, source) {
  const texts = [], said = [], parts = [];
  scope.context += MESSAGE_TOKENS;
  for (const part of message.content) {
    if (part.type !== "tool_result") scope.context += partTokens(part);
    if (part.type === "tool_result") {
      const call = callFor(run, scope, part.tool_use_id, part.name ?? "", notDone);
      if (call.result === null) answer(call, part);
      // In the run that resumes, one that failed before the pause is `hasRun`, by the run before.
      if (call.from === null && !call.hasRun && source === "tools" && call.isError) call.state = "skipped";
      run.changed.add(call);
    } else if (message.role === "assistant") addPart(run, scope, part, source);
    else {
      if (part.type === "text") said.push(part.text);
      else if (part.type !== "cache_point") parts.push(part);
      texts.push(part.type === "text" ? part.text : part.type === "cache_point" ? "" : `[${part.type}]`);
    }
  }
  if (texts.length) put(run, scope, makeMessage(scope, message.role, texts.join(""), { source, parts, said: said.join("") }));
}

function addPart(run, scope, part, source) {
  if (part.type === "tool_call" || part.type === "server_tool_call") {
    const fields = { input: part.input, phase: "stopped", state: part.type === "tool_call" ? "waiting" : "provider", source };
    const call = makeCall(scope, part.id, part.name, fields);
    registerCall(scope, call);
    put(run, scope, call);
  } else if (part.type !== "cache_point") {
    const block = makeBlock(scope, part.type, { phase: "stopped", source, label: part.kind ?? part.name ?? "" });
    if (part.text) addText(block, part.text);
    put(run, scope, block);
  }
}

function messageAdd(run, scope, event) {
  for (const message of event.messages) addMessage(run, scope, message, event.source);
}

// Nothing will run any more: set the final state of each call without a result.
export function closeCalls(run, scope, time) {
  for (const calls of scope.calls.values()) {
    for (const call of calls) {
      if (call.state === "running") Object.assign(call, { state: "stopped", to: time });
      else if (call.state === "waiting" || call.state === "paused") call.state = "not run";
      else if (call.background) call.background = false;
      else continue;
      run.changed.add(call);
    }
  }
}

export const TOOL_STEPS = {
  tool_start: toolStart, tool_progress: toolProgress, tool_stop: toolStop, tool_output: toolOutput, message_add: messageAdd,
  background_start: backgroundStart, background_progress: backgroundProgress, background_stop: backgroundStop,
};
