// The trace: a row for each turn and each attempt of its request, and a lane for each block and each call, on one time axis.
//
// The bars of a row hold seconds, and the list holds the beginning and the width of what is shown: the browser moves the bars when the axis grows, and
// when the user zooms or pans.

import { el, StickToEnd, setData, setText, show } from "./dom.js";
import { brief, clip, plural, seconds } from "../model/format.js";
import { outcomeOf } from "../model/recognise.js";
import { Timeline, marksOf, markText, spanFor } from "../model/timeline.js";
import { fill, words } from "../model/language.js";

const MOST = 150; // lanes, and as many rows of turns and attempts
const ARGUMENTS = 120; // characters of arguments that are shown beside a name
const NEAREST = 0.02; // seconds: the narrowest window

export class LanesView {
  // `root` is the panel. `reveal(run, thing)` shows a block or call elsewhere; `inspect(run, thing)` shows everything about a row.
  constructor(root, reveal, inspect) {
    this.inspect = inspect;
    this.window = null; // [from, to] if the user has zoomed
    this.whole = () => 0; // the seconds that the run has in the present, if its past is shown
    this.sought = []; // the words that the rows which are shown must have
    this.drawn = () => {}; // called when rows have changed
    this.moved = () => {}; // called after the user has zoomed or moved
    this.list = root.querySelector(".lanes");
    this.end = new StickToEnd(this.list);
    this.axis = root.querySelector(".axis");
    this.note = root.querySelector(".panel-head p");
    this.line = root.querySelector(".trace-line");
    this.none = root.querySelector(".empty");
    this.buttons = root.querySelectorAll(".zoom button"); // out, fit, in
    this.reveal = reveal;
    this.zooming();
    this.open(new Timeline());
  }

