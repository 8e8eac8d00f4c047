// The server's half of the AI SDK: what `toUIMessageStreamResponse` sends of an agent with a scripted model and two tools.

import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import { convertArrayToReadableStream } from "ai/test";

const usage = { inputTokens: { total: 10, noCache: 10 }, outputTokens: { total: 5, text: 5 } };
const finish = (unified) => ({ type: "finish", finishReason: { unified, raw: unified }, usage });
const call = (toolCallId, toolName, input) => [
  { type: "tool-input-start", id: toolCallId, toolName },
  ...input.match(/.{1,5}/g).map((delta) => ({ type: "tool-input-delta", id: toolCallId, delta })),
  { type: "tool-input-end", id: toolCallId },
  { type: "tool-call", toolCallId, toolName, input },
];
const text = (id, ...deltas) => [
  { type: "text-start", id },
  ...deltas.map((delta) => ({ type: "text-delta", id, delta })),
  { type: "text-end", id },
];
const ANSWERS = {
  tools: [
    [
      { type: "reasoning-start", id: "r" },
      { type: "reasoning-delta", id: "r", delta: "Hm" },
      { type: "reasoning-end", id: "r" },
      ...text("t", "I ", "look."),
      ...call("c1", "look", '{"city":"K"}'),
      ...call("c2", "fails", '{"a":1}'),
      finish("tool-calls"),
    ],
    [...text("t", "Done", "."), finish("stop")],
  ],
  client: [[...call("c1", "open_tab", '{"url":"x"}'), finish("tool-calls")]],
  error: [[...text("t", "Half"), { type: "error", error: new Error("overloaded") }]],
};

export async function ai_sdk_stream({ name }) {
  const answers = ANSWERS[name].map((parts) => [{ type: "stream-start", warnings: [] }, ...parts]);
  const model = {
    specificationVersion: "v4",
    provider: "scripted",
    modelId: "scripted",
    supportedUrls: {},
    doStream: async () => ({ stream: convertArrayToReadableStream(answers.shift()) }),
  };
  const inputSchema = jsonSchema({ type: "object" });
  const tools = {
    look: tool({ inputSchema, execute: async ({ city }) => `rain in ${city}` }),
    fails: tool({
      inputSchema,
      execute: async () => {
        throw new Error("no");
      },
    }),
    open_tab: tool({ inputSchema }),
  };
  const streamed = streamText({ model, prompt: "Go.", tools, stopWhen: stepCountIs(5), onError: () => {} });
  const response = streamed.toUIMessageStreamResponse({ onError: (error) => String(error?.message ?? error) });
  return { body: await response.text(), text: await streamed.text.catch(() => null) };
}
