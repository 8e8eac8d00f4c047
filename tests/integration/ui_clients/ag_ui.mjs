// The official AG-UI clients, of two versions: what one understands of a run, and agents that carry on a conversation.

export const packages = ["@ag-ui/client", "@ag-ui/client-older"];
const loaded = Object.fromEntries(await Promise.all(packages.map(async (name) => [name, await import(name)])));
const agents = new Map();

// Makes an agent that is known by its name from then on.
export function agent({ name, client, address, threadId = "thread-1", messages, pending, headers, watch }) {
  const { HttpAgent } = loaded[client];
  class Watching extends HttpAgent {
    // Watches a run that is under way instead of beginning one.
    requestInit(input) {
      return { method: "GET", headers: { accept: "text/event-stream" }, signal: super.requestInit(input).signal };
    }
  }
  const made = new (watch ? Watching : HttpAgent)({ url: address, threadId, headers, initialMessages: messages ?? [] });
  made.pendingInterrupts = pending ?? [];
  agents.set(name, made);
  return {};
}

// One run of an agent. With "say" the user says something first; "answer" is the payload for each interrupt that is open, and "results" those
// of the client's own tools, by the ids of their calls. "ran" are the calls that were complete, as a page runs them.
export async function agent_run({ name, runId = "run-1", say, resume, answer, tools, results = {} }) {
  const made = agents.get(name);
  if (say !== undefined) made.addMessage({ id: `user-${made.messages.length + 1}`, role: "user", content: say });
  for (const [toolCallId, content] of Object.entries(results))
    made.addMessage({ id: `result-${toolCallId}`, role: "tool", toolCallId, content });
  if (answer !== undefined)
    resume = made.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: answer }));
  const events = [];
  const ran = [];
  const told = { error: null, refused: null, status: null };
  let pendingToolCallIds = null;
  try {
    await made.runAgent(
      { runId, ...(resume ? { resume } : {}), ...(tools ? { tools } : {}) },
      {
        onEvent: ({ event }) => void events.push(event),
        onToolCallEndEvent: ({ toolCallName, toolCallArgs }) => void ran.push([toolCallName, toolCallArgs]),
        onRunErrorEvent: ({ event }) => void (told.error = event),
        onRunFinishedEvent: (finished) => void (pendingToolCallIds = finished.pendingToolCallIds ?? null),
      },
    );
  } catch (error) {
    told.refused = String(error?.message ?? error);
    told.status = error?.status ?? null;
  }
  return { ...told, events, ran, messages: made.messages, interrupts: made.pendingInterrupts, pendingToolCallIds };
}

// The client goes away in the middle.
export function agent_leave({ name }) {
  agents.get(name).abortRun();
  return {};
}

// What a fresh client understands of one answer.
export function ag_ui({ address, client, given = {} }) {
  const messages = given.messages ?? [{ id: "user-1", role: "user", content: "hi" }];
  agent({ name: "once", client, address, messages, pending: given.pending });
  return agent_run({ name: "once", resume: given.resume });
}
