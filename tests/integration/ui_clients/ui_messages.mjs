// The official client of the UI Message Stream: its transport and reader by themselves, and chats as useChat keeps them.

import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
  safeValidateUIMessages,
} from "ai";

// What the transport and the reader understand of one answer.
export async function ui_messages({ address, how, given = {} }) {
  const transport = new DefaultChatTransport({ api: address });
  const messages = given.messages ?? [{ id: "user-1", role: "user", parts: [{ type: "text", text: "hi" }] }];
  const told = { refused: null, isNothing: false, message: null, snapshots: 0 };
  const chunks = [];
  const errors = [];
  try {
    const stream =
      how === "reconnect"
        ? await transport.reconnectToStream({ chatId: "chat-1" })
        : await transport.sendMessages({
            chatId: "chat-1",
            messages,
            trigger: "submit-message",
            messageId: undefined,
          });
    if (stream === null) {
      told.isNothing = true;
    } else {
      const noted = stream.pipeThrough(
        new TransformStream({
          transform(chunk, controller) {
            chunks.push(chunk);
            controller.enqueue(chunk);
          },
        }),
      );
      const last = messages.at(-1);
      const parts = readUIMessageStream({
        ...(last.role === "assistant" ? { message: last } : {}),
        stream: noted,
        onError: (error) => errors.push({ name: error.name, message: String(error.message) }),
      });
      for await (const message of parts) {
        told.message = message;
        told.snapshots += 1;
      }
    }
  } catch (error) {
    told.refused = String(error?.message ?? error);
  }
  const wouldSend =
    told.message !== null && lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [told.message] });
  return { ...told, chunks, errors, wouldSend };
}

// What a chat of useChat keeps, without React.
class State {
  error = undefined;
  messages = [];
  #status = "ready";
  #waiting = new Set();

  get status() {
    return this.#status;
  }

  set status(status) {
    this.#status = status;
    this.#changed();
  }

  pushMessage(message) {
    this.messages.push(message);
    this.#changed();
  }

  popMessage() {
    this.messages.pop();
  }

  replaceMessage(at, message) {
    this.messages[at] = this.snapshot(message);
    this.#changed();
  }

  snapshot(value) {
    return structuredClone(value);
  }

  until(isSo) {
    return new Promise((resolve) => {
      const look = () => isSo() && (this.#waiting.delete(look), resolve());
      this.#waiting.add(look);
      look();
    });
  }

  #changed() {
    for (const look of this.#waiting) look();
  }
}

class Chat extends AbstractChat {
  constructor(options) {
    const state = new State();
    state.messages = options.messages ?? [];
    super({ ...options, state });
    this.kept = state;
  }
}

// Whether a list of messages is one that a chat can begin with; what is wrong with it, if it is not.
export async function chat_check({ messages }) {
  const { success, error } = await safeValidateUIMessages({ messages });
  return { wrong: success ? null : String(error?.message ?? error) };
}

const chats = new Map();

// Makes a chat that is known by its name from then on. With "auto" it sends when all that it was asked for is decided. "tools" are its own, with
// the output of each; it runs them when they are called, and sends when all calls have results.
export function chat({ name, address, id = "chat-1", messages, headers, auto, tools }) {
  const body = tools && { tools: Object.fromEntries(Object.keys(tools).map((tool) => [tool, {}])) };
  const transport = new DefaultChatTransport({ api: address, headers, body });
  let sendAutomaticallyWhen = auto ? lastAssistantMessageIsCompleteWithApprovalResponses : undefined;
  if (tools)
    sendAutomaticallyWhen = (given) =>
      lastAssistantMessageIsCompleteWithToolCalls(given) || lastAssistantMessageIsCompleteWithApprovalResponses(given);
  const onToolCall = ({ toolCall: { toolName: tool, toolCallId, input } }) => {
    if (tools?.[tool] === undefined) return;
    chats.get(name).ran = [...(chats.get(name).ran ?? []), toolCallId];
    chats.get(name).inputs = [...(chats.get(name).inputs ?? []), input];
    void chats.get(name).addToolOutput({ tool, toolCallId, output: tools[tool] });
  };
  chats.set(name, new Chat({ id, messages, transport, sendAutomaticallyWhen, onToolCall, onError: () => {} }));
  return {};
}

// What a chat shows now.
export function chat_look({ name }) {
  const { messages, status, error, ran, inputs } = chats.get(name);
  return { messages, status, ran, inputs: inputs ?? [], error: error ? { name: error.name, message: String(error.message), status: error.statusCode ?? null } : null };
}

// Waits until a chat shows a text, or, without one, until it has nothing under way.
export async function chat_until({ name, text }) {
  const one = chats.get(name);
  await one.kept.until(() =>
    text === undefined
      ? one.status === "ready" || one.status === "error"
      : one.messages.some(({ parts }) => parts.map((part) => part.text ?? "").join("").includes(text)),
  );
  return chat_look({ name });
}

// Has a chat do what a page would: sendMessage, regenerate, addToolApprovalResponse, resumeStream or stop.
export async function chat_do({ name, what, given }) {
  await chats.get(name)[what](given);
  return chat_look({ name });
}
