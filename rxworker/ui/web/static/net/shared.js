// What a read-only link shows, over requests with its token: a browser can add a header to no WebSocket and to no `EventSource`.

import { authorized, linkInfo } from "./server.js";

// Server-sent events, with what the page uses of an `EventSource`. It does not reconnect by itself.
export class LinkEvents {
  CLOSED = 2;
  readyState = 0;

  constructor(url) {
    this.ending = new AbortController();
    this.read(url);
  }

  async read(url) {
    try {
      const response = await fetch(url, { headers: authorized(), credentials: "omit", cache: "no-store", signal: this.ending.signal });
      if (response.status === 204) return this.onend?.({ data: "{}" }); // nothing is left
      if (response.status !== 200) throw response;
      this.readyState = 1;
      this.onopen?.();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let piece; !(piece = await reader.read()).done; ) {
        const frames = (rest + piece.value).split("\n\n");
        rest = frames.pop();
        for (const frame of frames) this.take(frame);
      }
    } catch { /* it has ended */ }
    if (this.readyState === this.CLOSED) return;
    this.readyState = this.CLOSED;
    this.onerror?.();
  }

  // A frame of the server has one line of data. A piece may have more frames after the one that closes this.
  take(frame) {
    const lines = frame.split("\n"), data = lines.find((line) => line.startsWith("data: "))?.slice(6);
    if (data === undefined || this.readyState === this.CLOSED) return;
    if (lines.includes("event: end")) this.onend?.({ data });
    else this.onmessage?.({ data });
  }

  close() {
    this.readyState = this.CLOSED;
    this.ending.abort();
  }
}

// The socket of a `Connection` that has the run of the link alone.
export class LinkSocket {
  // `found(info)` is called with what the link shows, each time before anything else.
  constructor(found) {
    Object.assign(this, { found, run: null, source: null, isClosed: false });
    this.open();
  }

  async open() {
    if (await this.look()) this.emit({ type: "hello", instance: "link" });
  }

  async look() {
    try {
      const [info, clock] = await linkInfo();
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
    this.emit({ type: "runs", runs: this.run === null ? [] : [this.run] });
  }

  send(text) {
    const { type, run, after } = JSON.parse(text);
    if (type === "list") this.list();
    else if (type === "unwatch") this.source?.close();
    else if (run !== this.run?.id) this.emit({ type: "gone", run });
    else this.watch(run, after);
  }

  watch(run, after) {
    this.source?.close();
    const source = new LinkEvents(new URL(`api/runs/${encodeURIComponent(run)}/events?after=${after}`, document.baseURI));
    source.onmessage = ({ data }) => this.emit({ type: "records", run, records: [JSON.parse(data)] });
    source.onend = ({ data }) => {
      source.close();
      this.end({ type: "end", run, ...JSON.parse(data) });
    };
    source.onerror = () => this.fail();
    this.source = source;
  }

  async end(message) {
    if (await this.look()) this.list(); // with what the run has taken
    this.emit(message);
  }

  fail() {
    if (this.isClosed) return;
    this.close();
    this.onclose();
  }

  close() {
    this.isClosed = true;
    this.source?.close();
  }
}
