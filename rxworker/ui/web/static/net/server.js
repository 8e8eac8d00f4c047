// The connection to the server: one WebSocket for everything that is watched, and the JSON API.
//
// Theory of operation. `watched` maps a run to its delivery and a function that returns the number of its last known record, and `streams` does so for
// published streams. Whenever a connection opens, each is requested again from there, and so is the list of runs: a lost connection loses no records. Waits
// between attempts double, with jitter, so that not all pages reconnect at once. Another `instance` in the
// greeting is another server process: it reports runs that it does not know as gone.
//
// Addresses of the API are relative to the page, so that it works wherever the application is mounted.

import { fill, words } from "../model/language.js";

const FIRST = 300, LONGEST = 8_000, STABLE = 5_000;

// Milliseconds until the next attempt, after so many.
export function waitOf(tries) {
  const most = Math.min(LONGEST, FIRST * 2 ** tries);
  return most / 2 + (Math.random() * most) / 2;
}

export class Connection {
  // handlers: hello(instance, isNew), runs(list), records(run, list), end(run, message), gone(run), error(message), state(word), and for streams
  // items(stream, epoch, list), streamEnd(stream, message), streamGone(stream)
  constructor(handlers, { makeSocket = () => socketAt(document.baseURI), name = "page", isListing = true, delivery = "coalesce" } = {}) {
    this.handlers = handlers;
    this.delivery = delivery; // of runs
    this.makeSocket = makeSocket;
    this.name = name;
    this.isListing = isListing;
    this.watched = new Map();
    this.streams = new Map();
    this.instance = null;
    this.tries = 0;
    this.socket = null;
    this.timer = null;
    this.ready = false;
  }

  open() {
    clearTimeout(this.timer);
    this.timer = null;
    const socket = this.makeSocket();
    this.socket = socket;
    socket.onmessage = (event) => socket === this.socket && this.take(JSON.parse(event.data));
    socket.onclose = () => socket === this.socket && this.lost();
    socket.onerror = () => {}; // it closes; of the package "ws", an error that nothing takes would end the program
  }

  // Try at once: the network is back, or the page is visible again.
  hurry() {
    if (this.timer !== null) this.open();
  }

  // The network is gone; the browser may detect it on the socket only much later.
  drop() {
    const socket = this.socket;
    if (socket === null) return;
    this.lost();
    socket.close();
  }

  lost() {
    this.socket = null;
    this.ready = false;
    clearTimeout(this.stable);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), waitOf(this.tries));
    this.tries += 1;
    this.handlers.state("lost");
  }

  // For good: no other attempt is made.
  close() {
    const { socket } = this;
    for (const timer of [this.timer, this.stable]) clearTimeout(timer);
    Object.assign(this, { socket: null, timer: null, ready: false });
    socket?.close();
  }

  watch(run, cursor, delivery = this.delivery) {
    this.watched.set(run, { cursor, delivery });
    if (this.ready) this.ask(run);
  }

  unwatch(run) {
    if (this.watched.delete(run) && this.ready) this.send({ type: "unwatch", run });
  }

  again(run) {
    const asked = this.watched.get(run);
    this.unwatch(run);
    if (asked) this.watch(run, asked.cursor, asked.delivery);
  }

  ask(run) {
    const { cursor, delivery } = this.watched.get(run);
    this.send({ type: "watch", run, after: cursor(), delivery, name: this.name });
  }

  watchStream(stream, cursor, delivery = null) {
    this.streams.set(stream, { cursor, delivery });
    if (this.ready) this.askStream(stream);
  }

  unwatchStream(stream) {
    if (this.streams.delete(stream) && this.ready) this.send({ type: "unwatch_stream", stream });
  }

  askStream(stream) {
    const { cursor, delivery } = this.streams.get(stream);
    this.send({ type: "watch_stream", stream, after: cursor(), delivery, name: this.name });
  }

  send(message) {
    this.socket?.send(JSON.stringify(message));
  }

  take(message) {
    switch (message.type) {
      case "hello":
        this.greeted(message.instance);
        break;
      case "runs":
        this.handlers.runs(message.runs);
        break;
      case "records":
        if (this.watched.has(message.run)) this.handlers.records(message.run, message.records);
        break;
      case "end":
        this.watched.delete(message.run);
        this.handlers.end(message.run, message);
        break;
      case "gone":
        this.watched.delete(message.run);
        this.handlers.gone(message.run);
        break;
      case "items":
        if (this.streams.has(message.stream)) this.handlers.items(message.stream, message.epoch, message.items);
        break;
      case "stream_end":
        this.streams.delete(message.stream);
        this.handlers.streamEnd(message.stream, message);
        break;
      case "stream_gone":
        this.streams.delete(message.stream);
        this.handlers.streamGone(message.stream);
        break;
      case "error":
        this.handlers.error(message);
        break;
      default: // a newer server may send more types
    }
  }

  greeted(instance) {
    const isNew = this.instance !== null && this.instance !== instance;
    this.instance = instance;
    this.ready = true;
    // Only a stable connection resets the wait.
    this.stable = setTimeout(() => (this.tries = 0), STABLE);
    this.handlers.state("open");
    this.handlers.hello(instance, isNew);
    if (this.isListing) this.send({ type: "list" });
    for (const run of this.watched.keys()) this.ask(run);
    for (const stream of this.streams.keys()) this.askStream(stream);
  }
}

