// What block events do to a run: blocks open, grow, stop and are given up. Pure.

import { addText, makeBlock, makeCall, textOf } from "./items.js";
import { know, put } from "./scope.js";

const TYPE_OF_DELTA = {
  text_delta: "text", citation_delta: "text", thinking_delta: "thinking", signature_delta: "thinking",
  refusal_delta: "refusal", input_json_delta: "tool_use", input_value_delta: "tool_use",
};
const isCall = (type) => type === "tool_use" || type === "server_tool_use";

// The open block that an event belongs to; a delta or a stop without a start opens it.
function blockFor(run, scope, event, record) {
  const found = scope.open.get(event.index);
  if (found) return found;
  const type = event.block_type ?? TYPE_OF_DELTA[event.type];
  const shared = { index: event.index, choice: event.choice ?? 0, turn: record.turn };
  let made;
  if (isCall(type)) {
    made = makeCall(scope, event.metadata?.id ?? "", event.metadata?.name ?? "", { ...shared, writtenFrom: record.time, type });
    know(scope, made);
  } else {
    made = makeBlock(scope, type, { ...shared, from: record.time, label: event.metadata?.kind ?? event.metadata?.name ?? "" });
  }
  scope.open.set(event.index, made);
  scope.attempt.push(made);
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
    know(scope, call);
  }
}

function grow(accepts) {
  return function step(run, scope, event, record) {
    const block = blockFor(run, scope, event, record);
    if (!accepts.includes(block.type)) return;
    addText(block, event.text);
    // Only adjacent deltas are merged: all that one record stands for was written since the record before it.
    run.series.wrote(record.time, event.text.length, record.covers > 1 ? run.last ?? record.time : record.time);
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
  named(scope, block, event.metadata);
  run.changed.add(block);
}

function touch(run, scope, event, record) {
  run.changed.add(blockFor(run, scope, event, record));
}

function stop(run, scope, event, record) {
  const block = blockFor(run, scope, event, record);
  scope.open.delete(event.index);
  named(scope, block, event.metadata);
  ended(block, "stopped", record.time);
  run.changed.add(block);
}

function abort(run, scope, event, record) {
  const block = blockFor(run, scope, event, record);
  scope.open.delete(event.index);
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

// Nothing more comes of what is open: the response has ended without saying so.
export function closeOpen(run, scope, time) {
  for (const block of scope.open.values()) {
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
