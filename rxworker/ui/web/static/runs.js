// The list of runs, newest first. A run that was resumed is one line with the run that went on from it.

import { byId, el, setData, setText, show } from "./dom.js";
import { ago, statusWord } from "./format.js";

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
    setText(this.title, summary.title || "(no text)");
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

  // Show older runs too.
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
      // Only what is out of place is moved: moving a node takes the focus from it.
      if (this.list.children[place] !== line.node) this.list.insertBefore(line.node, this.list.children[place] ?? null);
    });
    show(byId("no-runs"), shown.length === 0);
    show(this.more, every.length > shown.length);
    setText(this.more, `Show older runs (${every.length - shown.length})`);
  }
}
