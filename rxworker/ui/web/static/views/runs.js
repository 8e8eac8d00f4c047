// The list of conversations, the newest first, with search and filters, and the view when no run is selected. A conversation is one line, and the runs before
// its newest one are listed below it while one of them is selected. A keystroke filters what is known at once; the server then adds what it finds in texts, and older runs.

import { writeLink } from "../model/link.js";
import { note, noted } from "./address.js";
import { byId, el, setData, setText, show } from "./dom.js";
import { ago, clip, money, plural, seconds, statusWord } from "../model/format.js";
import { ANY, conversationsOf, filterFrom, isFiltered, marksOf, queryOf, SINCE, SORTS, STATUSES, titleOf, tookOf } from "../model/run_list.js";
import { fill, words } from "../model/language.js";
import { ListActions } from "./list_actions.js";
import { SavedFilters } from "./saved_filters.js";
import { announce, isWatchOnly, menu } from "./shell.js";

const STEP = 50;
const TYPING = 200; // milliseconds after a keystroke until the server is searched
const REFRESH = 2_000; // milliseconds between two searches for the same
const NAMES = {
  hour: words.runs.hour, day: words.runs.day, week: words.runs.week, month: words.runs.month,
  newest: words.runs.newest, cost: words.runs.cost, duration: words.runs.duration,
};
const STEPS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

class RunLink {
  constructor(kind) {
    this.title = el("span", { class: "run-line-title" });
    this.status = el("span", { class: "status" });
    this.more = el("span", { class: "run-line-more" });
    this.when = el("span", { class: "run-line-when" });
    this.node = el("a", { class: kind }, this.title, el("span", { class: "run-line-facts" }, this.status, this.more, this.when));
  }

  update(run, isSelected, more, when, title = run.title || words.runs.untitled) {
    const href = writeLink({ run: run.id });
    if (this.node.hash !== href) this.node.setAttribute("href", href);
    setText(this.title, title);
    setText(this.status, statusWord(run.status, run.cause));
    setData(this.status, "status", run.status);
    setText(this.more, more);
    setText(this.when, when);
    if (isSelected) this.node.setAttribute("aria-current", "page");
    else this.node.removeAttribute("aria-current");
  }
}

class ConversationLine {
  // `actions`: see `ListActions`.
  constructor(actions) {
    this.actions = actions;
    this.link = new RunLink("run-line");
    this.pin = el("span", { class: "run-line-pin", role: "img", "aria-label": words.list.pinned, text: "★" });
    this.tags = el("span", { class: "run-line-tags" });
    this.more = el("button", { class: "run-line-actions icon-button", type: "button", "aria-haspopup": "menu", text: "⋯", onclick: () => actions.open(this.more, this.group) });
    this.check = el("input", { type: "checkbox", onchange: () => actions.choose(this.group.id, this.check.checked) });
    this.excerpt = el("span", { class: "run-line-excerpt" });
    this.link.node.append(this.excerpt);
    this.earlier = el("ul", { class: "run-earlier", "aria-label": words.runs.earlier });
    this.links = [];
    this.link.node.append(this.tags);
    this.node = el("li", {}, this.link.node, this.more);
  }

  update(group, selected, excerpts, measure) {
    this.group = group;
    const { runs, marks } = group, title = titleOf(runs[0]), { selected: chosen } = this.actions, [newest, ...earlier] = runs, isOpen = earlier.length > 0 && runs.some((run) => run.id === selected);
    setData(this.node, "run", newest.id);
    setData(this.node, "open", String(isOpen));
    this.link.update(newest, newest.id === selected, earlier.length ? plural(words.runs.count, runs.length) : "", measure(runs), title);
    this.more.setAttribute("aria-label", fill(words.list.actions, { title }));
    this.check.setAttribute("aria-label", fill(words.list.choose, { title }));
    this.check.checked = chosen?.has(group.id) ?? false;
    if ((chosen !== null) !== this.check.isConnected) {
      if (chosen === null) this.check.remove();
      else this.node.prepend(this.check);
    }
    setData(this.node, "choosing", String(chosen !== null));
    if (marks.pinned !== this.pin.isConnected) {
      if (marks.pinned) this.link.title.before(this.pin);
      else this.pin.remove();
    }
    const tags = marks.tags.join("\n");
    if (tags !== this.tagged) this.tags.replaceChildren(...marks.tags.map((text) => el("span", { text })));
    this.tagged = tags;
    setText(this.excerpt, excerpts[newest.id] ?? "");
    if (isOpen !== this.earlier.isConnected) {
      if (isOpen) this.node.append(this.earlier);
      else this.earlier.remove();
    }
    if (!isOpen) return;
    while (this.links.length > earlier.length) this.links.pop().node.parentNode.remove();
    while (this.links.length < earlier.length) {
      this.links.push(new RunLink("run-line small"));
      this.earlier.append(el("li", {}, this.links.at(-1).node));
    }
    earlier.forEach((run, n) => this.links[n].update(run, run.id === selected, "", measure([run])));
  }
}

