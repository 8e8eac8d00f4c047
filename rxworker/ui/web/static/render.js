// The renderer: folds records once per frame, and draws only what they changed.

import { byId, Frames, setData, setText, show } from "./views/dom.js";
import { readable, statusWord } from "./model/format.js";
import { costIn, modelsOf, totalsOf } from "./model/numbers.js";
import { titleOf } from "./model/run_list.js";
import { isTapped } from "./model/workers.js";
import { announce, clearPending, skipTo } from "./views/shell.js";
import { fill, words } from "./model/language.js";
import { Timeline } from "./model/timeline.js";

const JUST = 5; // seconds in which a run has just begun
const REST = 300; // milliseconds between two counts of a running run
const OVER = ["finished", "aborted"];

export class Renderer {
  constructor({ store, outbox }, selection, travel, views, workers) {
    this.store = store;
    this.outbox = outbox;
    this.selection = selection;
    this.travel = travel;
    this.views = views;
    this.workers = workers;
    this.table = new Map(); // prices by the name of a model
    this.arrive = () => {}; // called after each frame
    this.frames = new Frames(() => this.draw());
    this.part = null; // [run, changed]: what is being drawn
    this.isListed = false;
    this.announced = "";
    this.isLive = false; // whether new text is live and is announced to screen readers
    this.figures = null; // tokens and cost of the run: one count for all views
  }

  schedule() {
    this.frames.schedule();
  }

  // What is being drawn is replaced; what has changed in it is drawn again.
  restart() {
    if (this.part !== null) {
      const [run, changed] = this.part;
      for (const item of changed) run.changed.add(item);
      this.part = null;
    }
    this.frames.restart();
  }

  // The list of runs has changed.
  list() {
    this.isListed = false;
    this.schedule();
  }

  // Another run, or none, is selected.
  open() {
    this.restart();
    const { timeline, run, summary } = this.selection;
    this.travel.leave();
    this.travel.update(performance.now());
    clearPending();
    this.announced = "";
    this.isLive = false;
    this.views.conversation.open(run);
    this.views.controls.open();
    this.views.composer.open(this.selection.id);
    this.isLive = summary?.status === "running" && this.store.now() - summary.started < JUST;
    this.panels();
    if (run) run.changed.clear();
    setData(byId("conversation"), "run", timeline.run?.id ?? "");
    this.list();
  }

  // The selected run continues other runs than before.
  renew() {
    this.restart();
    this.panels();
  }

  // The panels beside the conversation show all runs of the timeline.
  panels() {
    const { timeline } = this.travel.scene;
    this.views.inspector.close();
    for (const view of [this.views.lanes, this.views.notes]) view.open(timeline);
  }

  // Draws what has changed since the last time; see `Frames`.
  *draw() {
    yield* this.store.fold();
    if (this.store.holed !== null && this.again(this.store.holed)) return;
    const isSettled = this.selection.settle(), isOther = this.travel.update(performance.now());
    if (isOther) this.reopen();
    if (isOther || isSettled) this.panels();
    const { scene, past, now } = this.travel, { run } = scene, { conversation, lanes, inspector, notes } = this.views;
    // The run goes on while its past is shown; the present is drawn as a whole later.
    if (past) this.selection.run.changed.clear();
    const changed = run?.changed ?? new Set();
    if (run) {
      run.changed = new Set();
      this.part = [run, changed];
    }
    yield* conversation.draw(changed);
    const { summary } = this.selection;
    yield* lanes.draw(changed, now, summary && ["finished", "aborted"].includes(summary.status));
    if (run) {
      if (past) lanes.tick(now);
      inspector.draw(changed);
      notes.draw(changed);
      this.part = null;
      setData(byId("conversation"), "seq", String(run.seq));
      setData(byId("conversation"), "status", run.status);
      this.isLive ||= past === null && run.seq > 0;
    }
    this.frame(now);
    if (!this.isListed) this.views.runs.draw(this.store.list, this.selection.id);
    this.isListed = true;
    conversation.mark(this.store.list);
    this.arrive();
    if (this.travel.isPlaying) this.schedule();
  }

  // Another state of the run is shown: the past, or the present again.
  reopen() {
    const { scene, past } = this.travel;
    this.isLive = false;
    this.views.conversation.reopen(scene.run, past !== null);
    scene.run?.changed.clear();
    this.isLive = past === null;
  }

  // Records are missing, which should not happen: read this run again from the start. Whether another run is drawn now.
  again(id) {
    const { selection } = this;
    this.store.forget(id);
    if (selection.otherId === id) {
      selection.compare(null);
      selection.compare(id);
    }
    if (!selection.timeline.runs.some((run) => run.id === id)) return false;
    selection.open(selection.id);
    this.open();
    return true;
  }

