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
import { Call, Decision, Empty, Frame, paint, Plan } from "./frame.jsx";

const agent = new HttpAgent({ url: "/worker/ag-ui", threadId: crypto.randomUUID() });

// A tool of this page, which the page describes to the model itself: the worker of server.py does not know it.
const Confetti = makeAssistantTool({
  toolName: "throw_confetti",
  description: "Throw confetti over the page.",
  parameters: { type: "object", properties: { color: { type: "string" } }, required: ["color"] },
  execute: ({ color }) => {
    paint(color);
    return `${color} confetti is everywhere.`;
  },
});

function Thread() {
  return (
    <Frame title="AG-UI" beside={<Steps />}>
      <ThreadPrimitive.Root asChild>
        <div className="talk">
          <div>
            <ThreadPrimitive.Empty><Empty /></ThreadPrimitive.Empty>
            <ThreadPrimitive.Messages components={{ UserMessage: User, AssistantMessage: Assistant }} />
            <Interrupts />
          </div>
        </div>
      </ThreadPrimitive.Root>
      <ComposerPrimitive.Root className="ask">
        <ComposerPrimitive.Input placeholder="Plan something" aria-label="Message" />
        <ThreadPrimitive.If running={false}>
          <ComposerPrimitive.Send className="primary">Send</ComposerPrimitive.Send>
        </ThreadPrimitive.If>
        <ThreadPrimitive.If running>
          <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
        </ThreadPrimitive.If>
      </ComposerPrimitive.Root>
    </Frame>
  );
}

const User = () => <Message role="user" />;
const Assistant = () => <Message role="assistant" />;

function Message({ role }) {
  return (
    <MessagePrimitive.Root data-role={role}>
      <MessagePrimitive.Content components={{ Text, tools: { Fallback: Tool } }} />
    </MessagePrimitive.Root>
  );
}

const Text = ({ text }) => <p>{text}</p>;

function Tool({ toolName, argsText, result, isError }) {
  const state = result === undefined ? "running" : isError ? "failed" : "done";
  return <Call name={toolName} input={argsText} output={result && String(result)} state={state} />;
}

function Interrupts() {
  const submit = useAgUiSubmitInterruptResponses();
  return useAgUiInterrupts().map(({ id, message }) => (
    <div key={id} className="call" data-state="waiting">
      <Decision text={message} decide={(approved) => submit([{ interruptId: id, status: "resolved", payload: { approved } }])} />
    </div>
  ));
}

function Steps() {
  const state = useAgUiState();
  const setState = useAgUiSetState();
  return (
    <>
      <Plan steps={state?.steps} />
      <button type="button" onClick={() => setState({ steps: ["Begin anew"] })}>Begin anew</button>
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
