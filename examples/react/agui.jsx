// A worker with assistant-ui over AG-UI: text as it arrives, approvals, a tool of the page, the shared state in both directions, and stop.
import { HttpAgent } from "@ag-ui/client";
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  makeAssistantTool,
  MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import {
  useAgUiInterrupts,
  useAgUiRuntime,
  useAgUiSetState,
  useAgUiState,
  useAgUiSubmitInterruptResponses,
} from "@assistant-ui/react-ag-ui";
import { createRoot } from "react-dom/client";

const agent = new HttpAgent({ url: "/worker/ag-ui", threadId: crypto.randomUUID() });

// A tool of this page, which the page describes to the model itself: the worker of server.py does not know it.
const Confetti = makeAssistantTool({
  toolName: "throw_confetti",
  description: "Throw confetti over the page.",
  parameters: { type: "object", properties: { color: { type: "string" } }, required: ["color"] },
  execute: ({ color }) => {
    document.body.style.background = color;
    return `${color} confetti is everywhere.`;
  },
});

function Thread() {
  return (
    <ThreadPrimitive.Root>
      <ThreadPrimitive.Messages components={{ UserMessage: Message, AssistantMessage: Message }} />
      <Interrupts />
      <Steps />
      <ComposerPrimitive.Root>
        <ComposerPrimitive.Input />
        <ThreadPrimitive.If running={false}>
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        </ThreadPrimitive.If>
        <ThreadPrimitive.If running>
          <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
        </ThreadPrimitive.If>
      </ComposerPrimitive.Root>
    </ThreadPrimitive.Root>
  );
}

function Message() {
  return (
    <MessagePrimitive.Root>
      <MessagePrimitive.Content components={{ Text, tools: { Fallback: Call } }} />
    </MessagePrimitive.Root>
  );
}

const Text = ({ text }) => <p>{text}</p>;
const Call = ({ toolName, argsText, result }) => <pre>{toolName} {argsText} {result && String(result)}</pre>;

function Interrupts() {
  const submit = useAgUiSubmitInterruptResponses();
  return useAgUiInterrupts().map(({ id, message }) => (
    <div key={id}>
      {message}
      {[true, false].map((approved) => (
        <button key={approved} onClick={() => submit([{ interruptId: id, status: "resolved", payload: { approved } }])}>
          {approved ? "Approve" : "Deny"}
        </button>
      ))}
    </div>
  ));
}

function Steps() {
  const state = useAgUiState();
  const setState = useAgUiSetState();
  return (
    <>
      <ul id="steps">{state?.steps?.map((step) => <li key={step}>{step}</li>)}</ul>
      <button onClick={() => setState({ steps: ["Begin anew"] })}>Begin anew</button>
    </>
  );
}

function App() {
  return (
    <AssistantRuntimeProvider runtime={useAgUiRuntime({ agent })}>
      <Confetti />
      <Thread />
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("root")).render(<App />);
