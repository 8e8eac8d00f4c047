// What the commands of the page do, when they can be used, and the keys that start them.

import { COMMANDS, nameOf } from "./model/commands.js";
import { sourceOf } from "./model/compare.js";
import { factsOf, linesOf, markdownOf } from "./model/export.js";
import { ago, statusWord } from "./model/format.js";
import { fill, words } from "./model/language.js";
import { titleOf } from "./model/run_list.js";
import { tokenIn, writeLink } from "./model/link.js";
import { address } from "./views/address.js";
import { byId, copy, save } from "./views/dom.js";
import { htmlOf } from "./views/export.js";
import { isField, Keys } from "./views/keys.js";
import { Menu } from "./views/palette.js";
import { announce, isMenuOpen, isWatchOnly, menu, view } from "./views/shell.js";
import { RerunDialog } from "./views/rerun.js";
import { ShareDialog } from "./views/share.js";
import { isLink } from "./net/server.js";

// The address of a run, or of a moment or an entry of it. It does not have the token that may be in the address of the page.
export const addressOf = (place) => `${location.origin}${location.pathname}${writeLink({ ...place, token: tokenIn(location.hash) })}`;

export class Commands extends Keys {
  // `page`: { store, selection, renderer, views, actions }
  constructor(page) {
    super(COMMANDS);
    this.page = page;
    this.runMenu = new Menu(byId("run-menu"), () => COMMANDS.filter((command) => command.isInMenu && this.can(command)).map((command) => ({ text: nameOf(command), act: () => this.run(command) })), byId("run-more"));
    byId("commands").addEventListener("click", () => this.palette.open());
    this.share = new ShareDialog();
    this.rerun = new RerunDialog();
    page.views.dashboards.share = (...shown) => this.share.open(...shown);
    byId("time-link").addEventListener("click", () => this.run({ id: "copyLink" }));
  }

  get travel() {
    return this.page.renderer.travel;
  }

  get table() {
    const { page, travel } = this, { selection, views } = page, { status } = selection;
    const hasRun = travel.scene.run !== null && travel.scene.run.seq > 0, isRunning = status === "running";
    const isAlone = hasRun && selection.otherId === null, moved = (act) => [isAlone, () => views.time.act(act)], saved = (act) => [hasRun, () => act(travel.scene.run)];
    const rated = (value, text) => [views.controls.canRate && ["finished", "aborted"].includes(status), () => page.actions.rate(value, fill(words.run.rate, { value: text }), byId("run-more"))];
    const shown = (name, id) => [isAlone, () => { view(name); byId(id).focus(); }];
    return {
      palette: [true, () => this.palette.open()],
      shortcuts: [true, () => this.sheet.open()],
      skip: [!byId("composer").hidden || !byId("approval").hidden, () => { view("conversation"); document.querySelector(".skip").click(); }],
      newRun: [!isLink() && !isWatchOnly(), () => byId("new-run").click()],
      theme: [true, () => byId("theme").click()],
      fleet: [!byId("fleet-link").hidden, () => byId("fleet-link").click()],
      boards: [!isLink(), () => byId("boards-link").click()],
      conversation: shown("conversation", "conversation"),
      timeline: shown("timeline", "lanes"),
      wideTrace: [isAlone && byId("trace-wide").checkVisibility(), () => byId("trace-wide").click()],
      numbers: shown("numbers", "side"),
      pause: [isRunning && !isLink(), () => views.controls.pause()],
      cancel: [isRunning && !isLink(), () => views.controls.ask(true, true)],
      good: rated("good", words.run.good),
      poor: rated("poor", words.run.poor),
      compare: [hasRun && page.store.list.length > 1, () => this.palette.open(() => this.others(), words.compare.choose)],
      copyLink: [true, () => this.copyLink()],
      share: [selection.id !== null && !isLink(), () => this.share.open({ run: selection.id }, this.title, byId("run-more"))],
      rerun: [hasRun && page.canRerun && !isRunning && !isLink(), () => this.rerun.open(selection.id, this.title, this.workers, byId("run-more"))],
      saveMarkdown: saved((run) => save(`${run.id}.md`, "text/markdown", markdownOf(this.title, this.facts(run), run))),
      saveHtml: saved(async (run) => save(`${run.id}.html`, "text/html", await htmlOf(this.title, this.facts(run), run))),
      saveRecords: saved((run) => save(`${run.id}.jsonl`, "application/jsonl", linesOf(page.store.tape(run.id).filter(({ seq }) => seq <= run.seq)))),
      play: moved(() => views.time.toggle()),
      stepBack: moved(() => this.step(-1)),
      stepOn: moved(() => this.step(1)),
      leave: [isAlone && travel.past !== null, () => views.time.act(() => travel.leave())],
      fork: [isAlone && !byId("time-fork").hidden, () => views.time.fork.click()],
    };
  }

