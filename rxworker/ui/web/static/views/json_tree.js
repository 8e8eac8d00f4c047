// JSON as a tree that opens and closes, also with the arrow keys. Children are made when their parent is opened, some at a time.

import { el } from "./dom.js";
import { plural } from "../model/format.js";
import { words } from "../model/language.js";
import { Exact, isEmpty, isScalar } from "../model/recognise.js";

const STEP = 100; // children that are shown at once
const OPENED = 12; // a value with fewer children than this is open at first
const LONGEST = 5_000; // characters of a text that are shown
const DEEPEST = 200; // levels that a search goes down
const SEARCHED = 20_000; // values that a search looks at
const FOUND = 200; // places that a search opens

const entriesOf = (value) => (Array.isArray(value) ? value.map((one, n) => [n, one]) : Object.entries(value));

const typeOf = (value) => (value === null ? "null" : value instanceof Exact ? "number" : typeof value);
export const written = (value) => (value instanceof Exact ? value.source : typeof value === "string" ? value : JSON.stringify(value));

function leaf(value) {
  const text = typeof value !== "string" ? written(value) : value.length > LONGEST ? `${JSON.stringify(value.slice(0, LONGEST))}… (${plural(words.result.characters, value.length)})` : JSON.stringify(value);
  return el("span", { class: `json-${typeOf(value)}`, text });
}

class Node {
  constructor(tree, key, value, level) {
    Object.assign(this, { tree, value, level, shown: 0 });
    this.isOpen = false;
    this.row = el("span", { class: "json-row" }, key === null ? null : el("span", { class: "json-key", text: String(key) }));
    this.node = el("li", { role: "treeitem", tabindex: "-1", "aria-level": String(level) }, this.row);
    this.node.item = this;
    this.isLeaf = isScalar(value) || isEmpty(value);
    if (this.isLeaf) {
      this.row.append(isScalar(value) ? leaf(value) : el("span", { class: "json-null", text: Array.isArray(value) ? "[]" : "{}" }));
      return;
    }
    this.entries = entriesOf(value);
    this.children = new Map();
    const size = Array.isArray(value) ? words.result.items : words.result.fields;
    this.row.append(el("span", { class: "json-size", text: plural(size, this.entries.length) }));
    this.list = el("ul", { role: "group", hidden: true });
    this.node.append(this.list);
    this.node.setAttribute("aria-expanded", "false");
  }

  open(isOpen = true) {
    if (this.isLeaf) return;
    this.isOpen = isOpen;
    this.node.setAttribute("aria-expanded", String(isOpen));
    this.list.hidden = !isOpen;
    if (isOpen && this.shown === 0) this.grow();
  }

  // Show more children, at least up to a place.
  grow(until = 0) {
    this.more?.remove();
    const end = Math.min(this.entries.length, Math.max(this.shown + STEP, until + 1));
    for (; this.shown < end; this.shown += 1) {
      const [key, value] = this.entries[this.shown], child = new Node(this.tree, key, value, this.level + 1);
      this.children.set(this.shown, child);
      this.list.append(child.node);
    }
    if (end === this.entries.length) return;
    this.more = el("li", { role: "treeitem", tabindex: "-1", class: "json-more", text: plural(words.result.more, this.entries.length - end) });
    this.more.item = { isLeaf: true, node: this.more, act: () => this.grow() };
    this.list.append(this.more);
  }
}

export class JsonTree {
  constructor(value) {
    this.root = new Node(this, null, value, 1);
    this.node = el("ul", { class: "json", role: "tree", "aria-label": words.result.tree, onclick: (event) => this.clicked(event), onkeydown: (event) => this.pressed(event) }, this.root.node);
    this.root.open();
    if (this.root.entries.length < OPENED) for (const child of this.root.children.values()) if (!child.isLeaf && child.entries.length < OPENED) child.open();
    this.root.node.tabIndex = 0;
    this.current = this.root.node;
  }

  focus(node) {
    this.current.tabIndex = -1;
    this.current = node;
    node.tabIndex = 0;
    node.focus();
  }

  act(item) {
    if (item.act) {
      const before = item.node.previousElementSibling;
      item.act();
      this.focus(before.nextElementSibling);
    } else item.open?.(!item.isOpen);
  }

  clicked(event) {
    const row = event.target.closest("li");
    if (!row || String(getSelection()) !== "") return;
    this.focus(row);
    this.act(row.item);
  }

  pressed(event) {
    const visible = () => [...this.node.querySelectorAll("li")].filter((node) => node.parentElement.closest("[hidden]") === null);
    const step = (by) => {
      const all = visible();
      return all[all.indexOf(this.current) + by];
    };
    const { item } = this.current;
    const moves = {
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
      Home: () => this.root.node,
      End: () => visible().at(-1),
      ArrowRight: () => (item.isLeaf ? null : item.isOpen ? step(1) : item.open()),
      ArrowLeft: () => (!item.isLeaf && item.isOpen ? item.open(false) : this.current.parentElement.closest("li")),
      Enter: () => this.act(item),
      " ": () => this.act(item),
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = moves[event.key]();
    if (next) this.focus(next);
  }

  // Open what leads to the places where a text is found.
  reveal(text) {
    let left = SEARCHED, found = 0;
    const has = (one) => String(one).toLowerCase().includes(text);
    const visit = (path, value) => {
      for (const [place, [key, inner]] of entriesOf(value).entries()) {
        if ((left -= 1) < 0 || found >= FOUND) return;
        if (has(key) || (isScalar(inner) && has(written(inner)))) {
          found += 1;
          this.show([...path, place]);
        }
        if (!isScalar(inner) && path.length < DEEPEST) visit([...path, place], inner);
      }
    };
    visit([], this.root.value);
  }

  show(path) {
    let node = this.root;
    for (const place of path) {
      node.open();
      if (place >= node.shown) node.grow(place);
      node = node.children.get(place);
    }
  }
}
