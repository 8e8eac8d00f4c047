// Time travel: a timeline as it was at one of its records. Pure.
//
// Theory of operation. A moment is a record of one of the runs of a timeline; moments are numbered from 0. Each has a position: the seconds at
// work until then, with long waits shortened. Positions are the axis of the slider and the clock of playing, so that a playing slider moves
// at a constant speed. `Past` folds the records up to a moment: forwards it takes the records that follow, backwards it begins again.
//
// At the last moment there is no past: what is shown is the run itself, which grows while its past is shown.

import { newRun, step } from "./fold.js";
import { Timeline } from "./timeline.js";

const MAX = 5; // seconds of a wait that take room and are played
const LEAST = 1e-6; // seconds between two records of the same time: each has a position
const JUMP = 400; // after this many records, drawing everything again costs less than drawing what has changed

export class Moments {
  constructor() {
    this.take([]);
  }

  // `tapes`: the records of each run, oldest run first. Whether they are others than before: then the moments have other numbers. The last tape may
  // grow.
  take(tapes) {
    const isSame = (tape, n) => tape === this.tapes[n] && (n === tapes.length - 1 || tape.length === this.taken[n]);
    const isOther = tapes.length !== this.tapes?.length || !tapes.every(isSame);
    if (isOther) Object.assign(this, { tapes, taken: tapes.map(() => 0), positions: [] });
    tapes.forEach((tape, n) => {
      for (; this.taken[n] < tape.length; this.taken[n] += 1) this.positions.push(this.after(tape, this.taken[n]));
    });
    return isOther;
  }

  // The position of a record that follows the last moment. The pause before a resumed run takes no room.
  after(tape, n) {
    const { length } = this.positions;
    if (length === 0) return 0;
    const wait = n === 0 || tape[n].event.type === "fork" ? 0 : tape[n].time - tape[n - 1].time;
    return this.positions[length - 1] + Math.min(MAX, Math.max(LEAST, wait));
  }

  get last() {
    return this.positions.length - 1;
  }

  get end() {
    return this.positions[this.last] ?? 0;
  }

  // The last moment that is not after a position.
  at(position) {
    let low = 0, high = this.last;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.positions[middle] <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // The run of a moment and the place of its record on the tape, each as a number from 0.
  find(moment) {
    let n = 0, left = moment;
    while (n < this.tapes.length - 1 && left >= this.taken[n]) left -= this.taken[n++];
    return [n, left];
  }

  // The first moment of a run.
  first(n) {
    return this.taken.slice(0, n).reduce((sum, taken) => sum + taken, 0);
  }

  // The last moment of a run that is not after a time or a record, or its first; and the position of the time.
  near(n, time, seq = Infinity) {
    const begins = this.first(n), tape = this.tapes[n];
    let place = 0;
    while (place + 1 < this.taken[n] && tape[place + 1].time <= time && tape[place + 1].seq <= seq) place += 1;
    const moment = begins + place, from = this.positions[moment], next = tape[place + 1];
    const part = next?.time > time ? (time - tape[place].time) / (next.time - tape[place].time) : 0;
    return [moment, from + (part > 0 ? part * (this.positions[moment + 1] - from) : 0)];
  }

  // The original time at a position, which is at or after a moment.
  time(moment, position) {
    const [n, place] = this.find(moment), record = this.tapes[n][place], next = this.tapes[n][place + 1];
    if (!next) return record.time;
    const from = this.positions[moment], part = (position - from) / (this.positions[moment + 1] - from);
    return record.time + Math.min(1, Math.max(0, part)) * Math.max(0, next.time - record.time);
  }
}

export class Past {
  constructor(moments, timeline) {
    this.moments = moments;
    this.present = timeline;
    this.n = -1;
    this.folded = 0;
  }

  get run() {
    return this.timeline.run;
  }

  // Folds the records up to a moment. Whether everything has to be drawn again, not only what changed.
  go(moment) {
    const [n, place] = this.moments.find(moment), tape = this.moments.tapes[n];
    const isOther = n !== this.n || place < this.folded - 1, isFar = place - this.folded >= JUMP;
    if (isOther) Object.assign(this, { n, folded: 0, timeline: this.begin(n) });
    const { run } = this;
    for (; this.folded <= place; this.folded += 1) step(run, tape[this.folded]);
    if (isOther) {
      this.timeline.update();
      this.timeline.inherit();
    }
    return isOther || isFar;
  }

  begin(n) {
    const { runs, isCut } = this.present;
    return new Timeline([...runs.slice(0, n), newRun(runs[n].id)], isCut);
  }
}

export class Travel {
  constructor(store, selection) {
    this.store = store;
    this.selection = selection;
    this.moments = new Moments();
    this.speed = 1;
    this.past = null;
    this.isOther = false; // whether the present has to be drawn again
    this.wanted = null; // { id, seq }: the record to show as soon as it has been received
    this.leave();
  }

