// The list of runs as conversations: filtered, grouped and sorted. Pure.

import { Branches } from "./branches.js";
import { words as texts } from "./language.js";

export const ANY = { q: "", status: "", worker: "", tool: "", tag: "", since: "", min_cost: "", sort: "newest" };
const PERIODS = { hour: 3600, day: 86_400, week: 7 * 86_400, month: 30 * 86_400 }; // seconds
export const SINCE = Object.keys(PERIODS), SORTS = ["newest", "cost", "duration"];

export const STATUSES = ["running", "paused", "finished", "aborted"];
const CHOICES = { status: STATUSES, since: SINCE, sort: SORTS };

// The filter whose values `read(name)` returns, or null where there are none; a value that a list does not offer is dropped.
export function filterFrom(read) {
  const fits = (name, value) => value !== null && value.length <= 200 && (CHOICES[name]?.includes(value) ?? true);
  return Object.fromEntries(Object.keys(ANY).map((name) => [name, fits(name, read(name)) ? read(name) : ANY[name]]));
}

export const isFiltered = (filter) => Object.keys(ANY).some((name) => name !== "sort" && filter[name] !== ANY[name]);

// The parameters of a request for the runs that match.
export function queryOf(filter, now) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) if (value !== ANY[name]) query.set(name, name === "since" ? String(now - PERIODS[value]) : value);
  return query;
}

// Whether a run matches, as far as its summary says; `found` has the runs whose texts and tools match, or is null while that is unknown.
function matcher(filter, found, now) {
  const words = filter.q.toLowerCase().split(/\s+/).filter(Boolean), least = filter.min_cost === "" ? null : Number(filter.min_cost);
  const since = filter.since === "" ? -Infinity : now - PERIODS[filter.since];
  return (run) => {
    if (filter.status && run.status !== filter.status) return false;
    if (filter.worker && run.worker !== filter.worker) return false;
    if (run.started < since || (least !== null && !(run.cost >= least && run.cost !== null))) return false;
    if (filter.tag && !marksOf(run).tags.includes(filter.tag)) return false;
    if (filter.tool && !found?.has(run.id)) return false;
    if (words.length === 0 || found?.has(run.id)) return true;
    const noted = marksOf(run), title = [run.title, noted.title, ...noted.tags].join("\n").toLowerCase();
    return words.every((word) => title.includes(word));
  };
}

const UNMARKED = { title: "", tags: [], pinned: false };

// What a person has noted about the conversation of a run.
export const marksOf = (run) => run.marks ?? UNMARKED;

export const titleOf = (run) => marksOf(run).title || run.title || texts.runs.untitled;

export const tookOf = (run, now) => (run.ended ?? now) - run.started;

// Conversations, each with its runs that match and those of its branches, the pinned and the newest first. A resumed run is one with the run that resumed it, unless it is selected.
export function conversationsOf(runs, { filter = ANY, found = null, selected = null, now = 0 } = {}) {
  const known = new Set(runs.map((run) => run.id)), older = [...(found?.values() ?? [])].filter((run) => !known.has(run.id));
  const isMatch = isFiltered(filter) ? matcher(filter, found, now) : () => true;
  const every = older.length ? [...runs, ...older] : runs, branches = new Branches(every), groups = new Map();
  for (const run of every) {
    if ((run.resumed_as && run.id !== selected) || !isMatch(run)) continue;
    const id = branches.root(run.conversation), group = groups.get(id);
    if (group) group.runs.push(run);
    else groups.set(id, { id, runs: [run], order: 0 });
  }
  for (const group of groups.values()) {
    if (group.runs.length > 1) group.runs.sort((a, b) => b.started - a.started);
    group.marks = marksOf(group.runs[0]);
    group.order = filter.sort === "cost" ? group.runs.some((run) => run.cost !== null) ? sum(group.runs, (run) => run.cost ?? 0) : -1
      : filter.sort === "duration" ? Math.max(...group.runs.map((run) => tookOf(run, now))) : group.runs[0].started;
  }
  return [...groups.values()].sort((a, b) => b.marks.pinned - a.marks.pinned || b.order - a.order);
}

export const sum = (list, value) => list.reduce((total, one) => total + value(one), 0);
