// What the types of the package allow; the test compiles it.
import { type Delivery, type PanelState, type Record, type RunEvent, type StreamItem, type Usage, connect, textOf, usageOf } from "rxworker-client";
import { defineElements, type StatusEvent } from "rxworker-client/elements";
import { usePanel, useRun } from "rxworker-client/react";
import { filter, map, type Observable } from "rxjs";

const client = connect("https://desk.example.com", { name: "board" });

const texts: Observable<string> = client.records$("run-1", { after: 3, delivery: "reliable" }).pipe(
  map(({ event }) => event),
  filter((event) => event.type === "text_delta"),
  map(({ text }) => text),
);
const one: Observable<Record> = client.records$("run-1");
const panel: Observable<PanelState> = client.panel$("usage", "cost", { run: "run-1", at: 12.5 });
const totals: Observable<StreamItem<number>> = client.stream$<number>("total", { after: "1-2" });
const tokens: Observable<Usage> = client.view$("run-1").pipe(map(usageOf));
const lines: Observable<string[]> = client.view$("run-1").pipe(
  map(({ root }) => root.items.map((item) => (item.kind === "block" || item.kind === "call" ? textOf(item) : item.text))),
);
const ids: Observable<string[]> = client.runs$.pipe(map((runs) => runs.map((run) => run.id)));

function write(event: RunEvent): string {
  if (event.type === "tool_stop") return `${event.tool ?? ""} ${event.seconds ?? 0}`;
  // @ts-expect-error: a start has no text
  if (event.type === "block_start") return event.text;
  return event.type;
}

export const loaded: Promise<void> = defineElements("https://desk.example.com");
export const statusOf = ({ detail }: StatusEvent): string => detail.status;
export const useStatus = (id: string): string | undefined => useRun(client, id).value?.status;
export const useCost = (run: string): PanelState["value"] => usePanel(client, "usage", "cost", { run }).value?.value;

// @ts-expect-error: there is no such delivery
const delivery: Delivery = "sometimes";
// @ts-expect-error: a panel has a name
client.panel$("usage");

export { delivery, ids, lines, one, panel, texts, tokens, totals, write };
