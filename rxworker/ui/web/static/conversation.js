// The conversation: views of messages, blocks, calls and notes. Only the last part of a long one is shown; earlier parts on request.

import { byId, el, StickToEnd, GrowingText, setData, setText, show } from "./dom.js";
import { brief, clip, plural, pretty, seconds } from "./format.js";
import { textOf, tookOf } from "./run_state.js";

const STEP = 150, MOST = 600;
const AGAIN = 50; // entries of the past: they are drawn again with each move of the slider
const MARKED = 1_600; // milliseconds

export class ConversationView {
  constructor(onText) {
    this.pane = byId("conversation");
    this.latest = byId("latest");
    this.onText = onText;
    this.end = new StickToEnd(this.pane, () => this.offer());
    this.earlier = el("button", { class: "earlier", type: "button", hidden: true, onclick: () => this.showEarlier() });
    this.latest.addEventListener("click", () => this.toEnd());
    this.open(null);
  }

  open(run, most = STEP) {
    this.run = run;
    this.views = new Map();
    this.first = 0;
    this.pane.replaceChildren(this.earlier);
    this.end.follows = true;
    if (run) {
      this.first = Math.max(0, run.root.items.length - most);
      for (const item of run.root.items.slice(this.first)) this.place(item, this.pane);
    }
    this.draw(new Set());
  }

  // The same run at another time. A user who has scrolled up stays there.
  reopen(run, isPast) {
    const { follows } = this.end, top = this.pane.scrollTop;
    this.open(run, isPast ? AGAIN : STEP);
    if (follows) return;
    this.end.follows = false;
    this.pane.scrollTop = top;
    this.offer();
  }

  // The view of an item; items of a nested run are placed within its call.
  place(item, container, before = null) {
    const view = viewOf(item, this.onText);
    this.views.set(item, view);
    if (before) before.before(view.node);
    else container.append(view.node);
    view.update();
    for (const inner of item.inner?.items ?? []) this.place(inner, this.innerOf(view));
  }

  innerOf(view) {
    show(view.inner, true);
    return view.inner;
  }

  draw(changed) {
    for (const item of changed) {
      const view = this.views.get(item);
      if (view) this.update(view, item);
      else if (item.kind !== "note" || item.inline) this.add(item);
    }
    this.trim();
    show(this.earlier, this.first > 0);
    if (this.first > 0) this.earlier.textContent = `Show what came before (${plural(this.first, "entry", "entries")})`;
    this.end.follow();
    this.offer();
  }

  // The button that scrolls to the end, shown after the user has scrolled up.
  offer() {
    show(this.latest, !this.end.follows);
  }

  update(view, item) {
    view.update();
    // The nested runs of an earlier run become known after the call.
    if (item.isHeir) for (const inner of item.inner?.items ?? []) if (!this.views.has(inner)) this.place(inner, this.innerOf(view));
  }

  add(item) {
    const parent = item.scope.parent;
    if (parent === null) {
      if (item.scope.depth > 0 || item.key > this.lastKey()) this.place(item, this.pane);
    } else if (this.views.has(parent)) this.place(item, this.innerOf(this.views.get(parent)));
  }

  // Items before the first one that is shown stay hidden when they change.
  lastKey() {
    return this.first > 0 ? this.run.root.items[this.first - 1].key : 0;
  }

  trim() {
    if (this.run === null || !this.end.follows) return;
    while (this.run.root.items.length - this.first > MOST) {
      for (let n = 0; n < STEP; n += 1) this.forget(this.run.root.items[this.first + n]);
      this.first += STEP;
    }
  }

  forget(item) {
    this.views.get(item)?.node.remove();
    this.views.delete(item);
    for (const inner of item.inner?.items ?? []) this.forget(inner);
  }

  showEarlier() {
    const from = Math.max(0, this.first - STEP), anchor = this.earlier.nextSibling, top = this.pane.scrollHeight - this.pane.scrollTop;
    for (const item of this.run.root.items.slice(from, this.first)) this.place(item, this.pane, anchor);
    this.first = from;
    this.end.follows = false;
    this.draw(new Set());
    this.pane.scrollTop = this.pane.scrollHeight - top;
    this.pane.focus();
  }

  toEnd() {
    this.end.follows = true;
    this.draw(new Set());
    this.pane.focus();
  }

  reveal(item) {
    const node = this.views.get(item)?.node;
    if (!node) return;
    this.end.follows = false;
    node.scrollIntoView({ block: "center" });
    this.found?.classList.remove("found");
    clearTimeout(this.fading);
    this.found = node;
    node.classList.add("found");
    this.fading = setTimeout(() => node.classList.remove("found"), MARKED);
  }
}

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
  constructor(block, onText) {
    this.block = block;
    this.onText = onText;
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
    if (this.onText && block.from !== null && !block.retracted) this.onText(block, added);
  }

  title() {
    const { block } = this;
    if (block.retracted) return `${LABELS[block.type] ?? "Answer"}, retracted`;
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

export function viewOf(item, onText) {
  switch (item.kind) {
    case "call": return new CallView(item);
    case "block": return new BlockView(item, item.type === "text" && item.scope.depth === 0 ? onText : null);
    case "message": return new MessageView(item);
    default: return new NoteView(item);
  }
}

export const WORDS = {
  writing: "being written", waiting: "waiting", running: "running", paused: "waiting for you", done: "done", failed: "failed",
  skipped: "not run", stopped: "stopped", cut: "cut off", "not run": "not run", provider: "run by the provider",
};

export function wordOf(call) {
  if (call.retracted) return "retracted";
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
    this.shownResult = null;
    this.shownVerdicts = "";
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
    setText(this.summary, brief(call.input));
    this.summary.classList.toggle("edited", call.edited);
    if (call.edited) this.summary.prepend(el("em", { text: "changed: " }));
  }

  conclude() {
    const { call } = this;
    show(this.resultPart, call.result !== null);
    if (call.result === this.shownResult) return;
    this.shownResult = call.result;
    show(this.outcome, Boolean(call.result));
    setText(this.outcome, clip(call.result ?? "", 220));
    this.open();
  }

  // A result may be long: it is rendered when the user opens it.
  open() {
    if (!this.details.open || this.laid === this.shownResult) return;
    this.laid = this.shownResult;
    this.result.replaceChildren();
    new GrowingText(this.result).grow([this.shownResult ?? ""]);
  }

  showVerdicts() {
    const { result } = this.call;
    // The result of a refused call contains the reason and is shown above.
    const why = ({ reason }) => (reason && !result?.includes(reason) ? `: ${reason}` : "");
    const lines = this.call.verdicts.map((v) => el("li", { text: `${v.verdict} by ${v.hook}${why(v)}` }));
    this.verdicts.replaceChildren(...lines);
    show(this.verdicts, lines.length > 0);
  }
}
