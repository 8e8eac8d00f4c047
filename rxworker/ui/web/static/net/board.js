// A dashboard of a server: what its panels show now and as it changes, or what they showed at a moment of the past.

import { ApiError, boardAt, boardsAt, eventsAt, isFinal, parametersOf, waitOf } from "./server.js";
import { words } from "../model/language.js";

const LEAST = 60, PARTS = 15; // seconds; the server rounds the beginning of the last seconds to so many parts of them
const LOST = new ApiError(0, "lost", words.board.lost);

// A connection. Those who show the same dashboard of the same runs share one, since a browser opens only six to a server.
class Feed {
  static all = new Map();

  constructor(url, reach, key) {
    Object.assign(this, { url, reach, key, followers: new Set(), states: new Map(), trouble: null, ending: new AbortController(), timer: null, tries: 0 });
    const last = Number(url.searchParams.get("last"));
    if (last > 0) this.renewal = setInterval(() => this.renew(), 1000 * Math.max(LEAST, last / PARTS));
    this.open();
  }

  // The last seconds are others now. What is shown stays until the states of the new ones are there.
  renew() {
    clearTimeout(this.timer);
    this.ending.abort();
    this.ending = new AbortController();
    this.open();
  }

  // A connection that is lost, or refused for now, is opened again after a growing wait.
  async open() {
    const { signal } = this.ending;
    try {
      for await (const [, data] of eventsAt(this.url, this.reach, signal, () => this.report(null))) this.take(JSON.parse(data));
      if (!signal.aborted) this.report(LOST);
    } catch (problem) {
      if (signal.aborted) return;
      if (problem.status === undefined) globalThis.reportError?.(problem); // of a follower
      this.report(problem);
      if (isFinal(problem)) return;
    }
    if (signal.aborted) return;
    this.timer = setTimeout(() => this.open(), waitOf(this.tries));
    this.tries += 1;
  }

  take(states) {
    this.tries = 0;
    for (const state of states) this.states.set(state.panel, state);
    for (const follower of this.followers) follower.states(states);
  }

  add(follower) {
    this.followers.add(follower);
    if (this.states.size > 0) follower.states([...this.states.values()]);
    follower.problem(this.trouble);
  }

  remove(follower) {
    this.followers.delete(follower);
    if (this.followers.size > 0) return;
    if (Feed.all.get(this.key) === this) Feed.all.delete(this.key);
    clearTimeout(this.timer);
    clearInterval(this.renewal);
    this.ending.abort();
  }

  report(problem) {
    this.trouble = problem;
    for (const follower of this.followers) follower.problem(problem);
  }
}

export class BoardSource {
  // `server` is an address that ends in a slash. handlers: states(list), problem(error or null). With `panel`, the states are the operators of that panel.
  constructor(server, name, handlers, reach = {}, panel = null) {
    const path = encodeURIComponent(name) + (panel === null ? "" : "/explain");
    Object.assign(this, { server, path, more: panel === null ? {} : { panel }, handlers, reach, feed: null, asked: 0, wanted: null, isAsking: false });
  }

  // Show the present. `query` names a run or a conversation, or a time and filters, or is empty; a value that is a list is repeated.
  follow(query) {
    this.close();
    const { reach } = this, url = new URL(`api/boards/${this.path}/events?${parametersOf({ ...query, ...this.more })}`, this.server);
    const key = reach.fetch ? Symbol("own") : `${url.href} ${reach.token ?? ""}`;
    if (!(this.feed = Feed.all.get(key))) Feed.all.set(key, (this.feed = new Feed(url, reach, key)));
    this.feed.add(this.handlers);
  }

  // Show a moment of the past, or the present without what follows (`time` is null). While an answer is on its way, only the newest moment waits: a slider that moves asks for no more than the server computes.
  async at(query, time) {
    this.leave();
    this.wanted = { ...query, ...this.more, time };
    if (this.isAsking) return;
    this.isAsking = true;
    while (this.wanted !== null) {
      const { wanted, asked } = this;
      this.wanted = null;
      try {
        const states = await boardAt(this.server, this.path, wanted, this.reach);
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

export const dashboardsOf = async (server, reach) => (await boardsAt(server, reach)).boards;
