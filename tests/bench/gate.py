"""What a gate costs: for each delta with a plain check, and the delay of deltas with a check of 100 ms.

    python tests/bench/gate.py

The delay of a delta is the time from its arrival until its last character has passed, in real time: it waits until half
a window of text follows it, and for the checks. Side by side, that does not grow with the text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

from reactivex import Subject

from rxworker.events import BlockStart, BlockStop, BlockType, TextDelta
from rxworker.operators import hold_back, reject
from rxworker.operators.kernel import Source

DELTAS = 200_000


def per_delta(operator: Callable[[Any], Any] | None) -> float:
    """Nanoseconds for a delta of 8 characters, the best of five rounds."""
    source = Source[Any]()
    source.pipe(*[] if operator is None else [operator]).subscribe(bool)
    deltas = [TextDelta(0, f"word{number:03} ") for number in range(1000)]
    best = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(DELTAS // 1000):
            for delta in deltas:
                source.on_next(delta)
        best = min(best, time.perf_counter() - begun)
    return best / DELTAS * 1e9


async def delays(characters: int, every: float, seconds: float, **options: Any) -> list[float]:
    """The milliseconds by which deltas pass later than they arrive, in order.

    Args:
        characters: The characters of a delta.
        every: Seconds between two deltas.
        seconds: How long the check takes.
        options: Those of `hold_back`.
    """

    async def check(_: str) -> bool:
        await asyncio.sleep(seconds)
        return True

    loop = asyncio.get_running_loop()
    source: Subject[Any] = Subject()
    arrived: list[float] = []
    found: list[float] = []
    passed = 0

    def on_next(event: Any) -> None:
        nonlocal passed
        if isinstance(event, TextDelta):
            passed += len(event.text)
            while len(found) < len(arrived) and (len(found) + 1) * characters <= passed:
                found.append((loop.time() - arrived[len(found)]) * 1000)

    ended = asyncio.Event()
    gated = source.pipe(hold_back(check, **options), reject(BlockStart, BlockStop))
    gated.subscribe(on_next, on_completed=ended.set)
    source.on_next(BlockStart(0, BlockType.TEXT))
    for _ in range(200):
        arrived.append(loop.time())
        source.on_next(TextDelta(0, "x" * characters))
        await asyncio.sleep(every)
    source.on_next(BlockStop(0, BlockType.TEXT))
    source.on_completed()
    await ended.wait()
    return found


def main() -> None:
    """Measure and print."""
    without, gated = per_delta(None), per_delta(hold_back(lambda _: True))
    print(f"a delta: {without:.0f} ns without a gate, {gated:.0f} ns through one with a plain function")
    print(f"\n{'characters/s':>12} {'ahead':>7} {'at most':>8} {'median ms':>10} {'p95 ms':>7}   a check takes 100 ms")
    for characters, every in ((10, 0.005), (5, 0.01)):
        for ahead, at_most in ((12, 32), (20, 16), (200, 8), (20, 1)):
            found = asyncio.run(delays(characters, every, 0.1, ahead=ahead, at_most=at_most))
            figures = f"{median(found):>10.0f} {quantiles(found, n=20)[-1]:>7.0f}"
            print(f"{characters / every:>12.0f} {ahead:>7} {at_most:>8} {figures}")


if __name__ == "__main__":
    main()
