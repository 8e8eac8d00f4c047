// One lane: a block, or a call. Its bars hold seconds, and the list the span: the browser places them anew when the axis grows.

import { el, setData, setText, show } from "./dom.js";
import { brief, clip, plural } from "./format.js";
import { WORDS } from "./call_view.js";

const NAMES = { text: "answer", thinking: "thinking", refusal: "refusal", tool_result: "result", image: "image" };

export class LaneView {
  // `place` tells where a moment lies on the axis.
  constructor(thing, place, reveal) {
    this.thing = thing;
    this.place = place;
    this.name = el("span", { class: "lane-name" });
    this.text = el("span", { class: "lane-text" });
    this.written = el("span", { class: "bar written" });
    this.ran = thing.kind === "call" ? el("span", { class: "bar ran" }) : null;
    const label = el("button", { type: "button", class: "lane-label", onclick: () => reveal(this.thing) }, el("span", { class: "dot", "aria-hidden": "true" }), this.name);
    this.node = el("li", { class: `lane ${thing.type}` }, label, el("span", { class: "track", "aria-hidden": "true" }, this.written, this.ran), this.text);
    this.depth = thing.scope.depth;
    this.node.dataset.depth = this.depth;
    this.node.style.setProperty("--depth", Math.min(this.depth, 4));
  }

  get isOpen() {
    const { thing } = this;
    return thing.kind === "call" ? thing.state === "writing" || thing.state === "running" : thing.phase === "open";
  }

  // The call was written in an earlier run, and this is what became of it. What is drawn of its writing stays.
  goOn(call, place) {
    this.thing = call;
    this.place = place;
  }

  update(now) {
    const { thing } = this;
    setText(this.name, thing.kind === "call" ? thing.name || "tool" : NAMES[thing.type] ?? thing.label ?? thing.type);
    setText(this.text, this.words());
    setData(this.node, "state", thing.retracted ? "retracted" : thing.kind === "call" ? (thing.isError ? "failed" : thing.state) : thing.phase);
    this.node.classList.toggle("retracted", thing.retracted);
    this.stretch(now);
  }

  stretch(now) {
    const { thing } = this;
    if (thing.kind !== "call") return this.bar(this.written, thing.from, thing.to ?? now);
    this.bar(this.written, thing.writtenFrom, thing.writtenTo ?? (thing.phase === "open" ? now : thing.writtenFrom));
    this.bar(this.ran, thing.from, thing.to ?? (thing.state === "running" ? now : thing.from));
  }

  bar(bar, from, to) {
    if (from === null) {
      show(bar, bar.style.length > 0);
      return;
    }
    show(bar, true);
    bar.style.setProperty("--from", Math.max(0, this.place(from)).toFixed(3));
    bar.style.setProperty("--for", Math.max(0, to - from).toFixed(3));
  }

  words() {
    const { thing } = this;
    if (thing.retracted) return "taken back";
    if (thing.kind !== "call") {
      const size = plural(thing.size, "character");
      return thing.phase === "aborted" ? `${size}, cut off` : size;
    }
    if (thing.state === "writing") return clip(thing.pieces.slice(-12).join(""), 60);
    if (thing.state === "running" && thing.progress) return clip(thing.progress, 60);
    if (thing.state === "done" || thing.state === "failed") return clip(thing.result ?? "", 60) || WORDS[thing.state];
    return `${WORDS[thing.state]}${thing.input === undefined ? "" : ` · ${brief(thing.input, 40)}`}`;
  }
}
