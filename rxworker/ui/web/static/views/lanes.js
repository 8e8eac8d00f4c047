// The trace: a row for each turn and each attempt of its request, and a lane for each block and each call, on one time axis.
//
// Theory of operation. All rows have one height, and the list has nodes only for those that are seen and some beside them: a run may have thousands. A `Row` is what the trace
// knows of a row; its view is made when it comes into sight. The bars of a view hold seconds, and the list holds the beginning and the width of what is shown: the browser moves
// the bars when the axis grows, and when the user zooms or pans.

import { el, setData, setText, show, StickToEnd } from "./dom.js";
import { Overview } from "./overview.js";
import { brief, callWord, clip, plural, precise, seconds } from "../model/format.js";
import { outcomeOf } from "../model/recognise.js";
import { Timeline, marksOf, markText, spanFor } from "../model/timeline.js";
import { fill, words } from "../model/language.js";

const HEIGHT = 42; // pixels of a row
const BESIDE = 16; // rows above and below those that are seen
const LONG = 40; // rows: a longer trace has an overview
const ARGUMENTS = 120; // characters of arguments that are shown beside a name
const DIGIT = 7; // pixels of a character of the axis, about
const NEAREST = 0.02; // seconds: the narrowest window

export class LanesView {
  // `root` is the panel. `reveal(run, thing)` shows a block or call elsewhere; `inspect(run, thing)` shows everything about a row.
  constructor(root, reveal, inspect) {
    this.inspect = inspect;
    this.window = null; // [from, to] if the user has zoomed
    this.wanted = null; // the window of the first run that is shown, if the address names one
    this.whole = () => 0; // the seconds that the run has in the present, if its past is shown
    this.sought = []; // the words that are searched for
    this.found = []; // the rows that have each of them
    this.here = null; // the one of these that was gone to
    this.isNew = true; // whether nothing of the run was drawn
    this.drawn = () => {}; // called when rows have changed
    this.moved = () => {}; // called after the user has zoomed or moved
    this.list = root.querySelector(".lanes");
    this.list.style.setProperty("--row", `${HEIGHT}px`);
    this.end = new StickToEnd(this.list, () => this.render());
    this.axis = root.querySelector(".axis");
    this.note = root.querySelector(".panel-head p");
    this.line = root.querySelector(".trace-line");
    this.none = root.querySelector(".empty");
    this.buttons = root.querySelectorAll(".zoom button"); // out, fit, in
    this.reveal = reveal;
    this.overview = new Overview(this);
    this.axis.before(this.overview.node);
    this.height = 0; // pixels of the list that are seen
    this.room = 0; // pixels of the axis
    this.zooming();
    this.open(new Timeline());
    new ResizeObserver(() => {
      this.height = this.list.clientHeight;
      this.render();
    }).observe(this.list);
    new ResizeObserver(([{ contentRect }]) => {
      this.room = contentRect.width;
      this.thin();
    }).observe(this.axis);
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
    this.frame(start, start + width);
  }

  pan(by) {
    if (this.window === null) return;
    const [from, to] = this.window, [all] = this.limits(), start = Math.max(0, Math.min(from + by * (to - from), all - (to - from)));
    this.setWindow([start, start + to - from]);
  }

  fit() {
    this.setWindow(null);
  }

  // Show this part of the axis.
  frame(from, to) {
    const [all] = this.limits(), width = Math.max(NEAREST, to - from), start = Math.max(0, Math.min(from, all - width));
    this.setWindow(width >= all ? null : [start, start + width]);
  }

  // In milliseconds, as in the address.
  setWindow(window) {
    this.window = window?.map((seconds) => Math.round(seconds * 1000) / 1000) ?? null;
    this.isSought = false;
    this.span = 0;
    this.scale(this.elapsed ?? 0);
    this.overview.draw();
    this.moved();
  }

  // Find the rows that have each of these words, in their name, their arguments or what is written beside them, and go to the first one from the top of what is seen.
  search(text) {
    this.sought = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.here = null;
    this.find();
    const top = this.rows[Math.floor(this.list.scrollTop / HEIGHT)], seen = this.found.findIndex((row) => this.rows.indexOf(row) >= this.rows.indexOf(top));
    this.goTo(Math.max(0, seen));
  }

