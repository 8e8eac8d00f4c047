// Plays an editor with the npm package "@agentclientprotocol/sdk": starts an agent, and answers its questions. Arguments: the steps as JSON, then the command.
// A step is ["new"], ["load", id], ["list"], ["prompt", text], ["cancel after", text, prompt], or ["raw", method, params]. Prints the result of each, and what was shown.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [steps, command, ...args] = [JSON.parse(process.argv[2]), ...process.argv.slice(3)];
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { results: [], updates: [], questions: [] };
let session;
let onUpdate = () => {};

const editor = acp
  .client({ name: "editor" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.questions.push(params);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    seen.updates.push(params.update);
    onUpdate(params.update);
  });

async function prompt(agent, text) {
  const content = [{ type: "text", text }];
  return agent.request(acp.methods.agent.session.prompt, { sessionId: session, prompt: content });
}

const jobs = {
  async new(agent, cwd) {
    const opened = await agent.request(acp.methods.agent.session.new, { cwd, mcpServers: [] });
    session = opened.sessionId;
    return opened;
  },
  async load(agent, cwd, id) {
    session = id;
    return agent.request(acp.methods.agent.session.load, { cwd, mcpServers: [], sessionId: id });
  },
  list: (agent) => agent.request(acp.methods.agent.session.list, {}),
  prompt,
  "cancel after": async (agent, text, asked) => {
    onUpdate = (update) => {
      if (update.content?.text?.includes(text)) {
        agent.notify(acp.methods.agent.session.cancel, { sessionId: session });
      }
    };
    return prompt(agent, asked);
  },
  raw: (agent, method, params) => agent.request(method, params),
};

await editor.connectWith(stream, async (agent) => {
  seen.initialized = await agent.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  for (const [name, ...given] of steps) {
    try {
      seen.results.push(await jobs[name](agent, ...given));
    } catch (error) {
      seen.results.push({ code: error.code, message: error.message });
    }
  }
});
agent.stdin.end();
seen.exit = await new Promise((resolve) => agent.on("exit", resolve));
console.log(JSON.stringify(seen));