// What runs have cost, in each currency; a question mark stands for that of models whose prices are not known.
function costOf(runs) {
  const sums = new Map();
  for (const { cost, currency = "" } of runs) if (cost !== null) sums.set(currency, (sums.get(currency) ?? 0) + cost);
  const known = [...sums].map(([currency, cost]) => money(cost, currency));
  return [...known, ...(runs.some((run) => run.unpriced?.length) ? ["?"] : [])].join(" + ") || "–";
}

export class RunsView {
  // `search(query)` returns the server's answer; `now()` is the time of its clock; `mark` and `remove`: see `ListActions`.
  constructor({ search, now, mark, remove }) {
    this.search = search;
    this.now = now;
    this.searchesTexts = true;
    this.later = null;
    this.hasKeys = () => true; // whether keys without Ctrl or Cmd are switched on
    this.list = byId("run-list");
    this.lines = new Map();
    this.most = STEP;
    this.filter = { ...ANY };
    this.found = null; // the runs that the server has found, by id; null while they are unknown
    this.excerpts = {};
    this.asked = [[], null];
    this.more = byId("more-runs");
    this.more.addEventListener("click", () => this.reach());
    this.actions = new ListActions({ mark, remove }, () => this.draw(...this.asked));
    this.fields = new FilterFields(this.filter, () => this.changed(), this.actions.dialog);
    const named = filterFrom(noted);
    if (isFiltered(named) || named.sort !== ANY.sort) this.fields.apply(named);
    byId("run-reset").addEventListener("click", () => {
      this.fields.clear();
      this.fields.search.focus();
    });
    byId("runs").addEventListener("keydown", (event) => this.move(event));
    addEventListener("keydown", (event) => this.hotkey(event));
  }

  setWorkers(workers) {
    this.fields.setWorkers(workers);
  }

  // Whether the server searches texts; otherwise it searches titles alone.
  setTexts(searchesTexts) {
    this.searchesTexts = searchesTexts;
  }

  // What is searched for, if the server has found it in the texts of this run.
  foundIn(id) {
    return this.excerpts[id] ? this.filter.q : "";
  }

  // Runs that have changed since the server was asked may match now, or no longer.
  refresh(runs) {
    const key = runs.map((run) => `${run.id} ${run.status} ${run.turns}`).join();
    if (key === this.key) return;
    this.key = key;
    this.later ??= setTimeout(() => {
      this.later = null;
      if (!this.isAsking && isFiltered(this.filter)) this.ask(this.turn, true);
    }, REFRESH);
  }

  // The filter has changed.
  changed() {
    for (const [name, value] of Object.entries(this.filter)) note(name, value === ANY[name] ? null : value);
    clearTimeout(this.timer);
    this.turn = (this.turn ?? 0) + 1;
    this.most = STEP;
    this.found = null;
    this.excerpts = {};
    this.isAsking = isFiltered(this.filter);
    if (this.isAsking) this.timer = setTimeout(() => this.ask(this.turn), TYPING);
    this.draw(...this.asked);
    this.list.parentNode.scrollTop = 0;
  }

  async ask(turn, isAgain = false) {
    let answer = null;
    try {
      answer = await this.search(queryOf(this.filter, this.now()));
    } catch { /* the titles that are known are searched in any case */ }
    if (turn !== this.turn) return;
    this.isAsking = false;
    if (answer) {
      this.found = new Map(answer.runs.map((run) => [run.id, run]));
      this.excerpts = answer.excerpts ?? {};
    }
    this.draw(...this.asked);
    if (!isAgain) announce(plural(words.runs.found, this.count));
  }

  // Show older conversations.
  reach() {
    const last = this.list.lastElementChild;
    this.most *= 2;
    this.draw(...this.asked);
    last?.nextElementSibling?.querySelector("a").focus();
  }

