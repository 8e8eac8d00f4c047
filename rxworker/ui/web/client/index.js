// The runs, streams and dashboards of a server as RxJS observables, and what is done with its runs, over the connection and the fold that the page of the server uses.
//
// Theory of operation. An observable requests at each subscription, and again after each lost connection from the last that it has received. A socket carries
// each run and each stream once; a second subscription to the same one takes another socket. What shows the present (the list of runs, the view of a run, a
// dashboard) is requested once for all subscribers at a time, of which a late one receives the newest value.

import { BehaviorSubject, defer, distinctUntilChanged, finalize, map, mergeMap, Observable, ReplaySubject, share } from "rxjs";

import { newRun, step } from "../static/model/fold.js";
import { words } from "../static/model/language.js";
import { BoardSource } from "../static/net/board.js";
import { ApiError, Connection, isFinal, verbsAt } from "../static/net/server.js";
import { connectTo, lookAt } from "../static/net/shared.js";

export { resultText, textOf, usageOf } from "../static/model/run_state.js";
export { ApiError };

const LATER = 500; // milliseconds until a detached watcher attaches again

export const connect = (url, options) => new Client(url, options);

class Client {
  #shared = new Map();
  #links = new Set();
  #problem = new BehaviorSubject(null);

  constructor(url, { name = "client", ...reach } = {}) {
    this.url = new URL(url.endsWith("/") ? url : `${url}/`, globalThis.document?.baseURI).href;
    this.name = name;
    Object.defineProperty(this, "reach", { value: reach }); // not shown where the client is logged: it has the token
    Object.assign(this, verbsAt(this.url, reach));
    this.problem$ = this.#problem.pipe(distinctUntilChanged());
    this.runs$ = this.#share("runs", new Observable((observer) => {
      const link = new Link(this, true);
      link.take("runs", { observer, watch() {}, unwatch() {} });
      return () => link.leave("runs");
    }));
  }

  // A connection is lost (a cause) or open (null).
  reached(cause) {
    if (cause === null || this.#problem.value === null) this.#problem.next(cause && unreachable(this.url, cause));
  }

  records$(id, options) {
    return this.#batches(id, options).pipe(mergeMap((records) => records));
  }

  view$(id) {
    return this.#share(`view ${id}`, defer(() => {
      const run = newRun(id);
      return this.#batches(id).pipe(map((records) => {
        for (const record of records) step(run, record);
        run.changed.clear();
        return { ...run }; // another object, so that a view that compares sees the change
      }));
    }));
  }

  stream$(name, { after = "", delivery } = {}) {
    return this.#linked(`stream ${name}`, (observer) => {
      let cursor = after;
      return {
        observer,
        watch: (connection) => connection.watchStream(name, () => cursor, delivery),
        unwatch: (connection) => connection.unwatchStream(name),
        next(items, epoch) {
          for (const item of items) {
            cursor = `${epoch}-${item.seq}`;
            observer.next({ ...item, cursor });
          }
        },
      };
    });
  }

  board$(board, { at, ...query } = {}) {
    const scope = Object.fromEntries(Object.entries(query).filter(([, id]) => id));
    return this.#share(`board ${JSON.stringify([board, scope, at])}`, new Observable((observer) => {
      const shown = new Map();
      const states = (list) => {
        for (const state of list) shown.set(state.panel, state);
        observer.next([...shown.values()]);
        if (at !== undefined) observer.complete();
      };
      const problem = (error) => (error && (at !== undefined || isFinal(error)) ? observer.error(error) : this.reached(error));
      const source = new BoardSource(this.url, board, { states, problem }, this.reach);
      if (at === undefined) source.follow(scope);
      else source.at(scope, at);
      return () => source.close();
    }));
  }

  panel$(board, panel, options) {
    const find = (states) => {
      const found = states.find((state) => state.panel === panel);
      if (found === undefined) throw new ApiError(404, "no_panel", `the dashboard ${board} has no panel ${panel}; it has ${states.map((state) => state.panel).join(", ")}`);
      return found;
    };
    return this.board$(board, options).pipe(map(find), distinctUntilChanged());
  }

  #batches(id, { after = 0, delivery } = {}) {
    return this.#linked(`run ${id}`, (observer) => {
      let last = after;
      return {
        observer,
        watch: (connection) => connection.watch(id, () => last, delivery),
        unwatch: (connection) => connection.unwatch(id),
        next(records) {
          for (const { seq, covers = 1 } of records) {
            if (seq - covers !== last) return observer.error(new ApiError(0, "gap", `after record ${last} of ${id} comes ${seq - covers + 1}`));
            last = seq;
          }
          observer.next(records);
        },
      };
    });
  }

  // What a socket carries under a key: `take` returns the taker of its messages.
  #linked(key, take) {
    return new Observable((observer) => {
      const link = [...this.#links].find((one) => !one.takers.has(key)) ?? new Link(this, false);
      this.#links.add(link);
      link.take(key, take(observer));
      return () => link.leave(key) || this.#links.delete(link);
    });
  }

  #share(key, source) {
    return defer(() => {
      const known = this.#shared.get(key);
      if (known) return known;
      const made = source.pipe(finalize(() => this.#shared.delete(key)), share({ connector: () => new ReplaySubject(1) }));
      this.#shared.set(key, made);
      return made;
    });
  }
}

