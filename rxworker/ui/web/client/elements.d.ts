import type { Decision, UserInput } from "./index.js";
import type { PanelState, PauseState, Record, RunSummary } from "./events.js";

/** Define `<rx-run>` and `<rx-panel>`, loaded from the server at an address. */
export function defineElements(url: string): Promise<void>;

/** The event `status` of `<rx-run>`: the run has begun, paused or ended. */
export type StatusEvent = CustomEvent<{ run: string; status: "running" | "paused" | "finished" | "aborted" | "gone" }>;

/** The event `record` of `<rx-run>`: a record has arrived; each comes once. */
export type RecordEvent = CustomEvent<Record>;

/** The event `question` of `<rx-run>`: the run waits for a decision about calls, or to go on. */
export type QuestionEvent = CustomEvent<{ run: string; pause: PauseState }>;

/** The event `error` of both elements: they show why they do not show more. */
export type ProblemEvent = CustomEvent<{ code: string; message: string }>;

/** The event `states` of `<rx-panel>`: what it shows has changed. */
export type StatesEvent = CustomEvent<PanelState[]>;

/** Attributes of both elements; each is a property, too. */
export interface ElementAttributes {
  /** The address of the run, or of the dashboard. */
  src?: string | null;
  /** A moment of the past, in seconds since the epoch. */
  at?: number | string | null;
  theme?: "light" | "dark" | null;
  /** The token of the server. As a property it is not seen in the document. */
  token?: string | null;
}

export interface RunAttributes extends ElementAttributes {
  /** The id of the run, if `src` is the address of a server; without `src`, of the server that the element was loaded from. */
  run?: string | null;
  view?: "conversation" | "trace" | null;
}

export interface PanelAttributes extends ElementAttributes {
  /** The name of the panel; without it, all panels are shown. */
  panel?: string | null;
}

export interface RunEventMap extends Omit<HTMLElementEventMap, "error"> {
  status: StatusEvent;
  record: RecordEvent;
  question: QuestionEvent;
  error: ProblemEvent;
}

export interface PanelEventMap extends Omit<HTMLElementEventMap, "error"> {
  states: StatesEvent;
  error: ProblemEvent;
}

/** `<rx-run>`. Its methods are done with the run that is shown, which may continue that of `src`; they reject with an `ApiError`. */
export interface RunElement extends HTMLElement, Required<RunAttributes> {
  /** Send a message into the run; after its end, into its conversation, whose next run is shown. An element without a run starts one. */
  send(message: UserInput, options?: { worker?: string }): Promise<RunSummary>;
  /** Approve the call that the run waits for. */
  approve(call: string, options?: { input?: { [key: string]: unknown } | string; always?: boolean }): Promise<RunSummary>;
  /** Deny it; the model receives the reason. */
  deny(call: string, reason?: string): Promise<RunSummary>;
  /** Continue the paused run with all decisions at once. */
  resume(decisions?: { [call: string]: Decision } | (Decision | null)[]): Promise<RunSummary>;
  cancel(options?: { when?: "now" | "after_turn"; reason?: string }): Promise<RunSummary>;
  addEventListener<K extends keyof RunEventMap>(type: K, listener: (this: RunElement, event: RunEventMap[K]) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject, options?: boolean | AddEventListenerOptions): void;
  removeEventListener<K extends keyof RunEventMap>(type: K, listener: (this: RunElement, event: RunEventMap[K]) => void, options?: boolean | EventListenerOptions): void;
  removeEventListener(type: string, listener: EventListenerOrEventListenerObject, options?: boolean | EventListenerOptions): void;
}

/** `<rx-panel>`. */
export interface PanelElement extends HTMLElement, Required<PanelAttributes> {
  addEventListener<K extends keyof PanelEventMap>(type: K, listener: (this: PanelElement, event: PanelEventMap[K]) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject, options?: boolean | AddEventListenerOptions): void;
  removeEventListener<K extends keyof PanelEventMap>(type: K, listener: (this: PanelElement, event: PanelEventMap[K]) => void, options?: boolean | EventListenerOptions): void;
  removeEventListener(type: string, listener: EventListenerOrEventListenerObject, options?: boolean | EventListenerOptions): void;
}

declare global {
  interface HTMLElementTagNameMap {
    "rx-run": RunElement;
    "rx-panel": PanelElement;
  }
}
