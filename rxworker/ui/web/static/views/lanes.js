// The timeline view: a lane for each block and each call, on one time axis.
//
// The bars of a lane hold seconds, and the list holds the span: the browser moves the bars when the axis grows.

import { byId, el, StickToEnd, setData, setText, show } from "./dom.js";
import { brief, clip, plural, seconds } from "../model/format.js";
import { Timeline, marksOf, markText, spanFor } from "../model/timeline.js";
import { fill, words } from "../model/language.js";

const MOST = 150;

export class LanesView {
  constructor(reveal) {
    this.list = byId("lanes");
    this.end = new StickToEnd(this.list);
    this.axis = byId("axis");
    this.note = byId("timeline-note");
    this.reveal = reveal; // (run, thing)
    this.open(new Timeline(), 0);
  }

  open(timeline, now) {
    this.timeline = timeline;
    this.views = new Map(); // lanes by item
    this.waiting = new Map(); // lanes of calls that waited when an earlier run was paused, by the id of the call
    this.live = new Set();
    this.count = 0; // number of all lanes, including those that are no longer shown
    this.next = timeline.runs.map(() => 0);
    this.span = 0;
    this.list.replaceChildren();
    this.end.follows = true;
    this.breaks = timeline.breaks();
    const breaks = new Map(this.breaks.map((one) => [one.run, one]));
    timeline.runs.forEach((run, n) => {
      if (breaks.has(run)) this.list.append(breakNode(breaks.get(run)));
      this.grow(n, now);
    });
    this.draw(new Set(), now);
  }

  draw(changed, now) {
    const { timeline } = this;
    if (timeline.run) this.grow(timeline.runs.length - 1, now);
    for (const thing of changed) this.refresh(this.views.get(thing), now);
    show(byId("no-lanes"), this.count === 0);
    show(this.axis, this.count > 0);
    if (!timeline.run) setText(this.note, "");
    else this.scale(timeline.elapsed(now));
    this.end.follow();
  }

  // Add the new lanes of a run.
  grow(n, now) {
    const run = this.timeline.runs[n], { lanes } = run;
    if (this.next[n] === lanes.length) return;
    const skipped = Math.max(0, lanes.length - this.next[n] - MOST);
    this.next[n] += skipped;
    this.count += skipped;
    for (; this.next[n] < lanes.length; this.next[n] += 1) this.add(run, lanes[this.next[n]], now);
  }

  add(run, thing, now) {
    const place = (time) => this.timeline.place(run, time);
    let view = thing.kind === "call" && thing.writtenFrom === null ? this.waiting.get(thing.id) : undefined;
    if (view) {
      this.views.delete(view.thing);
      this.waiting.delete(thing.id);
      view.continueWith(thing, place);
    } else {
      view = new LaneView(thing, place, (shown) => this.reveal(this.runOf(shown) ?? run, shown));
      this.insert(view, this.views.get(thing.scope.parent));
      this.count += 1;
    }
    this.views.set(thing, view);
    if (thing.state === "paused" && run !== this.timeline.run) this.waiting.set(thing.id, view);
    this.refresh(view, now);
    while (this.views.size > MOST) this.forget(...this.views.entries().next().value);
  }

  // A lane of a nested run is placed after the last lane within the same call.
  insert(view, parent) {
    if (!parent?.node.isConnected) return this.list.append(view.node);
    let before = parent.node;
    while (Number(before.nextElementSibling?.dataset.depth ?? 0) > parent.depth) before = before.nextElementSibling;
    before.after(view.node);
  }

  runOf(thing) {
    let scope = thing.scope;
    while (scope.parent) scope = scope.parent.scope;
    return this.timeline.runs.find((run) => run.root === scope);
  }

  forget(thing, view) {
    view.node.remove();
    this.views.delete(thing);
    this.live.delete(view);
  }

  refresh(view, now) {
    if (!view) return;
    view.update(now);
    if (view.isOpen) this.live.add(view);
    else this.live.delete(view);
  }

  // Time passes although no record arrives.
  tick(now) {
    if (!this.timeline.isRunning) return;
    for (const view of this.live) view.stretch(now);
    this.scale(this.timeline.elapsed(now));
  }

  scale(elapsed) {
    const cut = this.timeline.isCut ? words.lanes.cut : "", shown = this.views.size;
    const last = this.count > shown ? fill(words.lanes.last, { shown, n: this.count }) : "";
    setText(this.note, [cut, last, seconds(elapsed)].filter(Boolean).join(" · "));
    const [span, steps] = spanFor(elapsed);
    if (span === this.span) return;
    this.span = span;
    const { style } = this.list;
    style.setProperty("--span", span);
    style.setProperty("--steps", steps);
    style.setProperty("--breaks", this.breaks.map(({ at }) => `linear-gradient(var(--warn) 0 0) ${((100 * at) / span).toFixed(2)}% 0 / 2px 100% no-repeat`).join(", ") || "none");
    const marks = marksOf([span, steps]).map((at) => el("span", { text: markText(at) }));
    this.axis.replaceChildren(el("span", { class: "axis-marks" }, ...marks));
  }
}

function breakNode({ seconds: pause, reason }) {
  const text = fill(reason ? words.lanes.pausedWhy : words.lanes.paused, { seconds: seconds(pause), reason });
  return el("li", { class: "lane-break", text });
}

export class LaneView {
  // `place` returns the position of a time on the axis.
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

  // The call was written in an earlier run and continues in this one. Its written bar stays.
  continueWith(call, place) {
    this.thing = call;
    this.place = place;
  }

  update(now) {
    const { thing } = this;
    setText(this.name, thing.kind === "call" ? thing.name || words.call.tool : words.lanes[thing.type] ?? thing.label ?? thing.type);
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
    if (thing.retracted) return words.call.retracted;
    if (thing.kind !== "call") {
      return plural(thing.phase === "aborted" ? words.lanes.charactersCut : words.lanes.characters, thing.size);
    }
    if (thing.state === "writing") return clip(thing.pieces.slice(-12).join(""), 60);
    if (thing.state === "running" && thing.progress) return clip(thing.progress, 60);
    if (thing.state === "done" || thing.state === "failed") return clip(thing.result ?? "", 60) || words.call[thing.state];
    return `${words.call[thing.state]}${thing.input === undefined ? "" : ` · ${brief(thing.input, 40)}`}`;
  }
}