  find() {
    const { sought } = this;
    this.found = sought.length === 0 ? [] : this.rows.filter((row) => sought.every((word) => row.text.includes(word)));
    if (!this.found.includes(this.here)) this.here = null;
    for (const { row, node } of this.views) this.mark(row, node);
  }

  // Go to a row that was found, by its number.
  goTo(n) {
    const { length } = this.found;
    this.here = length === 0 ? null : this.found[(n + length) % length];
    if (this.here !== null) {
      this.scrollTo(this.rows.indexOf(this.here), this.height / 2 - HEIGHT);
      const [from, to] = this.shown(), { begins } = this.here;
      if (this.window !== null && (begins < from || begins > to)) this.pan((begins - (from + to) / 2) / (to - from));
    }
    for (const { row, node } of this.views) this.mark(row, node);
    this.overview.draw();
  }

  mark(row, node) {
    setData(node, "found", row === this.here ? "here" : String(this.found.includes(row)));
  }

  // Scroll so that a row is so many pixels below the top.
  scrollTo(n, below = 0) {
    this.end.follows = false;
    this.list.scrollTop = n * HEIGHT - below;
    this.render();
  }

  // Scroll to the first row that begins at this time or later.
  seek(time) {
    const n = this.rows.findIndex((row) => row.thing && row.begins >= time);
    this.scrollTo(n < 0 ? this.rows.length : n);
  }

  // Marks a time on the axis: the moment that is shown; null for the present.
  now(at) {
    setData(this.list, "past", String(at !== null));
    if (at !== null) this.list.style.setProperty("--now", at.toFixed(4));
  }

  // The line at the pointer, and its time.
  point(x) {
    const { line } = this, { left, right } = this.track(), isShown = x !== null && x >= left && x <= right && this.rows.length > 0;
    show(line, isShown);
    if (!isShown) return;
    line.style.setProperty("left", `${x - this.list.parentElement.getBoundingClientRect().left}px`);
    setText(line.firstElementChild, precise(this.timeAt(x)));
  }

  open(timeline) {
    const isSame = timeline.runs[0]?.id === this.timeline?.runs[0]?.id; // or its past
    this.timeline = timeline;
    this.rows = [];
    this.byThing = new Map();
    this.waiting = new Map(); // rows of calls that waited when an earlier run was paused, by the path and the id of the call
    this.live = new Set();
    this.views = [];
    this.next = timeline.runs.map(() => 0);
    this.span = 0;
    if (!isSame) this.begin(timeline.run === null ? null : this.wanted);
    this.isSought = !isSame && this.window !== null; // the rows of the window are gone to when they are there
    if (timeline.run !== null) this.wanted = null;
    this.list.replaceChildren();
    this.end.follows = true;
    this.isNew ||= !isSame;
    this.breaks = timeline.breaks();
    this.begun = 0; // number of runs that are drawn
  }

  // Another run is shown, with this part of its axis.
  begin(window) {
    const before = this.window;
    this.window = window;
    if (before !== null) this.moved();
  }

  // Yields where it may be interrupted. What is over, if that is known, begins at its top, and what goes on at its end.
  *draw(changed, now, isOver = null) {
    const { timeline } = this;
    this.time = now;
    while (this.begun < timeline.runs.length) {
      const pause = this.breaks.find(({ run }) => run === timeline.runs[this.begun]);
      this.begun += 1;
      if (pause) this.rows.push(new Break(pause));
      yield* this.grow(this.begun - 1);
    }
    if (timeline.run) yield* this.grow(timeline.runs.length - 1);
    for (const thing of changed) {
      const row = this.byThing.get(thing);
      if (!row) continue;
      this.refresh(row);
      yield;
    }
    if (this.sought.length > 0) this.find();
    const isEmpty = this.rows.length === 0;
    show(this.none, isEmpty);
    show(this.axis, !isEmpty);
    if (!timeline.run) setText(this.note, "");
    else this.scale(timeline.elapsed(now));
    this.render();
    this.overview.soon();
    this.drawn();
    if (this.isNew && !isEmpty && isOver !== null) {
      this.isNew = false;
      this.end.follows = !isOver;
      if (isOver) this.list.scrollTop = 0;
    }
    if (this.isSought && this.rows.some((row) => row.thing && row.begins >= this.window[0])) {
      this.isSought = false;
      this.seek(this.window[0]);
    }
    this.end.follow();
  }

