// The message box: it begins a run, goes on with a conversation, or sends a message into a run that is on.

import { byId, el, setText, show } from "./dom.js";

const MODES = {
  start: { label: "A new run", button: "Start", hint: "Ask something" },
  next: { label: "Go on with this conversation", button: "Send", hint: "Say more" },
  send: { label: "Into the running run", button: "Send in", hint: "Say something to it" },
  paused: { label: "", button: "Send", hint: "" }, // the decision stands in its place
};

export class Composer {
  constructor(submit) {
    this.form = byId("composer");
    this.field = byId("composer-input");
    this.button = byId("composer-send");
    this.note = byId("composer-note");
    this.workers = byId("worker");
    this.submit = submit; // (text, worker) => promise of a message for people, or ""
    this.busy = false;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    this.field.addEventListener("input", () => this.fit());
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
  }

  setWorkers(workers) {
    this.workers.replaceChildren(...workers.map((worker) => el("option", { value: worker.name, text: worker.name })));
    this.offer();
  }

  offer() {
    show(this.workers, this.current === "start" && this.workers.options.length > 1);
  }

  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, 180)}px`;
    this.tell("");
  }

  tell(text, tone = "") {
    setText(this.note, text);
    this.note.className = `composer-note ${tone}`;
  }

  async send() {
    const text = this.field.value.trim();
    if (text === "" || this.busy || this.current === "paused") return;
    this.busy = true;
    this.button.disabled = true;
    const problem = await this.submit(text, this.workers.options.length > 1 ? this.workers.value : null);
    this.busy = false;
    this.button.disabled = this.current === "paused";
    if (!problem) {
      this.field.value = "";
      this.fit();
    }
    this.tell(problem, problem ? "bad" : "");
  }
}
