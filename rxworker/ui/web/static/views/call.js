// A tool call in the conversation: its arguments as they are written, its progress, its result, and the verdicts of hooks.

import { el, GrowingText, setData, setText, show } from "./dom.js";
import { brief, callWord, clip, pretty, seconds } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { outcomeOf } from "../model/recognise.js";
import { textOf } from "../model/run_state.js";
import { ResultView } from "./result.js";

function wordOf(call) {
  if (call.retracted) return words.call.retracted;
  if (call.background) return words.call.background;
  const word = callWord(call);
  const took = call.seconds ?? (call.to !== null && call.from !== null ? call.to - call.from : null);
  return took >= 0.05 && (call.state === "done" || call.state === "failed") ? fill(words.call.in, { word, seconds: seconds(took) }) : word;
}

export class CallView {
  constructor(call) {
    this.call = call;
    this.name = el("span", { class: "call-name" });
    this.summary = el("span", { class: "call-brief" });
    this.word = el("span", { class: "call-word" });
    this.argumentsTitle = el("h4", { text: words.call.arguments });
    this.arguments = el("pre", { class: "arguments", tabindex: "0", "aria-label": words.call.arguments });
    this.growing = null;
    this.progress = el("p", { class: "progress", hidden: true });
    this.verdicts = el("ul", { class: "verdicts", hidden: true });
    this.outcome = el("p", { class: "outcome", hidden: true });
    this.result = new ResultView();
    this.inner = el("div", { class: "inner", hidden: true });
    this.details = el("details", { ontoggle: () => this.open() },
      el("summary", {}, el("span", { class: "dot", "aria-hidden": "true" }), this.name, this.summary, this.word),
      el("div", { class: "call-body" }, this.argumentsTitle, this.arguments, this.result.node));
    this.node = el("div", { class: "item call", "data-call": call.id }, this.details, this.progress, this.outcome, this.verdicts, this.inner);
    this.shown = null;
    this.shownResult = null;
    this.shownVerdicts = "";
  }

  update() {
    const { call } = this;
    setText(this.name, call.name || words.call.tool);
    setText(this.word, wordOf(call));
    setData(this.node, "state", call.retracted ? "retracted" : call.isError ? "failed" : call.background ? "running" : call.state);
    this.node.classList.toggle("retracted", call.retracted);
    if (call.input === undefined) this.write();
    else this.settle();
    show(this.progress, (call.state === "running" || call.background) && call.progress !== "");
    setText(this.progress, call.progress);
    this.conclude();
    const verdicts = `${call.verdicts.length} ${call.result === null}`;
    if (verdicts !== this.shownVerdicts) this.showVerdicts();
    this.shownVerdicts = verdicts;
  }

  // While the arguments are written: what has arrived so far.
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
    const isEmpty = typeof call.input === "object" && call.input !== null && Object.keys(call.input).length === 0;
    for (const part of [this.argumentsTitle, this.arguments]) show(part, !isEmpty);
    setText(this.summary, brief(call.input));
    this.summary.classList.toggle("edited", call.edited);
    if (call.edited) this.summary.prepend(el("em", { text: words.call.changed }));
  }

  conclude() {
    const { call } = this;
    show(this.result.node, call.result !== null);
    if (call.result === this.shownResult) return;
    this.shownResult = call.result;
    show(this.outcome, Boolean(call.result));
    setText(this.outcome, outcomeOf(call, 220));
    this.open();
  }

  // A result may be long: it is rendered when the user opens it.
  open() {
    if (!this.details.open || this.laid === this.shownResult) return;
    this.laid = this.shownResult;
    this.result.fill(this.laid ?? "", this.call.parts);
  }

  showVerdicts() {
    const { result } = this.call;
    // The result of a refused call contains the reason and is shown above.
    const isNew = ({ reason }) => reason && !result?.includes(reason);
    const lines = this.call.verdicts.map((verdict) => el("li", { text: fill(isNew(verdict) ? words.call.verdictWhy : words.call.verdict, verdict) }));
    this.verdicts.replaceChildren(...lines);
    show(this.verdicts, lines.length > 0);
  }
}