  // Add the new rows of a run.
  *grow(n) {
    const run = this.timeline.runs[n], { lanes } = run;
    while (this.next[n] < lanes.length) {
      this.add(run, lanes[this.next[n]]);
      this.next[n] += 1;
      yield;
    }
  }

  add(run, thing) {
    const place = (time) => this.timeline.place(run, time), key = [...thing.scope.path, thing.id].join("/"); // calls of two runs may have one id
    let row = thing.kind === "call" && thing.writtenFrom === null ? this.waiting.get(key) : undefined;
    if (!row && thing.state === "skipped" && thing.writtenFrom === null) return;
    if (row) {
      this.byThing.delete(row.thing);
      this.waiting.delete(key);
      row.continueWith(thing, place);
    } else this.insert((row = new Row(thing, place)), this.byThing.get(thing.scope.parent));
    this.byThing.set(thing, row);
    if (thing.state === "paused" && run !== this.timeline.run) this.waiting.set(key, row);
    this.refresh(row);
  }

  // A row of a nested run is placed after the last row within the same call.
  insert(row, parent) {
    const { rows } = this;
    let at = parent === undefined ? rows.length : rows.lastIndexOf(parent) + 1;
    while (at < rows.length && rows[at].depth > parent.depth) at += 1;
    rows.splice(at, 0, row);
  }

  runOf(thing) {
    let scope = thing.scope;
    while (scope.parent) scope = scope.parent.scope;
    return this.timeline.runs.find((run) => run.root === scope);
  }

  refresh(row) {
    row.known = null;
    row.view?.update(this.time);
    if (row.isOpen) this.live.add(row);
    else this.live.delete(row);
  }

  // Nodes for the rows that are seen; empty space before and after them stands for the others.
  render() {
    const { rows, list } = this, height = Math.max(this.height, 10 * HEIGHT), top = this.end.follows ? rows.length * HEIGHT - height : list.scrollTop;
    const first = Math.max(0, Math.min(rows.length, Math.floor(top / HEIGHT)) - BESIDE), last = Math.min(rows.length, Math.ceil((top + height) / HEIGHT) + BESIDE);
    const seen = rows.slice(first, last), isSeen = new Set(seen);
    for (const { row, node } of this.views) {
      if (isSeen.has(row)) continue;
      if (node.matches(":focus-within")) list.focus({ preventScroll: true });
      node.remove();
      row.view = null;
    }
    let at = list.firstElementChild;
    this.views = seen.map((row, n) => {
      row.view ??= this.view(row);
      const { node } = row.view;
      if (node === at) at = at.nextElementSibling;
      else list.insertBefore(node, at);
      setAttribute(node, "aria-posinset", first + n + 1);
      setAttribute(node, "aria-setsize", rows.length);
      return row.view;
    });
    list.style.setProperty("--above", `${first * HEIGHT}px`);
    list.style.setProperty("--below", `${(rows.length - last) * HEIGHT}px`);
  }

  view(row) {
    const open = ({ thing }) => {
      const run = this.runOf(thing) ?? this.timeline.run;
      this.inspect(run, thing);
      if (thing.kind !== "span") this.reveal(run, thing);
    };
    const view = row.thing === null ? new BreakView(row) : row.thing.kind === "span" ? new SpanView(row, open) : new LaneView(row, open);
    view.update(this.time);
    this.mark(row, view.node);
    return view;
  }

  // Time passes although no record arrives.
  tick(now) {
    if (!this.timeline.isRunning) return;
    this.time = now;
    for (const row of this.live) row.view?.stretch(now);
    this.overview.soon();
    this.scale(this.timeline.elapsed(now));
  }

  // Another theme.
  recolour() {
    this.overview.draw();
  }

  get isLong() {
    return this.rows.length > LONG;
  }

  scale(elapsed) {
    setText(this.note, [this.timeline.isCut ? words.lanes.cut : "", seconds(elapsed)].filter(Boolean).join(" · "));
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
    this.thin();
  }