  zooming() {
    const { list } = this;
    list.addEventListener("wheel", (event) => {
      const isZoom = event.ctrlKey || event.metaKey, by = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (!isZoom && by === 0) return;
      event.preventDefault();
      if (isZoom) this.zoom(Math.exp(event.deltaY / 300), this.timeAt(event.clientX));
      else this.pan(by / this.width());
    }, { passive: false });
    list.addEventListener("keydown", (event) => {
      const act = { "+": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.fit(), ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2) }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    let from = null;
    list.addEventListener("pointerdown", (event) => {
      if (event.target.closest("button") || event.button !== 0 || event.pointerType === "touch" || this.window === null) return;
      from = event.clientX;
      list.setPointerCapture(event.pointerId);
    });
    list.addEventListener("pointermove", (event) => {
      if (from !== null) {
        this.pan((from - event.clientX) / this.width());
        from = event.clientX;
      }
      this.point(event.clientX);
    });
    list.addEventListener("pointerup", () => (from = null));
    list.addEventListener("pointerleave", () => this.point(null));
    [() => this.zoom(2), () => this.fit(), () => this.zoom(0.5)].forEach((act, n) => this.buttons[n].addEventListener("click", act));
  }

  track() {
    return (this.list.querySelector(".track") ?? this.list).getBoundingClientRect();
  }

  width() {
    return this.track().width || 1;
  }

  timeAt(x) {
    const { left, width } = this.track(), [from, to] = this.shown();
    return from + ((to - from) * (x - left)) / (width || 1);
  }

  // The end of the axis, and the number of its parts.
  limits() {
    return spanFor(this.until);
  }

  // The seconds that the run has, also if its past is shown.
  get until() {
    return Math.max(this.elapsed ?? 0, this.whole());
  }

  shown() {
    return this.window ?? [0, this.limits()[0]];
  }

  zoom(by, at = null) {
    const [from, to] = this.shown(), [all] = this.limits(), middle = at ?? (from + Math.max(from, Math.min(to, this.until))) / 2;
    const width = Math.max(NEAREST, (to - from) * by), start = middle - ((middle - from) * width) / (to - from);
    this.setWindow(width >= all ? null : [Math.max(0, Math.min(start, all - width)), Math.max(0, Math.min(start, all - width)) + width]);
  }

  pan(by) {
    if (this.window === null) return;
    const [from, to] = this.window, [all] = this.limits(), start = Math.max(0, Math.min(from + by * (to - from), all - (to - from)));
    this.setWindow([start, start + to - from]);
  }

  fit() {
    this.setWindow(null);
  }

  setWindow(window) {
    this.window = window;
    this.span = 0;
    this.scale(this.elapsed ?? 0);
    this.moved();
  }

  // Show only the rows that have each of these words, in their name, their arguments or what is written beside them.
  search(text) {
    this.sought = text.toLowerCase().split(/\s+/).filter(Boolean);
    for (const view of this.rows) this.sift(view);
  }

  get rows() {
    return [...this.spans.values(), ...this.views.values()];
  }

  // How many rows are shown, and how many there are.
  get sifted() {
    const { rows } = this;
    return [rows.filter(({ node }) => !node.hidden).length, rows.length];
  }

  sift(view) {
    const { input } = view.thing, text = this.sought.length ? `${view.node.textContent} ${input === undefined ? "" : JSON.stringify(input)}`.toLowerCase() : "";
    show(view.node, this.sought.every((word) => text.includes(word)));
  }

  // Marks a time on the axis: the moment that is shown; null for the present.
  mark(at) {
    setData(this.list, "past", String(at !== null));
    if (at !== null) this.list.style.setProperty("--now", at.toFixed(4));
  }

  // The line at the pointer, and its time.
  point(x) {
    const { line } = this, { left, right } = this.track(), isShown = x !== null && x >= left && x <= right && this.count > 0;
    show(line, isShown);
    if (!isShown) return;
    line.style.setProperty("left", `${x - this.list.parentElement.getBoundingClientRect().left}px`);
    setText(line.firstElementChild, precise(this.timeAt(x)));
  }

  open(timeline) {
    const isSame = timeline.runs[0]?.id === this.timeline?.runs[0]?.id; // or its past
    this.timeline = timeline;
    this.views = new Map(); // lanes by item
    this.waiting = new Map(); // lanes of calls that waited when an earlier run was paused, by the id of the call
    this.live = new Set();
    this.count = 0; // number of all lanes, including those that are no longer shown
    this.next = timeline.runs.map(() => 0);
    this.span = 0;
    if (!isSame) this.window = null;
    this.spans = new Map(); // rows of turns and attempts
    this.list.replaceChildren();
    this.end.follows = true;
    this.breaks = timeline.breaks();
    this.begun = 0; // number of runs that are drawn
  }

  // Yields where it may be interrupted.
  *draw(changed, now) {
    const { timeline } = this;
    while (this.begun < timeline.runs.length) {
      const pause = this.breaks.find(({ run }) => run === timeline.runs[this.begun]);
      this.begun += 1;
      if (pause) this.list.append(breakNode(pause));
      yield* this.grow(this.begun - 1, now);
    }
    if (timeline.run) yield* this.grow(timeline.runs.length - 1, now);
    for (const thing of changed) {
      const view = this.views.get(thing) ?? this.spans.get(thing);
      if (!view) continue;
      this.refresh(view, now);
      yield;
    }
    this.drawn();
    const isEmpty = this.list.childElementCount === 0;
    show(this.none, isEmpty);
    show(this.axis, !isEmpty);
    if (!timeline.run) setText(this.note, "");
    else this.scale(timeline.elapsed(now));
    this.end.follow();
  }

  // Add the new lanes of a run.
  *grow(n, now) {
    const run = this.timeline.runs[n], { lanes } = run;
    if (this.next[n] === lanes.length) return;
    let left = 0;
    for (let at = this.next[n]; at < lanes.length; at += 1) left += lanes[at].kind !== "span";
    for (; left > MOST; this.next[n] += 1) {
      if (lanes[this.next[n]].kind === "span") continue;
      left -= 1;
      this.count += 1;
    }
    while (this.next[n] < lanes.length) {
      const thing = lanes[this.next[n]];
      this.next[n] += 1;
      if (thing.kind === "span") this.addSpan(run, thing, now);
      else this.add(run, thing, now);
      this.end.follow();
      yield;
    }
  }

  addSpan(run, span, now) {
    const view = new SpanView(span, (time) => this.timeline.place(run, time), () => this.inspect(this.runOf(span) ?? run, span));
    this.insert(view, this.views.get(span.scope.parent));
    this.spans.set(span, view);
    this.refresh(view, now);
    while (this.spans.size > MOST) {
      const [oldest, gone] = this.spans.entries().next().value;
      gone.node.remove();
      this.spans.delete(oldest);
      this.live.delete(gone);
    }
  }

  add(run, thing, now) {
    const place = (time) => this.timeline.place(run, time);
    let view = thing.kind === "call" && thing.writtenFrom === null ? this.waiting.get(thing.id) : undefined;
    if (view) {
      this.views.delete(view.thing);
      this.waiting.delete(thing.id);
      view.continueWith(thing, place);
    } else {
      view = new LaneView(thing, place, (shown) => {
        this.inspect(this.runOf(shown) ?? run, shown);
        this.reveal(this.runOf(shown) ?? run, shown);
      });
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
    this.sift(view);
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
    this.elapsed = elapsed;
    const [from, to] = this.shown(), span = to - from, steps = this.window ? 4 : this.limits()[1];
    if (span === this.span) return;
    this.span = this.window ? 0 : span;
    const { style } = this.list;
    style.setProperty("--span", span.toFixed(4));
    style.setProperty("--at", from.toFixed(4));
    style.setProperty("--steps", steps);
    const isIn = ({ at }) => at >= from && at <= to;
    style.setProperty("--breaks", this.breaks.filter(isIn).map(({ at }) => `linear-gradient(var(--warn) 0 0) ${((100 * (at - from)) / span).toFixed(2)}% 0 / 2px 100% no-repeat`).join(", ") || "none");
    for (const button of [...this.buttons].slice(0, 2)) button.disabled = this.window === null;
    const marks = marksOf([span, steps]).map((at) => el("span", { text: this.window ? precise(from + at) : markText(at) }));
    this.axis.replaceChildren(el("span", { class: "axis-marks" }, ...marks));
  }
}

// A time to the millisecond if that matters.
const precise = (s) => (s < 60 ? fill(words.units.second, { n: s < 10 ? s.toFixed(2) : s.toFixed(1) }) : seconds(s));

// A row of a turn or an attempt.
class SpanView {
  constructor(span, place, open) {
    this.thing = span;
    this.place = place;
    this.depth = span.scope.depth;
    this.name = el("span", { class: "lane-name" });
    this.text = el("span", { class: "lane-text" });
    this.wait = el("span", { class: "bar wait" });
    this.bar = el("span", { class: "bar whole" });
    this.track = el("span", { class: "track", "aria-hidden": "true" }, this.wait, this.bar);
    this.node = el("li", { class: `row span ${span.type}`, "data-depth": this.depth }, el("button", { type: "button", class: "lane-label", onclick: open }, this.name), this.track, this.text);
    this.node.style.setProperty("--depth", Math.min(this.depth, 4) + (span.type === "turn" ? 0 : 1));
    this.marks = 0;
  }

  get isOpen() {
    return this.thing.phase === "open";
  }

  update(now) {
    const { thing } = this, { marks } = thing;
    setText(this.name, thing.type === "turn" ? fill(words.trace.turn, { n: thing.number }) : thing.number > 1 ? fill(words.trace.attempt, { n: thing.number }) : words.trace.response);
    setText(this.text, this.words());
    setData(this.node, "state", thing.retracted ? "retracted" : thing.phase);
    for (; this.marks < Math.min(marks.length, 50); this.marks += 1) this.track.append(this.mark(marks[this.marks]));
    this.stretch(now);
  }

  mark(note) {
    const node = el("span", { class: `mark ${note.tone}` });
    node.style.setProperty("--from", this.place(note.time).toFixed(3));
    return node;
  }

  stretch(now) {
    const { from, first, to } = this.thing, end = to ?? now;
    if (this.thing.type === "attempt") place(this.wait, this.place(from), (first ?? end) - from);
    show(this.wait, this.thing.type === "attempt");
    show(this.bar, this.thing.type === "turn" || first !== null);
    place(this.bar, this.place(this.thing.type === "turn" ? from : first ?? from), end - (this.thing.type === "turn" ? from : first ?? from));
  }

  words() {
    const { thing } = this;
    if (thing.retracted) return fill(words.trace.retracted, { reason: thing.reason });
    if (thing.type === "turn") return thing.to === null ? "" : seconds(thing.to - thing.from);
    const parts = [thing.model];
    if (thing.first !== null) parts.push(fill(words.trace.first, { seconds: precise(thing.first - thing.from) }));
    if (thing.usage?.output_tokens) parts.push(plural(words.charts.written, thing.usage.output_tokens));
    return parts.filter(Boolean).join(" · ");
  }
}

function place(bar, from, length) {
  bar.style.setProperty("--from", Math.max(0, from).toFixed(3));
  bar.style.setProperty("--for", Math.max(0, length).toFixed(3));
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
    this.arguments = thing.kind === "call" ? el("span", { class: "lane-arguments" }) : null;
    const label = el("button", { type: "button", class: "lane-label", onclick: () => reveal(this.thing) }, el("span", { class: "dot", "aria-hidden": "true" }), this.name, this.arguments);
    this.node = el("li", { class: `row lane ${thing.type}` }, label, el("span", { class: "track", "aria-hidden": "true" }, this.written, this.ran), this.text);
    this.depth = thing.scope.depth;
    this.node.dataset.depth = this.depth;
    this.node.style.setProperty("--depth", Math.min(this.depth, 4) + 1);
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
    if (this.arguments && thing.input !== undefined) setText(this.arguments, argumentsOf(thing.input));
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
    place(bar, this.place(from), to - from);
  }

  words() {
    const { thing } = this;
    if (thing.retracted) return words.call.retracted;
    if (thing.kind !== "call") {
      return plural(thing.phase === "aborted" ? words.lanes.charactersCut : words.lanes.characters, thing.size);
    }
    if (thing.state === "writing") return clip(thing.pieces.slice(-12).join(""), 60);
    if (thing.state === "running" && thing.progress) return clip(thing.progress, 60);
    if (thing.state === "done" || thing.state === "failed") return outcomeOf(thing, 60) || words.call[thing.state];
    return `${words.call[thing.state]}${thing.input === undefined ? "" : ` · ${brief(thing.input, 40)}`}`;
  }
}

// Arguments beside the name of a tool: `place: Lisbon, days: 2`.
function argumentsOf(input) {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return brief(input, ARGUMENTS);
  return clip(Object.entries(input).map(([name, value]) => `${name}: ${brief(value, ARGUMENTS)}`).join(", "), ARGUMENTS);
}
