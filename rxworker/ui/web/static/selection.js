// Which run is looked at, with those that it went on from: they are watched, and stand on one axis of time.

import { Course } from "./course.js";

export class Selection {
  constructor(store, connection) {
    this.store = store;
    this.connection = connection;
    this.id = null;
    this.course = new Course();
    this.isBegun = false;
  }

  get run() {
    return this.course.run;
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
    const { store, connection } = this, before = this.course.runs;
    this.id = id;
    const [earlier, isCut] = id ? store.earlier(id) : [[], false];
    store.shown = new Set(id ? [...earlier, id] : []);
    this.course = new Course([...store.shown].map((one) => store.look(one)), isCut);
    this.isBegun = false;
    for (const run of before) if (!this.course.runs.includes(run)) connection.unwatch(run.id);
    for (const run of this.course.runs) if (!before.includes(run) && !store.over.has(run.id)) connection.watch(run.id, () => run.seq);
    for (const run of this.course.earlier) run.changed.clear();
  }

  // The list says by now which runs came before.
  get isAnother() {
    if (!this.store.summaries.has(this.id)) return false;
    const [ids, isCut] = this.store.earlier(this.id);
    return isCut !== this.course.isCut || ids.join() !== this.course.earlier.map((run) => run.id).join();
  }

  // Whether what stands before the run is another now: more has come of it, or the run itself has begun.
  settle() {
    const { course, run } = this;
    const changed = course.earlier.filter((one) => one.changed.size > 0);
    for (const one of changed) one.changed.clear();
    const isBegun = course.earlier.length > 0 && run.started !== null;
    if (changed.length === 0 && isBegun === this.isBegun) return false;
    this.isBegun = isBegun;
    course.update();
    course.inherit();
    return true;
  }
}
