import type { Observable } from "rxjs";

import type { Delivery, Document, Image, Message, PanelState, PauseState, Record, RunSummary, Text, ToolResult, Usage } from "./events.js";

export type * from "./events.js";

/** How a client reaches its server. In a browser with a cookie of the server, and in Node 22, nothing of it is needed. */
export interface ConnectOptions {
  /** The token of the server. It is sent in a header, never in an address. Who can read the page can read it: see the manual on tokens in pages. */
  token?: string;
  /** The name of the watcher, which the server shows. */
  name?: string;
  /** Makes a socket, for a runtime without `WebSocket`, such as Node 20: the package `ws`, for example. The names of protocols contain the token. */
  makeSocket?: (url: URL, protocols: string[]) => WebSocket;
  /** Sends requests, and receives dashboards. */
  fetch?: typeof fetch;
}

/** Reach a server. Nothing is requested before an observable is subscribed to. */
export function connect(url: string, options?: ConnectOptions): Client;

export interface Client {
  /** The address of the server. */
  readonly url: string;
  /** Why the server cannot be reached, while the client tries again; `null` while it can. The other observables go on where they were as soon as it answers. */
  readonly problem$: Observable<ApiError | null>;
  /** The runs of the server, the newest first, and again after each change. */
  readonly runs$: Observable<RunSummary[]>;
  /** The records of a run, each once, from the first or after a number; completes when the run has ended or paused. */
  records$(id: string, options?: { after?: number; delivery?: Delivery }): Observable<Record>;
  /** A run as the page of the server shows it, and again after each change; completes when the run has ended or paused. */
  view$(id: string): Observable<RunView>;
  /** The items of a published stream, from those that it keeps or after a cursor; completes when the stream ends. */
  stream$<T = unknown>(name: string, options?: { after?: string; delivery?: Delivery }): Observable<StreamItem<T>>;
  /** What all panels of a dashboard show, and again after each change. With `at`, what they showed then, once. */
  board$(board: string, options?: BoardOptions): Observable<PanelState[]>;
  /** What one panel of a dashboard shows, and again after each change. With `at`, what it showed then, once. */
  panel$(board: string, panel: string, options?: BoardOptions): Observable<PanelState>;
  /** Start a run: of a new conversation, the next one of a conversation, or one in place of an earlier message. All of these reject with an `ApiError`. */
  start(input: UserInput, options?: StartOptions): Promise<RunSummary>;
  /** Send a message into a running run: before its next request, or `now`, which cuts off the response that is being written, or at its end. */
  send(id: string, message: UserInput, messageId?: string, when?: "now" | "turn" | "end"): Promise<RunSummary>;
  /** Replace the message that was sent with this id, if the model has not read it, and change when it is delivered. */
  edit(id: string, messageId: string, message: UserInput, when?: "now" | "turn" | "end"): Promise<RunSummary>;
  /** Withdraw the message that was sent with this id, if the model has not read it. Over a log, the records state in `ignored` of `command_taken` if it was too late. */
  withdraw(id: string, messageId: string): Promise<RunSummary>;
  /** Pause a run at the next safe moment. */
  pause(id: string, options?: { reason?: string }): Promise<RunSummary>;
  /** Cancel a run. A paused one can no longer be resumed. */
  cancel(id: string, options?: { when?: "now" | "after_turn"; reason?: string }): Promise<RunSummary>;
  /** Continue a copy of a stored run, up to the record with this number, as a new run. */
  fork(id: string, seq: number): Promise<RunSummary>;
  /** Approve the call that a paused run waits for, with these arguments in place of its own. Resolves to the run that continues it. */
  approve(id: string, call: string, options?: { input?: { [key: string]: unknown } | string; always?: boolean }): Promise<RunSummary>;
  /** Deny it; the model receives the reason. */
  deny(id: string, call: string, reason?: string): Promise<RunSummary>;
  /** Give the result of a call that a client runs. */
  answer(id: string, call: string, content: string): Promise<RunSummary>;
  /** Continue a paused run with all decisions at once; without them, one that waits for no call. Each call that needs a decision must have one. */
  resume(id: string, decisions?: { [call: string]: Decision } | (Decision | null)[]): Promise<RunSummary>;
}

