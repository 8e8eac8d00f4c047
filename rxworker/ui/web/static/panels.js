// The side panels: watchers of a run with their lag, and the latest notices (verdicts, messages of hooks, errors, limits).

import { byId, el, setText, show } from "./dom.js";
import { count, plural, pretty, seconds } from "./format.js";
import { Timeline } from "./timeline.js";

// The delivery policies and their descriptions.
const HOW = {
  coalesce: ["merges", "When it is behind, neighbouring pieces of one text are joined into one record. Nothing is lost."],
  reliable: ["gets everything", "It is given every record by itself, however far behind it is."],
  latest: ["only the latest", "When it is behind, it is given the newest record and skips those before it."],
  drop_oldest: ["leaves out", "When it is behind, the oldest pieces of text are skipped for it. Starts, ends and results are never skipped."],
};
const NONE = {
  new: "No watcher is attached yet.",
  running: "No watcher is attached yet.",
  gone: "The server does not know this run any more. What is shown here stays.",
};
const ENDED = "The run has ended, and every watcher has all of it. What is shown here stays.";

function kindOf(delivery) {
  return String(delivery).toLowerCase().replace(/([a-z])([A-Z])/g, "$1_$2").replace("dropoldest", "drop_oldest");
}

class WatcherView {
  constructor() {
    this.name = el("span", { class: "watcher-name" });
    this.how = el("span", { class: "watcher-how" });
    this.lag = el("span", { class: "watcher-lag" });
    this.meter = el("span", { class: "meter", "aria-hidden": "true" }, el("span"));
    this.detail = el("span", { class: "watcher-detail" });
    this.node = el("li", {}, this.name, this.how, this.lag, this.meter, this.detail);
  }

  update(watcher, last, own) {
    const kind = kindOf(watcher.delivery);
    setText(this.name, watcher.name === own ? `${watcher.name} (this page)` : watcher.name);
    const [word, help] = HOW[kind] ?? [kind.replace("_", " "), ""];
    setText(this.how, word);
    for (const name of ["title", "aria-description"]) this.how.setAttribute(name, help);
    setText(this.lag, watcher.lag === 0 ? "up to date" : `${count(watcher.lag)} behind`);
    this.node.dataset.lag = watcher.lag === 0 ? "none" : watcher.lag > 50 ? "much" : "some";
    this.meter.style.setProperty("--seen", last ? Math.max(0, Math.min(1, watcher.seq / last)).toFixed(3) : 1);
    const parts = [`${count(watcher.delivered)} records delivered`];
    if (watcher.merged) parts.push(`${count(watcher.merged)} merged`);
    if (watcher.dropped) parts.push(`${count(watcher.dropped)} left out`);
    setText(this.detail, parts.join(" · "));
  }
}

export class WatchersView {
  constructor(own) {
    this.list = byId("watchers");
    this.own = own;
    this.views = new Map();
  }

  draw(summary, status) {
    const watchers = summary?.watchers ?? [];
    const names = new Set();
    for (const [place, watcher] of watchers.entries()) {
      const key = `${watcher.name} ${place}`;
      names.add(key);
      let view = this.views.get(key);
      if (!view) {
        view = new WatcherView();
        this.views.set(key, view);
        this.list.append(view.node);
      }
      view.update(watcher, summary.seq, this.own);
    }
    for (const [key, view] of this.views) {
      if (names.has(key)) continue;
      view.node.remove();
      this.views.delete(key);
    }
    setText(byId("no-watchers"), NONE[status] ?? ENDED);
    show(byId("no-watchers"), watchers.length === 0);
    setText(byId("watchers-note"), watchers.length ? `${plural(watchers.length, "watcher")}${summary.status !== "running" && watchers.some((one) => one.lag > 0) ? ", catching up" : ""}` : "");
  }
}

const MOST = 100;

export class NotesView {
  constructor() {
    this.list = byId("notes");
    this.open(new Timeline());
  }

  open(timeline) {
    this.timeline = timeline;
    this.nodes = new Map();
    this.next = timeline.runs.map(() => 0);
    this.list.replaceChildren();
    this.draw();
  }

  draw() {
    this.timeline.runs.forEach((run, n) => {
      this.next[n] = Math.max(this.next[n], run.notes.length - MOST);
      for (; this.next[n] < run.notes.length; this.next[n] += 1) this.add(run, run.notes[this.next[n]]);
      for (const note of run.changed) if (note.kind === "note") this.nodes.get(note)?.update();
    });
    show(byId("no-notes"), this.nodes.size === 0);
    setText(byId("notes-note"), this.nodes.size ? plural(this.nodes.size, "notice") : "");
  }

  add(run, note) {
    const line = new NoteLine(note, seconds(this.timeline.place(run, note.time)));
    this.nodes.set(note, line);
    this.list.prepend(line.node);
    if (this.nodes.size <= MOST) return;
    const [oldest, gone] = this.nodes.entries().next().value;
    gone.node.remove();
    this.nodes.delete(oldest);
  }
}

class NoteLine {
  constructor(note, when) {
    this.note = note;
    this.title = el("strong");
    this.text = el("span", { class: "note-text" });
    const data = note.data ? el("pre", { class: "note-data", tabindex: "0", "aria-label": "Data", text: pretty(note.data) }) : null;
    this.node = el("li", {}, this.title, el("span", { class: "note-time", text: `at ${when}` }), this.text, data);
    this.update();
  }

  // An error may turn out to be the cause of the run's end.
  update() {
    setText(this.title, this.note.title);
    setText(this.text, this.note.text);
    this.node.className = this.note.tone;
  }
}
