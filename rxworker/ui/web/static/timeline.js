// A run together with the runs that it went on from, as one. Pure.
//
// A run that was paused and resumed is two runs of the server, one for people. A timeline puts them onto one axis of time, on which a
// pause takes no room: seconds at work. The last run is the one that is looked at; those before it have ended.
//
// The axis of time that lanes and charts share: how long it is, and where its marks stand. It grows in steps. Pure.
//
// Which run is looked at, with those that it went on from: they are watched, and stand on one axis of time.

import { seconds } from "./format.js";
import { lastCall, tookOf } from "./run_state.js";

export class Timeline {
  // `runs`: the oldest first. `isCut`: whether there were runs before them that the server does not know any more.
  constructor(runs = [], isCut = false) {
    this.runs = runs;
    this.isCut = isCut;
    this.update();
  }

  get run() {
    return this.runs[this.runs.length - 1] ?? null;
  }

  get earlier() {
    return this.runs.slice(0, -1);
  }

  get isRunning() {
    return this.run?.status === "running";
  }

  // Earlier runs may still be on their way: where the others begin then changes.
  update() {
    this.begins = [];
    let begins = 0;
    for (const run of this.runs) {
      this.begins.push(begins);
      if (run.started !== null) begins += run.last - run.started;
    }
  }

  // Where a moment of a run lies, in seconds from the beginning.
  place(run, time) {
    return this.begins[this.runs.indexOf(run)] + time - (run.started ?? time);
  }

  // How long it has been at work, at a moment of the last run.
  elapsed(now) {
    const { run } = this;
    if (run === null || run.started === null) return this.begins[this.begins.length - 1] ?? 0;
    return this.place(run, this.isRunning ? Math.max(now, run.last) : run.last);
  }

  // Where it was paused, and what came between.
  breaks() {
    const found = [];
    this.runs.forEach((run, n) => {
      const next = this.runs[n + 1];
      if (next && run.started !== null && next.started !== null) {
        const reason = run.pause?.reason || (run.pause ? `by ${run.pause.hook}` : "");
        found.push({ run: next, at: this.begins[n + 1], seconds: next.started - run.last, reason });
      }
    });
    return found;
  }

  // A resumed run begins with what was said before; how that came about only the earlier runs tell: how long things took, what hooks
  // decided of them, and the runs inside.
  inherit() {
    for (const run of this.earlier.reverse()) {
      for (const [item, twin] of this.pairs(run)) {
        if (twin.source !== "start") continue;
        if (item.kind === "block") twin.took ??= tookOf(item);
        else {
          twin.seconds ??= item.seconds;
          twin.inner ??= item.inner;
          twin.verdicts.unshift(...item.verdicts.filter((verdict) => !twin.verdicts.includes(verdict)));
        }
        twin.isHeir = true;
        this.run.changed.add(twin);
      }
    }
  }

  // What an earlier run's block or call is called in the conversation of the last one.
  twin(run, thing) {
    if (run === this.run) return thing;
    let outer = thing;
    while (outer.scope.parent) outer = outer.scope.parent;
    return this.pairs(run).get(outer) ?? null;
  }

  // A call is known by its id, a block by its place among those of its kind.
  pairs(run) {
    const found = new Map(), theirs = blocksOf(run), ours = blocksOf(this.run);
    for (const [type, blocks] of theirs) blocks.slice(0, ours.get(type)?.length ?? 0).forEach((block, n) => found.set(block, ours.get(type)[n]));
    for (const item of run.root.items) {
      const twin = item.kind === "call" ? lastCall(this.run.root, item.id) : null;
      if (twin) found.set(item, twin);
    }
    return found;
  }
}

function blocksOf(run) {
  const found = new Map();
  for (const item of run.root.items) {
    if (item.kind !== "block" || item.retracted || item.size === 0) continue;
    if (found.has(item.type)) found.get(item.type).push(item);
    else found.set(item.type, [item]);
  }
  return found;
}

// How long it may be, and into how many parts it is divided.
const SPANS = [
  [0.5, 5], [1, 5], [2, 4], [4, 4], [6, 3], [8, 4], [10, 5], [15, 3], [20, 4], [30, 3], [40, 4], [60, 4], [90, 3], [120, 4], [180, 3], [240, 4], [300, 5],
  [420, 7], [600, 5], [900, 3], [1200, 4], [1800, 3], [2400, 4], [3600, 4],
];

export function spanFor(elapsed) {
  return SPANS.find(([span]) => span >= elapsed) ?? [Math.ceil(elapsed / 3600) * 3600, 4];
}

export function marksOf([span, steps]) {
  return Array.from({ length: steps + 1 }, (_, n) => (span * n) / steps);
}

export const markText = (s) => seconds(s).replace(".0 s", " s").replace(" min 0 s", " min").replace(" h 0 min", " h");

export class Selection {
  constructor(store, connection) {
    this.store = store;
    this.connection = connection;
    this.id = null;
    this.timeline = new Timeline();
    this.isBegun = false;
  }

  get run() {
    return this.timeline.run;
  }

  get summary() {
    return this.id ? this.store.known(this.id) : null;
  }

  get status() {
    return this.id ? this.store.status(this.id) : "none";
  }

  // What sort of end it came to, where it was aborted.
  get cause() {
    return this.run?.cause || this.summary?.cause || "";
  }

  open(id) {
    const { store, connection } = this, before = this.timeline.runs;
    this.id = id;
    const [earlier, isCut] = id ? store.earlier(id) : [[], false];
    store.shown = new Set(id ? [...earlier, id] : []);
    this.timeline = new Timeline([...store.shown].map((one) => store.look(one)), isCut);
    this.isBegun = false;
    for (const run of before) if (!this.timeline.runs.includes(run)) connection.unwatch(run.id);
    for (const run of this.timeline.runs) if (!before.includes(run) && !store.over.has(run.id)) connection.watch(run.id, () => run.seq);
    for (const run of this.timeline.earlier) run.changed.clear();
  }

  // The list says by now which runs came before.
  get isAnother() {
    if (!this.store.summaries.has(this.id)) return false;
    const [ids, isCut] = this.store.earlier(this.id);
    return isCut !== this.timeline.isCut || ids.join() !== this.timeline.earlier.map((run) => run.id).join();
  }

  // Whether what stands before the run is another now: more has come of it, or the run itself has begun.
  settle() {
    const { timeline, run } = this;
    const changed = timeline.earlier.filter((one) => one.changed.size > 0);
    for (const one of changed) one.changed.clear();
    const isBegun = timeline.earlier.length > 0 && run.started !== null;
    if (changed.length === 0 && isBegun === this.isBegun) return false;
    this.isBegun = isBegun;
    timeline.update();
    timeline.inherit();
    return true;
  }
}
