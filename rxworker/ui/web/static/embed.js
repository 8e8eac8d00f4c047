// <rx-run src="…/api/runs/RUN" view="conversation|trace" at="…">: a run in a page of one's own, as it happens or as it was, with the views of the server's page.
//
// Theory of operation. An element that is in a document shows its run with data and a connection of its own; see `Themed`. A run that was paused and resumed is
// shown together with the run that continues it. When a run is over, nothing more is received, and what is shown stays. A moment of the past is folded from
// the records that were received, one by one; see `Travel`.

import { el, Frames, setText, show } from "./views/dom.js";
import { ConversationView } from "./views/conversation.js";
import { define, sheetsOf, Themed } from "./views/host.js";
import { Inspector } from "./views/inspector.js";
import { LanesView } from "./views/lanes.js";
import { ApiError, Connection, isFinal, runAt, verbsAt } from "./net/server.js";
import { connectTo, lookAtRun } from "./net/shared.js";
import { fill, locale, words } from "./model/language.js";
import { readSource, writeLink } from "./model/link.js";
import { Store } from "./model/store.js";
import { Selection } from "./model/timeline.js";
import { Travel } from "./model/travel.js";

const SHEETS = ["theme", "style", "talk", "markdown", "call", "side"];
const TICK = 200, LATER = 500; // milliseconds
const OVER = ["finished", "aborted"];

const sheets = await sheetsOf(SHEETS);

function conversation(root, shown) {
  const pane = el("div", { class: "conversation", tabindex: "0", role: "log", "aria-live": "off", "aria-labelledby": "talk-title" });
  const stream = el("div", { class: "stream" }, el("h2", { id: "talk-title", class: "hidden", text: words.talk.title }), pane, el("button", { class: "latest", type: "button", hidden: true, text: words.talk.latest }));
  root.append(stream);
  const view = new ConversationView(stream, null, null, (run, item) => new URL(writeLink({ run, item }), shown.source.server).href);
  return { open: ({ run }) => view.open(run), reopen: ({ run }, isPast) => view.reopen(run, isPast), settle() {}, draw: (changed) => view.draw(changed), tick() {} };
}

function trace(root, shown) {
  const button = (text, props) => el("button", { type: "button", text, ...props }), { trace: names } = words;
  const zoom = el("div", { class: "zoom", role: "group", "aria-label": names.zoom },
    button("−", { "aria-label": names.out, disabled: true }), button(names.fit, { disabled: true }), button("+", { "aria-label": names.in }));
  const line = el("p", { class: "trace-line", "aria-hidden": "true", hidden: true }, el("span"));
  const node = el("section", { class: "inspector", "aria-labelledby": "inspector-title", tabindex: "-1", hidden: true });
  const panel = el("section", { class: "panel timeline", "aria-label": words.lanes.title },
    el("div", { class: "panel-head" }, el("h2", { text: words.lanes.title }), el("p"), zoom),
    el("div", { class: "axis", "aria-hidden": "true" }), el("div", { class: "trace" }, el("ol", { class: "lanes", tabindex: "-1" }), line), node, el("p", { class: "empty", text: words.lanes.none }));
  root.append(panel);
  const { store } = shown, inspector = new Inspector(node, (id) => store.tape(id), () => null, null);
  const lanes = new LanesView(panel, () => {}, (run, thing) => inspector.open(shown.travel.scene.timeline, run, thing));
  panel.addEventListener("keydown", (event) => event.key === "Escape" && inspector.close(true));
  const open = (timeline) => {
    inspector.close();
    lanes.open(timeline);
  };
  const draw = function* (changed, now) {
    yield* lanes.draw(changed, now);
    inspector.draw(changed);
  };
  return { open, reopen: open, settle: open, draw, tick: (now) => lanes.tick(now) };
}

const VIEWS = { conversation, trace };

