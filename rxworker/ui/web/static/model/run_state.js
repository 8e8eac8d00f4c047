// The state of a folded run: scopes, items and usage. Pure data.
//
// Text grows in pieces and is joined only on request: a view stores how many pieces it has shown,
// so that the cost of a frame depends on what is new.
//
// A scope is a run or a nested run: its items, its open blocks and its calls.

let made = 0;

function item(kind, scope, fields) {
  made += 1;
  return { kind, key: made, scope, retracted: false, ...fields };
}

export function makeBlock(scope, type, fields = {}) {
  return item("block", scope, {
    type, role: "assistant", index: null, choice: 0, phase: "open",
    pieces: [], size: 0, from: null, to: null, took: null, reason: "", turn: 0, ...fields,
  });
}

// How many seconds a block was open, if known.
export function tookOf(block) {
  return block.took ?? (block.from !== null && block.to !== null ? block.to - block.from : null);
}

export function makeCall(scope, id, name, fields = {}) {
  return item("call", scope, {
    id, name, state: "writing", pieces: [], size: 0, input: undefined, edited: false, index: null, choice: 0, phase: "open",
    writtenFrom: null, writtenTo: null, from: null, to: null, seconds: null,
    progress: "", background: false, steps: 0, inner: null, result: null, parts: null, isError: false, verdicts: [], turn: 0, reason: "", type: "tool_use", ...fields,
  });
}

export function makeMessage(scope, role, text, fields = {}) {
  return item("message", scope, { role, text, source: "", parts: [], said: text, ...fields });
}

export function makeNote(scope, tone, title, text, fields = {}) {
  return item("note", scope, { tone, title, text: text || "", time: null, inline: false, ...fields });
}

// A turn, or one attempt of its request. `bytes` is what it has written, `input` the estimate of what it reads; `first` is the time of the first block, `marks` are the times of notices within a turn.
export function makeSpan(scope, type, from, fields) {
  return item("span", scope, { type, from, first: null, to: null, phase: "open", number: 0, model: "", usage: null, reason: "", marks: [], bytes: 0, input: 0, last: null, isSettled: false, ...fields });
}

export function addText(thing, text) {
  thing.pieces.push(text);
  thing.size += text.length;
}

export function textOf(thing) {
  if (thing.pieces.length > 1) return thing.pieces.join("");
  return thing.pieces[0] ?? "";
}

// The text of a tool result: a string, or the text of its parts.
export function resultText(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map(partText).join("");
}

function partText(part) {
  if (part.type === "text") return part.text;
  return `[${part.type} ${part.media_type ?? ""}]`.replace(" ]", "]");
}

const FIELDS = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "reasoning_tokens", "cache_creation_1h_tokens"];
const SIZES = [100_000, 128_000, 200_000, 256_000, 272_000, 512_000]; // as in Python: lengths of a prompt above which there are other prices
const MILLION = 1_000_000;

export function newUsage() {
  return Object.fromEntries(FIELDS.map((name) => [name, null]));
}

// The sum of responses. One that is longer than the first size has its tokens by the sizes of their prompts, too; see `Usage.by_size` in Python.
export function addUsage(a, b) {
  const sum = added(a, b);
  if ((sum.input_tokens ?? 0) <= SIZES[0]) return sum;
  const sizes = partsOf(a);
  for (const [size, part] of partsOf(b)) sizes.set(size, sizes.has(size) ? added(sizes.get(size), part) : part);
  return { ...sum, by_size: [...sizes] };
}

function added(a, b) {
  const sum = newUsage();
  for (const name of FIELDS) {
    const left = a?.[name] ?? null, right = b?.[name] ?? null;
    sum[name] = left === null ? right : right === null ? left : left + right;
  }
  return sum;
}

function partsOf(usage) {
  if (usage?.by_size?.length) return new Map(usage.by_size);
  if (!usage || (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0) === 0) return new Map();
  return new Map([[SIZES.findLast((size) => (usage.input_tokens ?? 0) > size) ?? 0, usage]]);
}

// All tokens of a run: of finished responses, of the current response and of nested runs.
export function usageOf(run) {
  let usage = addUsage(run.root.spent, run.root.response.usage);
  for (const scope of run.scopes.values()) usage = addUsage(addUsage(usage, scope.spent), scope.response.usage);
  return usage;
}

// Like `Prices.cost` in Python; a test checks that the two agree.
export function costOf(prices, usage) {
  if (!prices.long) return costAt(prices, usage);
  let cost = 0;
  for (const [size, part] of partsOf(usage)) cost += size >= prices.above ? costOf(prices.long, part) : costAt(prices, part);
  return cost;
}

function costAt(prices, usage) {
  const read = usage.cache_read_tokens ?? 0, written = usage.cache_creation_tokens ?? 0, hour = Math.min(usage.cache_creation_1h_tokens ?? 0, written);
  const fresh = Math.max((usage.input_tokens ?? 0) - read - written, 0), ofWritten = prices.cache_creation ?? prices.input;
  const input = fresh * prices.input + read * (prices.cache_read ?? prices.input) + (written - hour) * ofWritten + hour * (prices.cache_creation_1h ?? ofWritten);
  return (input + (usage.output_tokens ?? 0) * prices.output) / MILLION;
}

export function newScope(path, parent) {
  return {
    path, parent, depth: path.length, items: [],
    open: new Map(), // blocks and calls that are being written, by index
    background: new Map(), // the calls in the background, by their ids there
    calls: new Map(), // every call by its id; a provider may give two calls the same id
    attempt: [], // items of the current attempt, to be marked if it is retracted
    trouble: null, // the error or limit without a consequence so far
    response: newResponse(), spent: newUsage(), hasResponse: false,
    context: 0, // estimated tokens of its conversation
    turn: null, request: null, // the spans of the current turn and attempt
  };
}

export function newResponse() {
  return { status: null, usage: null };
}

// The scope of a path, created on first use.
export function scopeAt(run, path) {
  if (path.length === 0) return run.root;
  const key = JSON.stringify(path);
  let scope = run.scopes.get(key);
  if (scope === undefined) {
    const outer = scopeAt(run, path.slice(0, -1));
    scope = newScope(path, lastCall(outer, path[path.length - 1]));
    if (scope.parent) scope.parent.inner = scope;
    run.scopes.set(key, scope);
  }
  return scope;
}

export function put(run, scope, item) {
  scope.items.push(item);
  run.changed.add(item);
  return item;
}

export function registerCall(scope, call) {
  const same = scope.calls.get(call.id);
  if (same) same.push(call);
  else scope.calls.set(call.id, [call]);
}

export function lastCall(scope, id) {
  const same = scope.calls.get(id);
  return same ? same[same.length - 1] : null;
}

// The first open call with this id; created if unknown.
export function callFor(run, scope, id, name, isOpen) {
  const same = scope.calls.get(id) ?? [];
  const found = same.find((call) => !call.retracted && isOpen(call));
  if (found) return found;
  const last = same[same.length - 1];
  if (last && !last.retracted) return last;
  const call = makeCall(scope, id, name, { state: "waiting", phase: "stopped" });
  registerCall(scope, call);
  put(run, scope, call);
  return call;
}
