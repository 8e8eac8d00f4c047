// A run together with the runs that it went on from, as one. Pure.
//
// A run that was paused and resumed is two runs of the server, one for people. A course puts them onto one axis of time, on which a
// pause takes no room: seconds at work. The last run is the one that is looked at; those before it have ended.

import { tookOf } from "./items.js";
import { lastCall } from "./scope.js";

export class Course {
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
