// What tools do to a run, and the messages that a conversation is made of. Pure.

import { addText, makeBlock, makeCall, makeMessage, resultText } from "./items.js";
import { callFor, know, put } from "./scope.js";

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
  // Without a result it is still to come: hooks look at it.
  if (event.result) answer(call, event.result);
  else call.state = event.is_error ? "failed" : "done";
  call.seconds = event.seconds ?? 0;
  if (call.from === null) call.state = "skipped";
  else call.to = record.time;
  run.changed.add(call);
}

function toolOutput(run, scope, event) {
  const call = callFor(run, scope, event.result.tool_use_id, event.result.name ?? "", notDone);
  answer(call, event.result);
  run.changed.add(call);
}

function answer(call, result) {
  call.result = resultText(result.content ?? "");
  call.isError = result.is_error ?? false;
  call.state = call.isError ? "failed" : "done";
}

// One message of a conversation: its texts, thoughts and calls become items, results find their calls.
export function addMessage(run, scope, message, source) {
  const texts = [];
  for (const part of message.content) {
    if (part.type === "tool_result") {
      const call = callFor(run, scope, part.tool_use_id, part.name ?? "", notDone);
      if (call.result === null) answer(call, part);
      if (call.from === null && source === "tools") call.state = "skipped";
      run.changed.add(call);
    } else if (message.role === "assistant") said(run, scope, part, source);
    else texts.push(part.type === "text" ? part.text : part.type === "cache_point" ? "" : `[${part.type}]`);
  }
  if (texts.length) put(run, scope, makeMessage(scope, message.role, texts.join(""), { source }));
}

function said(run, scope, part, source) {
  if (part.type === "tool_call" || part.type === "server_tool_call") {
    const fields = { input: part.input, phase: "stopped", state: part.type === "tool_call" ? "waiting" : "provider", source };
    const call = makeCall(scope, part.id, part.name, fields);
    know(scope, call);
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

// Nothing will run any more: say of each call without a result what became of it.
export function closeCalls(run, scope, time) {
  for (const calls of scope.calls.values()) {
    for (const call of calls) {
      if (call.state === "running") Object.assign(call, { state: "stopped", to: time });
      else if (call.state === "waiting" || call.state === "paused") call.state = "not run";
      else continue;
      run.changed.add(call);
    }
  }
}

export const TOOL_STEPS = { tool_start: toolStart, tool_progress: toolProgress, tool_stop: toolStop, tool_output: toolOutput, message_add: messageAdd };