function unreachable(url, { message }) {
  const origin = globalThis.location?.origin, other = origin && new URL(url).origin !== origin ? `, or does not allow the origin ${origin}` : "";
  return new ApiError(0, "unreachable", `${url} does not answer (${message}): the server is down${other}. The client tries again`);
}

// A socket and the takers of what it carries: { observer, watch(connection), unwatch(connection), next(list, epoch) }.
class Link {
  constructor(client, isListing) {
    const { url, name, reach } = client;
    Object.assign(this, { client, url, reach, takers: new Map() });
    this.connection = new Connection(this, { makeSocket: () => connectTo(url, reach), name, isListing });
    this.connection.open();
  }

  take(key, taker) {
    this.takers.set(key, taker);
    taker.watch(this.connection);
  }

  // Whether others are left; without any, the socket is closed.
  leave(key) {
    this.takers.get(key).unwatch(this.connection);
    this.takers.delete(key);
    if (this.takers.size === 0) this.connection.close();
    return this.takers.size > 0;
  }

  fail(error, takers = [...this.takers.values()]) {
    for (const { observer } of takers) observer.error(error);
  }

  // Messages of the connection.

  hello() {}

  runs(list) {
    this.takers.get("runs").observer.next(list);
  }

  records(run, list) {
    this.takers.get(`run ${run}`).next(list);
  }

  end(run) {
    this.takers.get(`run ${run}`)?.observer.complete();
  }

  gone(run) {
    this.takers.get(`run ${run}`)?.observer.error(new ApiError(404, "gone", words.embed.unknown));
  }

  items(stream, epoch, list) {
    this.takers.get(`stream ${stream}`).next(list, epoch);
  }

  streamEnd(stream, { status, reason }) {
    const { observer } = this.takers.get(`stream ${stream}`) ?? {};
    if (status === "aborted") observer?.error(new ApiError(0, "aborted", reason));
    else observer?.complete();
  }

  streamGone(stream) {
    this.takers.get(`stream ${stream}`)?.observer.error(new ApiError(404, "gone", `the server has no stream ${stream}`));
  }

  error({ code, message, run, stream }) {
    if (!run && !stream) return this.fail(new ApiError(0, code, message));
    const key = run ? `run ${run}` : `stream ${stream}`, taker = this.takers.get(key);
    if (!taker) return;
    // The watcher was too far behind: attach again at the same position.
    if (code === "detached") setTimeout(() => this.takers.get(key) === taker && taker.watch(this.connection), LATER);
    else taker.observer.error(new ApiError(0, code, message));
  }

  // A socket does not report why it was refused: a request does.
  async state(word) {
    if (word !== "lost") return this.client.reached(null);
    try {
      await lookAt(this.url, this.reach);
    } catch (error) {
      if (isFinal(error)) this.fail(error);
      else if (this.takers.size > 0) this.client.reached(error);
    }
  }
}
