// A dashboard of a server: what its panels show now and as it changes, or what they showed at a moment of the past.

import { boardAt, boardsAt, isFinal, isLink } from "./server.js";
import { LinkEvents } from "./shared.js";

const LATER = 2_000; // milliseconds

const eventSource = (url) => (isLink() ? new LinkEvents(url) : new EventSource(url, { withCredentials: true }));

// A connection. Those who show the same dashboard of the same runs share one, since a browser opens only six to a server.
class Feed {
  static all = new Map();

  constructor(url, makeSource, check) {
    Object.assign(this, { url, makeSource, check, followers: new Set(), states: new Map(), trouble: null, source: null, timer: null });
    this.open();
  }

  open() {
    const source = this.makeSource(this.url);
    this.source = source;
    source.onopen = () => this.report(null);
    source.onmessage = (event) => {
      const states = JSON.parse(event.data);
      for (const state of states) this.states.set(state.panel, state);
      for (const follower of this.followers) follower.states(states);
    };
    source.onerror = () => source === this.source && this.lost();
  }

  add(follower) {
    this.followers.add(follower);
    if (this.states.size > 0) follower.states([...this.states.values()]);
    follower.problem(this.trouble);
  }

  remove(follower) {
    this.followers.delete(follower);
    if (this.followers.size > 0) return;
    if (Feed.all.get(this.url.href) === this) Feed.all.delete(this.url.href);
    clearTimeout(this.timer);
    this.source.close();
    this.source = null;
  }

  report(problem) {
    this.trouble = problem;
    for (const follower of this.followers) follower.problem(problem);
  }

  // The browser reconnects by itself, unless the server has refused: then ask why, and try again if it is for now.
  async lost() {
    const { source } = this;
    if (source.readyState !== source.CLOSED) return this.report({ status: 0 });
    try {
      await this.check();
    } catch (problem) {
      this.report(problem);
      if (isFinal(problem)) return;
    }
    if (source === this.source) this.timer = setTimeout(() => this.open(), LATER);
  }
}

export class BoardSource {
  // `server` is an address that ends in a slash. handlers: states(list), problem(error or null)
  constructor(server, name, handlers, { makeSource = null, fetch } = {}) {
    Object.assign(this, { server, name, handlers, makeSource, fetch, feed: null, asked: 0, wanted: null, isAsking: false });
  }

  // Show the present. `query` names a run or a conversation, or is empty.
  follow(query) {
    this.close();
    const url = new URL(`api/boards/${encodeURIComponent(this.name)}/events?${new URLSearchParams(query)}`, this.server), check = () => boardAt(this.server, this.name, query, this.fetch);
    if (this.makeSource) this.feed = new Feed(url, this.makeSource, check); // with the headers of this one
    else if (!(this.feed = Feed.all.get(url.href))) Feed.all.set(url.href, (this.feed = new Feed(url, eventSource, check)));
    this.feed.add(this.handlers);
  }

  // Show a moment of the past. While an answer is on its way, only the newest moment waits: a slider that moves asks for no more than the server computes.
  async at(query, time) {
    this.leave();
    this.wanted = { ...query, time };
    if (this.isAsking) return;
    this.isAsking = true;
    while (this.wanted !== null) {
      const { wanted, asked } = this;
      this.wanted = null;
      try {
        const states = await boardAt(this.server, this.name, wanted, this.fetch);
        if (asked !== this.asked) continue;
        this.handlers.states(states);
        this.handlers.problem(null);
      } catch (problem) {
        if (asked === this.asked) this.handlers.problem(problem);
      }
    }
    this.isAsking = false;
  }

  leave() {
    this.feed?.remove(this.handlers);
    this.feed = null;
  }

  close() {
    this.asked += 1;
    this.wanted = null;
    this.leave();
  }
}

export const dashboardsOf = async (server) => (await boardsAt(server)).boards;
