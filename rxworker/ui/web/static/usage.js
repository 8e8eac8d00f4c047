// Tokens, and what they cost. Pure.

const FIELDS = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "reasoning_tokens"];
const MILLION = 1_000_000;

export function newUsage() {
  return Object.fromEntries(FIELDS.map((name) => [name, null]));
}

export function addUsage(a, b) {
  const sum = newUsage();
  for (const name of FIELDS) {
    const left = a?.[name] ?? null, right = b?.[name] ?? null;
    sum[name] = left === null ? right : right === null ? left : left + right;
  }
  return sum;
}

// All tokens of a run: of the responses that are over, of the one that is being received, of the runs inside.
export function usageOf(run) {
  let usage = addUsage(run.root.spent, run.root.response.usage);
  for (const scope of run.scopes.values()) usage = addUsage(addUsage(usage, scope.spent), scope.response.usage);
  return usage;
}

// As `Prices.cost` in Python; a test holds the two equal.
export function costOf(prices, usage) {
  const read = usage.cache_read_tokens ?? 0, written = usage.cache_creation_tokens ?? 0;
  const fresh = Math.max((usage.input_tokens ?? 0) - read - written, 0);
  const input = fresh * prices.input + read * (prices.cache_read ?? prices.input) + written * (prices.cache_creation ?? prices.input);
  return (input + (usage.output_tokens ?? 0) * prices.output) / MILLION;
}
