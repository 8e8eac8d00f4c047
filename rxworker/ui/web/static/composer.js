// The message box: it begins a run, goes on with a conversation, or sends a message into a run that is on.
//
// A draft belongs to a run, or to the run that is to begin (the id null): another run has another draft. It is kept over a reload. What is
// sent leaves the field at once, so that what is typed meanwhile is the next message; it comes back if it cannot be sent.

import { byId, el, setText, show } from "./dom.js";
import { recall, remember } from "./storage.js";

const MODES = {
  start: { label: "A new run", button: "Start", hint: "Ask something" },
  next: { label: "Go on with this conversation", button: "Send", hint: "Say more" },
  send: { label: "Into the running run", button: "Send in", hint: "Say something to it" },
  paused: { label: "", button: "Send", hint: "" }, // the decision stands in its place
};
const keyOf = (id) => `draft ${id ?? ""}`;
const joined = (...texts) => texts.filter((text) => text !== "").join("\n");

export class Composer {
  constructor(submit) {
    this.form = byId("composer");
    this.field = byId("composer-input");
    this.button = byId("composer-send");
    this.note = byId("composer-note");
    this.workers = byId("worker");
    this.submit = submit; // (text, worker) => promise of a message for people, or ""
    this.busy = false;
    this.id = null;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    this.field.addEventListener("input", () => {
      this.tell("");
      this.write(this.field.value);
    });
    this.write(recall(keyOf(null)) ?? "");
    this.mode("start");
  }

  mode(mode) {
    if (this.current === mode) return;
    this.current = mode;
    const words = MODES[mode];
    show(this.form, mode !== "paused");
    setText(byId("composer-label"), words.label);
    setText(this.button, words.button);
    this.field.placeholder = words.hint;
    this.button.disabled = mode === "paused" || this.busy;
    this.offer();
    if (mode !== "paused") this.fit();
  }

  setWorkers(workers) {
    this.workers.replaceChildren(...workers.map((worker) => el("option", { value: worker.name, text: worker.name })));
    this.offer();
  }

  offer() {
    show(this.workers, this.current === "start" && this.workers.options.length > 1);
  }

  // Another run is looked at: its draft, and not that of the one before.
  open(id) {
    if (id === this.id) return;
    this.id = id;
    this.tell("");
    this.write(recall(keyOf(id)) ?? "");
  }

  // What is in the field belongs to this run now: it has begun, or gone on, as that one.
  carry(id) {
    if (id === this.id) return;
    remember(keyOf(this.id), "");
    this.id = id;
    this.write(joined(recall(keyOf(id)) ?? "", this.field.value));
  }

  // A text that was sent comes back, before what was typed since.
  putBack(id, text) {
    if (id === this.id) this.write(joined(text, this.field.value));
    else remember(keyOf(id), joined(text, recall(keyOf(id)) ?? ""));
  }

  write(text) {
    if (this.field.value !== text) this.field.value = text;
    remember(keyOf(this.id), text);
    this.fit();
  }

  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, 180)}px`;
  }

  tell(text, tone = "") {
    setText(this.note, text);
    this.note.className = `composer-note ${tone}`;
  }

  async send() {
    const text = this.field.value.trim(), { id } = this;
    if (text === "" || this.busy || this.current === "paused") return;
    this.busy = true;
    this.button.disabled = true;
    this.tell("");
    this.write("");
    const problem = await this.submit(text, this.workers.options.length > 1 ? this.workers.value : null);
    this.busy = false;
    this.button.disabled = this.current === "paused";
    if (!problem) return;
    this.putBack(id, text);
    this.tell(problem, "bad");
  }
}
