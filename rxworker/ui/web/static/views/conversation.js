// The conversation: views of messages, blocks, calls and notes. Only the last part of a long one is shown; earlier parts on request.

import { el, StickToEnd, GrowingText, placeFocus, setData, setText, show, whole } from "./dom.js";
import { plural, seconds } from "../model/format.js";
import { textOf, tookOf } from "../model/run_state.js";
import { fill, words } from "../model/language.js";
import { areFiles, attachmentNode, Attachments, withFiles } from "./attachments.js";
import { CallView } from "./call.js";
import { copyButton } from "./code.js";
import { Markdown } from "./markdown.js";

const STEP = 150, MAX = 600;
const AGAIN = 50; // entries of the past: they are drawn again with each move of the slider
const MARKED = 1_600; // milliseconds

export class ConversationView {
  // `root` contains the pane and the button that scrolls to its end. `onText(block, added)` receives text of an answer; `edit(run, number, text, original)`
  // sends a message of the user again, or is null; `address(run, n)` is that of an entry. `branches`: `of(run, number)` returns the branches of a message of
  // the user, see `Branches`, and `open(run, number, step)` shows another one; or null.
  constructor(root, onText, edit, address, branches = null) {
    this.edit = edit;
    this.branches = branches;
    this.address = address;
    this.pane = root.querySelector(".conversation");
    this.latest = root.querySelector(".latest");
    this.onText = onText;
    this.end = new StickToEnd(this.pane, () => this.offer());
    this.earlier = el("button", { class: "earlier", type: "button", hidden: true, onclick: () => this.showEarlier() });
    this.latest.addEventListener("click", () => this.toEnd());
    this.open(null);
  }

  open(run, most = STEP) {
    this.run = run;
    this.views = new Map();
    this.first = 0;
    this.waiting = []; // entries that are not drawn yet
    this.pane.replaceChildren(this.earlier);
    this.end.follows = true;
    if (run === null) return;
    this.first = Math.max(0, run.root.items.length - most);
    this.waiting = run.root.items.slice(this.first);
  }

  // The same run at another time. A user who has scrolled up stays there.
  reopen(run, isPast) {
    const { follows } = this.end, top = this.pane.scrollTop;
    this.open(run, isPast ? AGAIN : STEP);
    this.drawAll();
    if (follows) return;
    this.end.follows = false;
    this.pane.scrollTop = top;
    this.offer();
  }

  // Messages of the user are numbered as in the conversation of the run.
  get said() {
    return this.run === null ? [] : this.run.root.items.filter((item) => item.kind === "message" && item.role === "user");
  }

  send(message, input) {
    return this.edit(this.run.id, this.said.indexOf(message), input, message.said);
  }

  // Shows at each message which of how many branches it is, if the list of runs or the messages have changed.
  mark(list) {
    if (this.branches === null || this.marked === list) return;
    this.marked = list;
    this.said.forEach((message, number) => this.views.get(message)?.branch(this.branches.of(this.run.id, number), (run, step) => this.branches.open(run, number, step)));
  }

  // Whether a message of the user, which another branch has, too, is there; then it is shown, with the focus on the button that leads on.
  arrive(number, step) {
    const message = this.said[number];
    if (!message) return false;
    this.reveal(message);
    this.views.get(message).focus(step);
    return true;
  }

  // The view of an item; items of a nested run are placed within its call.
  place(item, container, before = null) {
    const view = item.kind === "message" ? new MessageView(item, this.edit && ((input) => this.send(item, input))) : viewOf(item, this.onText);
    this.views.set(item, view);
    if (item.kind === "message") this.marked = null;
    if (before) before.before(view.node);
    else container.append(view.node);
    if (view.bar && item.scope.depth === 0) view.bar.append(copyButton(() => this.address(this.run.id, this.run.root.items.indexOf(item) + 1), words.message.link));
    view.update();
    for (const inner of item.inner?.items ?? []) this.place(inner, this.innerOf(view, inner));
  }

