// The message box: it starts a run, continues a conversation, or sends a message into a running run.
//
// A draft belongs to a run, or to the next new run (id null). It survives a reload. A sent message leaves the field at once, so that the
// user can type the next one; it is restored if it cannot be sent.
//
// The outbox holds the messages that were sent into a run and that its model has not read yet.
//
// A message is delivered when the run's records add it to the conversation (`message_add` with the source "send"). The same text may be
// sent several times, so each entry stores how many messages with its text there are once it is delivered. If the run ends before that,
// the messages return to the message box.
//
// Files are attached by the button, by dropping or by pasting; they last until the page is closed.
//
// Drafts and outbox are kept in the tab's session storage; if storage is forbidden or full, they last until the page is closed.

import { Attachments, withFiles } from "./attachments.js";
import { byId, el, setText, show } from "./dom.js";
import { fill, words } from "../model/language.js";

const { composer } = words;
const MODES = {
  start: { label: composer.newRun, button: composer.start, hint: composer.ask },
  next: { label: composer.next, button: composer.send, hint: composer.sendHint },
  send: { label: composer.into, button: composer.sendIn, hint: composer.sendInHint },
  none: { label: composer.none, button: composer.send, hint: "" },
  paused: { label: "", button: composer.send, hint: "" }, // the decision is shown instead
};
const keyOf = (id) => `draft ${id ?? ""}`;
const joined = (...texts) => texts.filter((text) => text !== "").join("\n");

export class Composer {
  constructor(submit) {
    this.form = byId("composer");
    this.field = byId("composer-input");
    this.button = byId("composer-send");
    this.now = byId("composer-now"); // cuts off the answer that is being written
    this.end = byId("composer-end"); // waits until the run would end
    this.note = byId("composer-note");
    this.workers = byId("worker");
    this.attached = new Attachments(byId("attached"), () => this.field.focus(), (text) => this.showNote(text, "bad"));
    this.submit = submit; // (input, worker, when) => promise of an error message for the user, or ""
    this.busy = false;
    this.id = null;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(event.submitter === this.now ? "now" : event.submitter === this.end ? "end" : undefined);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send(this.current === "send" && (event.ctrlKey || event.metaKey) ? "now" : undefined);
    });
    this.field.addEventListener("input", () => {
      this.showNote("");
      this.write(this.field.value);
    });
    this.receiveFiles();
    this.write(recall(keyOf(null)) ?? "");
    this.mode("start");
  }

  receiveFiles() {
    const picker = byId("attach-input"), zone = this.form.parentElement;
    byId("attach").addEventListener("click", () => picker.click());
    picker.addEventListener("change", () => {
      this.attached.add(picker.files);
      picker.value = "";
    });
    this.field.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length === 0) return;
      event.preventDefault();
      this.attached.add(event.clipboardData.files);
    });
    const isDrag = (event) => event.dataTransfer?.types.includes("Files") && this.current !== "paused";
    zone.addEventListener("dragover", (event) => {
      if (!isDrag(event)) return;
      event.preventDefault();
      zone.classList.add("dropping");
    });
    zone.addEventListener("dragleave", (event) => !zone.contains(event.relatedTarget) && zone.classList.remove("dropping"));
    zone.addEventListener("drop", (event) => {
      zone.classList.remove("dropping");
      if (!isDrag(event)) return;
      event.preventDefault();
      this.attached.add(event.dataTransfer.files);
    });
  }

  mode(mode) {
    if (this.current === mode) return;
    this.current = mode;
    show(this.form, mode !== "paused");
    const { label, button, hint } = MODES[mode];
    setText(byId("composer-label"), label);
    setText(this.button, button);
    for (const button of [this.now, this.end]) show(button, mode === "send");
    this.field.placeholder = hint;
    this.field.disabled = byId("attach").disabled = mode === "none";
    this.setBusy(this.busy);
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

  // Another run is selected: show its draft.
  open(id) {
    if (id === this.id) return;
    this.id = id;
    this.showNote("");
    this.write(recall(keyOf(id)) ?? "");
  }

  // The text in the field belongs to this run now.
  carry(id) {
    if (id === this.id) return;
    remember(keyOf(this.id), "");
    this.id = id;
    this.write(joined(recall(keyOf(id)) ?? "", this.field.value));
  }

  // Restore a message that could not be sent, before the current text.
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

  showNote(text, tone = "") {
    setText(this.note, text);
    this.note.className = `composer-note ${tone}`;
  }

  setBusy(busy) {
    this.busy = busy;
    this.button.disabled = this.now.disabled = this.end.disabled = busy || ["paused", "none"].includes(this.current);
  }

  async send(when) {
    const text = this.field.value.trim(), { id } = this;
    if ((text === "" && this.attached.blocks.length === 0) || this.busy || this.current === "paused") return;
    const files = this.attached.take(), input = withFiles(files, text);
    this.setBusy(true);
    this.showNote("");
    this.write("");
    const problem = await this.submit(input, this.workers.options.length > 1 ? this.workers.value : null, when);
    this.setBusy(false);
    if (!problem) return;
    this.putBack(id, text);
    if (id === this.id) this.attached.put([...files, ...this.attached.blocks]);
    this.showNote(problem, "bad");
  }
}

