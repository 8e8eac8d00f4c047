"""What `OpenTelemetry` costs a run, and a delta, with a tracer and a meter that do nothing.

    python tests/bench/tracing.py            half a minute
    python tests/bench/tracing.py --quick    seconds, and rough

A traced run and the same run without are measured in turn; each figure is that of the fastest twentieth, which other
programs have disturbed least.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time

from msgspec import Struct
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider

from rxworker import Worker
from rxworker.adapters.opentelemetry import OpenTelemetry
from rxworker.testing import Reply, ScriptedModel, say

DELTAS = 2000


class Costs(Struct, frozen=True):
    """Microseconds of CPU.

    Attributes:
        run: A run of one short answer, without tracing.
        traced: What tracing adds to it.
        delta: A delta of a long answer, each of which is a network read.
        traced_delta: What tracing adds to it.
    """

    run: float
    traced: float
    delta: float
    traced_delta: float


def measure(rounds: int = 1000) -> Costs:
    """Measure both."""
    tracing = OpenTelemetry(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider())

    async def pairs(answer: Reply, delay: float, rounds: int) -> tuple[float, float]:
        taken: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds):
            for is_traced, seconds in taken.items():
                model = ScriptedModel([answer], delay=delay)
                worker = Worker(model, tracing=tracing if is_traced else None)
                begun = time.thread_time()
                await worker.run("Hi")
                seconds.append(time.thread_time() - begun)
        plain, traced = (1e6 * sorted(each)[len(each) // 20] for each in taken.values())
        return plain, traced - plain

    async def both() -> Costs:
        run, traced = await pairs(say("ok"), 0.0, rounds)
        delta, more = await pairs(say("x" * DELTAS, chunk=1), 1e-9, max(rounds // 40, 10))
        return Costs(run, traced, delta / DELTAS, more / DELTAS)

    gc.disable()
    try:
        return asyncio.run(both())
    finally:
        gc.enable()


if __name__ == "__main__":
    costs = measure(200 if "--quick" in sys.argv else 1000)
    print(f"a run {costs.run:.1f} µs, traced {costs.traced:+.1f} µs")
    print(f"a delta {costs.delta:.2f} µs, traced {costs.traced_delta:+.2f} µs")
