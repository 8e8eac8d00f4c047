// DOM helpers: elements, growing text, and scrolling. Text is only ever set as text, after `readable`.
//
// `GrowingText` appends to the last text node; the text is split into chunks at line ends, so that the browser lays out only the
// last chunk again and not the whole text.
//
// `StickToEnd` keeps a scrolling element at its end while it grows, until the user scrolls up.

import { readable } from "../model/format.js";

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = readable(String(value));
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (typeof child === "string" ? readable(child) : child)));
  return node;
}

export const byId = (id) => document.getElementById(id);

// Set a text only if it differs: an unchanged node causes no layout.
export function setText(node, text) {
  const shown = readable(text);
  if (node.textContent !== shown) node.textContent = shown;
}

const keyOf = (node) => node.dataset?.key ?? node.textContent;
const isLike = (a, b) => a.nodeName === b.nodeName && a.namespaceURI === b.namespaceURI;

// Make these the children of a node. Nodes with the same key (`data-key` or the text) stay, and others become what comes in their place: scroll positions,
// the focus and the selection stay where the reader has them.
export function morph(node, children) {
  const old = [...node.childNodes], had = old.map(keyOf), wanted = new Set(children.map(keyOf));
  let at = 0;
  for (const child of children) {
    const same = had.indexOf(keyOf(child), at);
    const found = same >= 0 && isLike(old[same], child) ? same : at < old.length && !wanted.has(had[at]) && isLike(old[at], child) ? at : -1;
    if (found < 0) node.insertBefore(child, old[at] ?? null);
    else {
      for (; at < found; at += 1) old[at].remove();
      become(old[at], child);
      at += 1;
    }
  }
  for (; at < old.length; at += 1) old[at].remove();
}

function become(node, other) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== other.data) node.data = other.data;
    return;
  }
  for (const { name } of [...node.attributes]) if (!other.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of other.attributes) if (name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  if (node.style.cssText !== other.style.cssText) node.style.cssText = other.style.cssText; // the policy of the page forbids the attribute
  morph(node, [...other.childNodes]);
}

// Put the focus where the user has not sent it: it is not marked until the keyboard is used there.
export function placeFocus(node) {
  node.classList.add("placed");
  for (const type of ["keydown", "blur"]) node.addEventListener(type, () => node.classList.remove("placed"), { once: true });
  node.focus();
}

export function setData(node, name, value) {
  if (node.dataset[name] !== value) node.dataset[name] = value;
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

const BUDGET = 8; // milliseconds of a frame for scripts; the layout of what they have drawn takes as long again, or longer
const HIDDEN = 500; // milliseconds between two updates of a hidden page, which has no frames

// Calls `draw` once in the next frame, however often it is scheduled before. `draw` is a generator, which yields where it may be interrupted: what does
// not fit into a frame is drawn in the next ones, before anything newer.
export class Frames {
  constructor(draw) {
    this.begin = draw;
    this.steps = null; // what is being drawn
    this.isDue = false;
    this.isMore = false; // whether there is something newer than what is being drawn
  }

  schedule() {
    this.isMore = true;
    this.request();
  }

  request() {
    if (this.isDue) return;
    this.isDue = true;
    if (document.hidden) setTimeout(() => this.run(Infinity), HIDDEN);
    else requestAnimationFrame(() => this.run(performance.now() + BUDGET));
  }

  // Forget what has not been drawn yet.
  restart() {
    this.steps = null;
    this.schedule();
  }

  // Draw everything now.
  finish() {
    if (this.steps !== null) this.run(Infinity);
    this.run(Infinity);
  }

  run(until) {
    this.isDue = false;
    if (this.steps === null) {
      this.isMore = false;
      this.steps = this.begin();
    }
    const { steps } = this;
    let isDone = false;
    do isDone = steps.next().done;
    while (!isDone && steps === this.steps && performance.now() < until);
    if (isDone && steps === this.steps) this.steps = null;
    if (this.steps !== null || this.isMore) this.request();
  }
}

// The result of a generator that is not interrupted.
export function whole(steps) {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

const CHUNK = 2_000; // after this length, the next line end starts a new chunk
const HARD = 16_000; // a line longer than this is cut

export class GrowingText {
  constructor(node) {
    this.node = node;
    this.seen = 0; // number of pieces that are shown
    this.begin();
  }

  begin() {
    this.last = document.createTextNode("");
    this.chunk = el("span", { class: "chunk" }, this.last);
    this.node.append(this.chunk);
  }

  // Show the pieces that were added since the last call.
  grow(pieces) {
    if (this.seen === pieces.length) return "";
    const added = readable(this.seen === 0 && pieces.length === 1 ? pieces[0] : pieces.slice(this.seen).join(""));
    this.seen = pieces.length;
    this.append(added);
    return added;
  }

  append(added) {
    let at = 0;
    while (at < added.length) {
      const room = CHUNK - this.last.length;
      let end = added.indexOf("\n", at + Math.max(0, room)) + 1;
      const hard = at + Math.max(1, HARD - this.last.length);
      if (end > hard || (end === 0 && added.length > hard)) end = safe(added, hard);
      if (end === 0) {
        this.last.appendData(added.slice(at));
        break;
      }
      this.last.appendData(added.slice(at, end));
      this.chunk.classList.add("whole");
      this.begin();
      at = end;
    }
  }
}

// Do not split a surrogate pair.
function safe(text, end) {
  const code = text.charCodeAt(end - 1);
  return code >= 0xd800 && code < 0xdc00 ? end + 1 : end;
}

const SLACK = 48, EXACT = 2; // pixels

export class StickToEnd {
  constructor(pane, moved = () => {}) {
    this.pane = pane;
    this.moved = moved; // called after scrolling
    this.follows = true;
    this.isDue = false;
    this.top = 0;
    pane.addEventListener("scroll", () => this.scrolled(), { passive: true });
    // Elements below may take some of its room.
    new ResizeObserver(() => this.follow()).observe(pane);
    // What is shown for the first time replaces its estimated height.
    pane.addEventListener("contentvisibilityautostatechange", () => this.follow());
  }

  // Scroll when all that is drawn now is drawn: the height is only known after a layout.
  follow() {
    if (this.isDue) return;
    this.isDue = true;
    queueMicrotask(() => {
      this.isDue = false;
      if (!this.follows) return;
      this.pane.scrollTop = this.pane.scrollHeight;
      this.top = this.pane.scrollTop;
    });
  }

  // Only scrolling up stops following: the browser itself moves the end when it replaces estimated heights.
  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.pane;
    const left = scrollHeight - scrollTop - clientHeight;
    if (left < EXACT) this.follows = true;
    else if (scrollTop < this.top - EXACT) this.follows = false;
    else if (left < SLACK) this.follows = true;
    this.top = scrollTop;
    this.moved();
  }
}

// Copy a text; false if the browser does not allow it.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// Save a text or a blob as a file.
export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url));
}

// What the browser remembers, or null. Storage may be forbidden.
export function recalled(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

// Whether the browser remembers it; otherwise it lasts as long as the page.
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
    return true;
  } catch {
    return false;
  }
}