// How a server is reached from another page or program: { token, fetch, makeSocket }, none of which the page of the server needs. An address of a server ends
// in a slash.

const PROTOCOL = "rxworker";

// A socket of the server at an address. A browser sends no headers with it but the names of protocols.
export function socketAt(server, { token, makeSocket = (url, protocols) => new WebSocket(url, protocols) } = {}) {
  const url = new URL("api/ws", server);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return makeSocket(url, token ? [PROTOCOL, `${PROTOCOL}.token.${inBase64(token)}`] : []);
}

// A text in UTF-8, each byte as a character: what a header takes.
const inBytes = (text) => String.fromCharCode(...new TextEncoder().encode(text));
const inBase64 = (text) => btoa(inBytes(text)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// Whether an error is a refusal that a later attempt does not change.
export const isFinal = ({ status }) => status >= 400 && status < 500 && status !== 408 && status !== 429;

let root = globalThis.document?.baseURI; // the address of the server, or of a page beside it

// An absolute address needs no page around it.
export const at = (path) => new URL(path, root);
// A page below the address of the server names that address.
export const useServer = (url) => (root = url);

let token = null; // of the read-only link that the page shows

// From now on, requests have the token of a read-only link, and no other rights.
export const useLink = (given) => (token = given);
export const isLink = () => token !== null;

async function answerOf(path, { fetch = globalThis.fetch, ...reach } = {}, options = {}) {
  let response;
  try {
    const given = reach.token ?? token, headers = { ...options.headers, ...(given && { authorization: `Bearer ${inBytes(given)}` }) };
    response = await fetch(at(path), { credentials: "include", ...options, headers });
  } catch {
    throw new ApiError(0, "unreachable", words.link.unreachable);
  }
  if (response.ok) return response;
  const error = (await response.json().catch(() => null))?.error ?? {};
  throw new ApiError(response.status, error.code ?? "error", error.message ?? fill(words.link.answered, response));
}

async function ask(path, reach, options) {
  const response = await answerOf(path, reach, options);
  return response.json().catch(() => null);
}

function post(path, body = {}, reach) {
  const headers = { "content-type": "application/json" };
  return ask(path, reach, { method: "POST", headers, body: JSON.stringify(body) });
}

// Server-sent events, each as its type and its data, until they end or the connection is lost. `open()` is called when they begin. Where nothing is left, the
// server has no body: that is their end.
export async function* eventsAt(url, reach, signal, open = () => {}) {
  const response = await answerOf(url.href, reach, { headers: { accept: "text/event-stream" }, signal });
  if (response.status === 204) return yield ["end", "{}"];
  open();
  let rest = "";
  for (const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ; ) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done || signal.aborted) return;
    const frames = (rest + value).split(/\r?\n\r?\n/);
    rest = frames.pop();
    for (const frame of frames) {
      const found = (field) => frame.split(/\r?\n/).filter((line) => line.startsWith(`${field}:`)).map((line) => line.slice(field.length + 1).trimStart());
      const data = found("data");
      if (data.length > 0 && !signal.aborted) yield [found("event").at(-1) ?? "message", data.join("\n")];
    }
  }
}

