// Plays the clients for the tests. Each line of the input is a job, {"number", "do", ...}; each is answered with a line when it is done.
// Several jobs may be under way: node is started once for all tests, since starting it and loading the clients takes a second.

import { createInterface } from "node:readline";
import * as agUi from "./ag_ui.mjs";
import * as aiSdkModels from "./ai_sdk_models.mjs";
import * as aiSdkStream from "./ai_sdk_stream.mjs";
import * as uiMessages from "./ui_messages.mjs";

const jobs = { ...agUi, ...aiSdkModels, ...aiSdkStream, ...uiMessages };
let warnings = [];
for (const level of ["warn", "error", "log"]) {
  console[level] = (...words) => warnings.push(words.map(String).join(" "));
}

async function answer(line) {
  const { number, do: name, ...given } = JSON.parse(line);
  const told = { number };
  warnings = [];
  try {
    Object.assign(told, await jobs[name](given));
  } catch (error) {
    told.failed = String(error?.stack ?? error);
  }
  process.stdout.write(`${JSON.stringify({ ...told, warnings })}\n`);
}

for await (const line of createInterface({ input: process.stdin })) void answer(line);
process.exit(0);