  frame(now) {
    const { selection, travel, views } = this, { id, summary, status } = selection, { timeline, run } = travel.scene;
    this.count(summary, run, timeline);
    const { figures } = this, worker = this.workers.of(summary);
    const waits = summary?.resumed_as ? null : summary?.pause ?? null;
    // A run that goes on may have calls in its background that wait for decisions.
    const pause = status === "paused" || (status === "running" && waits?.pending.some((one) => one.needs_decision)) ? waits : null;
    const isBlank = id === null || (status === "gone" && run.seq === 0);
    for (const view of [views.usage, views.dashboards]) view.show(isBlank || status === "gone" || run.seq === 0 ? "" : id, summary?.conversation ?? "", travel.past ? now : null);
    views.watchers.draw(status === "gone" ? null : summary, status);
    views.controls.draw(isBlank ? null : { summary, status, cause: selection.cause, timeline, run }, figures, now);
    views.time.draw(isBlank, status);
    this.compare(isBlank);
    views.approval.draw(id, pause, worker);
    views.allowed.draw(summary?.conversation ?? null, summary?.allowed ?? []);
    skipTo(pause !== null);
    views.composer.mode((pause && status === "paused") || isTapped(summary) ? "paused" : status === "running" || status === "new" ? "send" : !OVER.includes(status) ? "start" : this.workers.lacking.has(summary?.conversation) ? "none" : "next");
    views.welcome.draw(isBlank, status === "gone", this.store.list);
    this.queue(selection.run);
    setData(byId("main"), "empty", String(isBlank));
    this.title(summary);
    this.announceStatus(status, selection.run);
  }

  // The prices of a model, or null; "" is the model of the selected run's worker.
  priceOf(model) {
    const worker = this.workers.of(this.selection.summary);
    return this.table.get(model || worker?.model) ?? null;
  }

  // The run beside the one that it is compared with.
  compare(isBlank) {
    const { store, selection, views } = this, { run, other } = selection;
    if (isBlank || other === null) return views.compare.close();
    other.changed.clear();
    const side = (one) => {
      const summary = store.known(one.id), { cost, currency } = this.figuresOf(summary, one, new Timeline([one]));
      return { run: one, summary, tape: store.tape(one.id), status: store.status(one.id), cost, currency };
    };
    views.compare.draw(side(run), side(other), store.now());
  }

  // Count the tokens and the cost of the run that is shown: while it runs, only a few times a second.
  count(summary, run, timeline) {
    const time = performance.now(), isSoon = run === this.counted && timeline.isRunning && this.travel.past === null && time < this.countedAt + REST;
    if (isSoon) return;
    Object.assign(this, { counted: run, countedAt: time, figures: this.figuresOf(summary, run, timeline) });
  }

  // The tokens of a run, the prices of its model, and what the run has cost, by the models of its attempts, as far as they are known.
  figuresOf(summary, run, timeline) {
    if (run === null) return { usage: {}, models: [], prices: null, cost: null, currency: undefined, isEstimate: false, unpriced: [] };
    const models = modelsOf(timeline, (model) => this.priceOf(model));
    // The list may not know yet that the run has ended: until then what it knows of the cost is that of a run without tokens.
    const isListed = !timeline.isRunning && !this.travel.past && summary && summary.status !== "running";
    const unpriced = isListed ? summary.unpriced ?? [] : models.filter((row) => row.cost === null && row.usage.output_tokens > 0).map((row) => row.model);
    const prices = this.priceOf("") ?? this.priceOf(models.find((row) => row.cost !== null)?.model ?? ""), currency = prices?.currency ?? (summary?.currency || this.currency);
    const cost = prices ? costIn(models, currency) : this.travel.past ? null : summary?.cost ?? null;
    return { ...totalsOf(run), models, prices, cost, currency, unpriced };
  }

  // Show the messages that wait to be read, or return them to the message box if the run has ended.
  queue(run) {
    // An earlier run may have been resumed before a frame was drawn.
    const back = this.selection.timeline.runs.flatMap((one) => this.outbox.takeUnread(one));
    if (back.length > 0) {
      this.views.composer.putBack(run.id, back.join("\n"));
      this.views.composer.showNote(words.queue.unread, "bad");
      announce(words.queue.unreadSpoken);
    }
    this.views.queue.draw(run === null ? [] : this.outbox.waiting(run));
  }

  title(summary) {
    const name = byId("title").textContent, isPaused = summary?.status === "paused" && !summary.resumed_as;
    const title = summary ? readable(isPaused ? fill(words.run.pausedTitle, { title: titleOf(summary) }) : titleOf(summary)) : "";
    const text = summary ? `${title} · ${name}` : name;
    if (document.title !== text) document.title = text;
  }

  announceStatus(status, run) {
    const { selection } = this;
    const failed = status === "aborted" && selection.cause === "error", reason = status === "paused" ? run.pause?.reason ?? "" : "";
    const sentence = failed ? words.run.hasFailed : fill(words.run.isNow, { status: statusWord(status, selection.cause) });
    const text = status === "none" ? "" : `${sentence} ${reason}`.trim();
    if (text === this.announced) return;
    if (this.announced !== "" && text !== "" && status !== "new") announce(text);
    this.announced = text;
  }
}
