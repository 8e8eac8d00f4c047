// What the types of the package allow in React; the test compiles it.
import { type Newest, usePanel, useRun } from "rxworker-client/react";
import { type PanelState, type RunView, connect } from "rxworker-client";

const client = connect("https://desk.example.com");

export function Run({ id }: { id: string }) {
  const run: Newest<RunView> = useRun(client, id), cost: Newest<PanelState> = usePanel(client, "usage", "cost", { run: id });
  return (
    <rx-run src={`https://desk.example.com/api/runs/${id}`} view="trace" at={12} onstatus={({ detail }) => console.log(detail.status)} onquestion={({ detail }) => detail.pause.hook}>
      <p slot="header">{run.value?.status ?? run.error?.code} {String(cost.value?.value)}</p>
      <rx-panel src="https://desk.example.com/api/boards/usage" panel="cost" onstates={({ detail }) => detail.length} />
    </rx-run>
  );
}

// @ts-expect-error: there is no such view
export const wrong = <rx-run src="x" view="circle" />;