// What an element shows, until it is closed.
class Shown {
  constructor(element, source, at, makeView) {
    this.element = element;
    this.source = source; // { server, run, seq }; without a run, there is none yet
    this.at = at; // the moment to show, in seconds since the epoch, or null
    this.isFine = at !== null || Boolean(source?.seq); // whether records come one by one: each is a moment of the past
    this.reach = element.reach;
    this.store = new Store();
    this.connection = new Connection(this, { makeSocket: () => connectTo(source.server, this.reach), name: "rx-run", delivery: this.isFine ? "reliable" : "coalesce" });
    this.selection = new Selection(this.store, this.connection);
    this.travel = new Travel(this.store, this.selection);
    this.frames = new Frames(() => this.draw());
    this.note = el("p", { class: "banner", part: "banner", role: "status", hidden: true });
    this.root = el("div", { class: "embed", lang: locale }, this.note);
    this.view = makeView(this.root, this);
    this.isClosed = false;
    this.isResting = false;
    this.isListed = false; // whether the runs of the server are known
    this.problem = ""; // the code of the error that is shown
    this.status = "new";
    this.asked = null; // the run whose question was reported
    this.received = new Map(); // the number of the last record that was reported, by run
    this.ending = new AbortController();
    this.timer = setInterval(() => document.hidden || this.selection.status !== "running" || this.travel.past || this.view.tick(this.store.now()), TICK);
    const { signal } = this.ending, hurry = () => document.hidden || this.connection.hurry();
    addEventListener("online", hurry, { signal });
    addEventListener("offline", () => this.connection.drop(), { signal });
    document.addEventListener("visibilitychange", hurry, { signal });
  }

  schedule() {
    this.frames.schedule();
  }

  async begin() {
    this.open(this.source.run);
    if (await this.check()) this.connection.open();
  }

  close() {
    this.isClosed = true;
    this.rest();
  }

  // Nothing more is received.
  rest() {
    this.isResting = true;
    this.ending.abort();
    clearInterval(this.timer);
    this.connection.close();
  }

  // Show another moment, or the present. Whether that is possible with the records that were received.
  move(at) {
    if (at !== null && !this.isFine) return false;
    this.at = at;
    if (at === null) this.travel.leave();
    this.schedule();
    return true;
  }

  open(id) {
    const { selection } = this;
    this.frames.restart();
    selection.open(id);
    this.travel.leave();
    if (this.at === null && this.source.seq) this.travel.visit(this.source.run, this.source.seq);
    this.view.open(selection.timeline);
    selection.run.changed.clear();
    this.element.setEmpty(selection.run.seq === 0);
  }

  // Whether the server may show the run, now or later. A browser does not report why a socket was refused.
  async check() {
    const { server, run } = this.source;
    try {
      const [, clock] = await lookAtRun(server, run, this.reach);
      this.store.set(clock);
    } catch (problem) {
      if (this.isResting) return false;
      const { status, message } = problem, isOver = isFinal(problem), { embed } = words;
      if (isOver) this.connection.close();
      if (status === 401) this.fail("login", embed.login);
      else if (status === 404) this.fail("unknown", embed.unknown);
      else if (isOver) this.fail("refused", fill(embed.refused, { message }));
      else if (this.problem === "") this.fail("unreachable", embed.unreachable);
      return !isOver;
    }
    return !this.isResting;
  }

  fail(code, message) {
    setText(this.note, message);
    show(this.note, true);
    this.element.setEmpty(false);
    if (code === this.problem) return;
    this.problem = code;
    this.element.report("error", { code, message });
  }

  *draw() {
    if (this.isClosed) return;
    const { store, selection, view } = this;
    yield* store.fold();
    if (store.holed !== null) {
      store.forget(store.holed);
      return this.open(selection.id);
    }
    const isSettled = selection.settle(), isOther = this.travelTo(), { scene, past, now } = this.travel, { run, timeline } = scene, { changed } = run;
    if (past) selection.run.changed.clear();
    if (isOther) {
      view.reopen(timeline, past !== null);
      run.changed.clear();
    } else if (isSettled) view.settle(timeline);
    run.changed = new Set();
    if (run.seq > 0) this.element.setEmpty(false);
    yield* view.draw(changed, now);
    if (past) view.tick(now);
    if (this.isClosed) return;
    this.report(selection);
    const isOver = OVER.includes(selection.status) && selection.timeline.runs.every(({ id }) => store.over.has(id));
    if (this.isListed && isOver) this.rest();
  }

  // Go to the moment, which is in the past as soon as a later record has arrived. Whether everything has to be drawn again.
  travelTo() {
    const { at, travel, selection: { timeline } } = this, isOther = travel.update(performance.now());
    if (at === null || travel.moments.last < 0) return isOther;
    const n = Math.max(0, timeline.runs.findLastIndex(({ started }) => started !== null && started <= at));
    travel.go(...travel.moments.near(n, at));
    return travel.update(performance.now()) || isOther;
  }

