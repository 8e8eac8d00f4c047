// What hooks decided and said, errors, limits: the last of them.

import { byId, el, setText, show } from "./dom.js";
import { Course } from "./course.js";
import { plural, pretty, seconds } from "./format.js";

const MOST = 100;

export class NotesView {
  constructor() {
    this.list = byId("notes");
    this.open(new Course());
  }

  open(course) {
    this.course = course;
    this.nodes = new Map();
    this.next = course.runs.map(() => 0);
    this.list.replaceChildren();
    this.draw();
  }

  draw() {
    this.course.runs.forEach((run, n) => {
      this.next[n] = Math.max(this.next[n], run.notes.length - MOST);
      for (; this.next[n] < run.notes.length; this.next[n] += 1) this.add(run, run.notes[this.next[n]]);
      for (const note of run.changed) if (note.kind === "note") this.nodes.get(note)?.update();
    });
    show(byId("no-notes"), this.nodes.size === 0);
    setText(byId("notes-note"), this.nodes.size ? plural(this.nodes.size, "notice") : "");
  }

  add(run, note) {
    const line = new NoteLine(note, seconds(this.course.place(run, note.time)));
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

  // An error may turn out to be what ended the run.
  update() {
    setText(this.title, this.note.title);
    setText(this.text, this.note.text);
    this.node.className = this.note.tone;
  }
}
