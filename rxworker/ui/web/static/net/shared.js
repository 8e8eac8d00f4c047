// What a read-only link shows, over requests with its token: it opens no WebSocket.

import { eventsAt, infoAt, linkInfoAt, runAt, socketAt } from "./server.js";

const isOfLink = ({ token }) => Boolean(token?.startsWith("rxl_"));

// A socket of the server at an address, or one that has the run of the link alone.
export const connectTo = (server, reach) => (isOfLink(reach) ? new LinkSocket(server, reach) : socketAt(server, reach));
// Whether the server serves this client, or a run to it; see `infoAt` and `runAt`.
export const lookAt = (server, reach) => (isOfLink(reach) ? linkInfoAt(server, reach) : infoAt(server, reach));
export const lookAtRun = (server, run, reach) => (isOfLink(reach) ? linkInfoAt(server, reach) : runAt(server, run, reach));

// The socket of a `Connection` that has the run of the link alone.
export class LinkSocket {
  // `found(info)` is called with what the link shows, each time before anything else.
  constructor(server, reach, found = () => {}) {
    Object.assign(this, { server, reach, found, run: null, reading: null, isListing: false, isClosed: false });
    this.open();
  }

  async open() {
    if (await this.look()) this.emit({ type: "hello", instance: "link" });
  }

  async look() {
    try {
      const [info, clock] = await linkInfoAt(this.server, this.reach);
      this.run = info.run ?? null;
      this.found(info, clock);
    } catch {
      this.fail();
    }
    return !this.isClosed;
  }

  emit(message) {
    if (!this.isClosed) this.onmessage({ data: JSON.stringify(message) });
  }

  list() {
    this.isListing = true;
    this.emit({ type: "runs", runs: this.run === null ? [] : [this.run] });
  }

  send(text) {
    const { type, run, stream, after } = JSON.parse(text);
    if (type === "list") this.list();
    else if (type === "unwatch") this.reading?.abort();
    else if (type === "watch_stream") this.emit({ type: "stream_gone", stream });
    else if (run !== this.run?.id) this.emit({ type: "gone", run });
    else this.watch(run, after);
  }

  async watch(run, after) {
    this.reading?.abort();
    const { signal } = (this.reading = new AbortController()), url = new URL(`api/runs/${encodeURIComponent(run)}/events?after=${after}`, this.server);
    try {
      for await (const [event, data] of eventsAt(url, this.reach, signal)) {
        if (event === "end") return await this.end({ type: "end", run, ...JSON.parse(data) });
        this.emit({ type: "records", run, records: [JSON.parse(data)] });
      }
    } catch { /* it is lost */ }
    if (!signal.aborted) this.fail();
  }

  async end(message) {
    if ((await this.look()) && this.isListing) this.list(); // with what the run has taken
    this.emit(message);
  }

  fail() {
    if (this.isClosed) return;
    this.close();
    this.onclose();
  }

  close() {
    this.isClosed = true;
    this.reading?.abort();
  }
}
