// Talks to a worker with the npm package "openai": a streamed completion, and a response in the background whose stream is continued.
import OpenAI from "openai";

const [baseURL, token] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: token, maxRetries: 0 });
const seen = { models: [], texts: [], numbers: [], more: [], error: null };

for await (const model of client.models.list()) seen.models.push(model.id);

const chunks = await client.chat.completions.create({
  model: "desk", stream: true, messages: [{ role: "user", content: "hi" }],
});
for await (const chunk of chunks) seen.texts.push(chunk.choices[0]?.delta.content ?? "");

const events = await client.responses.create({ model: "desk", input: "hi", stream: true, background: true });
let id = null;
for await (const event of events) {
  id ??= event.response.id;
  seen.numbers.push(event.sequence_number);
  if (seen.numbers.length === 5) break;
}
for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: 4 })) {
  seen.more.push(event.sequence_number);
  if (event.type === "response.completed") seen.text = event.response.output[0].content[0].text;
}
seen.status = (await client.responses.retrieve(id)).status;
seen.cancelled = (await client.responses.cancel(id)).status;
try {
  await client.responses.create({ model: "nothing", input: "hi" });
} catch (error) {
  seen.error = [error.constructor.name, error.status, error.code];
}
console.log(JSON.stringify(seen));
process.exit(0);