  // Where an item of a nested run is placed. A nested run that goes on after a pause takes the place of the one that waited.
  innerOf(view, { scope }) {
    if (view.scope !== scope) view.inner.replaceChildren();
    view.scope = scope;
    show(view.inner, true);
    return view.inner;
  }

  // Yields where it may be interrupted.
  *draw(changed) {
    this.skip(changed);
    while (this.waiting.length > 0) {
      const item = this.waiting.shift();
      if (item.key <= this.lastKey() || this.views.has(item)) continue;
      this.place(item, this.pane);
      this.end.follow();
      yield;
    }
    for (const item of changed) {
      const view = this.views.get(item);
      if (view) this.update(view, item);
      else if (item.kind === "note" ? item.inline : item.kind !== "span") this.add(item);
      else continue;
      this.end.follow();
      yield;
    }
    this.trim();
    show(this.earlier, this.first > 0);
    if (this.first > 0) this.earlier.textContent = plural(words.talk.earlier, this.first);
    this.end.follow();
    this.offer();
  }

  drawAll() {
    whole(this.draw(new Set()));
  }

  // Of many new entries only the last are drawn, unless the user has scrolled up.
  skip(changed) {
    if (this.run === null || !this.end.follows) return;
    const { items } = this.run.root;
    let fresh = 0;
    for (const item of changed) fresh += item.scope.depth === 0 && item.kind !== "span" && !this.views.has(item);
    if (fresh > 2 * STEP) for (; this.first < items.length - STEP; this.first += 1) this.forget(items[this.first]);
  }

  // The button that scrolls to the end, shown after the user has scrolled up.
  offer() {
    show(this.latest, !this.end.follows);
  }

  update(view, item) {
    view.update();
    // The nested runs of an earlier run become known after the call.
    if (item.isHeir) for (const inner of item.inner?.items ?? []) if (!this.views.has(inner)) this.place(inner, this.innerOf(view, inner));
  }

  add(item) {
    const parent = item.scope.parent;
    if (parent === null) {
      if (item.scope.depth > 0 || item.key > this.lastKey()) this.place(item, this.pane);
    } else if (this.views.has(parent)) this.place(item, this.innerOf(this.views.get(parent), item));
  }

  // Items before the first one that is shown stay hidden when they change.
  lastKey() {
    return this.first > 0 ? this.run.root.items[this.first - 1].key : 0;
  }

  trim() {
    if (this.run === null || !this.end.follows) return;
    while (this.run.root.items.length - this.first > MAX) {
      for (let n = 0; n < STEP; n += 1) this.forget(this.run.root.items[this.first + n]);
      this.first += STEP;
    }
  }

  forget(item) {
    this.views.get(item)?.node.remove();
    this.views.delete(item);
    for (const inner of item.inner?.items ?? []) this.forget(inner);
  }

  showEarlier() {
    const from = Math.max(0, this.first - STEP), anchor = this.earlier.nextSibling, top = this.pane.scrollHeight - this.pane.scrollTop;
    for (const item of this.run.root.items.slice(from, this.first)) this.place(item, this.pane, anchor);
    this.first = from;
    this.end.follows = false;
    this.drawAll();
    this.pane.scrollTop = this.pane.scrollHeight - top;
    placeFocus(this.pane);
  }

  toEnd() {
    this.end.follows = true;
    this.drawAll();
    placeFocus(this.pane);
  }

  reveal(item) {
    const n = this.run.root.items.indexOf(item);
    while (n >= 0 && n < this.first) this.showEarlier();
    const node = this.views.get(item)?.node;
    if (!node) return;
    this.end.follows = false;
    node.scrollIntoView({ block: "center" });
    this.found?.classList.remove("found");
    clearTimeout(this.fading);
    this.found = node;
    node.classList.add("found");
    this.fading = setTimeout(() => node.classList.remove("found"), MARKED);
  }
}

