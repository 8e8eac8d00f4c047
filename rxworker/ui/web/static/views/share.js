// The dialog with the read-only links to a run or to a dashboard: it makes them, and revokes them.

import * as api from "../net/server.js";
import { ago, seconds } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { byId, copy, el, setText, show } from "./dom.js";

const HOUR = 3600, ENDS = [["hour", HOUR], ["day", 24 * HOUR], ["week", 168 * HOUR], ["month", 720 * HOUR], ["never", null]];
const DAY = 86_400;

export class ShareDialog {
  constructor() {
    const { share } = words, button = (text, kind, act) => el("button", { class: `button ${kind}`, type: "button", text, onclick: act });
    this.dialog = byId("share-dialog");
    this.what = el("p");
    this.until = el("select", {}, ...ENDS.map(([name]) => el("option", { value: name, text: share[name], selected: name === "week" })));
    this.problem = el("p", { class: "reason", role: "alert" });
    this.address = el("input", { type: "text", readonly: true, "aria-label": share.address, onfocus: () => this.address.select() });
    this.copied = el("span", { role: "status" });
    this.made = el("div", { class: "share-made" }, this.address, button(share.copy, "small", () => this.copy()), this.copied, el("p", { text: share.once }));
    this.list = el("ul", { "aria-label": share.links });
    this.make = button(share.make, "primary", () => this.attempt(() => this.begin()));
    this.dialog.append(
      el("h2", { id: "share-title", text: share.title }), this.what, el("label", {}, share.ends, this.until), el("div", {}, this.make), this.problem, this.made, this.list,
      el("div", { class: "field-dialog-buttons" }, button(words.commands.close, "", () => this.dialog.close())),
    );
    this.dialog.addEventListener("close", () => this.opener?.focus());
  }

  // `shown`: { run } or { board, run or conversation }. `title` names it.
  open(shown, title, opener) {
    Object.assign(this, { shown, opener });
    setText(this.what, fill(words.share.what, { title }));
    show(this.made, false);
    this.address.value = "";
    this.list.replaceChildren();
    this.dialog.showModal();
    this.make.focus();
    this.attempt(() => this.look());
  }

  async attempt(act) {
    try {
      await act();
      setText(this.problem, "");
    } catch (problem) {
      setText(this.problem, problem.message);
    }
  }

  async begin() {
    const [, period] = ENDS.find(([name]) => name === this.until.value), until = period === null ? null : Date.now() / 1000 + period;
    const { path } = await api.makeLink({ ...this.shown, until });
    this.address.value = api.at(path).href;
    show(this.made, true);
    await Promise.all([this.copy(), this.look()]);
  }

  async copy() {
    setText(this.copied, (await copy(this.address.value)) ? words.code.copied : words.code.notCopied);
    this.address.focus();
  }

  // The links to this that hold now.
  async look() {
    const { shown } = this, { links } = await api.links(), now = Date.now() / 1000;
    const isSame = (link) => ["run", "board", "conversation"].every((name) => link[name] === (shown[name] ?? ""));
    this.list.replaceChildren(...links.filter(isSame).map((link) => el("li", {}, el("span", { text: factsOf(link, now) }), el("button", { class: "button small", type: "button", text: words.share.revoke, "aria-label": fill(words.share.revokeOf, { link: factsOf(link, now) }), onclick: () => this.attempt(() => this.revoke(link.id)) }))));
    show(this.list, this.list.childElementCount > 0);
  }

  async revoke(id) {
    await api.revoke(id);
    await this.look();
    if (this.address.value.includes(id)) show(this.made, false);
    this.make.focus();
  }
}

function factsOf({ created, until }, now) {
  const made = fill(words.share.made, { ago: ago(created, now) });
  if (until === null) return made;
  const left = until - now, text = left < DAY ? seconds(left) : fill(words.share.days, { n: Math.round(left / DAY) });
  return `${made} · ${fill(words.share.endsIn, { time: text })}`;
}