const of = (run, verb) => `api/runs/${encodeURIComponent(run)}/${verb}`;

// Information about the server, and the time of its clock in seconds since the epoch.
export const info = () => timed("api/info");
export const infoAt = (server, reach) => ask(`${server}api/info`, reach);

async function timed(path, reach) {
  const response = await answerOf(path, reach), clock = Date.parse(response.headers.get("date") ?? "") || Date.now();
  return [await response.json(), clock / 1000];
}

// What the read-only link of the page shows; and the links of the user: `shown` is what one shows and when it ends.
export const linkInfo = () => timed("api/link");
export const linkInfoAt = (server, reach) => timed(`${server}api/link`, reach);
export const links = () => ask("api/links");
export const makeLink = (shown) => post("api/links", shown);
export const revoke = (id) => ask(`api/links/${id}`, {}, { method: "DELETE" });

export const workerOf = async (run) => (await ask(of(run, "worker"))).worker;
// The request of the attempt that starts with a record, as it was sent.
export const request = (run, seq) => ask(of(run, `requests/${seq}`));
export const runs = (query) => ask(`api/runs?${query}`);
// One run of the server at an address, and the time of its clock.
export const runAt = (server, run, reach) => timed(`${server}${of(run, "").slice(0, -1)}`, reach);

// The dashboards of the server at an address, and what the panels of one show of a run, of a conversation or of all runs, now or at a time.
export const boardsAt = (server, reach) => ask(`${server}api/boards`, reach);
// The runs that have made the values of a panel, or of one of its groups.
export const makersOf = async (board, query) => (await ask(`api/boards/${encodeURIComponent(board)}/runs?${parametersOf(query)}`)).runs;
export const timeMarks = async (query) => (await ask(`api/time-marks?${parametersOf(query)}`)).marks;
export const boardAt = (server, path, query, reach) => ask(`${server}api/boards/${path}?${parametersOf(query)}`, reach);
// The parameters of an address: a value that is a list is repeated, and null is left out.
export const parametersOf = (query) => new URLSearchParams(Object.entries(query).flatMap(([name, value]) => [value ?? []].flat().map((one) => [name, one])));

export const fleet = (query) => ask(`api/fleet?${query}`);

// What a client does with the runs of the server at an address.
export function verbsAt(server = "", reach = {}) {
  const act = (run, verb, body) => post(`${server}${of(run, verb)}`, body, reach);
  // Without decisions the run goes on from a pause that waits for no call.
  const resume = (run, decisions) => act(run, "resume", decisions ? { decisions } : { continue: true });
  return {
    // `where` is the worker, the conversation to continue, or the message that the input replaces: { worker, conversation, edits: { run, message, text } }.
    start: (input, where = {}) => post(`${server}api/runs`, { input, ...where }, reach),
    // `when` is "now" (a response that is being written is cut off), "turn" or "end".
    send: (run, message, id, when) => act(run, "send", { message, ...(id && { id }), ...(when && { when }) }),
    edit: (run, id, message, when) => act(run, "edit", { id, message, ...(when && { when }) }),
    withdraw: (run, id) => act(run, "withdraw", { id }),
    pause: (run, options) => act(run, "pause", options),
    cancel: (run, options) => act(run, "cancel", options),
    fork: (run, seq) => act(run, "fork", { seq }),
    resume,
    approve: (run, call, options) => resume(run, { [call]: { type: "approve", ...options } }),
    deny: (run, call, reason) => resume(run, { [call]: { type: "deny", ...(reason && { reason }) } }),
    answer: (run, call, content) => resume(run, { [call]: { type: "answer", content } }),
  };
}

export const { start, send, withdraw, pause, cancel, fork, resume } = verbsAt();
export const rerun = (run, worker) => post(of(run, "rerun"), worker ? { worker } : {});
export const annotate = (run, annotation) => post(of(run, "annotate"), annotation);
export const requeue = (run) => post(of(run, "requeue"), { reason: "put back from the page" });
export const mark = (conversation, changes) => post(`api/conversations/${encodeURIComponent(conversation)}/mark`, changes);
export const remove = (conversation) => post(`api/conversations/${encodeURIComponent(conversation)}/delete`);
export const disallow = (conversation, allowed) => post(`api/conversations/${encodeURIComponent(conversation)}/disallow`, allowed);