  draw(runs, selected) {
    if (isFiltered(this.filter) && runs !== this.asked[0]) this.refresh(runs);
    this.asked = [runs, selected];
    const now = this.now(), every = conversationsOf(runs, { filter: this.filter, found: this.found, selected, now });
    this.count = every.length;
    const place = every.findIndex((group) => group.runs.some((run) => run.id === selected));
    while (place >= this.most) this.most *= 2;
    const shown = every.slice(0, this.most), ids = new Set(shown.map((group) => group.id));
    for (const [id, line] of this.lines) {
      if (ids.has(id)) continue;
      line.node.remove();
      this.lines.delete(id);
    }
    const measure = this.measure(now);
    this.actions.draw(shown);
    this.fields.setTags([...new Set(runs.flatMap((run) => marksOf(run).tags))].sort());
    shown.forEach((group, place) => {
      let line = this.lines.get(group.id);
      if (!line) this.lines.set(group.id, (line = new ConversationLine(this.actions)));
      line.update(group, selected, this.excerpts, measure);
      // Move only nodes that are out of place: moving a node takes the focus from it.
      if (this.list.children[place] !== line.node) this.list.insertBefore(line.node, this.list.children[place] ?? null);
    });
    const isEmpty = shown.length === 0, filtered = isFiltered(this.filter);
    show(byId("no-runs"), isEmpty);
    if (isEmpty) setText(byId("no-runs"), !filtered ? words.runs.none : this.isAsking ? words.runs.searching : this.searchesTexts ? words.runs.noMatch : words.runs.noTitle);
    show(byId("run-reset"), isEmpty && filtered && !this.isAsking);
    show(this.more, every.length > shown.length);
    setText(this.more, fill(words.runs.older, { n: every.length - shown.length }));
  }

  // What a line shows at its end: the value by which the list is sorted.
  measure(now) {
    if (this.filter.sort === "cost") return costOf;
    if (this.filter.sort === "duration") return (runs) => seconds(Math.max(...runs.map((run) => tookOf(run, now))));
    return ([newest]) => ago(newest.started, now);
  }

  // The arrows move through the list, from the search field and back to it.
  move(event) {
    const step = STEPS[event.key], { target } = event, field = this.fields.search;
    if (event.key === "Escape" && target.closest("#run-filter")) return this.escape(event);
    if (step === undefined || (target !== field && !target.closest("#run-list"))) return;
    if (target === field && event.key !== "ArrowDown") return;
    const links = [...this.list.querySelectorAll("a")], at = target === field ? -1 : links.indexOf(target.closest("a"));
    const next = Math.max(-1, Math.min(links.length - 1, at + step));
    event.preventDefault();
    (next < 0 && Number.isFinite(step) ? field : links[Math.max(0, next)])?.focus();
  }

  // Escape clears the search, then closes the filters, then leaves the field.
  escape(event) {
    if (isFiltered(this.filter)) this.fields.clear();
    else if (!this.fields.close()) return;
    event.preventDefault();
    this.fields.search.focus();
  }

  hotkey(event) {
    if (event.key !== "/" || event.defaultPrevented || !this.hasKeys() || document.querySelector("dialog:modal") || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    if (!byId("runs").checkVisibility({ visibilityProperty: true })) menu(true);
    this.fields.search.focus();
    this.fields.search.select();
  }
}

// The search field, and the fields below it.
class FilterFields {
  constructor(filter, changed, dialog) {
    this.filter = filter;
    this.changed = changed;
    this.search = byId("run-search");
    this.button = byId("run-filters");
    this.options = byId("run-options");
    const any = ["", words.runs.any], select = (name, label, rows) => this.field(name, label, el("select", {}, ...rows.map(option)));
    this.fields = {
      status: select("status", words.runs.status, [any, ...STATUSES.map((status) => [status, statusWord(status)])]),
      since: select("since", words.runs.since, [any, ...SINCE.map((period) => [period, NAMES[period]])]),
      worker: select("worker", words.runs.worker, [any]),
      tool: select("tool", words.runs.tool, [any]),
      tag: select("tag", words.runs.tag, [any]),
      min_cost: this.field("min_cost", words.runs.minCost, el("input", { type: "number", min: "0", step: "any", inputmode: "decimal" })),
      sort: select("sort", words.runs.sort, SORTS.map((sort) => [sort, NAMES[sort]])),
    };
    this.setWorkers([]);
    this.setTags([]);
    this.saved = new SavedFilters(dialog, () => this.filter, (saved) => this.apply(saved));
    this.options.append(this.saved.button);
    this.search.addEventListener("input", () => this.set("q", this.search.value.trim()));
    this.button.addEventListener("click", () => this.open(this.options.hidden));
    byId("run-filter").addEventListener("submit", (event) => event.preventDefault());
  }

