// A dashboard of a server: what its panels show now and as it changes, or what they showed at a moment of the past.

import { boardAt, boardsAt, isFinal } from "./server.js";

const LATER = 2_000; // milliseconds

export class BoardSource {
  // `server` is an address that ends in a slash. handlers: states(list), problem(error or null)
  constructor(server, name, handlers, { makeSource = (url) => new EventSource(url, { withCredentials: true }), fetch } = {}) {
    Object.assign(this, { server, name, handlers, makeSource, fetch, source: null, timer: null, asked: 0 });
  }

  // Show the present. `query` names a run or a conversation, or is empty.
  follow(query) {
    this.close();
    const source = this.makeSource(new URL(`api/boards/${encodeURIComponent(this.name)}/events?${new URLSearchParams(query)}`, this.server));
    this.source = source;
    source.onopen = () => this.handlers.problem(null);
    source.onmessage = (event) => this.handlers.states(JSON.parse(event.data));
    source.onerror = () => source === this.source && this.lost(query);
  }

  // Show a moment of the past. What is asked for while an answer is on its way is asked for when it has come.
  async at(query, time) {
    this.close();
    const asked = this.asked;
    try {
      const states = await boardAt(this.server, this.name, { ...query, time }, this.fetch);
      if (asked === this.asked) this.handlers.states(states);
      this.handlers.problem(null);
    } catch (problem) {
      if (asked === this.asked) this.handlers.problem(problem);
    }
  }

  close() {
    this.asked += 1;
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  // The browser reconnects by itself, unless the server has refused: then ask why, and try again if it is for now.
  async lost(query) {
    const { source } = this;
    if (source.readyState !== source.CLOSED) return this.handlers.problem({ status: 0 });
    try {
      await boardAt(this.server, this.name, query, this.fetch);
    } catch (problem) {
      this.handlers.problem(problem);
      if (isFinal(problem)) return;
    }
    if (source === this.source) this.timer = setTimeout(() => this.follow(query), LATER);
  }
}

export const dashboardsOf = async (server) => (await boardsAt(server)).boards;
