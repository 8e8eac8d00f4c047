// The numbers of a course as rows for a chart: tokens and cost so far, and how fast was written. Pure.

import { costOf } from "./usage.js";

const CHARACTERS = 4; // a token is about so many

// Usage at each moment at which it was told, from the beginning to `end`.
export function usageRows(course, end) {
  const rows = [[0, null]];
  for (const run of course.runs) for (const [time, usage] of run.series.tokens) rows.push([course.place(run, time), usage]);
  const [last, usage] = rows[rows.length - 1];
  if (end > last) rows.push([end, usage]);
  return rows;
}

export function tokenData(rows) {
  const values = (name) => rows.map(([, usage]) => usage?.[name] ?? 0);
  return [rows.map(([at]) => at), values("input_tokens"), values("output_tokens")];
}

export function costData(rows, prices) {
  return [rows.map(([at]) => at), rows.map(([, usage]) => (usage === null ? 0 : costOf(prices, usage)))];
}

// Tokens a second, in steps.
export function rateData(course, end) {
  const times = [0], values = [0];
  for (const run of course.runs) {
    const { series } = run;
    if (series.start === null) continue;
    const begins = course.place(run, series.start), ends = run === course.run ? end : course.place(run, run.last);
    const at = (n) => Math.min(begins + n * series.width, ends);
    series.bins.forEach((size, n) => {
      times.push(at(n));
      values.push(size / CHARACTERS / series.width);
    });
    times.push(at(series.bins.length), ends);
    values.push(0, 0);
  }
  return [times, values];
}

export function peakRate(course) {
  let peak = 0;
  for (const { series } of course.runs) for (const size of series.bins) peak = Math.max(peak, size / CHARACTERS / series.width);
  return peak;
}
