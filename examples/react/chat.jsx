// A worker with useChat: text as it arrives, approvals, a tool of the page, the shared state, stop, the history after a reload, and the status, two panels and
// the trace of the last run.
import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses as isDecided,
  lastAssistantMessageIsCompleteWithToolCalls as isAnswered,
} from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";
import { connect } from "rxworker-client";
import { defineElements } from "rxworker-client/elements";
import { usePanel, useRun } from "rxworker-client/react";
import { Call, Decision, Empty, Frame, paint, Plan } from "./frame.jsx";

const client = connect("/worker/");
defineElements("/worker/");

const api = "/worker/api/chat";
const id = new URL(location.href).searchParams.get("id") ?? crypto.randomUUID();
history.replaceState(null, "", `?id=${id}`);

// A tool that this page runs; server.py describes it to the model.
function runPaint({ color }) {
  paint(color);
  return `The page is ${color}.`;
}

function Chat({ messages: initial }) {
  const [text, setText] = useState("");
  const [run, setRun] = useState(null);
  const { messages, status, sendMessage, addToolOutput, addToolApprovalResponse, stop } = useChat({
    id,
    messages: initial,
    resume: true, // a reload does not stop the run
    transport: new DefaultChatTransport({ api, fetch: (...request) => fetch(...request).then(noteRun) }),
    sendAutomaticallyWhen: (chat) => isAnswered(chat) || isDecided(chat),
    onToolCall({ toolCall: { toolName: tool, toolCallId, input } }) {
      if (tool === "paint") addToolOutput({ tool, toolCallId, output: runPaint(input) });
    },
  });

  // Each answer names its run, which <rx-run> shows.
  function noteRun(response) {
    setRun((before) => response.headers.get("X-Rxworker-Run") ?? before);
    return response;
  }

  function send(event) {
    event.preventDefault();
    sendMessage({ text });
    setText("");
  }

  async function stopRun() {
    await fetch(`${api}/${id}/stop`, { method: "POST" });
    stop();
  }

  const state = messages.flatMap((message) => message.parts).findLast((part) => part.type === "data-state");
  const isIdle = status === "ready" || status === "error";
  return (
    <Frame title="useChat" beside={<><Plan steps={state?.data.steps} />{run && <LastRun run={run} />}</>}>
      <div className="talk">
        <div>
          {messages.length === 0 && <Empty />}
          {messages.map((message) => (
            <section key={message.id} data-role={message.role}>
              {message.parts.map((part, at) => <Part key={at} part={part} decide={addToolApprovalResponse} />)}
            </section>
          ))}
        </div>
      </div>
      <form className="ask" onSubmit={send}>
        <input value={text} onChange={(event) => setText(event.target.value)} placeholder="Plan something" aria-label="Message" required />
        {isIdle ? <button className="primary">Send</button> : <button type="button" onClick={stopRun}>Stop</button>}
      </form>
    </Frame>
  );
}

// The package for JavaScript: the run and a panel as values, and the elements that the server draws.
function LastRun({ run }) {
  const { value: view } = useRun(client, run);
  const { value: tokens } = usePanel(client, "usage", "tokens", { run });
  const calls = view?.toolCalls ?? 0, board = `/worker/api/boards/usage?conversation=${id}`;
  return (
    <section>
      <h2>Last run</h2>
      <p id="run" className="quiet">{view?.status ?? "…"} · {calls} {calls === 1 ? "call" : "calls"} · {tokens?.value ?? 0} tokens</p>
      <div className="panels">
        <rx-panel src={board} panel="tokens-a-second" />
        <rx-panel src={board} panel="calls-by-tool" />
        <rx-run view="trace" src={`/worker/api/runs/${run}`} />
      </div>
    </section>
  );
}

const STATES = { "approval-requested": "waiting", "output-available": "done", "output-error": "failed", "output-denied": "failed" };

function Part({ part, decide }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (!part.type.startsWith("tool-")) return null;
  const name = part.type.slice(5);
  return (
    <Call name={name} input={JSON.stringify(part.input)} output={part.output ?? part.errorText} state={STATES[part.state] ?? "running"}>
      {part.state === "approval-requested" && <Decision text={`May it call ${name}?`} decide={(approved) => decide({ id: part.approval.id, approved })} />}
    </Call>
  );
}

const messages = await (await fetch(`${api}/${id}/messages`)).json();
createRoot(document.getElementById("root")).render(<Chat messages={messages} />);
