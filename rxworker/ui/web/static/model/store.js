// The data of the page: the list of runs, and the folded runs. Pure.

import { Branches } from "./branches.js";
import { lose, newRun, step } from "./fold.js";

const KEPT = 6; // runs besides those that are shown
const FINE = 50_000; // maximum number of records that are received again one by one
const PART = 64; // records that are folded without a look at the clock
const EARLIER = 8; // maximum number of earlier runs that are shown

export class Store {
  constructor() {
    this.summaries = new Map();
    this.remembered = new Map(); // last known summaries of folded runs that the server may have dropped
    this.list = [];
    this.branches = new Branches([]);
    this.runs = new Map(); // folded runs, the last viewed one at the end
    this.tapes = new Map(); // the records that were folded, by run
    this.single = new Map(); // the records of runs that are received again one by one; null when that is over
    this.over = new Set(); // runs whose records are complete
    this.gone = new Set();
    this.shown = new Set(); // runs that must not be dropped
    this.queue = []; // [id, record], or [id, null] at the end of a run
    this.folded = 0; // how many of the queue are folded
    this.holed = null; // a run with missing records
    this.ahead = 0; // seconds by which the server's clock is ahead
  }

  setRuns(list) {
    for (const id of this.runs.keys()) if (this.summaries.has(id)) this.remembered.set(id, this.summaries.get(id));
    this.list = list;
    this.branches = new Branches(list);
    this.summaries = new Map(list.map((summary) => [summary.id, summary]));
  }

  // The folded run; drops the runs that were not viewed for the longest time.
  look(id) {
    const run = this.runs.get(id) ?? newRun(id);
    this.runs.delete(id);
    this.runs.set(id, run);
    for (const old of [...this.runs.keys()].filter((one) => one !== id && !this.shown.has(one)).slice(0, -KEPT)) this.forget(old);
    return run;
  }

  // The earlier runs that this run continues, oldest first; and whether there were others before.
  earlier(id) {
    const ids = [];
    let before = this.summaries.get(id)?.resumes;
    while (before && this.summaries.has(before) && ids.length < EARLIER) {
      ids.unshift(before);
      before = this.summaries.get(before).resumes;
    }
    return [ids, Boolean(before)];
  }

  // The last known summary of a run.
  known(id) {
    return this.summaries.get(id) ?? this.remembered.get(id) ?? null;
  }

  // The records of a run so far. Its texts are those of the folded run, so it adds little to it.
  tape(id) {
    if (!this.tapes.has(id)) this.tapes.set(id, []);
    return this.tapes.get(id);
  }

  // A run that has ended may have been received with merged records. Whether its records are to be received again one by one.
  split(id) {
    const isMerged = (record) => record.covers > 1 && record.event.type !== "gap", { seq } = this.runs.get(id);
    if (this.single.has(id) || !this.over.has(id) || !this.summaries.has(id) || seq > FINE || !this.tape(id).some(isMerged)) return false;
    this.single.set(id, []);
    return true;
  }

  // The number of the last record that was received one by one.
  splitUntil(id) {
    return this.single.get(id)?.at(-1)?.seq ?? 0;
  }

  // No further record of a run will be received.
  end(id) {
    this.over.add(id);
    this.queue.push([id, null]);
  }

  // If all records of a run were received one by one, these are its records from now on.
  exchange(id) {
    const records = this.single.get(id);
    if (!records) return;
    this.single.set(id, null);
    if (records.at(-1)?.seq === this.runs.get(id).seq) this.tapes.set(id, records);
  }

  // The run is not watched any more.
  leave(id) {
    if (this.single.get(id)) this.single.delete(id);
  }

  forget(id) {
    this.runs.delete(id);
    this.tapes.delete(id);
    this.single.delete(id);
    this.remembered.delete(id);
    this.over.delete(id);
    if (this.holed === id) this.holed = null;
  }

  add(id, records) {
    if (!this.runs.has(id)) return;
    for (const record of records) this.queue.push([id, record]);
    const last = records[records.length - 1];
    // A record cannot come from the future.
    if (last) this.ahead = Math.max(this.ahead, last.time - Date.now() / 1000);
  }

  // The number of the last record of a run that was received; it may be folded later.
  received(id) {
    return Math.max(this.runs.get(id)?.seq ?? 0, this.queue.findLast(([one, record]) => one === id && record)?.[1].seq ?? 0);
  }

  // Sets the time of the server's clock, which has a resolution of a second. A difference that small is ignored.
  set(clock) {
    const ahead = clock - Date.now() / 1000;
    this.ahead = Math.abs(ahead) < 2 ? 0 : ahead;
  }

  // Folds the queued records.
  apply() {
    const steps = this.fold();
    while (!steps.next().done);
  }

  // The same; yields where it may be interrupted.
  *fold() {
    while (this.folded < this.queue.length) {
      const [id, record] = this.queue[this.folded], run = this.runs.get(id);
      this.folded += 1;
      if (this.folded % PART === 0) yield;
      if (!run) continue;
      if (record === null) {
        this.exchange(id);
        continue;
      }
      const missing = run.missing;
      if (step(run, record)) this.tape(id).push(record);
      else this.single.get(id)?.push(record);
      if (run.missing > missing) this.holed = id;
    }
    this.queue.length = this.folded = 0;
  }

  // The server no longer knows the run.
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
