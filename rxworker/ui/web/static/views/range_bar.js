// The bar above the panels of a page: which time they show, live or still, and of which runs. The address of the page has all of it, so that a view is a link.

import { address } from "./address.js";
import { copy, el, morph, setText, show } from "./dom.js";
import { beforeOf, ENDS, KINDS, LASTS, problemOf, rangeOf, withFilter, withoutFilter, withTime } from "../model/range.js";
import { fill, words } from "../model/language.js";
import { markText } from "../model/timeline.js";

const OWN = "", BETWEEN = "between", MOMENT = "moment";

// A time in seconds as the value of a field, which has that of the reader's clock; "" for none.
export function local(time) {
  if (time === null) return "";
  const at = new Date((time - 60 * new Date(time * 1000).getTimezoneOffset()) * 1000);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 16);
}

export class RangeBar {
  // `changed(range)` is called with what is set at first, and after each change; `workers()` returns the names of the workers.
  constructor(node, changed, workers) {
    Object.assign(this, { node, changed, workers, range: null });
    const { range } = words, { lasts, filters } = words, option = (value, text) => el("option", { value, text }), act = (change) => () => this.set(change());
    this.which = el("select", { "aria-label": range.time, onchange: () => this.choose() }, option(OWN, range.own), ...Object.entries(LASTS).map(([name, n]) => option(n, lasts[name])), option(BETWEEN, range.between), option(MOMENT, range.moment));
    const field = (name, label) => el("input", { type: "datetime-local", name, "aria-label": label, onchange: () => this.dated() });
    this.fields = { since: field("since", range.since), until: field("until", range.until), time: field("time", range.at) };
    this.to = el("span", { text: "–", "aria-hidden": "true" });
    this.live = el("button", { class: "range-live", type: "button", text: range.live, title: range.liveHelp, onclick: act(() => ({ ...this.range, isStill: !this.range.isStill })) });
    this.compare = el("button", { class: "range-compare", type: "button", text: range.compare, onclick: act(() => ({ ...this.range, isCompared: !this.range.isCompared })) });
    this.kind = el("select", { "aria-label": range.kind, onchange: () => this.offer() }, ...KINDS.map((kind) => option(kind, filters[kind])));
    this.value = el("input", { type: "text", "aria-label": range.value, maxlength: 200, autocomplete: "off", spellcheck: "false", dir: "auto", oninput: () => this.value.setCustomValidity("") });
    this.offered = el("datalist", { id: "range-offered" });
    this.chips = el("ul", { class: "range-chips", "aria-label": range.filters });
    const form = el("form", { class: "range-add", autocomplete: "off", onsubmit: (event) => this.add(event) }, this.kind, this.value, this.offered, el("button", { class: "button small", type: "submit", text: range.add }));
    node.append(el("div", { class: "range-time" }, this.which, this.fields.since, this.to, this.fields.until, this.fields.time, this.live, this.compare), this.chips, form);
    addEventListener("popstate", () => this.read());
    this.offer();
  }

  // From the address.
  read() {
    this.range = rangeOf(new URLSearchParams(location.search));
    this.draw();
    this.changed(this.range);
  }

  // A change is a step of the history of the browser: Back returns to the view before.
  set(range) {
    const url = new URL(address());
    for (const name of ["last", "since", "until", "time", "still", "compare", ...KINDS]) url.searchParams.delete(name);
    for (const name of ["last", "since", "until", "time"]) if (range[name] !== null) url.searchParams.set(name, Math.round(1000 * range[name]) / 1000);
    for (const [name, isSet] of [["still", range.isStill], ["compare", range.isCompared]]) if (isSet) url.searchParams.set(name, "1");
    for (const [kind, value] of range.filters) url.searchParams.append(kind, value);
    if (url.href !== location.href) history.pushState(null, "", url);
    this.read();
  }

  narrow(since, until) {
    this.set(withTime(this.range, { since, until }));
  }

  choose() {
    const { value } = this.which, now = Date.now() / 1000, { since, until } = this.range;
    if (value === BETWEEN) this.set(withTime(this.range, { since: since ?? now - 3_600, until: until ?? now }));
    else if (value === MOMENT) this.set(withTime(this.range, { time: now }));
    else this.set(withTime(this.range, value === OWN ? {} : { last: Number(value) }));
  }

  dated() {
    const read = (name) => (this.fields[name].hidden || this.fields[name].value === "" ? null : Date.parse(this.fields[name].value) / 1000);
    this.set(withTime(this.range, { since: read("since"), until: read("until"), time: read("time") }));
  }

  offer() {
    const { value } = this.kind, known = value === "status" ? ENDS : value === "worker" ? this.workers() : [];
    this.value.placeholder = value === "label" ? words.range.labelHint : "";
    this.offered.replaceChildren(...known.map((one) => el("option", { value: one })));
    this.value.setAttribute("list", "range-offered");
    this.value.setCustomValidity("");
  }

  add(event) {
    event.preventDefault();
    const value = this.value.value.trim(), problem = problemOf(this.kind.value, value);
    this.value.setCustomValidity(problem === "" ? "" : fill(words.problems[problem], { known: ENDS.join(", ") }));
    if (!this.value.reportValidity()) return;
    this.value.value = "";
    this.set(withFilter(this.range, this.kind.value, value));
  }

  // The focus goes to the next chip, or where one is added.
  remove(n) {
    this.set(withoutFilter(this.range, n));
    (this.chips.children[Math.min(n, this.range.filters.length - 1)]?.querySelector("button") ?? this.value).focus();
  }

  draw() {
    const { range } = this, { last, since, until, time, isStill, filters } = range, { which, fields } = this;
    const known = [...which.options].some((option) => option.value === String(last));
    if (last !== null && !known) which.insertBefore(el("option", { value: last, text: fill(words.range.last, { time: markText(last) }) }), which.children[1]);
    which.value = last !== null ? String(last) : time !== null ? MOMENT : since !== null || until !== null ? BETWEEN : OWN;
    for (const [name, field] of Object.entries(fields)) {
      show(field, which.value === (name === "time" ? MOMENT : BETWEEN));
      if (field.getRootNode().activeElement !== field) field.value = local(range[name]);
    }
    show(this.to, which.value === BETWEEN);
    const isOver = time !== null || (until !== null && until < Date.now() / 1000);
    show(this.live, !isOver);
    this.live.setAttribute("aria-pressed", String(!isStill));
    show(this.compare, beforeOf(range, Date.now() / 1000) !== null);
    this.compare.setAttribute("aria-pressed", String(range.isCompared));
    morph(this.chips, filters.map(([kind, value], n) => el("li", { "data-key": `${kind} ${value}` }, el("span", { text: fill(words.range.chip, { kind: words.filters[kind], value }) }), el("button", { type: "button", text: "×", value: n, "aria-label": fill(words.range.remove, { kind: words.filters[kind], value }) }))));
    this.chips.onclick = ({ target }) => target.tagName === "BUTTON" && this.remove(Number(target.value));
    show(this.chips, filters.length > 0);
  }
}
