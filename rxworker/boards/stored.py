"""Dashboards over a log: what the panels show of the runs that are stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from heapq import heappop, heappush, heapreplace

from rxworker.boards.dashboard import Dashboard, Fold
from rxworker.boards.panel import PanelState
from rxworker.events import Record
from rxworker.hub.history import expand
from rxworker.log import EventLog
from rxworker.log.format import record_of

SLACK = 60.0
"""Seconds that the first record of a run may be older than the run in the log, which is stored a little later."""


async def fold_log(
    dashboard: Dashboard,
    log: EventLog,
    *,
    time: float | None = None,
    since: float | None = None,
    runs: Sequence[str] | None = None,
) -> tuple[PanelState, ...]:
    """What the panels show of stored runs at a moment, by folding their records in the order of their times.

    Of all runs, only those are read at the same time that ran at the same time.

    Args:
        dashboard: The dashboard.
        log: The log.
        time: The moment, in seconds since the epoch; by default that of the last record.
        since: Only runs that began then or later, in seconds since the epoch.
        runs: The ids of the runs; by default all.

    Returns:
        The state of each panel, in order.

    Raises:
        LogError: The log cannot be read, or there is no such run.

    Example:
        >>> import asyncio
        >>> from reactivex import operators as ops
        >>> from rxworker import Worker
        >>> from rxworker.boards import panel
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> def name_of(record: Record) -> str:
        ...     return type(record.event).__name__
        >>> board = Dashboard([panel("Last", ops.map(name_of), view="state")])
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        ...         [last] = await fold_log(board, log)
        ...         print(last.value)
        >>> asyncio.run(main())
        RunStop
    """
    fold = Fold(dashboard)
    async with aclosing(_in_order(log, since, runs)) as records:
        async for record in records:
            if time is not None and record.time > time:
                break
            fold.take(record)
    return fold.at(time)


async def _in_order(
    log: EventLog, since: float | None, runs: Sequence[str] | None
) -> AsyncGenerator[Record, None]:
    """The stored records of runs, in the order of their times."""
    waiting = await _begun(log, since, runs)  # the first to begin is the last
    heap: list[tuple[float, str, int, Record, AsyncGenerator[Record, None]]] = []
    try:
        while heap or waiting:
            while waiting and (not heap or waiting[-1][0] <= heap[0][0]):
                run = waiting.pop()[1]
                records = _records(log, run)
                if (record := await anext(records, None)) is not None:
                    heappush(heap, (record.time, run, record.seq, record, records))
            if heap:
                _, run, _, record, records = heap[0]
                yield record
                if (following := await anext(records, None)) is None:
                    heappop(heap)
                else:
                    heapreplace(heap, (following.time, run, following.seq, following, records))
    finally:
        for *_, records in heap:
            await records.aclose()


async def _begun(
    log: EventLog, since: float | None, runs: Sequence[str] | None
) -> list[tuple[float, str]]:
    """When the runs began at the earliest, and their ids, the last to begin first."""
    if runs is not None:
        infos = [await log.existing(run) for run in runs]
    else:
        infos = [info async for page in log.list_pages() for info in page]
    found = [
        (info.created - SLACK, info.run_id)
        for info in infos
        if since is None or info.created >= since
    ]
    return sorted(found, reverse=True)


async def _records(log: EventLog, run: str) -> AsyncGenerator[Record, None]:
    async with aclosing(log.read(run)) as entries:
        async for entry in entries:
            for record in expand(record_of(entry, run)):
                yield record
