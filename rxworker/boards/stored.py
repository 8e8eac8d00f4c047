"""Dashboards over a log: what the panels show of the runs that are stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from heapq import heappop, heappush, heapreplace
from time import perf_counter

from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.internal import noop

from rxworker.boards.dashboard import TURN, Dashboard, Fold, Progress, StoredFirst
from rxworker.boards.panel import AlertChange, PanelState
from rxworker.boards.selection import EVERYTHING, SLACK, Selection
from rxworker.errors import LogError
from rxworker.events import Record
from rxworker.hub.history import expand
from rxworker.log import EventLog
from rxworker.log.fold import StoredRun, is_copy
from rxworker.log.format import record_of
from rxworker.log.replay import keep_task
from rxworker.operators import merge_runs
from rxworker.operators.kernel import Call, SerialDisposable, Sink, connect

logger = logging.getLogger("rxworker.boards")


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
    return (await _folded(dashboard, log, time, since, runs))[0]


async def fold_alerts(
    dashboard: Dashboard,
    log: EventLog,
    *,
    time: float | None = None,
    since: float | None = None,
    runs: Sequence[str] | None = None,
) -> tuple[AlertChange, ...]:
    """The alerts of stored runs until a moment, at the times at which a board over these runs has reported them.

    Args:
        dashboard: The dashboard.
        log: The log.
        time: The moment, in seconds since the epoch; by default that of the last record.
        since: Only runs that began then or later, in seconds since the epoch.
        runs: The ids of the runs; by default all.

    Returns:
        The changes, in order.

    Raises:
        LogError: The log cannot be read, or there is no such run.

    Example:
        >>> import asyncio
        >>> from rxworker import Worker
        >>> from rxworker.boards import above, panel
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.panels import tokens
        >>> from rxworker.testing import ScriptedModel
        >>> board = Dashboard([panel("Tokens", tokens, alert=above(10))])
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        ...         for change in await fold_alerts(board, log):
        ...             print(change.panel, change.value, change.is_firing)
        >>> asyncio.run(main())
        tokens 15 True
    """
    return (await _folded(dashboard, log, time, since, runs))[1]


async def _folded(
    dashboard: Dashboard, log: EventLog, time: float | None, since: float | None, runs: Sequence[str] | None
) -> tuple[tuple[PanelState, ...], tuple[AlertChange, ...]]:
    fold = Fold(dashboard)
    await take_stored(fold, log, time, since, runs)
    return fold.at(time), fold.alerts


async def take_stored(
    fold: Fold, log: EventLog, time: float | None, since: float | None, runs: Sequence[str] | None = None
) -> None:
    """Let a fold take the stored records of runs until a moment, in the order of their times; see `fold_log`."""
    async with aclosing(_in_order(log, since, runs, fold.selection)) as records:
        async for record in records:
            if time is not None and record.time > time:
                break
            fold.take(record)


def log_records(log: EventLog, *, since: float | None = None) -> Observable[Record]:
    """The records of the runs of a log as one observable.

    The stored ones in the order of their times, and then what any process appends.

        A: ab   B: c    d--e|    what is stored of two runs, and what is appended
        [ log_records(log) ]
        abc-----d--e|

    ``merge_runs(log.runs())`` has the same records, those of one stored run after those of another. It completes when
    the log is closed.

    Args:
        log: The log.
        since: Only runs that began then or later, in seconds since the epoch.

    Raises:
        LogError: As ``on_error``: the log cannot be read.
    """
    return all_records(log, since, EVERYTHING, noop)


def all_records(
    log: EventLog, since: float | None, selection: Selection, on_read: Callable[[], object]
) -> Observable[Record]:
    """As `log_records`; calls a function when the stored records have been emitted.

    Runs that have nothing of the selection are not read.
    """
    return _LogRecords(log, since, selection, on_read)


class _LogRecords(StoredFirst):
    """The records of a log."""

    def __init__(self, log: EventLog, since: float | None, selection: Selection, on_read: Callable[[], object]) -> None:
        super().__init__()
        self._log = log
        self._since = since
        self._selection = selection
        self._on_read = on_read

    def _subscribe_core(
        self, observer: abc.ObserverBase[Record], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        return self.follow(observer, observer.on_next, scheduler)

    def follow(
        self,
        observer: abc.ObserverBase[Record],
        stored: Callable[[Record], object],
        scheduler: abc.SchedulerBase | None,
        progress: Progress = noop,
    ) -> abc.DisposableBase:
        """Subscribe, with functions for what is stored, and for how many runs are read, of how many."""
        log, since, selection = self._log, self._since, self._selection
        last: dict[str, int] = {}
        subscription = SerialDisposable()

        def push(record: Record) -> None:
            last[record.run_id] = record.seq
            observer.on_next(record)

        def later(run: StoredRun) -> Observable[Record]:
            known = last.get(run.id, 0)
            # The records before those of a run that was put back may still be read.
            return run.records_after(known) if known > run.begins_after else run.records

        async def read() -> None:
            try:
                async with aclosing(_in_order(log, since, None, selection, progress)) as records:
                    async for record in records:
                        last[record.run_id] = record.seq
                        stored(record)
                progress(0, 0)
                self._on_read()
                sink = Sink(push, observer.on_error, observer.on_completed)
                runs = log.runs(since=since, where=selection.may_have).pipe(ops.map(later))
                subscription.put(connect(merge_runs(runs), sink, scheduler))
            except Exception as error:  # also what opens the log anew, or a function that is called
                observer.on_error(error)

        subscription.put(Call(keep_task(read()).cancel))
        return subscription


async def _in_order(
    log: EventLog, since: float | None, runs: Sequence[str] | None, selection: Selection, progress: Progress = noop
) -> AsyncGenerator[Record, None]:
    """The stored records of runs, in the order of their times.

    A run that is deleted meanwhile ends, and one that cannot be read is left out, unless it was named or none can be
    read.
    """
    count, unread, end = 0, list[LogError](), perf_counter() + TURN
    waiting = await _begun(log, since, runs, selection)  # the first to begin is the last
    total = len(waiting)
    progress(0, total)
    heap: list[tuple[float, str, int, Record, AsyncGenerator[Record, None]]] = []
    try:
        while heap or waiting:
            while waiting and (not heap or waiting[-1][0] <= heap[0][0]):
                _, run, source = waiting.pop()
                records = _records(log, run, source, None if runs is not None else unread)
                if (record := await anext(records, None)) is not None:
                    heappush(heap, (record.time, run, record.seq, record, records))
            if heap:
                _, run, _, record, records = heap[0]
                yield record
                count += 1
                if perf_counter() > end:
                    await asyncio.sleep(0)
                    end = perf_counter() + TURN
                if (following := await anext(records, None)) is None:
                    heappop(heap)
                    progress(total - len(waiting) - len(heap), total)
                else:
                    heapreplace(heap, (following.time, run, following.seq, following, records))
        if unread and not count:
            raise unread[0]
    finally:
        for *_, records in heap:
            await records.aclose()


async def _begun(
    log: EventLog, since: float | None, runs: Sequence[str] | None, selection: Selection
) -> list[tuple[float, str, str]]:
    """When the runs began at the earliest, their ids, and of forks the run that they copy, the last to begin first.

    Records of nested runs are in those of the outer ones.
    """
    if runs is not None:
        return [(0.0, (await log.existing(run)).run_id, "") for run in runs]
    infos = [info async for page in log.list_pages() for info in page if not info.row.outer]
    found = [
        (info.created - SLACK, info.run_id, info.row.fork_of)
        for info in infos
        if (since is None or info.created >= since) and selection.may_have(info)
    ]
    return sorted(found, reverse=True)


async def _records(log: EventLog, run: str, source: str, unread: list[LogError] | None) -> AsyncGenerator[Record, None]:
    """The records of a run; of a fork without those that it has copied."""
    is_copied = bool(source)
    try:
        async with aclosing(log.read(run)) as entries:
            async for entry in entries:
                for record in expand(record_of(entry, run)):
                    is_copied = is_copied and is_copy(source, record)
                    if not is_copied:
                        yield record
    except LogError as error:
        if unread is None or error.retryable:
            raise
        info = await log.listed(run)
        if info is not None and info.status != "deleted":
            unread.append(error)
            logger.warning("%s is not on the board: %s", run, error, extra={"run": run})
