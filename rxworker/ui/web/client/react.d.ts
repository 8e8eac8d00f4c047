import type { DetailedHTMLProps, HTMLAttributes } from "react";

import type { PanelAttributes, PanelElement, PanelEventMap, RunAttributes, RunElement, RunEventMap } from "./elements.js";
import type { ApiError, BoardOptions, Client, PanelState, RunView } from "./index.js";

/** What a hook knows of an observable. */
export interface Newest<T> {
  /** The newest value; null before the first. */
  value: T | null;
  /** Why it has ended, if it has failed. */
  error: ApiError | null;
  /** Whether it has ended, and has not failed. */
  isDone: boolean;
  /** Why the server cannot be reached, while the client tries again: what `value` shows may be old. */
  problem: ApiError | null;
}

/** A run as the page of the server shows it; nothing without an id. */
export function useRun(client: Client, id: string | null | undefined): Newest<RunView>;

/** What a panel of a dashboard shows, now or at a moment. */
export function usePanel(client: Client, board: string, panel: string, options?: BoardOptions): Newest<PanelState>;

type Handlers<M, K extends keyof M & string> = { [E in K as `on${E}`]?: (event: M[E]) => void };

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      /** Its events are handled in React 19, as `onstatus={...}`. */
      "rx-run": DetailedHTMLProps<HTMLAttributes<RunElement>, RunElement> & RunAttributes & Handlers<RunEventMap, "status" | "record" | "question" | "error">;
      "rx-panel": DetailedHTMLProps<HTMLAttributes<PanelElement>, PanelElement> & PanelAttributes & Handlers<PanelEventMap, "states" | "error">;
    }
  }
}
