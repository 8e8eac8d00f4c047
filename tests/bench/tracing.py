"""What `OpenTelemetry` costs a run, and a delta, with a tracer and a meter that do nothing.

    python tests/bench/tracing.py            half a minute
    python tests/bench/tracing.py --quick    seconds, and rough

Each figure is the median of differences of neighbours: a traced run, and the same run without, in turn, so that the machine drops out.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time

from msgspec import Struct
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider

from rxworker import Worker
from rxworker.testing import ScriptedModel, say
from rxworker.ui.opentelemetry import OpenTelemetry

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


def measure(rounds: int = 40) -> Costs:
    """Measure both."""
    tracing = OpenTelemetry(
        tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider()
    )

    async def seconds(worker: Worker) -> float:
        begun = time.process_time()
        await worker.run("Hi")
        return time.process_time() - begun

    async def pairs(text: str, runs: int, chunk: int, delay: float) -> tuple[float, float]:
        plain: list[float] = []
        added: list[float] = []
        for _ in range(rounds):
            taken: list[float] = []
            for observer in (None, tracing):
                workers = [
                    Worker(ScriptedModel([say(text, chunk=chunk)], delay=delay), tracing=observer)
                    for _ in range(runs)
                ]
                gc.collect()
                taken.append(sum([await seconds(worker) for worker in workers]) / runs)
            plain.append(taken[0])
            added.append(taken[1] - taken[0])
        return 1e6 * min(plain), 1e6 * statistics.median(added)

    async def both() -> Costs:
        run, traced = await pairs("ok", 100, 16, 0.0)
        delta, traced_delta = await pairs("x" * DELTAS, 1, 1, 1e-9)
        return Costs(run, traced, delta / DELTAS, traced_delta / DELTAS)

    gc.disable()
    try:
        return asyncio.run(both())
    finally:
        gc.enable()


if __name__ == "__main__":
    costs = measure(12 if "--quick" in sys.argv else 40)
    print(f"a run {costs.run:.1f} µs, traced {costs.traced:+.1f} µs")
    print(f"a delta {costs.delta:.2f} µs, traced {costs.traced_delta:+.2f} µs")
