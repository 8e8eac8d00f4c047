// The side panels: watchers of a run with their lag, and the latest notices (verdicts, messages of hooks, errors, limits).

import { byId, el, setText, show } from "./dom.js";
import { plural, pretty, seconds } from "../model/format.js";
import { Timeline } from "../model/timeline.js";
import { fill, words } from "../model/language.js";

// The delivery policies that have a description.
const KINDS = ["coalesce", "reliable", "latest", "drop_oldest"];
const NONE = { new: words.watchers.none, running: words.watchers.none, paused: words.watchers.paused, gone: words.watchers.gone };

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
    setText(this.name, watcher.name === own ? fill(words.watchers.thisPage, watcher) : watcher.name);
    const [word, help] = KINDS.includes(kind) ? [words.watchers[kind], words.watchers[`${kind}Help`]] : [kind.replace("_", " "), ""];
    setText(this.how, word);
    for (const name of ["title", "aria-description"]) this.how.setAttribute(name, help);
    setText(this.lag, watcher.lag === 0 ? words.watchers.upToDate : plural(words.watchers.behind, watcher.lag));
    this.node.dataset.lag = watcher.lag === 0 ? "none" : watcher.lag > 50 ? "much" : "some";
    this.meter.style.setProperty("--seen", last ? Math.max(0, Math.min(1, watcher.seq / last)).toFixed(3) : 1);
    const parts = [plural(words.watchers.delivered, watcher.delivered)];
    if (watcher.merged) parts.push(plural(words.watchers.merged, watcher.merged));
    if (watcher.dropped) parts.push(plural(words.watchers.leftOut, watcher.dropped));
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
    // The page itself is last: what it is opened for are the others.
    const watchers = [...(summary?.watchers ?? [])].sort((a, b) => (a.name === this.own) - (b.name === this.own));
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
    setText(byId("no-watchers"), NONE[status] ?? words.watchers.ended);
    show(byId("no-watchers"), watchers.length === 0);
    const isBehind = summary?.status !== "running" && watchers.some((one) => one.lag > 0);
    setText(byId("watchers-note"), watchers.length ? plural(isBehind ? words.watchers.catchingUp : words.watchers.count, watchers.length) : "");
  }
}

const MAX = 100;

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
    this.draw(new Set());
  }

  draw(changed) {
    this.timeline.runs.forEach((run, n) => {
      this.next[n] = Math.max(this.next[n], run.notes.length - MAX);
      for (; this.next[n] < run.notes.length; this.next[n] += 1) this.add(run, run.notes[this.next[n]]);
    });
    for (const item of changed) if (item.kind === "note") this.nodes.get(item)?.update();
    show(byId("no-notes"), this.nodes.size === 0);
    setText(byId("notes-note"), this.nodes.size ? plural(words.notes.count, this.nodes.size) : "");
  }

  add(run, note) {
    const line = new NoteLine(note, seconds(this.timeline.place(run, note.time)));
    this.nodes.set(note, line);
    this.list.prepend(line.node);
    if (this.nodes.size <= MAX) return;
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
    const data = note.data ? el("pre", { class: "note-data", tabindex: "0", "aria-label": words.notes.data, text: pretty(note.data) }) : null;
    this.node = el("li", {}, this.title, el("span", { class: "note-time", text: fill(words.notes.at, { at: when }) }), this.text, data);
    this.update();
  }

  // An error may turn out to be the cause of the run's end.
  update() {
    setText(this.title, this.note.title);
    setText(this.text, this.note.text);
    this.node.className = this.note.tone;
  }
}
