// The other things of a conversation: what somebody said, what the model thinks and says, notes in between.

import { el, setData, setText, show } from "./dom.js";
import { seconds } from "./format.js";
import { CallView } from "./call_view.js";
import { tookOf } from "./items.js";
import { GrowingText } from "./text.js";

const SPEAKER = { user: "You", system: "Instructions", assistant: "Model" };
const LABELS = { thinking: "Thinking", refusal: "Refusal", tool_result: "Result", image: "Image", opaque: "Other" };

class MessageView {
  constructor(message) {
    const source = message.source && message.source !== "start" ? message.source : "";
    const who = source === "send" ? "You, into the run" : source ? `Added by ${source}` : message.scope.depth > 0 && message.role === "user" ? "Task" : SPEAKER[message.role];
    const text = el("div", { class: "text" });
    new GrowingText(text).grow([message.text]);
    if (message.role === "system") {
      this.node = el("details", { class: "item message system" }, el("summary", { text: who }), text);
    } else {
      this.node = el("div", { class: `item message ${message.role}${source && source !== "send" ? " added" : ""}` },
        el("h3", { class: "speaker", text: who }), text);
    }
    this.node.dataset.role = message.role;
  }

  update() {}
}

class BlockView {
  constructor(block, heard) {
    this.block = block;
    this.heard = heard;
    this.text = el("div", { class: "text" });
    this.growing = new GrowingText(this.text);
    this.label = el("h3", { class: "speaker" });
    this.reason = el("p", { class: "reason", hidden: true });
    this.node = el("div", { class: `item block ${block.type}`, "data-type": block.type, "data-role": block.role }, this.label, this.text, this.reason);
    if (block.type === "thinking") this.text.tabIndex = 0;
    if (block.choice) this.node.dataset.choice = block.choice;
  }

  update() {
    const { block } = this;
    const added = this.growing.grow(block.pieces);
    setText(this.label, this.title());
    setData(this.node, "phase", block.phase);
    this.node.classList.toggle("retracted", block.retracted);
    show(this.reason, block.phase === "aborted" && !block.retracted);
    setText(this.reason, "Cut off here");
    if (block.type === "thinking" && added && block.phase === "open") this.text.scrollTop = this.text.scrollHeight;
    if (this.heard && block.from !== null && !block.retracted) this.heard(block, added);
  }

  title() {
    const { block } = this;
    if (block.retracted) return `${LABELS[block.type] ?? "Answer"}, taken back`;
    if (block.type === "text") return block.choice ? `Choice ${block.choice + 1}` : "Model";
    const label = LABELS[block.type] ?? block.label ?? block.type;
    const took = block.type === "thinking" ? tookOf(block) : null;
    return took === null ? label : `${label} · ${seconds(took)}`;
  }
}

class NoteView {
  constructor(note) {
    this.note = note;
    this.title = el("strong");
    this.text = el("span");
    this.node = el("div", { class: "item note" }, this.title, this.text);
  }

  update() {
    setText(this.title, this.note.title);
    setText(this.text, this.note.text);
    this.node.className = `item note ${this.note.tone}`;
  }
}

export function viewOf(item, heard) {
  switch (item.kind) {
    case "call": return new CallView(item);
    case "block": return new BlockView(item, item.type === "text" && item.scope.depth === 0 ? heard : null);
    case "message": return new MessageView(item);
    default: return new NoteView(item);
  }
}
