// Actions of the user: select a run, start one, control it, decide about a call.

import * as api from "./net/server.js";
import { announce, banner, clearBanner, menu, view } from "./views/shell.js";
import { stepWith } from "./model/compare.js";
import { words } from "./model/language.js";
import { readLink, tokenIn, writeLink } from "./model/link.js";
import { noteHash } from "./views/address.js";

const OVER = ["finished", "aborted"];

export class Actions {
  // `page`: { store, selection, renderer, outbox, views }
  constructor(page) {
    this.page = page;
    this.sought = null; // the number of the entry that the address leads to
    this.found = ""; // what the search has found in the texts of the run that is being opened
    this.branching = null; // [number, step]: the message whose other branch is being opened, see `branch`
  }

  // The fragment of the address is the id of the selected run: the browser's history works, and the address can be shared.
  select(id) {
    const { run, other } = readLink(location.hash);
    if (run === id && other === null) return;
    location.hash = id === null ? "" : hashOf({ run: id });
    this.opened(); // the browser reports the change later, when the user may have sent a message already
  }

  // Show the selected run beside another one, or another run beside that one.
  compare(other, id = this.page.selection.id) {
    location.hash = hashOf({ run: id, other });
  }

  // A run has begun or was resumed as this one: the draft moves to it.
  follow(id) {
    this.page.views.composer.carry(id);
    this.select(id);
  }

  opened() {
    const { store, selection, renderer, views } = this.page, { run: id, seq, item, other } = readLink(location.hash);
    if (id !== selection.id) {
      store.apply();
      selection.open(id);
      this.branching = null;
      clearBanner();
      renderer.open();
      menu(false);
      this.found = seq === null && item === null && other === null && selection.status !== "running" ? views.runs.foundIn(id) : "";
    }
    if (selection.compare(other)) renderer.schedule();
    this.sought = item;
    if (seq !== null) renderer.travel.visit(id, seq);
    if (seq !== null || item !== null) renderer.schedule();
  }

  // The address has the moment that is shown, unless it is one of two runs or leads to a moment that has not arrived.
  noteMoment() {
    const { renderer, selection } = this.page, { travel } = renderer;
    const hash = () => {
      const { run, seq, other } = readLink(location.hash), { past, place } = travel;
      if (selection.id === null || selection.otherId !== null || other !== null || travel.wanted !== null || travel.isPlaying) return null;
      if (past) return run === place.id && seq === place.seq ? null : hashOf({ run: place.id, seq: place.seq });
      return seq === null ? null : hashOf({ run: selection.id });
    };
    if (hash() !== null) noteHash(hash);
  }

  // An entry that the address or a search leads to is shown as soon as it has arrived.
  arrive() {
    const { renderer, selection, store, views } = this.page, { run } = selection, isFound = this.found !== "" && store.over.has(selection.id);
    const item = isFound ? stepWith(run, this.found) : run?.root.items[this.sought - 1];
    if (isFound) this.found = "";
    if (this.branching !== null && views.conversation.arrive(...this.branching)) this.branching = null;
    this.noteMoment();
    if (!item) return;
    this.sought = null;
    renderer.travel.leave();
    this.reveal(run, item);
  }

  async attempt(action) {
    const { store, renderer, views } = this.page;
    try {
      const summary = await action();
      if (summary) store.summaries.set(summary.id, summary);
      renderer.schedule();
      return summary ?? {};
    } catch (problem) {
      views.composer.showNote(problem.message, "bad");
      announce(problem.message);
      return null;
    }
  }

  pause() {
    return this.attempt(() => api.pause(this.page.selection.id, { reason: "paused from the page" }));
  }

  cancel(when) {
    return this.attempt(() => api.cancel(this.page.selection.id, { when, reason: "cancelled from the page" }));
  }

  async decide(id, decisions) {
    const summary = await this.attempt(() => api.resume(id, decisions));
    if (summary?.id) this.follow(summary.id);
    return summary !== null;
  }

  // A run that has failed goes on under its id, when a process has taken it.
  requeue() {
    return this.attempt(() => api.requeue(this.page.selection.id));
  }

  // Annotate the run with what the reader thinks of it; `button` has the focus then.
  rate(value, title, button) {
    this.page.views.runs.actions.dialog.ask({ title, label: words.run.why, value: "", save: words.list.save, act: (comment) => this.annotate(value, comment) }, () => button.focus());
  }