  // Leave out the texts of the axis that have no room, but not the first and the last one.
  thin() {
    const marks = [...(this.axis.firstElementChild?.children ?? [])], end = marks.length - 1, width = (n) => marks[n].textContent.length * DIGIT + 6;
    let free = 0;
    marks.forEach((mark, n) => {
      const begin = n === 0 ? 0 : n === end ? this.room - width(n) : (this.room * n) / end - width(n) / 2;
      const isShown = n === 0 || n === end || (begin >= free && begin + width(n) <= this.room - width(end));
      mark.style.visibility = isShown ? "" : "hidden";
      if (isShown) free = begin + width(n);
    });
  }
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

// What the trace knows of a row.
class Row {
  // `place` returns the position of a time on the axis.
  constructor(thing, place) {
    this.thing = thing;
    this.place = place;
    this.before = this; // where it was written: an earlier run, if a call has waited since then
    this.depth = thing.scope.depth;
    this.view = null; // while it is seen
    this.known = null; // its text, once it is searched
  }

  // The call was written in an earlier run and continues in this one.
  continueWith(call, place) {
    this.before = { thing: this.thing, place: this.place };
    this.thing = call;
    this.place = place;
  }

  get isOpen() {
    const { thing } = this;
    return thing.kind === "call" ? thing.state === "writing" || thing.state === "running" : thing.phase === "open";
  }

  get isFailed() {
    const { thing } = this;
    return thing.kind === "call" ? thing.isError : thing.retracted;
  }

  get begins() {
    return this.bars(0)[0]?.[1] ?? 0;
  }

  // Its bars: kind, position and length, of those that have begun.
  bars(now) {
    const { thing, place, before } = this, { from, to } = thing, bars = [];
    const bar = (kind, begin, end, at = place) => begin !== null && bars.push([kind, Math.max(0, at(begin)), Math.max(0, end - begin)]);
    if (thing.kind === "block") bar("written", from, to ?? now);
    else if (thing.kind === "call") {
      const written = before.thing;
      bar("written", written.writtenFrom, written.writtenTo ?? (written.phase === "open" ? now : written.writtenFrom), before.place);
      bar("ran", from, to ?? (thing.state === "running" ? now : from));
    } else if (thing.type === "turn") bar("whole", from, to ?? now);
    else {
      bar("wait", from, thing.first ?? to ?? now);
      bar("whole", thing.first, to ?? now);
    }
    return bars;
  }

  get name() {
    const { thing } = this;
    if (thing.kind === "call") return thing.name || words.call.tool;
    if (thing.kind === "block") return words.lanes[thing.type] ?? thing.label ?? thing.type;
    if (thing.type === "turn") return fill(words.trace.turn, { n: thing.number });
    return thing.number > 1 ? fill(words.trace.attempt, { n: thing.number }) : words.trace.response;
  }

  // Arguments after the name of a tool: `(place=Lisbon, days=2)`.
  get arguments() {
    const { input } = this.thing;
    if (input === undefined) return "";
    const short = (value) => brief(typeof value === "string" ? value : JSON.stringify(value), ARGUMENTS);
    if (typeof input !== "object" || input === null || Array.isArray(input)) return `(${short(input)})`;
    return `(${clip(Object.entries(input).map(([name, value]) => `${name}=${short(value)}`).join(", "), ARGUMENTS)})`;
  }

  // What is written beside it.
  get words() {
    const { thing } = this;
    return thing.kind === "span" ? spanWords(thing) : laneWords(thing);
  }

  // In lower case, with all arguments.
  get text() {
    const { input } = this.thing;
    return (this.known ??= `${this.name} ${input === undefined ? "" : `${this.arguments} ${JSON.stringify(input)}`} ${this.words}`.toLowerCase());
  }
}

// A pause between two runs: a row of no thing.
class Break {
  constructor(pause) {
    Object.assign(this, { pause, thing: null, depth: 0, view: null, text: "", begins: pause.at });
  }

  bars() {
    return [];
  }
}

class BreakView {
  constructor(row) {
    const { seconds: pause, reason } = row.pause, text = fill(reason ? words.lanes.pausedWhy : words.lanes.paused, { seconds: seconds(pause), reason });
    this.row = row;
    this.node = el("li", { class: "lane-break", text, title: text });
  }

  update() {}
}

// A row of a turn or an attempt.
class SpanView {
  constructor(row, open) {
    const { type, scope } = row.thing;
    this.row = row;
    this.name = el("span", { class: "lane-name" });
    this.text = el("span", { class: "lane-text" });
    this.bars = { wait: el("span", { class: "bar wait" }), whole: el("span", { class: "bar whole" }) };
    this.track = el("span", { class: "track", "aria-hidden": "true" }, ...Object.values(this.bars));
    this.node = el("li", { class: `row span ${type}`, "data-depth": scope.depth }, el("button", { type: "button", class: "lane-label", onclick: () => open(row) }, this.name), this.track, this.text);
    this.node.style.setProperty("--depth", Math.min(scope.depth, 4) + (type === "turn" ? 0 : 1));
    this.marks = 0;
  }

