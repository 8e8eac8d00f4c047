// What the types of the package allow; the test compiles it.
import { ApiError, type Decision, type Delivery, type PanelState, type Record, type RunEvent, type RunSummary, type StreamItem, type Usage, connect, resultText, textOf, usageOf } from "rxworker-client";
import { defineElements, type StatusEvent } from "rxworker-client/elements";
import { usePanel, useRun } from "rxworker-client/react";
import { filter, map, type Observable } from "rxjs";

const client = connect("https://desk.example.com", { name: "board", token: "secret", makeSocket: (url, protocols) => new WebSocket(url, protocols) });

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

async function steer(): Promise<RunSummary | string> {
  try {
    const { id, conversation } = await client.start("Book", { worker: "desk" });
    await client.send(id, [{ type: "text", text: "Hurry" }]);
    await client.pause(id, { reason: "wait" });
    const decision: Decision = { type: "approve", input: { seat: "12A" }, always: true };
    await client.resume(id, { call_1: decision });
    await client.approve(id, "call_1", { input: { seat: "12A" } });
    await client.deny(id, "call_2", "no");
    await client.answer(id, "call_3", "42");
    await client.fork(id, 12);
    await client.start("Again", { conversation, edits: { run: id, message: 0, text: "Book" } });
    // @ts-expect-error: there is no such moment
    await client.cancel(id, { when: "later" });
    return await client.cancel(id, { when: "after_turn" });
  } catch (error) {
    return error instanceof ApiError ? `${error.status} ${error.code}` : "";
  }
}

const run = document.createElement("rx-run");
run.src = "https://desk.example.com/api/runs/run-1";
run.at = 12.5;
run.token = "secret";
run.addEventListener("status", ({ detail }) => detail.status === "finished" && run.send("More"));
run.addEventListener("question", ({ detail }) => detail.pause.calls.map(({ call }) => run.approve(call.id, { always: true })));
run.addEventListener("record", ({ detail }) => write(detail.event));
run.addEventListener("error", ({ detail }) => console.log(detail.code));
run.addEventListener("click", ({ clientX }) => clientX);
// @ts-expect-error: a problem has a code
run.addEventListener("error", ({ detail }) => detail.status);
const board = document.querySelector("rx-panel");
board?.addEventListener("states", ({ detail }) => detail.map(({ value }) => value));
const elements: NodeListOf<HTMLElement> = document.querySelectorAll("rx-run");

export const results = (call: { result: string | null }): string => call.result ?? resultText("");
export const loaded: Promise<void> = defineElements("https://desk.example.com");
export const statusOf = ({ detail }: StatusEvent): string => detail.status;
export const useStatus = (id: string): string | undefined => useRun(client, id).value?.status;
export const useCost = (run: string): PanelState["value"] => usePanel(client, "usage", "cost", { run }).value?.value;

// @ts-expect-error: there is no such delivery
const delivery: Delivery = "sometimes";
// @ts-expect-error: a panel has a name
client.panel$("usage");

export { delivery, elements, ids, lines, one, panel, texts, tokens, steer, totals, write };
