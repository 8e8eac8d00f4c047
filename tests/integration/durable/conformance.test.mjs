// The conformance suite of Durable Streams against the server at DURABLE_URL. Its own command finds no tests under node_modules.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

runConformanceTests({
  baseUrl: process.env.DURABLE_URL,
  longPollTimeoutMs: Number(process.env.LONG_POLL_MS),
});
