// Handlers for messages from the server: the list of runs, records, and runs that are gone.

import { byId, setData, setText } from "../views/dom.js";
import { clip } from "../model/format.js";
import { banner, clearBanner } from "../views/shell.js";
import { fill, words } from "../model/language.js";

const LATER = 500; // milliseconds until a detached watcher attaches again

export class SocketHandlers {
  // `page`: { store, selection, renderer, follow(id), showError(text), again(id), restarted(), probe() }
  constructor(page) {
    this.page = page;
    this.isAnother = false;
  }

  hello(instance, isNew) {
    setData(document.documentElement, "instance", instance);
    if (!isNew) return;
    this.isAnother = true;
    this.page.restarted();
  }

  runs(list) {
    const { store, selection, renderer } = this.page;
    const before = selection.summary, earlier = store.list;
    store.setRuns(list);
    if (this.isAnother) this.reportLostRuns(earlier);
    renderer.list();
    selection.revive();
    const now = selection.summary;
    // The pause was decided here or in another tab: follow the new run.
    if (before && now && !before.resumed_as && now.resumed_as) this.page.follow(now.resumed_as);
    else if (selection.isAnother) {
      selection.open(selection.id);
      renderer.renew();
    }
  }

  // Another server process: runs that it does not know are gone.
  reportLostRuns(earlier) {
    const { store } = this.page;
    this.isAnother = false;
    // A server that was stopping may have sent a list without the runs that are shown.
    const known = new Map(earlier.map((run) => [run.id, run]));
    for (const id of store.runs.keys()) if (!store.gone.has(id) && store.known(id)) known.set(id, store.known(id));
    for (const id of store.runs.keys()) if (!store.summaries.has(id)) store.lose(id);
    const lost = [...known.values()].filter((run) => !store.summaries.has(run.id) && !run.resumed_as).map((run) => `“${clip(run.title, 40)}”`);
    const which = lost.length > 3 ? fill(words.link.more, { runs: lost.slice(0, 3).join(", "), n: lost.length - 3 }) : lost.join(", ");
    banner(which ? fill(words.link.restartedGone, { runs: which }) : words.link.restarted, "warn");
  }

  records(id, list) {
    this.page.store.add(id, list);
    this.page.renderer.schedule();
  }

  end(id) {
    this.page.store.end(id);
    this.page.renderer.schedule();
  }

  gone(id) {
    const { store, selection, renderer } = this.page;
    store.lose(id);
    const isShown = id === selection.id && (store.runs.get(id)?.seq ?? 0) > 0;
    if (isShown && byId("banner").hidden) banner(words.link.gone, "warn");
    renderer.schedule();
  }

  error(message) {
    // The watcher was too far behind and was detached: attach again at the same position.
    if (message.code === "detached" && message.run) setTimeout(() => this.page.again(message.run), LATER);
    else this.page.showError(message.message ?? words.link.refused);
  }

  state(word) {
    const link = byId("link");
    setData(link, "state", word);
    setText(link, words.link[word === "open" ? "open" : "lost"]);
    if (word !== "lost") return clearBanner("lost");
    banner(words.link.lostBanner, "lost");
    this.page.probe();
  }
}
