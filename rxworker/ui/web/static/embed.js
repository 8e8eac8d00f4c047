// <rx-run src="…/api/runs/RUN" view="conversation|trace">: a run in a page of one's own, as it happens, with the views of the server's page.
//
// Theory of operation. An element that is in a document shows its run with data and a connection of its own; see `Themed`. A run that was paused and resumed is
// shown together with the run that continues it. When a run is over, nothing more is received: it is closed, and stays as it is.

import { el, Frames, setText, show } from "./views/dom.js";
import { ConversationView } from "./views/conversation.js";
import { sheetsOf, Themed } from "./views/host.js";
import { Inspector } from "./views/inspector.js";
import { LanesView } from "./views/lanes.js";
import { Connection, isFinal, runAt, socketAt } from "./net/server.js";
import { fill, locale, words } from "./model/language.js";
import { readSource, writeLink } from "./model/link.js";
import { Store } from "./model/store.js";
import { Selection } from "./model/timeline.js";

const SHEETS = ["theme", "style", "talk", "markdown", "call", "side"];
const TICK = 200, LATER = 500; // milliseconds
const OVER = ["finished", "aborted"];

const sheets = await sheetsOf(SHEETS);

function conversation(root, shown) {
  const pane = el("div", { class: "conversation", tabindex: "0", role: "log", "aria-live": "off", "aria-labelledby": "talk-title" });
  const stream = el("div", { class: "stream" }, el("h2", { id: "talk-title", class: "hidden", text: words.talk.title }), pane, el("button", { class: "latest", type: "button", hidden: true, text: words.talk.latest }));
  root.append(stream);
  const view = new ConversationView(stream, null, null, (run, item) => new URL(writeLink({ run, item }), shown.source.server).href);
  return { open: ({ run }) => view.open(run), settle() {}, draw: (changed) => view.draw(changed), tick() {} };
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
  const { store, selection } = shown, inspector = new Inspector(node, (id) => store.tape(id), () => null, null);
  const lanes = new LanesView(panel, () => {}, (run, thing) => inspector.open(selection.timeline, run, thing));
  panel.addEventListener("keydown", (event) => event.key === "Escape" && inspector.close(true));
  const open = (timeline) => {
    inspector.close();
    lanes.open(timeline);
  };
  const draw = function* (changed, now) {
    yield* lanes.draw(changed, now);
    inspector.draw(changed);
  };
  return { open, settle: open, draw, tick: (now) => lanes.tick(now) };
}

const VIEWS = { conversation, trace };

// What an element shows, until it is closed.
class Shown {
  constructor(element, source, makeView) {
    this.element = element;
    this.source = source; // { server, run }
    this.store = new Store();
    this.connection = new Connection(this, { makeSocket: () => socketAt(source.server), name: "rx-run" });
    this.selection = new Selection(this.store, this.connection);
    this.frames = new Frames(() => this.draw());
    this.note = el("p", { class: "banner", role: "status", hidden: true });
    this.root = el("div", { class: "embed", lang: locale }, this.note);
    this.view = makeView(this.root, this);
    this.isClosed = false;
    this.isListed = false; // whether the runs of the server are known
    this.problem = ""; // the code of the error that is shown
    this.status = "new";
    this.ending = new AbortController();
    this.timer = setInterval(() => document.hidden || this.selection.status !== "running" || this.view.tick(this.store.now()), TICK);
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
    this.ending.abort();
    clearInterval(this.timer);
    this.connection.close();
  }

  open(id) {
    const { selection } = this;
    this.frames.restart();
    selection.open(id);
    this.view.open(selection.timeline);
    selection.run.changed.clear();
  }

  // Whether the server may show the run, now or later. A browser does not report why a socket was refused.
  async check() {
    const { server, run } = this.source;
    try {
      const [, clock] = await runAt(server, run);
      this.store.set(clock);
    } catch (problem) {
      if (this.isClosed) return false;
      const { status, message } = problem, isOver = isFinal(problem), { embed } = words;
      if (isOver) this.connection.close();
      if (status === 401) this.fail("login", embed.login);
      else if (status === 404) this.fail("unknown", embed.unknown);
      else if (isOver) this.fail("refused", fill(embed.refused, { message }));
      else if (this.problem === "") this.fail("unreachable", embed.unreachable);
      return !isOver;
    }
    return !this.isClosed;
  }

  fail(code, message) {
    setText(this.note, message);
    show(this.note, true);
    if (code === this.problem) return;
    this.problem = code;
    this.element.dispatchEvent(new CustomEvent("error", { detail: { code, message } }));
  }

  *draw() {
    if (this.isClosed) return;
    const { store, selection, view } = this;
    yield* store.fold();
    if (store.holed !== null) {
      store.forget(store.holed);
      return this.open(selection.id);
    }
    const isSettled = selection.settle(), { run, timeline } = selection, { changed } = run, now = store.now();
    if (isSettled) view.settle(timeline);
    run.changed = new Set();
    yield* view.draw(changed, now);
    if (this.isClosed) return;
    this.report(selection);
    const isOver = OVER.includes(selection.status) && timeline.runs.every(({ id }) => store.over.has(id));
    if (this.isListed && isOver) this.close();
  }

  report({ id, status }) {
    if (status === this.status) return;
    this.status = status;
    this.element.dispatchEvent(new CustomEvent("status", { detail: { run: id, status } }));
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
    if (code === "detached" && run) setTimeout(() => this.isClosed || this.connection.again(run), LATER);
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
      if (this.isClosed) return;
      if (this.problem === "") this.fail("lost", words.link.lostBanner);
      this.check();
    }
  }
}

class RunElement extends Themed {
  static observedAttributes = ["src", "view", "theme"];

  #shown = null;

  constructor() {
    super(sheets);
  }

  begin() {
    const source = readSource(this.getAttribute("src") ?? "", document.baseURI), view = this.getAttribute("view") ?? "conversation";
    this.#shown = new Shown(this, source, VIEWS[view] ?? VIEWS.conversation);
    this.shadowRoot.replaceChildren(this.#shown.root);
    if (source === null) this.#shown.fail("source", words.embed.source);
    else this.#shown.begin();
  }

  end() {
    this.#shown.close();
    this.#shown = null;
  }
}

customElements.define("rx-run", RunElement);
