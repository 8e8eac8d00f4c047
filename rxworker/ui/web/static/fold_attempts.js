// What requests and responses do to a run: attempts begin, are taken back and end, and tokens are counted. Pure.

import { closeOpen } from "./fold_blocks.js";
import { conclude } from "./fold_notes.js";
import { newResponse } from "./scope.js";
import { addUsage, usageOf } from "./usage.js";

// The response is over: what is open stays as it is, and its tokens count.
export function settle(run, scope, time) {
  closeOpen(run, scope, time);
  scope.spent = addUsage(scope.spent, scope.response.usage);
  scope.response = newResponse();
  scope.attempt = [];
}

function retract(run, scope, time) {
  closeOpen(run, scope, time);
  for (const thing of scope.attempt) {
    thing.retracted = true;
    if (thing.state === "waiting" || thing.state === "running") thing.state = "stopped";
    run.changed.add(thing);
  }
  scope.attempt = [];
}

function attemptStart(run, scope, event, record) {
  settle(run, scope, record.time);
  if (scope.depth > 0) return;
  run.attempts += 1;
  run.provider = event.provider || run.provider;
  run.model = event.model || run.model;
  run.stopReason = null;
}

function attemptRetract(run, scope, event, record) {
  retract(run, scope, record.time);
  settle(run, scope, record.time);
  const again = event.delay ? `, again in ${event.delay.toFixed(1)} s` : "";
  conclude(run, scope, record, "warn", "Taken back", event.reason, again);
}

function status(run, scope, event, record) {
  const response = scope.response;
  if (event.status === "Started") {
    if (response.status !== null) {
      retract(run, scope, record.time);
      if (scope.depth > 0) scope.spent = addUsage(scope.spent, response.usage);
      response.usage = null;
    }
    response.status = "Started";
    if (scope.depth === 0) run.model = event.model || run.model;
    return;
  }
  response.status = event.status;
  if (event.status !== "Completed") return;
  if (scope.depth === 0) run.stopReason = event.stop_reason ?? null;
}

function usage(run, scope, event, record) {
  scope.response.usage = event;
  run.series.total(record.time, usageOf(run));
}

export const ATTEMPT_STEPS = { attempt_start: attemptStart, attempt_retract: attemptRetract, status, usage };