/** What a person sends: a text, or content blocks. */
export type UserInput = string | (Text | Image | Document)[];

export interface StartOptions {
  /** The worker, where the server has several. */
  worker?: string;
  /** The conversation to continue. */
  conversation?: string;
  /** The message of the user, counted from 0, in whose place the input begins a new conversation, and its text. */
  edits?: { run: string; message: number; text: string };
}

/** A decision about a call that waits. */
export type Decision =
  | { type: "approve"; input?: { [key: string]: unknown } | string; always?: boolean }
  | { type: "deny"; reason?: string }
  | { type: "answer"; content: string };

/** What a dashboard is shown of: a run, a conversation, or all runs that the user may see. */
export interface BoardOptions {
  run?: string;
  conversation?: string;
  /** A moment of the past, in seconds since the epoch. */
  at?: number;
}

/** An item of a published stream. */
export interface StreamItem<T> {
  /** Its number, from 1. The numbers that are left out are those of items that the delivery, or the memory of the stream, has dropped. */
  seq: number;
  /** Seconds since the epoch. */
  time: number;
  value: T;
  /** Continues a later subscription after this item. */
  cursor: string;
}

/** A refusal of the server, or a fault that no other attempt changes. */
export class ApiError extends globalThis.Error {
  /** The HTTP status; 0 without one. */
  status: number;
  /** The code of the error, such as `gone` for a run that the server does not know. */
  code: string;
}

/** A run as it is shown. It is read only: a part of it is the same object in the next one. */
export interface RunView {
  id: string;
  /** The number of its last record. */
  seq: number;
  status: "new" | "running" | "paused" | "finished" | "aborted";
  turns: number;
  attempts: number;
  toolCalls: number;
  /** Why it was aborted or paused. */
  reason: string;
  cause: string;
  pause: PauseState | null;
  provider: string;
  model: string;
  /** The time of its first and its last record, in seconds since the epoch. */
  started: number | null;
  last: number | null;
  /** Its conversation. */
  root: Scope;
  /** Errors, limits, messages of hooks, and so on. */
  notes: NoteItem[];
}

/** The conversation of a run, or of a run inside a call. */
export interface Scope {
  items: Item[];
}

export type Item = MessageItem | BlockItem | CallItem | NoteItem;

interface Shared {
  /** Another one for each item. */
  key: number;
  /** Whether the attempt that wrote it was retracted. */
  retracted: boolean;
}

/** A message that the model has not written. */
export interface MessageItem extends Shared {
  kind: "message";
  role: Message["role"];
  text: string;
}

/** Text, thinking or another block of the model; its text is `textOf(item)`. */
export interface BlockItem extends Shared {
  kind: "block";
  type: string;
  phase: "open" | "stopped" | "aborted";
  pieces: string[];
}

/** A call of a tool, with its result. What the model has written of its arguments so far is `textOf(item)`. */
export interface CallItem extends Shared {
  kind: "call";
  id: string;
  name: string;
  state: "writing" | "waiting" | "running" | "paused" | "done" | "failed" | "skipped" | "stopped" | "not run" | "provider" | "cut";
  input: unknown;
  progress: string;
  result: string | null;
  isError: boolean;
  /** How long it ran. */
  seconds: number | null;
  /** The run inside the call. */
  inner: Scope | null;
  pieces: string[];
}

/** An error, a limit, a message of a hook. */
export interface NoteItem extends Shared {
  kind: "note";
  tone: "bad" | "warn" | "info" | "quiet" | "verdict";
  title: string;
  text: string;
  time: number | null;
}

/** The text of a block, or the arguments of a call as far as they are written. */
export function textOf(item: BlockItem | CallItem): string;

/** The text of the content of a tool's result. */
export function resultText(content: ToolResult["content"]): string;

/** All tokens of a run: of finished responses, of the current one, and of runs inside calls. */
export function usageOf(run: RunView): Usage;