// All of a conversation at once, as elements that will not change: also what is rendered only when it is opened.
export async function stillOf(run) {
  const root = el("div", { class: "conversation" });
  const place = (item, container) => {
    const view = item.kind === "message" ? new MessageView(item) : viewOf(item, null);
    container.append(view.node);
    view.update();
    for (const inner of item.inner?.items ?? []) {
      show(view.inner, true);
      place(inner, view.inner);
    }
  };
  for (const item of run.root.items) place(item, root);
  for (const details of root.querySelectorAll("details")) {
    details.open = true;
    details.dispatchEvent(new Event("toggle"));
    details.open = false;
  }
  await Promise.all([...root.querySelectorAll("figure.code")].map((figure) => figure.block?.end()));
  return root;
}

const { talk } = words;
const SPEAKER = { user: talk.you, system: talk.instructions, assistant: talk.model };
const LABELS = { thinking: talk.thinking, refusal: talk.refusal, tool_result: talk.result, image: talk.image, opaque: talk.other };

class MessageView {
  // `send(input)` sends this in place of the message: a text, or content blocks. Its promise is null if it cannot be sent.
  constructor(message, send = null) {
    this.message = message;
    this.send = send;
    const source = message.source && message.source !== "start" ? message.source : "", { role, scope } = message;
    const who = source === "send" ? talk.intoRun : source ? fill(talk.addedBy, { source }) : scope.depth > 0 && role === "user" ? talk.task : SPEAKER[role];
    this.text = el("div", { class: "text" });
    new GrowingText(this.text).grow([message.said]);
    this.files = message.parts.length ? el("div", { class: "attached-list" }, ...message.parts.map(attachmentNode)) : null;
    if (role === "system") this.node = el("details", { class: "item message system" }, el("summary", { text: who }), this.text);
    else {
      this.node = el("div", { class: `item message ${role}${source && source !== "send" ? " added" : ""}` }, el("h3", { class: "speaker", text: who }), this.files, this.text);
      if (role === "user" && scope.depth === 0 && (source === "" || source === "send")) this.node.append(this.actions());
    }
    this.node.dataset.role = role;
  }

  update() {}

  actions() {
    const { message } = this, button = (text, act) => el("button", { type: "button", class: "begins", text, onclick: act });
    this.bar = el("div", { class: "item-actions", role: "group", "aria-label": words.message.actions }, copyButton(() => message.said));
    if (this.send && areFiles(message.parts)) this.bar.append(button(words.message.edit, () => this.edit()), button(words.message.again, () => this.send(withFiles(message.parts, message.said))));
    return this.bar;
  }

  // `found`: the branches of the message, or null; `open(run, step)` shows the one before or after.
  branch(found, open) {
    const key = JSON.stringify(found);
    if (!this.bar || key === this.branches) return;
    this.branches = key;
    setData(this.bar, "branches", String(found !== null));
    const hadFocus = this.steps?.contains(document.activeElement);
    this.steps?.remove();
    if (found === null) return;
    const { at, count, before, after } = found;
    const { message } = words, none = { [-1]: message.first, 1: message.last };
    const button = (step, text, run) => el("button", { type: "button", text, "aria-label": run === null ? none[step] : fill(message.branch, { n: at + step, count }), "data-step": step, disabled: run === null, onclick: () => open(run, step) });
    this.steps = el("span", { class: "branches" }, button(-1, "‹", before), el("span", { text: `${at}/${count}` }), button(1, "›", after));
    this.bar.prepend(this.steps);
    if (hadFocus) this.focus(1);
  }

  focus(step) {
    const buttons = [...(this.steps?.querySelectorAll("button:enabled") ?? [])];
    (buttons.find((button) => Number(button.dataset.step) === step) ?? buttons[0])?.focus({ preventScroll: true });
  }

