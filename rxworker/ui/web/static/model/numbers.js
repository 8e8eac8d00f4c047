// Tokens and cost of runs, for the line above a conversation and for two runs side by side; everything else is computed by the server. Pure.
//
// While a response streams, and where its provider reports no usage, tokens are estimated: what is read from the messages before it, what is written
// from its text. An attempt has the estimate of its input; its own usage replaces the estimates.

import { tokensIn } from "./estimate.js";
import { addUsage, costOf, newUsage, usageOf } from "./run_state.js";

// The estimated tokens of an attempt that its provider has not reported (yet).
export function guessOf(attempt, isOpen) {
  const { usage } = attempt, written = tokensIn(attempt.bytes), known = usage?.output_tokens ?? null;
  const output = known === null || isOpen ? Math.max(0, written - (known ?? 0)) : 0;
  const input = (usage?.input_tokens ?? null) === null && written > 0 ? attempt.input : 0;
  return { input_tokens: input, output_tokens: output };
}

const attemptsOf = (runs) => runs.flatMap((run) => run.lanes.filter((lane) => lane.kind === "span" && lane.type === "attempt"));

// The tokens of a run with estimates, and whether there are any.
export function totalsOf(run) {
  const usage = usageOf(run), scopes = [run.root, ...run.scopes.values()];
  let { input_tokens: input, output_tokens: output } = run.guessed;
  for (const { request } of scopes) {
    if (!request || request.isSettled) continue;
    const guess = guessOf(request, request.phase === "open");
    input += guess.input_tokens;
    output += guess.output_tokens;
  }
  const isEstimate = input + output > 0;
  if (!isEstimate) return { usage, isEstimate };
  return { usage: addUsage(usage, { input_tokens: input, output_tokens: output }), isEstimate };
}

// The tokens and the cost of a timeline by model. `priceOf(model)` returns the prices of a model or null; "" is the model of what was spent before.
export function modelsOf(timeline, priceOf) {
  if (timeline.run === null) return [];
  const { usage: total } = totalsOf(timeline.run), rows = new Map();
  let rest = total;
  const add = (model, usage, requests, isGuess) => {
    const row = rows.get(model) ?? { model, requests: 0, usage: newUsage(), isEstimate: false };
    rows.set(model, { model, requests: row.requests + requests, usage: addUsage(row.usage, usage), isEstimate: row.isEstimate || isGuess });
  };
  for (const attempt of attemptsOf(timeline.runs)) {
    const guess = guessOf(attempt, attempt.phase === "open"), usage = addUsage(attempt.usage, guess);
    add(attempt.model, usage, 1, guess.input_tokens + guess.output_tokens > 0);
    rest = less(rest, usage);
  }
  // What no attempt has reported, for example what earlier runs took whose records are not here. The lengths of its prompts are not known.
  if (Object.values(rest).some((n) => n > 0)) add("", { ...rest, by_size: [[0, rest]] }, 0, false);
  return [...rows.values()].map((row) => {
    const prices = priceOf(row.model);
    return { ...row, cost: prices ? costOf(prices, row.usage) : null, currency: prices?.currency ?? "" };
  });
}

function less(a, b) {
  const numbers = Object.keys(newUsage()).map((name) => [name, a[name] ?? null]);
  return Object.fromEntries(numbers.map(([name, n]) => [name, n === null ? null : Math.max(0, n - (b[name] ?? 0))]));
}

// The cost of models in one currency; null if no price is known.
export function costIn(models, currency) {
  const priced = models.filter((row) => row.cost !== null && row.currency === currency);
  return priced.length ? priced.reduce((sum, row) => sum + row.cost, 0) : null;
}