  // Returns a problem, or "".
  async annotate(value, comment) {
    const { selection, store, renderer } = this.page;
    try {
      const summary = await api.annotate(selection.id, { name: "rating", value, comment });
      store.summaries.set(summary.id, summary);
      renderer.schedule();
      announce(words.run.rated);
      return "";
    } catch (problem) {
      return problem.message;
    }
  }

  disallow(conversation, tool) {
    return this.attempt(async () => {
      const { allowed } = await api.disallow(conversation, tool);
      for (const summary of this.page.store.summaries.values()) if (summary.conversation === conversation) summary.allowed = allowed;
    });
  }

  // Note something about a conversation. Returns a problem, or "".
  async mark(conversation, changes) {
    try {
      const { marks } = await api.mark(conversation, changes), { store, renderer } = this.page;
      for (const summary of store.summaries.values()) if (summary.conversation === conversation) summary.marks = marks;
      renderer.list();
      return "";
    } catch (problem) {
      return problem.message;
    }
  }

  // Delete a conversation. Returns a problem, or "".
  async remove(conversation) {
    const { selection } = this.page, isShown = selection.summary?.conversation === conversation, { id } = selection;
    try {
      await api.remove(conversation);
      if (isShown && selection.id === id) this.select(null);
      return "";
    } catch (problem) {
      return problem.message;
    }
  }

  // A new run that begins as this one was after a record. A draft stays with its run.
  async fork(id, seq) {
    const { selection } = this.page, shown = selection.id, summary = await this.attempt(() => api.fork(id, seq));
    // If the user has selected another run meanwhile, stay there.
    if (summary?.id && selection.id === shown) this.select(summary.id);
  }

  // Returns an error message for the user, or "".
  async submit(input, worker, when) {
    const { store, selection } = this.page, { id, status, summary } = selection;
    try {
      if (status === "running" || status === "new") await this.send(id, input, when);
      else {
        const conversation = OVER.includes(status) ? summary?.conversation : null;
        const begun = await api.start(input, conversation ? { conversation } : worker ? { worker } : {});
        store.summaries.set(begun.id, begun);
        // If the user has selected another run meanwhile, stay there.
        if (selection.id === id) this.follow(begun.id);
      }
      return "";
    } catch (problem) {
      return problem.message;
    }
  }

  // Answer a message of the user again, or another one in its place, in a new conversation.
  edit(run, message, input, original) {
    const { selection } = this.page, shown = selection.id;
    return this.attempt(async () => {
      const begun = await api.start(input, { edits: { run, message, text: original } });
      this.page.store.summaries.set(begun.id, begun);
      if (selection.id === shown) this.select(begun.id);
      return begun;
    });
  }

  // The branch before or after that of a message of the user, as its newest run.
  branch(run, number, step) {
    this.select(run);
    this.branching = [number, step];
  }

  async send(id, input, when) {
    const { selection, outbox, renderer } = this.page;
    const entry = outbox.add(selection.run, textIn(input));
    renderer.schedule();
    try {
      await api.send(id, input, entry.id, when);
      outbox.accept(id, entry);
    } catch (problem) {
      outbox.drop(id, entry);
      throw problem;
    } finally {
      renderer.schedule();
    }
  }

  // The text returns to the message box.
  async withdraw(entry) {
    const { selection: { id }, outbox, renderer, views } = this.page;
    if (await this.attempt(() => api.withdraw(id, entry.id)) === null) return;
    outbox.drop(id, entry);
    views.composer.putBack(id, entry.text);
    views.composer.field.focus();
    renderer.schedule();
  }

  // `thing` belongs to a run of the timeline that is shown, which may be that of the past.
  reveal(run, thing) {
    const twin = this.page.renderer.travel.scene.timeline.twin(run, thing);
    view("conversation");
    if (twin) this.page.views.conversation.reveal(twin);
  }

  // A connection that cannot be reopened may be refused by the server.
  async probe() {
    try {
      await api.info();
    } catch (problem) {
      if (problem.status === 401) banner(words.link.token, "lost");
    }
  }
}

const hashOf = (place) => writeLink({ ...place, token: tokenIn(location.hash) });

const textIn = (input) => (typeof input === "string" ? input : input.map((block) => block.text ?? "").join(""));
