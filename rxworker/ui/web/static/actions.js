// What people do: look at a run, begin one, steer it, decide.

import * as api from "./server.js";
import { banner, clearBanner, menu, say, view } from "./shell.js";

const OVER = ["finished", "aborted"];

export class Actions {
  // `page`: { store, selection, renderer, outbox, views }
  constructor(page) {
    this.page = page;
  }

  // The address of the page says which run is looked at: the browser's history works, and the address can be passed on.
  select(id) {
    if (location.hash.slice(1) === (id ?? "")) return;
    location.hash = id ?? "";
  }

  // A run has begun, or goes on, as this one: what was typed meanwhile goes with it.
  follow(id) {
    this.page.views.composer.carry(id);
    this.select(id);
    this.opened();
  }

  opened() {
    const { store, selection, renderer } = this.page;
    const id = decoded(location.hash.slice(1)) || null;
    if (id === selection.id) return;
    store.apply();
    selection.open(id);
    clearBanner();
    renderer.open();
    menu(false);
  }

  async attempt(action) {
    const { store, renderer, views } = this.page;
    try {
      const summary = await action();
      if (summary) store.summaries.set(summary.id, summary);
      renderer.schedule();
      return summary ?? {};
    } catch (problem) {
      views.composer.tell(problem.message, "bad");
      say(problem.message);
      return null;
    }
  }

  pause() {
    return this.attempt(() => api.pause(this.page.selection.id));
  }

  cancel(when) {
    return this.attempt(() => api.cancel(this.page.selection.id, when));
  }

  async decide(id, decisions) {
    const summary = await this.attempt(() => api.resume(id, decisions));
    if (summary?.id) this.follow(summary.id);
    return summary !== null;
  }

  // What goes wrong, in words for people.
  async submit(text, worker) {
    const { store, selection } = this.page, { id, status, summary } = selection;
    try {
      if (status === "running" || status === "new") await this.send(id, text);
      else {
        const conversation = OVER.includes(status) ? summary?.conversation : null;
        const begun = await api.start(text, conversation ? null : worker, conversation);
        store.summaries.set(begun.id, begun);
        // Whoever looks at another run by now stays there.
        if (selection.id === id) this.follow(begun.id);
      }
      return "";
    } catch (problem) {
      return problem.message;
    }
  }

  async send(id, text) {
    const { selection, outbox, renderer } = this.page;
    const entry = outbox.add(selection.run, text);
    renderer.schedule();
    try {
      await api.send(id, text);
      outbox.accept(id, entry);
    } catch (problem) {
      outbox.drop(id, entry);
      throw problem;
    } finally {
      renderer.schedule();
    }
  }

  reveal(run, thing) {
    const twin = this.page.selection.timeline.twin(run, thing);
    view("conversation");
    if (twin) this.page.views.conversation.reveal(twin);
  }

  // A connection that does not come back may be one that the server refuses.
  async probe() {
    try {
      await api.info();
    } catch (problem) {
      if (problem.status === 401) banner("The server wants its token now: open this page once with ?token= and the token behind its address.", "lost");
    }
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // no run is called so, and the server will say it
  }
}