  edit() {
    const field = el("textarea", { rows: Math.min(12, this.message.said.split("\n").length + 1), dir: "auto", "aria-label": words.message.editing });
    const list = el("ul", { class: "attached-list", "aria-label": words.attach.title, hidden: true }), files = new Attachments(list, () => field.focus(), () => {});
    const showMessage = (isShown) => {
      for (const node of [this.files, this.text, this.bar]) if (node) show(node, isShown);
    };
    const close = () => {
      form.remove();
      showMessage(true);
      this.bar.querySelector("button").focus();
    };
    const form = el("form", { class: "edit", onsubmit: async (event) => {
      event.preventDefault();
      const input = withFiles(files.blocks, field.value.trim());
      if (input !== "" && (await this.send(input)) !== null) close();
    }, onkeydown: (event) => {
      const isSent = event.target === field && event.key === "Enter" && !event.shiftKey && !event.isComposing; // as in the message box
      if (event.key !== "Escape" && !isSent) return;
      event.preventDefault();
      if (isSent) form.requestSubmit();
      else close();
    } }, list, field,
    el("div", {}, el("button", { class: "button small primary", type: "submit", text: words.message.save }), el("button", { class: "button small", type: "button", text: words.message.cancel, onclick: close })));
    field.value = this.message.said;
    files.put(this.message.parts);
    showMessage(false);
    this.node.append(form);
    field.focus();
  }
}

class BlockView {
  constructor(block, onText) {
    this.block = block;
    this.onText = onText;
    this.text = el("div", { class: "text" });
    this.growing = block.type === "text" || block.type === "thinking" ? new Markdown(this.text) : new GrowingText(this.text);
    this.label = el("h3", { class: "speaker" });
    this.reason = el("p", { class: "reason", hidden: true });
    this.bar = block.type === "text" ? el("div", { class: "item-actions", hidden: true }, copyButton(() => textOf(block))) : null;
    this.node = el("div", { class: `item block ${block.type}`, "data-type": block.type, "data-role": block.role }, this.label, this.text, this.reason, this.bar);
    if (block.type === "thinking") this.text.tabIndex = 0;
    if (block.choice) this.node.dataset.choice = block.choice;
  }

  update() {
    const { block } = this;
    const added = this.growing.grow(block.pieces);
    if (block.phase !== "open") this.growing.end?.();
    if (this.bar) show(this.bar, block.phase !== "open");
    setText(this.label, this.title());
    setData(this.node, "phase", block.phase);
    this.node.classList.toggle("retracted", block.retracted);
    show(this.reason, block.phase === "aborted" && !block.retracted);
    setText(this.reason, talk.cutOff);
    if (block.type === "thinking" && added && block.phase === "open") this.text.scrollTop = this.text.scrollHeight;
    if (this.onText && block.from !== null && !block.retracted) this.onText(block, added);
  }

  title() {
    const { block } = this;
    if (block.retracted) return fill(talk.retracted, { label: LABELS[block.type] ?? talk.answer });
    if (block.type === "text") return block.choice ? fill(talk.choice, { n: block.choice + 1 }) : talk.model;
    const label = LABELS[block.type] ?? block.label ?? block.type;
    const took = block.type === "thinking" ? tookOf(block) : null;
    return took === null ? label : fill(talk.took, { label, seconds: seconds(took) });
  }
}

class NoteView {
  constructor(note) {
    this.note = note;
    this.title = el("strong");
    this.text = el("span");
    this.node = el("div", { class: "item note" }, this.title, this.text);
  }

  update() {
    setText(this.title, this.note.title);
    setText(this.text, this.note.text);
    this.node.className = `item note ${this.note.tone}`;
  }
}

export function viewOf(item, onText) {
  switch (item.kind) {
    case "call": return new CallView(item);
    case "block": return new BlockView(item, item.type === "text" && item.scope.depth === 0 ? onText : null);
    default: return new NoteView(item);
  }
}
