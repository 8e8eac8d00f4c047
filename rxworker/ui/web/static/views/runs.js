// The list of runs, newest first, and the view when no run is selected. A resumed run is one entry with the run that resumed it.

import { byId, el, setData, setText, show } from "./dom.js";
import { ago, clip, statusWord } from "../model/format.js";
import { fill, words } from "../model/language.js";

const STEP = 50;

class RunLine {
  constructor(id) {
    this.title = el("span", { class: "run-line-title" });
    this.status = el("span", { class: "status" });
    this.when = el("span", { class: "run-line-when" });
    this.link = el("a", { href: `#${id}` }, this.title, el("span", { class: "run-line-facts" }, this.status, this.when));
    this.node = el("li", { "data-run": id }, this.link);
  }

  update(summary, selected) {
    setText(this.title, summary.title || words.runs.untitled);
    setText(this.status, statusWord(summary.status, summary.cause));
    setData(this.status, "status", summary.status);
    setText(this.when, ago(summary.started, Date.now() / 1000));
    if (selected) this.link.setAttribute("aria-current", "page");
    else this.link.removeAttribute("aria-current");
  }
}

export class RunsView {
  constructor() {
    this.list = byId("run-list");
    this.lines = new Map();
    this.most = STEP;
    this.more = byId("more-runs");
    this.more.addEventListener("click", () => this.reach());
  }

  // Show older runs.
  reach() {
    const last = this.list.lastElementChild;
    this.most += STEP;
    this.draw(...this.asked);
    last?.nextElementSibling?.firstElementChild.focus();
  }

  draw(runs, selected) {
    this.asked = [runs, selected];
    const every = runs.filter((run) => !run.resumed_as || run.id === selected);
    const place = every.findIndex((run) => run.id === selected);
    if (place >= this.most) this.most = Math.ceil((place + 1) / STEP) * STEP;
    const shown = every.slice(0, this.most);
    const ids = new Set(shown.map((run) => run.id));
    for (const [id, line] of this.lines) {
      if (ids.has(id)) continue;
      line.node.remove();
      this.lines.delete(id);
    }
    shown.forEach((run, place) => {
      let line = this.lines.get(run.id);
      if (!line) this.lines.set(run.id, (line = new RunLine(run.id)));
      line.update(run, run.id === selected);
      // Move only nodes that are out of place: moving a node takes the focus from it.
      if (this.list.children[place] !== line.node) this.list.insertBefore(line.node, this.list.children[place] ?? null);
    });
    show(byId("no-runs"), shown.length === 0);
    show(this.more, every.length > shown.length);
    setText(this.more, fill(words.runs.older, { n: every.length - shown.length }));
  }
}

const UNNAMED = "worker"; // the name of the only worker, if the server gives it none
const MOST = 12, LATEST = 3;

export class WelcomeView {
  constructor() {
    this.workers = new Map();
    byId("worker").addEventListener("change", () => this.list());
  }

  setWorkers(workers) {
    this.workers = new Map(workers.map((worker) => [worker.name, worker]));
    this.list();
  }

  // The tools of the worker that would answer.
  list() {
    const worker = this.workers.get(byId("worker").value) ?? this.workers.values().next().value, tools = worker?.tools ?? [];
    setText(byId("welcome-can-label"), worker && worker.name !== UNNAMED ? fill(words.welcome.workerCan, { worker: worker.name }) : words.welcome.can);
    const chips = tools.slice(0, MOST).map((tool) => el("li", { text: tool.name, title: tool.description || null }));
    if (tools.length > MOST) chips.push(el("li", { class: "more", text: fill(words.welcome.more, { n: tools.length - MOST }) }));
    byId("welcome-tools").replaceChildren(...chips);
    show(byId("welcome-can"), chips.length > 0);
  }

  // The newest runs, for a page where the list is not visible.
  offer(runs) {
    const key = JSON.stringify(runs.map((run) => [run.id, run.status, run.cause]));
    if (key === this.offered) return;
    this.offered = key;
    const links = runs.map((run) => el("li", {}, el("a", { href: `#${run.id}`, text: fill(words.welcome.link, { title: clip(run.title, 60) || words.runs.untitled, status: statusWord(run.status, run.cause) }) })));
    byId("welcome-runs").replaceChildren(...links);
    show(byId("welcome-look"), links.length > 0);
  }

  draw(isBlank, isGone, runs) {
    if (isBlank) this.offer(runs.filter((run) => !run.resumed_as).slice(0, LATEST));
    show(byId("welcome"), isBlank);
    show(byId("conversation"), !isBlank);
    setText(byId("welcome-title"), isGone ? words.welcome.goneTitle : words.welcome.title);
    setText(byId("welcome-text"), isGone ? words.welcome.goneText : words.welcome.text);
  }
}
