// A worker as a model of the AI SDK, through its three clients of OpenAI's APIs: two questions, with a tool that the client runs.

export async function ask_model({ address, client }) {
  const { generateText, jsonSchema, stepCountIs, streamText, tool } = await import("ai");
  const model = await MODELS[client](address);
  const made = [];
  const tools = {
    open_tab: tool({
      description: "Open a tab.",
      inputSchema: jsonSchema({ type: "object", properties: { url: { type: "string" } } }),
      execute: async ({ url }) => {
        made.push(url);
        return `opened ${url}`;
      },
    }),
  };
  const question = { role: "user", content: "go" };
  const streamed = streamText({ model, messages: [question], tools, stopWhen: stepCountIs(3) });
  const text = await streamed.text;
  const answer = (await streamed.steps).flatMap((step) => step.response.messages);
  const messages = [question, ...answer, { role: "user", content: "again" }];
  const second = await generateText({ model, system: "Be brief.", messages, tools, stopWhen: stepCountIs(3) });
  return { text, made, steps: (await streamed.steps).length, tokens: (await streamed.totalUsage).totalTokens, second: second.text };
}

const MODELS = {
  async "open-responses"(address) {
    const { createOpenResponses } = await import("@ai-sdk/open-responses");
    return createOpenResponses({ name: "desk", url: `${address}/responses` })("worker");
  },
  async responses(address) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return createOpenAI({ baseURL: address, apiKey: "none" }).responses("worker");
  },
  async chat(address) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return createOpenAI({ baseURL: address, apiKey: "none" }).chat("worker");
  },
};
