import type { PanelState } from "./events.js";

/** Define `<rx-run>` and `<rx-panel>`, loaded from the server at an address. */
export function defineElements(url: string): Promise<void>;

/** The event of `<rx-run>` when the run has begun, paused or ended. */
export type StatusEvent = CustomEvent<{ run: string; status: "running" | "paused" | "finished" | "aborted" | "gone" }>;

/** The event of `<rx-run>` when it shows why it does not show the run. */
export type ProblemEvent = CustomEvent<{ code: string; message: string }>;

/** The event of `<rx-panel>` when what it shows has changed. */
export type StatesEvent = CustomEvent<PanelState[]>;
