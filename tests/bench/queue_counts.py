"""What a queued run costs by the number of processes that wait for one.

Calls of the store, and processes that are woken. They do not depend on the machine.

    python -m tests.bench.queue_counts sqlite:runs.db [processes ...]

Each process is a log of its own at the same address, on one event loop.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any
from unittest import mock

from msgspec import Struct

from rxworker import Worker
from rxworker.log import EventLog, Replica, open_log, recover, sqlite
from rxworker.log.store import Store, StoreOptions
from rxworker.testing import ScriptedModel
from rxworker.worker import submit, work

LEASE = 600.0


class Cost(Struct, frozen=True):
    """The cost of one run, as an average.

    Attributes:
        statements: Calls of the store, by all processes.
        woken: Processes that looked for a run.
    """

    statements: float
    woken: float


def counted(log: EventLog, counts: Counter[str]) -> EventLog:
    """Count what a log calls of its store: each method of the seam, also those that will be added."""
    for name, method in {**vars(StoreOptions), **vars(Store)}.items():
        if inspect.iscoroutinefunction(method):
            setattr(log, name, _counting(getattr(log, name), counts, name))
    return log


def _counting(call: Callable[..., Any], counts: Counter[str], name: str) -> Callable[..., Any]:
    @functools.wraps(call)
    def counting(*args: Any, **options: Any) -> Any:
        counts[name] += 1
        return call(*args, **options)

    return counting


async def count(address: str, processes: int, runs: int, together: int = 0, seconds: float = 0.0) -> list[Cost]:
    """Submit runs to processes that wait, one after the other, and then so many all at once.

    Each is due so many seconds later.
    """
    counts: Counter[str] = Counter()
    # Who looks by itself is counted by the second, not by the run.
    by_itself = (mock.patch.object(recover, "LOOK", LEASE), mock.patch.object(sqlite, "SELDOM", 10**9))
    with by_itself[0], by_itself[1]:
        async with AsyncExitStack() as stack:
            logs = [open_log(address, lease=LEASE) for _ in range(processes)]
            for log in logs:
                await stack.enter_async_context(counted(log, counts))
            working = [asyncio.create_task(work(log, lambda _: Worker(ScriptedModel(["Done."])))) for log in logs]
            desk = await stack.enter_async_context(open_log(address, lease=LEASE))
            await _one(desk, "to warm up")
            await _quiet(counts)
            costs: list[Cost] = []
            for some, at_once in [(runs, 1), (together, together)] if together else [(runs, 1)]:
                counts.clear()
                for _ in range(some // at_once):
                    await asyncio.gather(*(_one(desk, f"run {n}", seconds) for n in range(at_once)))
                await _quiet(counts)
                woken = counts["_await_call"]  # each that was woken waits again
                costs.append(Cost(counts.total() / some, woken / some))
            for task in working:
                task.cancel()
            await asyncio.wait(working)
            return costs


async def _one(desk: EventLog, text: str, seconds: float = 0.0) -> None:
    at = time.time() + seconds if seconds else None
    replica = Replica(desk, await submit(desk, text, at=at))
    await replica.ended()


async def _quiet(counts: Counter[str]) -> None:
    """Wait until no process does anything."""
    before = -1
    while before != (before := counts.total()):  # noqa: ASYNC110 - other tasks count
        await asyncio.sleep(0.1)


async def main(address: str, *processes: str) -> None:
    """Print a table."""
    print("processes  calls of the store a run  woken a run")
    for number in processes or ("2", "8", "32"):
        [cost] = await count(address, int(number), 20)
        print(f"{number:>9}  {cost.statements:24.1f}  {cost.woken:11.1f}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
