// Cuts a text that grows into Markdown blocks, so that what is complete is parsed once. Pure.
//
// Theory of operation. `tail` is the text whose blocks may still change: in Markdown the last block, of a list its last item, of a table its
// last row. Each piece of text is added to the tail, and the tail is parsed; when another block has begun in a complete line, the ones before it
// are complete. Code between fences is not parsed again at all: its lines are passed on as they are until the closing fence. A block that
// stays open for too long is cut, so that the cost of a piece does not depend on the length of the text.
//
// The parser is markdown-it (https://github.com/markdown-it/markdown-it), which follows CommonMark, with tables, strikethrough, links of bare
// addresses, and formulas between dollars.

import MarkdownIt from "../vendor/markdown-it/markdown-it.esm.min.mjs";

const LONGEST = 16_000; // characters of a block that is still open

const parser = new MarkdownIt({ html: false, linkify: true, breaks: true });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
parser.inline.ruler.before("escape", "math", inlineMath); // which reads `\\(` as an escaped bracket
parser.block.ruler.before("fence", "math", blockMath, { alt: ["paragraph", "blockquote", "list"] });
// Where a link may lead is decided when it is drawn.
parser.validateLink = () => true;

const MATH = /\$(?![\s\d])((?:[^$\n\\]|\\.)*?[^\s\\$])\$(?![\w$])|\\\(([^\n]+?)\\\)/y;

function inlineMath(state, silent) {
  MATH.lastIndex = state.pos;
  const found = "$\\".includes(state.src[state.pos]) && MATH.exec(state.src);
  if (!found) return false;
  if (!silent) state.push("math_inline", "code", 0).content = (found[1] ?? found[2]).trim();
  state.pos += found[0].length;
  return true;
}

const DISPLAY = [["$$", "$$"], ["\\[", "\\]"]];

// A line of `$$` begins a formula, which the next line that ends with `$$` ends, as fences do with code. On one line: `$$…$$`. Likewise `\[` and `\]`.
function blockMath(state, first, last, silent) {
  const line = (n) => state.src.slice(state.bMarks[n] + state.tShift[n], state.eMarks[n]).trim(), opening = line(first);
  const marks = DISPLAY.find(([from, to]) => opening === from || (opening.startsWith(from) && opening.endsWith(to) && opening.length > from.length + to.length));
  if (!marks) return false;
  if (silent) return true;
  const [from, to] = marks;
  let end = first;
  if (opening === from) do end += 1; while (end < last - 1 && !line(end).endsWith(to));
  end = Math.min(end, last - 1);
  const token = state.push("math_block", "pre", 0);
  const whole = state.getLines(first, end + 1, state.blkIndent, false).trim().slice(from.length);
  token.meta = { isOpen: !whole.endsWith(to) };
  token.content = (whole.endsWith(to) ? whole.slice(0, -to.length) : whole).trim();
  token.map = [first, end + 1];
  state.line = end + 1;
  return true;
}

// The top-level blocks, each with its kind, the line it begins in, its tokens and its parts: the items of a list, the rows of a table.
export function blocksOf(text) {
  const blocks = [];
  let block = null;
  for (const token of parser.parse(text, {})) {
    if (token.level === 0 && token.nesting >= 0) blocks.push((block = { kind: token.type.replace(/_open$/, ""), from: token.map[0], tokens: [], parts: [] }));
    block.tokens.push(token);
    const isPart = (token.type === "list_item_open" && token.level === 1) || (token.type === "tr_open" && token.level === 2 && block.kind === "table");
    if (isPart) block.parts.push({ from: token.map[0], at: block.tokens.length - 1 });
  }
  return blocks;
}

const FENCE = /^( {0,3})(`{3,}|~{3,})[^\n]*\n/, MAYBE_FENCE = /^ *[`~]*[ \t]*$/;

