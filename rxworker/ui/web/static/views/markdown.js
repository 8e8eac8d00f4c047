// Markdown as it streams, made of DOM nodes from a fixed set: text is only ever set as text. What is complete stays as it is, also what the user
// has selected in it; of the rest, only the nodes that differ are replaced.

import { codeBlock } from "./code.js";
import { el, GrowingText } from "./dom.js";
import { formula } from "./formula.js";
import { readable } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { MarkdownBlocks } from "../model/markdown.js";

const MAX = 1_000_000; // characters; what follows is plain text
const PART = 32; // blocks

export class Markdown {
  constructor(node) {
    this.node = node;
    this.seen = 0; // number of pieces that are shown
    this.size = 0;
    this.plain = null; // takes the rest, if that is not Markdown
    this.view = new BlocksView(node);
    this.blocks = new MarkdownBlocks(this.view);
    node.classList.add("markdown");
  }

  // Show the pieces that were added since the last call.
  grow(pieces) {
    if (this.seen === pieces.length) return "";
    const added = readable(pieces.slice(this.seen).join(""));
    this.seen = pieces.length;
    this.size += added.length;
    if (this.plain === null && this.size > MAX) {
      this.end();
      const node = el("div", { class: "plain" });
      this.node.append(node);
      this.plain = new GrowingText(node);
    }
    if (this.plain === null) this.blocks.add(added);
    else this.plain.append(added);
    return added;
  }

  // The text is complete.
  end() {
    if (this.plain === null) this.blocks.end();
  }
}

// Blocks that were completed long ago are collected in parts, since the browser looks at each child of the root in each frame.
class BlocksView {
  constructor(root) {
    this.root = root;
    this.parts = 0; // children that are parts
    this.first = 0; // the child that shows the first block of the tail
    this.kept = 0; // items or rows of it that are complete
    this.code = null;
  }

  draw(blocks) {
    const nodes = blocks.map(({ tokens }) => nodesOf(tokens)[0]), { root, first } = this;
    if (this.kept > 0) {
      const node = root.children[first];
      if (nodes[0]?.tagName === node.tagName) patch(partsOf(node), partsOf(nodes.shift()), this.kept);
      else this.complete(1);
      patch(root, { childNodes: nodes }, this.first + (this.kept > 0 ? 1 : 0));
    } else patch(root, { childNodes: nodes }, first);
  }

  complete(n) {
    const end = Math.min(this.first + n, this.root.childElementCount);
    for (; this.first < end; this.first += 1) finish(this.root.children[this.first]);
    this.kept = 0;
    this.collect();
  }

  collect() {
    const { children } = this.root;
    for (; this.first - this.parts >= 2 * PART; this.parts += 1, this.first -= PART - 1) {
      const nodes = Array.from({ length: PART }, (_, n) => children[this.parts + n]);
      // A node that is moved would lose what is selected in it.
      if (nodes.some((node) => getSelection()?.type === "Range" && getSelection().containsNode(node, true))) return;
      const part = el("div", { class: /^H\d$/.test(nodes[0].tagName) ? "part headed" : "part" });
      nodes[0].before(part);
      part.append(...nodes);
    }
  }

  continueWith(n) {
    this.kept += n;
  }

  beginCode(language) {
    this.code = codeBlock(language);
    this.root.append(this.code.node);
    this.first += 1;
    this.collect();
  }

  codeText(text) {
    this.code.append(text);
  }

  codeEnd() {
    this.code.end();
  }
}

const partsOf = (node) => (node.classList.contains("table") ? node.querySelector("tbody") : node);

// Make the children of a node, from the n-th on, equal to those of another one. Equal nodes stay.
function patch(node, wanted, n = 0) {
  const made = [...wanted.childNodes];
  for (const [at, child] of made.entries()) {
    const old = node.childNodes[n + at];
    if (old === undefined) node.append(child);
    else if (!old.isEqualNode(child)) replace(old, child);
  }
  while (node.childNodes.length > n + made.length) node.lastChild.remove();
}

function replace(old, child) {
  if (old.nodeType === Node.TEXT_NODE && child.nodeType === Node.TEXT_NODE) {
    if (child.data.startsWith(old.data)) old.appendData(child.data.slice(old.length));
    else old.data = child.data;
  } else if (old.block && child.block?.text.startsWith(old.block.text) && old.block.language === child.block.language) {
    old.block.append(child.block.text.slice(old.block.text.length));
  } else if (old.nodeType === Node.ELEMENT_NODE && !old.block && old.cloneNode().isEqualNode(child.cloneNode?.())) patch(old, child);
  else old.replaceWith(child);
}

// A block is complete: the code in it takes its colours.
function finish(node) {
  if (node.block) node.block.end();
  else for (const figure of node.querySelectorAll("figure.code")) figure.block.end();
}