  update(now) {
    const { row } = this, { thing } = row, { marks } = thing;
    setText(this.name, row.name);
    setText(this.text, row.words);
    setData(this.node, "state", thing.retracted ? "retracted" : thing.phase);
    for (; this.marks < Math.min(marks.length, 50); this.marks += 1) this.track.append(this.mark(marks[this.marks]));
    this.stretch(now);
  }

  mark(note) {
    const node = el("span", { class: `mark ${note.tone}` });
    node.style.setProperty("--from", this.row.place(note.time).toFixed(3));
    return node;
  }

  stretch(now) {
    placeBars(this.bars, this.row.bars(now));
  }
}

// How long it took, if that is seen.
const tookOf = ({ from, to }) => (from !== null && to !== null && to - from >= 0.05 ? seconds(to - from) : "");

function spanWords(thing) {
  if (thing.retracted) return fill(words.trace.retracted, { reason: thing.reason });
  if (thing.type === "turn") return thing.to === null ? "" : seconds(thing.to - thing.from);
  const parts = [tookOf(thing)];
  if (thing.first !== null) parts.push(fill(words.trace.first, { seconds: precise(thing.first - thing.from) }));
  if (thing.usage?.output_tokens) parts.push(plural(words.charts.written, thing.usage.output_tokens));
  parts.push(thing.model); // the same on most rows: what is cut first
  return parts.filter(Boolean).join(" · ");
}

function placeBars(nodes, bars) {
  for (const [kind, node] of Object.entries(nodes)) show(node, bars.some((bar) => bar[0] === kind));
  for (const [kind, from, length] of bars) {
    nodes[kind].style.setProperty("--from", from.toFixed(3));
    nodes[kind].style.setProperty("--for", length.toFixed(3));
  }
}

class LaneView {
  constructor(row, open) {
    const { kind, type } = row.thing, isCall = kind === "call";
    this.row = row;
    this.name = el("span", { class: "lane-name" });
    this.text = el("span", { class: "lane-text" });
    this.bars = { written: el("span", { class: "bar written" }), ...(isCall ? { ran: el("span", { class: "bar ran" }) } : {}) };
    this.arguments = isCall ? el("span", { class: "lane-arguments" }) : null;
    this.label = el("button", { type: "button", class: "lane-label", onclick: () => open(row) }, el("span", { class: "dot", "aria-hidden": "true" }), this.name, this.arguments);
    this.node = el("li", { class: `row lane ${type}`, "data-depth": row.depth }, this.label, el("span", { class: "track", "aria-hidden": "true" }, ...Object.values(this.bars)), this.text);
    this.node.style.setProperty("--depth", Math.min(row.depth, 4) + 1);
  }

  update(now) {
    const { row } = this, { thing } = row;
    setText(this.name, row.name);
    setText(this.text, row.words);
    if (this.arguments && thing.input !== undefined) {
      setText(this.arguments, row.arguments);
      this.label.title = `${this.name.textContent}${this.arguments.textContent}`;
    }
    setData(this.node, "state", thing.retracted ? "retracted" : thing.kind === "call" ? (thing.isError ? "failed" : thing.state) : thing.phase);
    this.node.classList.toggle("retracted", thing.retracted);
    this.stretch(now);
  }

  stretch(now) {
    placeBars(this.bars, this.row.bars(now));
  }
}

function laneWords(thing) {
  if (thing.retracted) return words.call.retracted;
  if (thing.kind !== "call") return plural(thing.phase === "aborted" ? words.lanes.charactersCut : words.lanes.characters, thing.size);
  if (thing.state === "writing") return clip(thing.pieces.slice(-12).join(""), 60);
  if (thing.state === "running" && thing.progress) return clip(thing.progress, 60);
  if (thing.state === "done" || thing.state === "failed") return [tookOf(thing), outcomeOf(thing, 60) || words.call[thing.state]].filter(Boolean).join(" · ");
  return `${callWord(thing)}${thing.input === undefined ? "" : ` · ${brief(thing.input, 40)}`}`;
}
