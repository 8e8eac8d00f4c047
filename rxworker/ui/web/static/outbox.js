// Messages that were sent into a run and that its model has not read yet.
//
// A message is delivered when the run's records add it to the conversation (`message_add` with the source "send"). The same text may be
// sent several times, so each entry knows how many messages with its text there are once it is among them. A run that ends before that
// gives its messages back.

import { recall, remember } from "./storage.js";

const RUNNING = ["new", "running"];

export class Outbox {
  constructor() {
    this.runs = new Map(); // entries by the run's id: { text, nth, accepted }
  }

  // Before the request is made: the record may come before the answer.
  add(run, text) {
    const entries = this.entries(run.id);
    const nth = delivered(run, text) + entries.filter((one) => one.text === text).length + 1;
    const entry = { text, nth, accepted: false };
    entries.push(entry);
    this.keep(run.id);
    return entry;
  }

  // The server has taken it.
  accept(id, entry) {
    entry.accepted = true;
    this.keep(id);
  }

  // The server has refused it.
  drop(id, entry) {
    this.runs.set(id, this.entries(id).filter((one) => one !== entry));
    this.keep(id);
  }

  // What the model of a run has not read yet.
  waiting(run) {
    const entries = this.entries(run.id);
    if (entries.length === 0) return entries;
    const left = entries.filter((one) => delivered(run, one.text) < one.nth);
    if (left.length < entries.length) {
      this.runs.set(run.id, left);
      this.keep(run.id);
    }
    return left;
  }

  // The texts of a run that has ended and that nobody reads any more; they are given back once.
  takeBack(run) {
    const waiting = this.waiting(run);
    if (RUNNING.includes(run.status)) return [];
    const back = waiting.filter((one) => one.accepted);
    if (back.length === 0) return [];
    this.runs.set(run.id, waiting.filter((one) => !one.accepted));
    this.keep(run.id);
    return back.map((one) => one.text);
  }

  // Of an earlier load of the page, it is not known whether the server has answered: it is taken to have.
  entries(id) {
    if (!this.runs.has(id)) this.runs.set(id, (recall(`outbox ${id}`) ?? []).map((one) => ({ ...one, accepted: true })));
    return this.runs.get(id);
  }

  keep(id) {
    remember(`outbox ${id}`, this.entries(id));
  }
}

function delivered(run, text) {
  return run.root.items.reduce((sum, item) => sum + (item.kind === "message" && item.source === "send" && item.text === text), 0);
}