const TAGS = {
  paragraph_open: "p", blockquote_open: "blockquote", bullet_list_open: "ul", ordered_list_open: "ol", list_item_open: "li", hr: "hr", hardbreak: "br", softbreak: "br",
  em_open: "em", strong_open: "strong", s_open: "s", thead_open: "thead", tbody_open: "tbody", tr_open: "tr", th_open: "th", td_open: "td",
};
const HEADINGS = { h1: "h3", h2: "h4", h3: "h5", h4: "h6", h5: "h6", h6: "h6" }; // the page has headings of its own

// The nodes of a list of tokens.
function nodesOf(tokens) {
  const root = { childNodes: [], append: (...nodes) => root.childNodes.push(...nodes) }, open = [root];
  for (const token of tokens) {
    const top = open.at(-1);
    if (token.nesting === -1) {
      if (!token.hidden) close(open.pop());
    } else if (token.type === "inline") top.append(...nodesOf(token.children));
    else if (!token.hidden) {
      const node = nodeOf(token);
      top.append(node);
      if (token.nesting === 1) open.push(node.inner ?? node);
    }
  }
  return root.childNodes;
}

function nodeOf(token) {
  switch (token.type) {
    case "heading_open": return el(HEADINGS[token.tag], { dir: "auto" });
    case "fence": case "code_block": return codeBlock(token.info, token.content).node;
    case "code_inline": return el("code", { text: token.content });
    case "math_inline": return formula(token.content, false);
    case "math_block": return formula(token.content, true, token.meta.isOpen);
    case "link_open": return link(token.attrGet("href"));
    case "image": return image(token);
    case "table_open": return table();
    case "ordered_list_open": return el("ol", { start: token.attrGet("start"), dir: "auto" });
    case "td_open": case "th_open": return el(TAGS[token.type], { class: /right|center/.exec(token.attrGet("style") ?? "")?.[0] ?? null });
    default: return TAGS[token.type] ? el(TAGS[token.type], token.block && token.nesting === 1 ? { dir: "auto" } : {}) : document.createTextNode(token.content);
  }
}

const TASK = /^\[([ xX])\]\s/;

function close(node) {
  if (node.tagName === "LI") task(node);
  else if (node.tagName === "A") host(node);
}

function task(item) {
  const first = item.firstChild?.tagName === "P" ? item.firstChild.firstChild : item.firstChild, found = first?.nodeType === Node.TEXT_NODE && TASK.exec(first.data);
  if (!found) return;
  first.data = first.data.slice(found[0].length);
  first.before(el("input", { type: "checkbox", disabled: true, checked: found[1] !== " ", "aria-label": words.talk.task }));
  item.classList.add("task");
}

const SAFE = ["http:", "https:", "mailto:"];

// The address if a link may lead there, else null.
export function addressOf(address) {
  try {
    const url = new URL(address);
    return SAFE.includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

// A link that leads elsewhere than to the web or a mailbox is text.
function link(address) {
  const url = addressOf(address);
  if (url === null) return el("a", { title: readable(address) });
  return el("a", { href: url.href, title: url.href, rel: "noopener noreferrer", target: "_blank", dir: "auto" });
}

// A link shows the host that it leads to, unless its text begins with just that: `https://bank.example@evil.example` and look-alikes do not.
function host(node) {
  const url = addressOf(node.getAttribute("href") ?? ""), where = url?.host || url?.pathname;
  if (where && !namesIt(node.textContent.trim().toLowerCase(), where)) node.append(el("span", { class: "leads-to", text: ` (${where})` }));
}

function namesIt(text, where) {
  const rest = text.replace(/^(https?:\/\/|mailto:)/, "");
  return rest === where || (rest.startsWith(where) && "/?#".includes(rest[where.length]));
}

// An image is loaded only when the user asks for it: its address may carry what the model knows. Images of other hosts open in a tab of their
// own, since the page itself loads nothing from elsewhere.
function image(token) {
  const source = token.attrGet("src"), alt = token.content, url = addressOf(source);
  const isData = /^data:image\/(png|jpeg|gif|webp);/.test(source);
  if (url === null && !isData) return document.createTextNode(alt || source);
  const button = el("button", { class: "image-link", type: "button", text: fill(isData ? words.talk.showImage : words.talk.openImage, { alt: alt || words.talk.image, host: url?.host }) });
  button.addEventListener("click", () => (isData ? button.replaceWith(el("img", { src: source, alt })) : window.open(url.href, "_blank", "noopener,noreferrer")));
  return button;
}

function table() {
  const inner = el("table"), node = el("div", { class: "table", tabindex: "0", role: "group", "aria-label": words.talk.table }, inner);
  node.inner = inner;
  return node;
}