  // The browser writes the character into the field that has the focus after the event.
  typed() {
    const { field } = this.page.views.composer;
    if (field.checkVisibility()) field.focus();
  }

  step(by) {
    this.travel.stop();
    this.travel.step(by);
  }

  // What the palette offers: the commands that can be used now, then the runs.
  rows() {
    const runs = this.page.store.list.filter(({ id, resumed_as: after }) => !after && id !== this.page.selection.id);
    return [
      ...super.rows(),
      ...runs.map((run) => ({ text: titleOf(run), detail: statusWord(run.status, run.cause), keys: [], act: () => this.page.actions.select(run.id) })),
    ];
  }

  // The runs to compare the selected one with: the one that it was forked from, those with the same input, and the others.
  others() {
    const { store, selection, actions } = this.page, { id, otherId, summary } = selection, source = sourceOf(store.tape(id)), { compare } = words;
    const rankOf = (run) => (run.id === source ? 0 : run.title === summary?.title ? 1 : 2), details = [compare.forkedFrom, compare.sameInput];
    const runs = store.list.filter((run) => run.id !== id && run.id !== otherId).map((run) => [rankOf(run), run]).sort(([a], [b]) => a - b);
    return runs.map(([rank, run]) => ({ text: run.title || words.runs.untitled, detail: [details[rank], statusWord(run.status, run.cause), ago(run.started, store.now())].filter(Boolean).join(" · "), keys: [], act: () => actions.compare(run.id) }));
  }

  // The names of the workers of the server, the one of the selected run first.
  get workers() {
    const own = this.page.selection.summary?.worker;
    return [...this.page.workers.listed.keys()].sort((a, b) => (b === own) - (a === own));
  }

  get title() {
    const { summary } = this.page.selection;
    return summary ? titleOf(summary) : words.run.title;
  }

  facts(run) {
    const { page, travel } = this, { summary } = page.selection, { cost, currency } = page.renderer.figuresOf(summary, run, travel.scene.timeline);
    return factsOf({ run, summary, elapsed: travel.scene.timeline.elapsed(travel.now), cost, currency });
  }

  async copyLink() {
    const { travel, page } = this, { id, seq } = travel.place, { selection } = page, url = new URL(address());
    if (selection.id !== null) url.hash = addressOf(travel.past ? { run: id, seq } : { run: selection.id, other: selection.otherId }).replace(/^.*?#/, "");
    const done = await copy(url.href);
    const text = done ? words.code.copied : words.code.notCopied;
    announce(text);
    page.views.composer.showNote(done ? words.commands.linkCopied : text);
  }

  // Closes what is open, the last opened first; then leaves the past, then the field. Whether it did anything.
  escape({ target }) {
    const { travel, page } = this, { controls, inspector, time } = page.views;
    if (!target.isConnected || document.querySelector("dialog:modal, :popover-open")) return false; // has been closed, or the browser closes it
    if (isMenuOpen()) {
      menu(false);
      byId("menu").focus();
    } else if (controls.asking) controls.ask(false, true);
    else if (inspector.shown !== null) inspector.close(true);
    else if (isField(target)) target.blur();
    else if (page.selection.otherId !== null) page.actions.select(page.selection.id);
    else if (travel.past !== null) time.act(() => travel.leave());
    else return false;
    return true;
  }
}
