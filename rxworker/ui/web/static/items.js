// What a run is shown as: blocks, tool calls, messages and notes, in the order in which they came. Pure data.
//
// Text grows in pieces and is joined only when somebody asks for all of it: a view remembers how many pieces it has shown,
// so that what a frame costs depends on what is new.

let made = 0;

function item(kind, scope, fields) {
  made += 1;
  return { kind, key: made, scope, retracted: false, ...fields };
}

export function makeBlock(scope, type, fields = {}) {
  return item("block", scope, {
    type, role: "assistant", index: null, choice: 0, phase: "open",
    pieces: [], size: 0, from: null, to: null, took: null, reason: "", turn: 0, ...fields,
  });
}

// How many seconds a block was open, where that is known.
export function tookOf(block) {
  return block.took ?? (block.from !== null && block.to !== null ? block.to - block.from : null);
}

export function makeCall(scope, id, name, fields = {}) {
  return item("call", scope, {
    id, name, state: "writing", pieces: [], size: 0, input: undefined, edited: false, index: null, choice: 0, phase: "open",
    writtenFrom: null, writtenTo: null, from: null, to: null, seconds: null,
    progress: "", steps: 0, inner: null, result: null, isError: false, verdicts: [], turn: 0, reason: "", type: "tool_use", ...fields,
  });
}

export function makeMessage(scope, role, text, fields = {}) {
  return item("message", scope, { role, text, source: "", ...fields });
}

export function makeNote(scope, tone, title, text, fields = {}) {
  return item("note", scope, { tone, title, text: text || "", time: null, inline: false, ...fields });
}

export function addText(thing, text) {
  thing.pieces.push(text);
  thing.size += text.length;
}

export function textOf(thing) {
  if (thing.pieces.length > 1) return thing.pieces.join("");
  return thing.pieces[0] ?? "";
}

// The text of a tool result: a string, or parts of which only text is text.
export function resultText(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map(partText).join("");
}

function partText(part) {
  if (part.type === "text") return part.text;
  return `[${part.type} ${part.media_type ?? ""}]`.replace(" ]", "]");
}