export class MarkdownBlocks {
  // `view` draws: `draw(blocks)` shows the blocks of the tail, in place of what it showed last; `complete(n)` makes the first `n` of them final;
  // `continueWith(n)` makes `n` items or rows of the only block final, and the next blocks begin within it; `beginCode(language)` begins code, of which
  // `codeText(text)` adds some and `codeEnd()` is the end.
  constructor(view) {
    this.view = view;
    this.tail = "";
    this.head = ""; // the lines above a table's last row that make it one
    this.fence = null; // { close, indent, line } within a fence
  }

  add(text) {
    for (let at = 0; at < text.length; at += LONGEST) this.take(text.slice(at, at + LONGEST));
  }

  take(text) {
    if (this.fence !== null) text = this.inFence(text);
    if (text === "") return;
    this.tail += text;
    this.cut();
  }

  // The text is complete.
  end() {
    if (this.fence !== null) {
      const { line, isBegun, close } = this.fence;
      if (!isBegun && !close.test(line)) this.view.codeText(line);
      this.view.codeEnd();
      this.fence = null;
    } else if (this.tail !== "") {
      this.view.draw(blocksOf(this.head + this.tail));
      this.view.complete(Infinity);
    }
    this.tail = this.head = "";
  }

  cut() {
    const source = this.head + this.tail, lines = starts(source), blocks = blocksOf(source), last = blocks.at(-1);
    if (last === undefined) return;
    const isWhole = (line) => source.endsWith("\n") || line < lines.length - 1;
    if (last.kind === "fence" && isWhole(last.from) && FENCE.test(source.slice(lines[last.from]))) return this.openFence(blocks, source.slice(lines[last.from]));
    this.view.draw(blocks);
    if (blocks.length > 1 && isWhole(last.from)) {
      this.view.complete(blocks.length - 1);
      this.keep(source.slice(lines[last.from]), "");
      return this.part(last, last.from);
    }
    if (blocks.length === 1) this.part(last, 0);
    if (this.tail.length > LONGEST) {
      this.view.complete(Infinity);
      this.keep("", "");
    }
  }

  // Of a list that is still open, the items before the last one are complete; of a table, the rows.
  part(block, above) {
    const { kind, parts } = block, least = kind === "table" ? 2 : 1;
    if (!["bullet_list", "ordered_list", "table"].includes(kind) || parts.length <= least) return;
    const source = this.head + this.tail, lines = starts(source), from = parts.at(-1).from - above;
    if (!source.endsWith("\n") && from >= lines.length - 1) return;
    this.view.continueWith(parts.length - least);
    this.keep(source.slice(lines[from]), kind === "table" ? source.slice(0, lines[parts[1].from - above]) : "");
  }

  keep(tail, head) {
    this.tail = tail;
    this.head = head;
  }

  openFence(blocks, source) {
    const [opening, indent, marks] = FENCE.exec(source);
    this.view.draw(blocks.slice(0, -1));
    this.view.complete(blocks.length - 1);
    this.view.beginCode(opening.trim().slice(marks.length).trim());
    this.keep("", "");
    this.fence = { close: new RegExp(`^ {0,3}${marks[0]}{${marks.length},}[ \\t]*$`), indent: new RegExp(`^ {0,${indent.length}}`), line: "", isBegun: false };
    this.tail = this.inFence(source.slice(opening.length));
    if (this.tail !== "") this.cut();
  }

  // Pass on the code; returns the text after the closing fence. A line that may become that fence is held back.
  inFence(text) {
    const { fence } = this;
    let code = "";
    while (text !== "" && this.fence !== null) {
      const end = text.indexOf("\n") + 1, piece = end ? text.slice(0, end) : text;
      text = text.slice(piece.length);
      fence.line += piece;
      if (end && !fence.isBegun && fence.close.test(fence.line.slice(0, -1))) this.fence = null;
      else if (end || !MAYBE_FENCE.test(fence.line)) {
        code += fence.isBegun ? piece : fence.line.replace(fence.indent, "");
        fence.isBegun = !end;
      }
      if (end) fence.line = "";
    }
    this.view.codeText(code);
    if (this.fence === null) this.view.codeEnd();
    return text;
  }
}

// The position at which each line begins. A text that ends with a line end has no line after it.
function starts(text) {
  const found = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) found.push(at + 1);
  return found;
}