  report({ id, status, run, summary }) {
    if (status === "paused" && this.isListed && !summary?.resumed_as && id !== this.asked && run.pause) {
      this.asked = id;
      this.element.report("question", { run: id, pause: run.pause });
    }
    if (status === this.status) return;
    this.status = status;
    this.element.report("status", { run: id, status });
  }

  // Messages of the connection.

  hello() {}

  runs(list) {
    const { store, selection } = this;
    let { id } = selection;
    store.setRuns(list);
    this.isListed = true;
    for (let next; (next = store.summaries.get(id)?.resumed_as); ) id = next;
    if (id !== selection.id || selection.isAnother) this.open(id);
    this.schedule();
  }

  records(id, list) {
    this.store.add(id, list);
    for (const record of list) {
      if (record.seq <= (this.received.get(id) ?? 0)) continue; // it is received again
      this.received.set(id, record.seq);
      this.element.report("record", record);
    }
    this.schedule();
  }

  end(id) {
    this.store.end(id);
    this.schedule();
  }

  gone(id) {
    this.store.lose(id);
    if (id === this.selection.id) {
      this.connection.close();
      this.fail("gone", words.embed.gone);
    }
    this.schedule();
  }

  error({ code, run, message }) {
    // The watcher was too far behind: attach again at the same position.
    if (code === "detached" && run) setTimeout(() => this.isResting || this.connection.again(run), LATER);
    else {
      this.connection.close();
      this.fail("refused", fill(words.embed.refused, { message }));
    }
  }

  state(word) {
    if (word === "open") {
      this.problem = "";
      show(this.note, false);
    } else {
      this.frames.finish(); // what has arrived may be the end of the run
      if (this.isResting) return;
      if (this.problem === "") this.fail("lost", words.link.lostBanner);
      this.check();
    }
  }
}

class RunElement extends Themed {
  static observedAttributes = ["src", "run", "view", "theme", "at", "token"];

  #shown = null;

  constructor() {
    super(sheets);
  }

  begin() {
    const { src, run } = this, source = run ? { server: serverAt(src), run, seq: null } : readSource(src ?? "", document.baseURI);
    this.#open(source ?? (this.hasEmpty ? { server: serverAt(src), run: null, seq: null } : null));
  }

  end() {
    this.#shown.close();
    this.#shown = null;
  }

  move() {
    return this.#shown.move(numberOf(this.at));
  }

  #open(source) {
    const shown = new Shown(this, source, numberOf(this.at), VIEWS[this.view] ?? VIEWS.conversation);
    this.#shown = shown;
    this.put(shown.root);
    if (source === null) shown.fail("source", words.embed.source);
    else if (source.run === null) this.setEmpty(true);
    else shown.begin();
  }

  // What is done with the run that is shown; each returns a promise of its summary, and rejects with the refusal of the server.

  // Send a message into the run; after its end, into its conversation, whose next run is shown. Without a run it starts one.
  async send(message, options = {}) {
    const { server, run } = this.#source, { reach } = this, verbs = verbsAt(server, reach), [summary] = run === null ? [null] : await runAt(server, run, reach);
    if (summary && !OVER.includes(summary.status)) return verbs.send(run, message, undefined, options.when);
    const begun = await verbs.start(message, summary ? { conversation: summary.conversation } : options);
    if (this.#shown?.selection.id === run) {
      this.end();
      this.#open({ server, run: begun.id, seq: null });
    }
    return begun;
  }

  approve(call, options) {
    return this.#do("approve", call, options);
  }

  deny(call, reason) {
    return this.#do("deny", call, reason);
  }

  resume(decisions) {
    return this.#do("resume", decisions);
  }

  cancel(options) {
    return this.#do("cancel", options);
  }

  async #do(verb, ...args) {
    const { server, run } = this.#source;
    if (run === null) throw new ApiError(0, "source", words.embed.source);
    return verbsAt(server, this.reach)[verb](run, ...args);
  }

  // The server, and the run that is shown: it may continue that of `src`.
  get #source() {
    const { source, selection } = this.#shown ?? {};
    if (!source) throw new ApiError(0, "source", words.embed.source);
    return { server: source.server, run: selection.id };
  }
}

const numberOf = (text) => (text === null || text.trim() === "" || Number.isNaN(Number(text)) ? null : Number(text));
// The server at an address; without one, that of this file.
const serverAt = (src) => new URL(".", src ? new URL(src, document.baseURI) : new URL("..", import.meta.url)).href;

define("rx-run", RunElement);
