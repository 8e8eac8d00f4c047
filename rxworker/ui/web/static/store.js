// What the page knows: the runs of the server, and the runs that were looked at, folded. Pure.

import { lose, newRun, step } from "./fold.js";

const KEPT = 6; // runs besides those that are shown
const EARLIER = 8; // of the runs that one went on from, the last so many are shown

export class Store {
  constructor() {
    this.summaries = new Map();
    this.remembered = new Map(); // the last word of the server about runs that are folded, and that it may have forgotten
    this.list = [];
    this.runs = new Map(); // folded, the one looked at last at the end
    this.over = new Set(); // whose records are all here
    this.gone = new Set();
    this.shown = new Set(); // not to be let go
    this.queue = [];
    this.ahead = 0; // how many seconds the server's clock is ahead of ours
  }

  setRuns(list) {
    for (const id of this.runs.keys()) if (this.summaries.has(id)) this.remembered.set(id, this.summaries.get(id));
    this.list = list;
    this.summaries = new Map(list.map((summary) => [summary.id, summary]));
  }

  // The run as far as it was folded; with it, those that nobody looked at for longest are let go.
  look(id) {
    const run = this.runs.get(id) ?? newRun(id);
    this.runs.delete(id);
    this.runs.set(id, run);
    for (const old of [...this.runs.keys()].filter((one) => one !== id && !this.shown.has(one)).slice(0, -KEPT)) this.forget(old);
    return run;
  }

  // The runs that this one went on from, the oldest first; and whether there were others before.
  earlier(id) {
    const ids = [];
    let before = this.summaries.get(id)?.resumes;
    while (before && this.summaries.has(before) && ids.length < EARLIER) {
      ids.unshift(before);
      before = this.summaries.get(before).resumes;
    }
    return [ids, Boolean(before)];
  }

  // What the server says of a run, or has said.
  known(id) {
    return this.summaries.get(id) ?? this.remembered.get(id) ?? null;
  }

  forget(id) {
    this.runs.delete(id);
    this.remembered.delete(id);
    this.over.delete(id);
  }

  add(id, records) {
    if (!this.runs.has(id)) return;
    for (const record of records) this.queue.push([id, record]);
    const last = records[records.length - 1];
    // No record comes from the future.
    if (last) this.ahead = Math.max(this.ahead, last.time - Date.now() / 1000);
  }

  // What the server's clock says, to the second. A difference that small is none.
  set(clock) {
    const ahead = clock - Date.now() / 1000;
    this.ahead = Math.abs(ahead) < 2 ? 0 : ahead;
  }

  // Fold what has come; whether there was a hole that has to be asked for again.
  apply() {
    let holed = null;
    for (const [id, record] of this.queue) {
      const run = this.runs.get(id);
      if (!run) continue;
      const missing = run.missing;
      step(run, record);
      if (run.missing > missing) holed = id;
    }
    this.queue.length = 0;
    return holed;
  }

  // The server does not know the run any more.
  lose(id) {
    this.apply();
    this.gone.add(id);
    const run = this.runs.get(id);
    if (run) lose(run);
  }

  now() {
    return Date.now() / 1000 + this.ahead;
  }

  status(id) {
    const run = this.runs.get(id);
    if (this.gone.has(id)) return "gone";
    if (run && run.status !== "new") return run.status;
    return this.summaries.get(id)?.status ?? "new";
  }
}
