// The time that a dashboard shows, and the filters of its records, as the address of its page has them: with the names and the values of the API. Pure.

export const LASTS = { m15: 900, h1: 3_600, h6: 21_600, h24: 86_400, d7: 604_800, d30: 2_592_000, d90: 7_776_000 }; // seconds
export const KINDS = ["label", "tenant", "user", "model", "tool", "status", "worker", "q"];
export const ENDS = ["finished", "failed", "cancelled", "stopped", "paused"];
const TIMES = ["last", "since", "until", "time"];

// { last, since, until, time: numbers or null; isStill, isCompared; filters: pairs of a kind and a value }. What is not valid is left out.
export function rangeOf(parameters) {
  const times = TIMES.map((name) => [name, parameters.has(name) ? Number(parameters.get(name)) : NaN]).map(([name, n]) => [name, n > 0 && n < 8e12 ? n : null]);
  const filters = KINDS.flatMap((kind) => (kind === "label" ? parameters.getAll(kind) : parameters.getAll(kind).slice(0, 1)).filter((value) => problemOf(kind, value) === "").map((value) => [kind, value]));
  return { ...Object.fromEntries(times), isStill: parameters.get("still") === "1", isCompared: parameters.get("compare") === "1", filters };
}

// The name of a problem with a filter, or "".
export function problemOf(kind, value) {
  if (value.trim() === "") return "needed";
  if (kind === "label" && !/^[^=]+=./s.test(value)) return "needsValue";
  return kind === "status" && !ENDS.includes(value) ? "needsStatus" : "";
}

// With one more filter. Of each kind but labels there is one.
export const withFilter = (range, kind, value) => ({ ...range, filters: [...range.filters.filter(([one, known]) => (kind === "label" ? known !== value : one !== kind)), [kind, value]] });
export const withoutFilter = (range, n) => ({ ...range, filters: range.filters.toSpliced(n, 1) });
export const withTime = (range, time) => ({ ...range, last: null, since: null, until: null, time: null, ...time });

// What the server is asked for, beside the moment `time`.
export function queryOf({ last, since, until, filters }) {
  const query = last === null ? { since, until } : { last };
  for (const [kind, value] of filters) query[kind] = kind === "label" ? [...(query.label ?? []), value] : value;
  return query;
}

// Whether what is shown does not change: a moment, a time that is over, or what the reader has stopped.
export const isStill = ({ time, until, isStill: isStopped }, now) => isStopped || time !== null || (until !== null && until < now);

// The beginning and the end of the axis of time, or null where the server decides.
export function axisOf({ last, since, until, time }, now) {
  const end = time ?? until ?? now;
  if (last !== null) return [end - last, end];
  return since === null ? null : [since, end];
}

// What the server is asked for the period before, or null where there is none.
export function beforeOf(range, now) {
  const axis = range.time === null ? axisOf(range, now) : null;
  return axis === null ? null : { ...queryOf(range), last: null, since: 2 * axis[0] - axis[1], until: axis[0] };
}
