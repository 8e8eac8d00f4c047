// The command palette: commands and runs by a few letters of their names.

import { byId, el, show } from "./dom.js";
import { keyText, rank } from "../model/commands.js";
import { words } from "../model/language.js";

const MAX = 60;

export class Palette {
  // `rows()` returns what can be chosen: { id, text, detail, keys, act }.
  constructor(rows) {
    this.usual = rows;
    this.dialog = byId("palette");
    this.field = byId("palette-input");
    this.list = byId("palette-list");
    this.field.addEventListener("input", () => this.draw());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => this.choose([...this.list.children].indexOf(event.target.closest("li"))));
    this.list.addEventListener("mousemove", (event) => this.mark([...this.list.children].indexOf(event.target.closest("li")), false));
    closeOutside(this.dialog);
  }

  open(rows = this.usual, hint = words.commands.hint) {
    if (this.dialog.open) return this.dialog.close();
    this.field.value = "";
    this.field.placeholder = hint;
    this.field.setAttribute("aria-label", hint);
    this.all = rows();
    this.dialog.showModal();
    this.draw();
  }

  draw() {
    this.found = rank(this.field.value, this.all, MAX);
    this.list.replaceChildren(...this.found.map((row, n) => el("li", { role: "option", id: `palette-${n}`, "aria-selected": "false" },
      el("span", { class: "palette-text", text: row.text }), el("span", { class: "palette-detail", text: row.detail }), ...row.keys.map((key) => el("kbd", { text: keyText(key) })))));
    show(byId("palette-none"), this.found.length === 0);
    this.at = -1;
    this.mark(0);
  }

  mark(n, scrolls = true) {
    if (n < 0 || n === this.at) return;
    this.list.children[this.at]?.setAttribute("aria-selected", "false");
    this.at = Math.min(n, this.found.length - 1);
    const node = this.list.children[this.at];
    node?.setAttribute("aria-selected", "true");
    if (node) this.field.setAttribute("aria-activedescendant", node.id);
    else this.field.removeAttribute("aria-activedescendant");
    if (scrolls) node?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const { length } = this.found, to = { ArrowDown: (this.at + 1) % length, ArrowUp: (this.at + length - 1) % length, PageDown: Math.min(length - 1, this.at + 8), PageUp: Math.max(0, this.at - 8) }[event.key];
    if (event.key === "Enter" && !event.isComposing) this.choose(this.at);
    else if (to === undefined || length === 0) return;
    else this.mark(to);
    event.preventDefault();
  }

  choose(n) {
    const row = this.found[n];
    if (!row) return;
    this.dialog.close();
    row.act();
  }
}

// The sheet of shortcuts, by groups.
export class ShortcutsSheet {
  // `rows`: { group, name, keys }; `allows` says whether single keys work, and `allow(yes)` sets it.
  constructor(rows, allows, allow) {
    this.dialog = byId("shortcuts");
    const groups = grouped(rows), single = byId("single-keys");
    byId("shortcuts-list").replaceChildren(...[...groups].map(([group, some]) => el("section", {}, el("h3", { text: group }),
      el("dl", {}, ...some.map(({ name, keys }) => el("div", {}, el("dt", { text: name }), el("dd", {}, ...keys.map((key) => el("kbd", { text: keyText(key) })))))))));
    single.checked = allows();
    single.addEventListener("change", () => allow(single.checked));
    byId("shortcuts-close").addEventListener("click", () => this.dialog.close());
    closeOutside(this.dialog);
  }

  open() {
    if (!this.dialog.open) this.dialog.showModal();
  }
}

function grouped(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(row.group, [...(groups.get(row.group) ?? []), row]);
  return groups;
}

// A click beside a dialog closes it. The dialog has no padding, so that a click on itself is beside its contents.
function closeOutside(dialog) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

// A menu: a list of buttons below the button that opens it.
export class Menu {
  // `menu` is a popover; `rows()` returns { text, act }; `button` is the one of which it is the target, if it has one.
  constructor(menu, rows, button = null) {
    this.menu = menu;
    this.button = button;
    menu.addEventListener("beforetoggle", (event) => {
      if (event.newState !== "open") return;
      menu.replaceChildren(...rows().map(({ text, act }) => el("button", { type: "button", text, onclick: () => {
        menu.hidePopover();
        act();
      } })));
      const { top, bottom, right } = this.button.getBoundingClientRect(), height = menu.childElementCount * 40 + 16;
      menu.style.setProperty("top", `${bottom + height < innerHeight ? bottom + 4 : Math.max(0, top - height)}px`);
      menu.style.setProperty("right", `${document.documentElement.clientWidth - right}px`);
    });
    menu.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key], all = [...menu.children];
      if (!by) return;
      event.preventDefault();
      all[(all.indexOf(menu.getRootNode().activeElement) + by + all.length) % all.length].focus();
    });
    menu.addEventListener("toggle", (event) => event.newState === "open" && menu.firstElementChild?.focus());
  }

  open(button) {
    this.button = button;
    this.menu.showPopover({ source: button });
  }
}
