// A run as the page needs it, folded from its records. Pure: it knows nothing of the page.
//
// `newRun` is a run nobody has heard of; `step(run, record)` takes the next record. What a record changed is put into
// `run.changed`, which whoever draws empties: a frame costs what changed in it, whatever the length of the run. A record that was
// seen already changes nothing. Records may stand for several (`covers`), and belong to runs inside the run (`path`).
// The same records give the same conversation, numbers and status as `fold_run` in Python; a test holds the two equal.

import { ATTEMPT_STEPS } from "./fold_attempts.js";
import { BLOCK_STEPS } from "./fold_blocks.js";
import { NOTE_STEPS } from "./fold_notes.js";
import { RUN_STEPS } from "./fold_runs.js";
import { TOOL_STEPS } from "./fold_tools.js";
import { newScope, scopeAt } from "./scope.js";
import { Series } from "./series.js";

const STEPS = { ...BLOCK_STEPS, ...NOTE_STEPS, ...ATTEMPT_STEPS, ...TOOL_STEPS, ...RUN_STEPS };

export function newRun(id) {
  return {
    id, seq: 0, status: "new", turns: 0, attempts: 0, toolCalls: 0, innerToolCalls: 0, missing: 0,
    reason: "", cause: "", pause: null, provider: "", model: "", stopReason: null, started: null, last: null,
    root: newScope([], null), scopes: new Map(), lanes: [], notes: [], turnTimes: [], series: new Series(), changed: new Set(),
  };
}

export function step(run, record) {
  if (record.seq <= run.seq) return false;
  const first = record.seq - (record.covers ?? 1) + 1;
  if (first > run.seq + 1) run.missing += first - run.seq - 1;
  run.started ??= record.time;
  const scope = scopeAt(run, record.path ?? []);
  const act = STEPS[record.event.type];
  if (act) act(run, scope, record.event, record);
  run.seq = record.seq;
  run.last = record.time;
  return true;
}

export function fold(id, records) {
  const run = newRun(id);
  for (const record of records) step(run, record);
  return run;
}
