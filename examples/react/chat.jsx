// A worker with useChat: text as it arrives, approvals, a tool of the page, the shared state, stop, the history after a reload, and the status, the tokens and
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

const client = connect("/worker/");
defineElements("/worker/");

const api = "/worker/api/chat";
const id = new URL(location.href).searchParams.get("id") ?? crypto.randomUUID();
history.replaceState(null, "", `?id=${id}`);

// A tool that this page runs; server.py describes it to the model.
function paint({ color }) {
  document.body.style.background = color;
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
      if (tool === "paint") addToolOutput({ tool, toolCallId, output: paint(input) });
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
  return (
    <>
      {messages.map((message) => (
        <section key={message.id} data-role={message.role}>
          {message.parts.map((part, at) => <Part key={at} part={part} decide={addToolApprovalResponse} />)}
        </section>
      ))}
      <ul id="steps">{state?.data.steps.map((step) => <li key={step}>{step}</li>)}</ul>
      <form onSubmit={send}>
        <input value={text} onChange={(event) => setText(event.target.value)} />
        {status === "ready" || status === "error" ? <button>Send</button> : <button type="button" onClick={stopRun}>Stop</button>}
      </form>
      {run && <LastRun run={run} />}
    </>
  );
}

function LastRun({ run }) {
  const { value: view } = useRun(client, run);
  const { value: tokens } = usePanel(client, "usage", "tokens", { run });
  return (
    <>
      <p id="run">{view?.status} · {view?.toolCalls} calls · {tokens?.value} tokens</p>
      <rx-run view="trace" src={`/worker/api/runs/${run}`} />
    </>
  );
}

function Part({ part, decide }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (!part.type.startsWith("tool-")) return null;
  return (
    <pre>
      {part.type.slice(5)} {JSON.stringify(part.input)} {part.output ?? part.errorText}
      {part.state === "approval-requested" &&
        [true, false].map((approved) => (
          <button key={approved} onClick={() => decide({ id: part.approval.id, approved })}>
            {approved ? "Approve" : "Deny"}
          </button>
        ))}
    </pre>
  );
}

const messages = await (await fetch(`${api}/${id}/messages`)).json();
createRoot(document.getElementById("root")).render(<Chat messages={messages} />);