  field(name, label, input) {
    input.addEventListener("input", () => this.set(name, input.value));
    this.options.append(el("label", {}, el("span", { text: label }), input));
    return input;
  }

  setWorkers(workers) {
    const tools = [...new Set(workers.flatMap((worker) => worker.tools.map((tool) => tool.name)))].sort();
    this.offer("worker", workers.length > 1 ? workers.map((worker) => worker.name) : []);
    this.offer("tool", tools);
    show(this.fields.min_cost.parentNode, workers.some((worker) => worker.prices));
  }

  setTags(tags) {
    const values = this.filter.tag && !tags.includes(this.filter.tag) ? [...tags, this.filter.tag] : tags, key = values.join("\n");
    if (key === this.tags) return;
    this.tags = key;
    this.offer("tag", values);
  }

  offer(name, values) {
    const field = this.fields[name], value = this.filter[name];
    field.replaceChildren(...[["", words.runs.any], ...values.map((one) => [one, one])].map(option));
    field.value = values.includes(value) ? value : "";
    show(field.parentNode, values.length > 0);
  }

  set(name, value) {
    if (this.filter[name] === value) return;
    this.filter[name] = value;
    this.mark();
    this.changed();
  }

  // The button shows how many filters are set.
  mark() {
    this.saved.draw();
    const n = Object.keys(this.fields).filter((name) => this.filter[name] !== ANY[name]).length;
    setData(this.button, "active", String(n > 0));
    this.button.setAttribute("aria-label", n ? plural(words.runs.filtersSet, n) : words.runs.filters);
  }

  open(isOpen) {
    show(this.options, isOpen);
    this.button.setAttribute("aria-expanded", String(isOpen));
  }

  // Returns whether they were open.
  close() {
    const wasOpen = !this.options.hidden;
    this.open(false);
    return wasOpen;
  }

  clear() {
    this.apply({ sort: this.filter.sort });
  }

  // Set another filter.
  apply(filter) {
    Object.assign(this.filter, ANY, filter);
    this.setTags(this.tags.split("\n").filter(Boolean));
    this.search.value = this.filter.q;
    for (const [name, field] of Object.entries(this.fields)) field.value = this.filter[name];
    this.mark();
    this.changed();
  }
}

const option = ([value, text]) => el("option", { value, text });

const UNNAMED = "worker"; // the name of the only worker, if the server gives it none
const MAX = 12, LATEST = 3;

export class WelcomeView {
  constructor() {
    this.workers = new Map();
    byId("worker").addEventListener("change", () => this.list());
  }

  setWorkers(workers) {
    this.workers = new Map(workers.map((worker) => [worker.name, worker]));
    this.list();
  }

  // The tools of the worker that would answer.
  list() {
    const worker = this.workers.get(byId("worker").value) ?? this.workers.values().next().value, tools = worker?.tools ?? [];
    setText(byId("welcome-can-label"), worker && worker.name !== UNNAMED ? fill(words.welcome.workerCan, { worker: worker.name }) : words.welcome.can);
    const chips = tools.slice(0, MAX).map((tool) => el("li", { text: tool.name, title: tool.description || null }));
    if (tools.length > MAX) chips.push(el("li", { class: "more", text: fill(words.welcome.more, { n: tools.length - MAX }) }));
    byId("welcome-tools").replaceChildren(...chips);
    show(byId("welcome-can"), chips.length > 0);
  }

  // The newest runs, for a page where the list is not visible.
  offer(runs) {
    const key = JSON.stringify(runs.map((run) => [run.id, run.status, run.cause, titleOf(run)]));
    if (key === this.offered) return;
    this.offered = key;
    const links = runs.map((run) => el("li", {}, el("a", { href: writeLink({ run: run.id }), text: fill(words.welcome.link, { title: clip(titleOf(run), 60), status: statusWord(run.status, run.cause) }) })));
    byId("welcome-runs").replaceChildren(...links);
    show(byId("welcome-look"), links.length > 0);
  }

  draw(isBlank, isGone, runs) {
    if (isBlank) this.offer(runs.filter((run) => !run.resumed_as).slice(0, LATEST));
    show(byId("welcome"), isBlank);
    show(byId("conversation"), !isBlank);
    const { welcome } = words, begins = !isWatchOnly();
    setText(byId("welcome-title"), isGone ? welcome.goneTitle : begins ? welcome.title : welcome.watchTitle);
    setText(byId("welcome-text"), isGone ? welcome.goneText : begins ? welcome.text : welcome.watchText);
  }
}