const RUNNING = ["new", "running"];

export class Outbox {
  constructor() {
    this.runs = new Map(); // entries by the run's id: { text, nth, id, accepted }
  }

  // Call it before the request: the record may arrive before the response.
  add(run, text) {
    const entries = this.entries(run.id);
    const nth = delivered(run, text) + entries.filter((one) => one.text === text).length + 1;
    const entry = { text, nth, id: `${Date.now()}-${Math.random()}`, accepted: false };
    entries.push(entry);
    this.keep(run.id);
    return entry;
  }

  // The server has accepted it.
  accept(id, entry) {
    entry.accepted = true;
    this.keep(id);
  }

  // The server has refused it, or it was withdrawn.
  drop(id, entry) {
    this.runs.set(id, this.entries(id).filter((one) => one !== entry));
    for (const one of this.entries(id)) if (one.text === entry.text && one.nth > entry.nth) one.nth--;
    this.keep(id);
  }

  // The messages that the model of a run has not read yet.
  waiting(run) {
    const entries = this.entries(run.id);
    if (entries.length === 0) return entries;
    const left = entries.filter((one) => delivered(run, one.text) < one.nth);
    if (left.length < entries.length) {
      this.runs.set(run.id, left);
      this.keep(run.id);
    }
    return left;
  }

  // Removes and returns the messages that a run ended without reading.
  takeUnread(run) {
    const waiting = this.waiting(run);
    if (RUNNING.includes(run.status)) return [];
    const back = waiting.filter((one) => one.accepted);
    if (back.length === 0) return [];
    this.runs.set(run.id, waiting.filter((one) => !one.accepted));
    this.keep(run.id);
    return back.map((one) => one.text);
  }

  // After a reload of the page, entries count as accepted: it is unknown whether the server has responded.
  entries(id) {
    if (!this.runs.has(id)) this.runs.set(id, (recall(`outbox ${id}`) ?? []).map((one) => ({ ...one, accepted: true })));
    return this.runs.get(id);
  }

  keep(id) {
    remember(`outbox ${id}`, this.entries(id));
  }
}

function delivered(run, text) {
  return run.root.items.reduce((sum, item) => sum + (item.kind === "message" && item.source === "send" && item.text === text), 0);
}

export class QueueView {
  constructor(withdraw) {
    this.withdraw = withdraw;
    this.node = byId("queue");
    this.list = byId("queue-list");
    this.shown = "";
  }

  draw(waiting) {
    const key = JSON.stringify(waiting);
    if (key === this.shown) return;
    this.shown = key;
    show(this.node, waiting.length > 0);
    this.list.replaceChildren(...waiting.map((one) => el("li", {}, el("span", { text: one.text }), ...(one.accepted && one.id ? [this.button(one)] : []))));
  }

  button(one) {
    const button = el("button", { class: "button small", type: "button", text: words.queue.withdraw, "aria-label": fill(words.queue.withdrawOf, { text: one.text }) });
    button.addEventListener("click", () => this.withdraw(one));
    return button;
  }
}

const PREFIX = `rxworker ${new URL(".", globalThis.document?.baseURI ?? "file:///").pathname} `;

export function recall(key) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + key));
  } catch {
    return null;
  }
}

export function remember(key, value) {
  try {
    if (value === null || value === "" || value.length === 0) sessionStorage.removeItem(PREFIX + key);
    else sessionStorage.setItem(PREFIX + key, JSON.stringify(value));
  } catch { /* see above */ }
}
