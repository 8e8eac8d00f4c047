// What is drawn, and when: records are folded once a frame, and only what they changed is drawn.

import { byId, setData, setText, show } from "./dom.js";
import { readable, statusWord } from "./format.js";
import { costOf, usageOf } from "./run_state.js";
import { forget, say, skipTo } from "./shell.js";

const HIDDEN = 500; // milliseconds between two pictures that nobody sees: a hidden page has no frames, and is kept up to date all the same
const JUST = 5; // seconds in which a run has just begun
const OVER = ["finished", "aborted"];

export class Renderer {
  constructor({ store, outbox }, selection, views) {
    this.store = store;
    this.outbox = outbox;
    this.selection = selection;
    this.views = views;
    this.prices = () => null; // those of a worker's model
    this.isDue = false;
    this.isListed = false;
    this.heard = "";
    this.isNews = false; // whether what comes is handlers, which is read aloud, and not what was said before anybody looked
  }

  schedule() {
    if (this.isDue) return;
    this.isDue = true;
    const draw = () => this.draw();
    if (document.hidden) setTimeout(draw, HIDDEN);
    else requestAnimationFrame(draw);
  }

  // The list of runs is another.
  list() {
    this.isListed = false;
    this.schedule();
  }

  // Another run is looked at, or none.
  open() {
    const { timeline, run, summary } = this.selection;
    forget();
    this.heard = "";
    this.isNews = false;
    this.views.conversation.open(run);
    this.views.controls.open();
    this.views.composer.open(this.selection.id);
    this.isNews = summary?.status === "running" && this.store.now() - summary.started < JUST;
    this.panels();
    if (run) run.changed.clear();
    setData(byId("conversation"), "run", timeline.run?.id ?? "");
    this.list();
  }

  // What stands beside the conversation tells of all runs of the timeline.
  panels() {
    const { timeline } = this.selection, now = this.store.now();
    for (const view of [this.views.lanes, this.views.charts, this.views.notes]) view.open(timeline, now);
  }

  draw() {
    this.isDue = false;
    const holed = this.store.apply();
    if (holed !== null) this.again(holed);
    if (this.selection.settle()) this.panels();
    const { run } = this.selection, now = this.store.now();
    if (run) {
      this.views.conversation.draw(run.changed);
      this.views.lanes.draw(run.changed, now);
      this.views.notes.draw();
      run.changed.clear();
      setData(byId("conversation"), "seq", String(run.seq));
      this.isNews ||= run.seq > 0;
    }
    this.frame(now);
    if (!this.isListed) this.views.runs.draw(this.store.list, this.selection.id);
    this.isListed = true;
  }

  // Records are missing, which no server of ours does: this run is read from the start.
  again(id) {
    const { selection } = this;
    this.store.forget(id);
    if (!selection.timeline.runs.some((run) => run.id === id)) return;
    selection.open(selection.id);
    this.open();
  }

  frame(now) {
    const { selection, views } = this, { id, run, summary, status } = selection;
    const prices = summary && this.prices(summary.worker);
    const cost = run === null ? null : prices ? costOf(prices, usageOf(run)) : summary?.cost ?? null;
    const pause = status === "paused" && !summary?.resumed_as ? summary?.pause ?? null : null;
    const isBlank = id === null || (status === "gone" && run.seq === 0);
    views.charts.draw(now, cost, prices);
    views.watchers.draw(status === "gone" ? null : summary, status);
    views.controls.draw(isBlank ? null : selection, cost, now, prices?.currency);
    views.approval.draw(id, pause);
    skipTo(pause !== null);
    views.composer.mode(pause ? "paused" : status === "running" || status === "new" ? "send" : OVER.includes(status) ? "next" : "start");
    views.welcome.draw(isBlank, status === "gone", this.store.list);
    this.queue(run);
    setData(byId("main"), "empty", String(isBlank));
    this.title(summary);
    this.tell(status, run);
  }

  // What was sent into the run waits here, or comes back because the run has ended.
  queue(run) {
    // Those before it may have been resumed before a renderer was drawn.
    const back = this.selection.timeline.runs.flatMap((one) => this.outbox.takeBack(one));
    if (back.length > 0) {
      this.views.composer.putBack(run.id, back.join("\n"));
      this.views.composer.tell("The run ended before the model read this. Send it again if it still holds.", "bad");
      say("The run ended before the model read your message. It is back in the message box.");
    }
    this.views.queue.draw(run === null ? [] : this.outbox.waiting(run));
  }

  title(summary) {
    const name = byId("title").textContent, waits = summary?.status === "paused" && !summary.resumed_as ? "Paused: " : "";
    const text = summary ? `${waits}${readable(summary.title)} · ${name}` : name;
    if (document.title !== text) document.title = text;
  }

  tell(status, run) {
    const { selection } = this;
    const words = status === "none" ? "" : `The run ${status === "aborted" && selection.cause === "error" ? "has failed" : `is ${statusWord(status, selection.cause)}`}. ${status === "paused" ? run.pause?.reason ?? "" : ""}`.trim();
    if (words === this.heard) return;
    if (this.heard !== "" && words !== "" && status !== "new") say(words);
    this.heard = words;
  }
}
