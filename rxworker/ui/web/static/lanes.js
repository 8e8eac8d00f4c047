// The timeline: a lane for each block and each call of a course, on one axis of time.

import { marksOf, markText, spanFor } from "./axis.js";
import { Course } from "./course.js";
import { byId, el, setText, show } from "./dom.js";
import { End } from "./end.js";
import { seconds } from "./format.js";
import { LaneView } from "./lane_view.js";

const MOST = 150;

export class LanesView {
  constructor(reveal) {
    this.list = byId("lanes");
    this.end = new End(this.list);
    this.axis = byId("axis");
    this.note = byId("timeline-note");
    this.reveal = reveal; // (run, thing)
    this.open(new Course(), 0);
  }

  open(course, now) {
    this.course = course;
    this.views = new Map(); // lanes by what they show
    this.waiting = new Map(); // lanes of calls that waited when an earlier run was paused, by the call's id
    this.live = new Set();
    this.count = 0; // of all lanes, with those that are not shown any more
    this.next = course.runs.map(() => 0);
    this.span = 0;
    this.list.replaceChildren();
    this.end.follows = true;
    this.breaks = course.breaks();
    const breaks = new Map(this.breaks.map((one) => [one.run, one]));
    course.runs.forEach((run, n) => {
      if (breaks.has(run)) this.list.append(breakNode(breaks.get(run)));
      this.grow(n, now);
    });
    this.draw(new Set(), now);
  }

  draw(changed, now) {
    const { course } = this;
    if (course.run) this.grow(course.runs.length - 1, now);
    for (const thing of changed) this.refresh(this.views.get(thing), now);
    show(byId("no-lanes"), this.count === 0);
    show(this.axis, this.count > 0);
    if (!course.run) setText(this.note, "");
    else this.scale(course.elapsed(now));
    this.end.follow();
  }

  // Lanes of one of the runs that have come since the last time.
  grow(n, now) {
    const run = this.course.runs[n], { lanes } = run;
    if (this.next[n] === lanes.length) return;
    const skipped = Math.max(0, lanes.length - this.next[n] - MOST);
    this.next[n] += skipped;
    this.count += skipped;
    for (; this.next[n] < lanes.length; this.next[n] += 1) this.add(run, lanes[this.next[n]], now);
  }

  add(run, thing, now) {
    const place = (time) => this.course.place(run, time);
    let view = thing.kind === "call" && thing.writtenFrom === null ? this.waiting.get(thing.id) : undefined;
    if (view) {
      this.views.delete(view.thing);
      this.waiting.delete(thing.id);
      view.goOn(thing, place);
    } else {
      view = new LaneView(thing, place, (shown) => this.reveal(this.runOf(shown) ?? run, shown));
      this.insert(view, this.views.get(thing.scope.parent));
      this.count += 1;
    }
    this.views.set(thing, view);
    if (thing.state === "paused" && run !== this.course.run) this.waiting.set(thing.id, view);
    this.refresh(view, now);
    while (this.views.size > MOST) this.forget(...this.views.entries().next().value);
  }

  // A lane of a run inside stands behind the last one that is inside the same call.
  insert(view, parent) {
    if (!parent?.node.isConnected) return this.list.append(view.node);
    let before = parent.node;
    while (Number(before.nextElementSibling?.dataset.depth ?? 0) > parent.depth) before = before.nextElementSibling;
    before.after(view.node);
  }

  runOf(thing) {
    let scope = thing.scope;
    while (scope.parent) scope = scope.parent.scope;
    return this.course.runs.find((run) => run.root === scope);
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

  // Time goes on although nothing is said.
  tick(now) {
    if (!this.course.isRunning) return;
    for (const view of this.live) view.stretch(now);
    this.scale(this.course.elapsed(now));
  }

  scale(elapsed) {
    const cut = this.course.isCut ? "what came before is not kept any more · " : "";
    const last = this.count > this.views.size ? `the last ${this.views.size} of ${this.count} · ` : "";
    setText(this.note, `${cut}${last}${seconds(elapsed)}`);
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
  const text = `Paused for ${seconds(pause)}${reason ? `: ${reason}` : ""}`;
  return el("li", { class: "lane-break", text });
}
