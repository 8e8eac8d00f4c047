// A tool call in the conversation: its name and state, its arguments as they are written, how far it is, what it came to.

import { el, setData, setText, show } from "./dom.js";
import { brief, clip, pretty, seconds } from "./format.js";
import { textOf } from "./items.js";
import { GrowingText } from "./text.js";

export const WORDS = {
  writing: "being written", waiting: "waiting", running: "running", paused: "waiting for you", done: "done", failed: "failed",
  skipped: "not run", stopped: "stopped", cut: "cut off", "not run": "not run", provider: "run by the provider",
};

export function wordOf(call) {
  if (call.retracted) return "taken back";
  const word = WORDS[call.state] ?? call.state;
  const took = call.seconds ?? (call.to !== null && call.from !== null ? call.to - call.from : null);
  return took >= 0.05 && (call.state === "done" || call.state === "failed") ? `${word} in ${seconds(took)}` : word;
}

export class CallView {
  constructor(call) {
    this.call = call;
    this.name = el("span", { class: "call-name" });
    this.summary = el("span", { class: "call-brief" });
    this.word = el("span", { class: "call-word" });
    this.arguments = el("pre", { class: "arguments", tabindex: "0", "aria-label": "Arguments" });
    this.growing = null;
    this.progress = el("p", { class: "progress", hidden: true });
    this.verdicts = el("ul", { class: "verdicts", hidden: true });
    this.outcome = el("p", { class: "outcome", hidden: true });
    this.result = el("pre", { class: "result", tabindex: "0", "aria-label": "Result" });
    this.resultPart = el("div", { hidden: true }, el("h4", { text: "Result" }), this.result);
    this.inner = el("div", { class: "inner", hidden: true });
    this.details = el("details", { ontoggle: () => this.open() },
      el("summary", {}, el("span", { class: "dot", "aria-hidden": "true" }), this.name, this.summary, this.word),
      el("div", { class: "call-body" }, el("h4", { text: "Arguments" }), this.arguments, this.resultPart));
    this.node = el("div", { class: "item call", "data-call": call.id }, this.details, this.progress, this.outcome, this.verdicts, this.inner);
    this.shown = null;
    this.told = null;
    this.judged = "";
  }

  update() {
    const { call } = this;
    setText(this.name, call.name || "tool");
    setText(this.word, wordOf(call));
    setData(this.node, "state", call.retracted ? "retracted" : call.isError ? "failed" : call.state);
    this.node.classList.toggle("retracted", call.retracted);
    if (call.input === undefined) this.write();
    else this.settle();
    show(this.progress, call.state === "running" && call.progress !== "");
    setText(this.progress, call.progress);
    this.conclude();
    const judged = `${call.verdicts.length} ${call.result === null}`;
    if (judged !== this.judged) this.judge();
    this.judged = judged;
  }

  // While it is being written: what has come so far.
  write() {
    this.growing ??= new GrowingText(this.arguments);
    this.growing.grow(this.call.pieces);
    if (this.call.size < 400) setText(this.summary, clip(textOf(this.call), 80));
  }

  settle() {
    const { call } = this;
    if (this.shown === call.input) return;
    this.shown = call.input;
    this.growing = null;
    this.arguments.textContent = pretty(call.input);
    setText(this.summary, brief(call.input));
    this.summary.classList.toggle("edited", call.edited);
    if (call.edited) this.summary.prepend(el("em", { text: "changed: " }));
  }

  conclude() {
    const { call } = this;
    show(this.resultPart, call.result !== null);
    if (call.result === this.told) return;
    this.told = call.result;
    show(this.outcome, Boolean(call.result));
    setText(this.outcome, clip(call.result ?? "", 220));
    this.open();
  }

  // A result may be long: it is laid out when somebody wants to see it.
  open() {
    if (!this.details.open || this.laid === this.told) return;
    this.laid = this.told;
    this.result.replaceChildren();
    new GrowingText(this.result).grow([this.told ?? ""]);
  }

  judge() {
    const { result } = this.call;
    // A refused call has the reason as its result, which stands above.
    const why = ({ reason }) => (reason && !result?.includes(reason) ? `: ${reason}` : "");
    const lines = this.call.verdicts.map((v) => el("li", { text: `${v.verdict} by ${v.hook}${why(v)}` }));
    this.verdicts.replaceChildren(...lines);
    show(this.verdicts, lines.length > 0);
  }
}