  // Back to the present.
  leave() {
    this.wanted = null;
    this.isOther ||= this.past !== null;
    this.past = null;
    this.moment = null; // the moment that is shown, or null for the present
    this.position = 0;
    this.clock = null; // when the position was last moved, in milliseconds, or null if it does not play
  }

  get isPlaying() {
    return this.clock !== null;
  }

  // The original time that is shown.
  get now() {
    return this.past ? this.moments.time(this.moment, this.position) : this.store.now();
  }

  // Show a run as it was at a record.
  visit(id, seq) {
    this.leave();
    this.wanted = { id, seq };
  }

  // Goes to the wanted record, or to the one before it until the records are received one by one.
  reach() {
    const { store, moments, wanted } = this, { runs } = this.selection.timeline, n = runs.findIndex((run) => run.id === wanted.id);
    if (n === -1) return this.leave();
    const tape = moments.tapes[n], isWhole = store.over.has(wanted.id);
    if (tape.length === 0 || (tape.at(-1).seq < wanted.seq && !isWhole)) return;
    const place = Math.max(0, tape.findLastIndex((record) => record.seq <= wanted.seq)), moment = moments.first(n) + place;
    this.go(moment, moments.positions[moment]);
    if (tape[place].seq === wanted.seq || store.single.get(wanted.id) === null) this.wanted = null;
  }

  // What is shown: its `timeline`, and the `run` at the end of it.
  get scene() {
    return this.past ?? this.selection;
  }

  // The run whose past is shown, and the number of the record.
  get place() {
    const { run } = this.scene;
    return { id: run?.id ?? null, seq: run?.seq ?? 0 };
  }

  // The run, as a number from 0, the time and the record that are shown: several records may have one time. After the time of that record there may be others,
  // once they are received one by one.
  get shown() {
    const { moments } = this, [n, place] = moments.find(this.moment), time = moments.time(this.moment, this.position), record = moments.tapes[n][place];
    return [n, time, time > record.time ? Infinity : record.seq];
  }

  seek(position) {
    this.wanted = null;
    const { moments } = this;
    this.go(position >= moments.end ? moments.last : moments.at(position), Math.max(0, position));
  }

  // The seconds at work until the present.
  get elapsed() {
    return this.selection.timeline.elapsed(this.store.now());
  }

  // Goes to a time on the axis of the trace: seconds at work.
  seekTime(at) {
    this.wanted = null;
    const { runs, begins } = this.selection.timeline, n = Math.max(0, begins.findLastIndex((begin) => begin <= at));
    let time = runs[n].started + at - begins[n];
    for (const fork of runs[n].forks.toReversed()) if (time < fork.at) time -= fork.by; // as the record has it
    this.go(...this.moments.near(n, time));
  }

  // Goes to the last record until a time of the clock.
  seekClock(time) {
    this.wanted = this.clock = null;
    const { runs } = this.selection.timeline, n = Math.max(0, runs.findLastIndex((run) => run.started !== null && run.started <= time));
    this.go(...this.moments.near(n, time + LEAST)); // the times of points are rounded to microseconds
  }

  step(by) {
    this.wanted = null;
    const moment = Math.max(0, (this.moment ?? this.moments.last) + by);
    this.go(moment, this.moments.positions[moment]);
  }

  go(moment, position) {
    if (moment >= this.moments.last) this.leave();
    else Object.assign(this, { moment, position });
  }

  // The moments have other numbers: there are more of them, or there are some before them.
  resume(n, time, seq) {
    const { moments, clock } = this, [moment, position] = moments.near(n, time, seq);
    if (this.past) this.past = new Past(moments, this.selection.timeline);
    this.go(moment, position);
    if (this.moment !== null) this.clock = clock;
  }

  play(time) {
    this.wanted = null;
    if (this.moment === null) this.go(0, 0);
    this.clock = this.moment === null ? null : time;
  }

  stop() {
    this.clock = null;
  }

  // The next frame: takes new records, and moves on. Whether another scene is shown, so that everything has to be drawn again.
  update(time) {
    const { store, moments, selection } = this, { timeline } = selection;
    const shown = this.moment === null ? null : this.shown;
    const isMoved = moments.take(timeline.runs.map((run) => store.tape(run.id)));
    if (this.past && this.past.present !== timeline) this.leave();
    else if (shown && isMoved) this.resume(...shown);
    if (this.wanted) this.reach();
    if (this.isPlaying) {
      const position = this.position + ((time - this.clock) / 1000) * this.speed;
      this.clock = time;
      this.seek(position);
    }
    const isFirst = this.moment !== null && this.past === null;
    if (isFirst) {
      this.past = new Past(moments, timeline);
      selection.refine();
    }
    const isOther = this.moment !== null ? this.past.go(this.moment) : this.isOther;
    this.isOther = false;
    return isOther || isFirst;
  }
}
