// A timeline: a run together with the earlier runs that it continues. Pure.
//
// A run that was paused and resumed is two runs on the server, and one for the user. A timeline places them on one time axis, on which a
// pause takes no room. The last run is the selected one; the others have ended.
//
// The time axis, shared by lanes and charts, grows in steps.
//
// The selection is the run that the user views; its whole timeline is watched.

import { seconds } from "./format.js";
import { fill, words } from "./language.js";
import { lastCall, tookOf } from "./run_state.js";

export class Timeline {
  // `runs`: oldest first. `isCut`: whether there were earlier runs that the server no longer knows.
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

  // Records of earlier runs may still arrive, which moves the starts of later runs.
  update() {
    this.begins = [];
    let begins = 0;
    for (const run of this.runs) {
      this.begins.push(begins);
      if (run.started !== null) begins += run.last - run.started;
    }
  }

  // The position of a time of a run, in seconds from the beginning.
  place(run, time) {
    return this.begins[this.runs.indexOf(run)] + time - (run.started ?? time);
  }

  // The total time at work, at a time of the last run.
  elapsed(now) {
    const { run } = this;
    if (run === null || run.started === null) return this.begins[this.begins.length - 1] ?? 0;
    return this.place(run, this.isRunning ? Math.max(now, run.last) : run.last);
  }

  // The pauses: position, duration and reason.
  breaks() {
    const found = [];
    this.runs.forEach((run, n) => {
      const next = this.runs[n + 1];
      if (next && run.started !== null && next.started !== null) {
        const reason = run.pause?.reason || (run.pause ? fill(words.notes.by, run.pause) : "");
        found.push({ run: next, at: this.begins[n + 1], seconds: next.started - run.last, reason });
      }
    });
    return found;
  }

  // A resumed run begins with the earlier messages; only the earlier runs contain durations, verdicts of hooks
  // and nested runs.
  inherit() {
    for (const run of this.earlier.reverse()) {
      for (const [item, twin] of this.pairs(run)) {
        if (twin.source !== "start") continue;
        if (item.kind === "block") twin.took ??= tookOf(item);
        else {
          twin.seconds ??= item.seconds;
          twin.inner ??= item.inner;
          if (item.from !== null) twin.hasRun = true;
          if (twin.hasRun && twin.state === "skipped") twin.state = item.state;
          twin.verdicts.unshift(...item.verdicts.filter((verdict) => !twin.verdicts.includes(verdict)));
        }
        twin.isHeir = true;
        this.run.changed.add(twin);
      }
    }
  }

  // The item of the last run that corresponds to an item of an earlier run.
  twin(run, thing) {
    if (run === this.run) return thing;
    let outer = thing;
    while (outer.scope.parent) outer = outer.scope.parent;
    return this.pairs(run).get(outer) ?? null;
  }

  // Calls correspond by id, blocks by their index among those of their type.
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

// The possible spans, each with its number of parts.
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

export const markText = (s) => seconds(s).replace(".0 s", " s").replace(" min 0 s", " min").replace(" h 0 min", " h").replace(" d 0 h", " d");

export class Selection {
  constructor(store, connection) {
    this.store = store;
    this.connection = connection;
    this.id = null;
    this.timeline = new Timeline();
    this.isBegun = false;
    this.otherId = null; // the run that it is compared with
  }

  get run() {
    return this.timeline.run;
  }

  // The run that it is compared with, or null.
  get other() {
    return this.otherId === null ? null : this.store.runs.get(this.otherId) ?? null;
  }

  get summary() {
    return this.id ? this.store.known(this.id) : null;
  }

  get status() {
    return this.id ? this.store.status(this.id) : "none";
  }

  // The cause of an early end.
  get cause() {
    return this.run?.cause || this.summary?.cause || "";
  }

  open(id) {
    const { store, connection } = this, before = this.timeline.runs;
    this.id = id;
    const [earlier, isCut] = id ? store.earlier(id) : [[], false];
    const shown = id ? [...earlier, id] : [];
    store.shown = new Set(this.otherId === null ? shown : [...shown, this.otherId]);
    this.timeline = new Timeline(shown.map((one) => store.look(one)), isCut);
    this.isBegun = false;
    for (const run of before) {
      if (store.shown.has(run.id)) continue;
      connection.unwatch(run.id);
      store.leave(run.id);
    }
    for (const run of this.timeline.runs) if (!before.includes(run) && !store.over.has(run.id)) connection.watch(run.id, () => run.seq);
    for (const run of this.timeline.earlier) run.changed.clear();
  }

  // A run that was put back or annotated has records after its end: receive them. The list may show it only when it has ended again.
  revive() {
    const { store, connection } = this;
    for (const run of this.timeline.runs) {
      if (!store.over.has(run.id) || !(store.summaries.get(run.id)?.seq > store.received(run.id))) continue;
      store.over.delete(run.id);
      connection.watch(run.id, () => store.received(run.id));
    }
  }

  // Compare it with another run, or with none. Whether that is a change.
  compare(id) {
    const { store, connection } = this, before = this.otherId;
    if (before === id) return false;
    this.otherId = id;
    const isShown = (one) => this.timeline.runs.some((run) => run.id === one);
    if (before !== null && !isShown(before)) {
      store.shown.delete(before);
      connection.unwatch(before);
      store.leave(before);
    }
    if (id === null) return true;
    store.shown.add(id);
    store.look(id);
    if (!isShown(id) && !store.over.has(id)) connection.watch(id, () => store.runs.get(id)?.seq ?? 0);
    return true;
  }

  // The past has as many moments as there were records: receive those that were merged one by one.
  refine() {
    const { store, connection } = this;
    for (const { id } of this.timeline.runs) if (store.split(id)) connection.watch(id, () => store.splitUntil(id), "reliable");
  }

  // Whether the list of runs now contains other earlier runs.
  get isAnother() {
    if (!this.store.summaries.has(this.id)) return false;
    const [ids, isCut] = this.store.earlier(this.id);
    return isCut !== this.timeline.isCut || ids.join() !== this.timeline.earlier.map((run) => run.id).join();
  }

  // Whether the timeline has changed: an earlier run has grown, or the run itself has begun.
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
