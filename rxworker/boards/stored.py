"""Dashboards over a log: what the panels show of the runs that are stored.

Which runs have made a value, too. A board over many runs takes those of the last hour first, and shows what they give
until it has taken them all.
"""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.internal import noop

from rxworker.boards.dashboard import Board, Dashboard, Fold, StoredFirst
from rxworker.boards.moments import Moments
from rxworker.boards.panel import BETWEEN, MAX_RUNS, AlertChange, Known, PanelState
from rxworker.boards.reader import Reader, begun
from rxworker.boards.selection import EVERYTHING, Selection
from rxworker.events import Record
from rxworker.log import EventLog
from rxworker.log.fold import StoredRun
from rxworker.log.replay import keep_task
from rxworker.log.values import OPEN, RunInfo
from rxworker.operators import merge_runs
from rxworker.operators.kernel import Call, SerialDisposable, Sink, connect

logger = logging.getLogger("rxworker.boards")

RECENT = 3600.0
"""Seconds: the time of which a board shows the figures until it has read all that is stored."""


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
    await take_stored(fold, log, time, since, runs)
    return fold.at(time)


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
    fold = Fold(dashboard)
    await take_stored(fold, log, time, since, runs)
    fold.at(time)
    return fold.alerts


async def take_stored(
    fold: Fold, log: EventLog, time: float | None, since: float | None, runs: Sequence[str] | None = None
) -> None:
    """Let a fold take the stored records of runs until a moment, in the order of their times; see `fold_log`."""
    found = await begun(log, since, runs, fold.selection)
    await Reader(log, found, fold.take, fold, is_named=runs is not None).read(until=time)


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
    return LogRecords(log, since)


@dataclass(eq=False)
class LogRecords(StoredFirst):
    """The records of a log; see `log_records`.

    Args:
        log: The log.
        since: Only runs that began then or later, in seconds since the epoch.
        selection: Runs that have nothing of it are not read.
        on_read: Called when the stored records have been emitted.
        moments: Those of the same runs and panels, for which a board leaves copies.
    """

    log: EventLog
    since: float | None
    selection: Selection = EVERYTHING
    on_read: Callable[[], object] = noop
    moments: Moments | None = None

    def _subscribe_core(
        self, observer: abc.ObserverBase[Record], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        return self.follow(observer, None, scheduler)

    def follow(
        self, observer: abc.ObserverBase[Record], board: Board | None, scheduler: abc.SchedulerBase | None
    ) -> abc.DisposableBase:
        """Subscribe; a board takes the stored records by itself."""
        subscription = SerialDisposable()

        async def read() -> None:
            try:
                last = await self._read_stored(observer, board)
                self.on_read()

                def push(record: Record) -> None:
                    last[record.run_id] = record.seq
                    observer.on_next(record)

                sink = Sink(push, observer.on_error, observer.on_completed)
                subscription.put(connect(self._later(last), sink, scheduler))
            except Exception as error:  # also what opens the log anew, or a function that is called
                observer.on_error(error)

        subscription.put(Call(keep_task(read()).cancel))
        return subscription

    async def _read_stored(self, observer: abc.ObserverBase[Record], board: Board | None) -> dict[str, int]:
        """Give the stored records to the board, or to the observer. Returns the number of the last one of each run."""
        log, selection, moments = self.log, self.selection, self.moments
        found = await (begun(log, self.since, None, selection) if moments is None else moments.renew())
        if board is None:
            return await Reader(log, found, observer.on_next).read()
        hour, total = clock.time() - RECENT, len(found)
        board.note_progress(0, total)
        recent = [each for each in found if each.updated >= hour]
        is_longer = (selection.since or 0.0) < hour < board.fold.until
        if is_longer and recent and 2 * len(recent) <= total:
            fold = board.recent(hour)
            await Reader(log, recent, fold.take, fold).read()
            board.show_recent(fold.at(clock.time()), hour)
        if moments is None:
            last = await Reader(log, found, board.take_stored, board.fold).read(progress=board.note_progress)
        else:
            last = await moments.read(board.fold, board.take_stored, progress=board.note_progress)
        board.note_progress(0, 0)
        return last

    def _later(self, last: dict[str, int]) -> Observable[Record]:
        """What was not stored yet when the runs were read."""

        def is_more(info: RunInfo) -> bool:
            is_known = info.status not in OPEN and info.last_seq <= last.get(info.run_id, 0)
            # `log.runs` goes by when the log has stored a run: one that was imported has begun before that.
            is_in_time = self.since is None or info.began >= self.since
            return not is_known and is_in_time and self.selection.may_have(info)

        def later(run: StoredRun) -> Observable[Record]:
            known = last.get(run.id, 0)
            # The records before those of a run that was put back may still be read.
            return run.records_after(known) if known > run.begins_after else run.records

        return merge_runs(self.log.runs(since=self.since, where=is_more).pipe(ops.map(later)))


class MadeBy(Struct, frozen=True):
    """A run that has made values of a panel.

    Attributes:
        run: Its id.
        seq: The number of the last record that made a value.
        time: The time of that record, in seconds since the epoch.
        values: How many values it has made.
        title: The beginning of its input, where it is known.
    """

    run: str
    seq: int
    time: float
    values: int
    title: str = ""


class Makers:
    """The runs whose records make the values of panels, or of one group of them.

    Args:
        fold: The panels, before they have taken a record.
        group: The name of a group, or of a number, or of the first of several groups; empty for all.

    >>> from rxworker.boards import Dashboard, panel
    >>> from rxworker.events import RunStop
    >>> from rxworker.panels import count, run_of
    >>> fold = Fold(Dashboard([panel("Ends", count(RunStop), view="bar", group=run_of)]))
    >>> makers = Makers(fold, "run-2")
    >>> for name in ("run-1", "run-2"):
    ...     fold.take(Record(7, name, 1, 1, 3.5, RunStop()))
    >>> makers.newest()
    [MadeBy(run='run-2', seq=7, time=3.5, values=1, title='')]
    """

    def __init__(self, fold: Fold, group: str = "") -> None:
        self._group = group
        self._is_whole = False  # the group has values of its own, not only as a part of others
        self._runs = Known[MadeBy]()
        for cell in fold.cells.values():
            cell.values.on_made = self._note

    def newest(self, most: int = MAX_RUNS) -> list[MadeBy]:
        """The runs, those first that made a value last."""
        return [*self._runs.values()][: -most - 1 : -1]

    def _note(self, group: str, record: Record) -> None:
        if group and group == self._group and not self._is_whole:
            self._is_whole = True  # those so far are of other groups, whose names begin alike
            self._runs.clear()
        parts = f"{self._group}: ", f"{self._group}{BETWEEN}"
        if self._group not in ("", group) and (self._is_whole or not group.startswith(parts)):
            return
        before = self._runs.pop(record.run_id, None)
        self._runs[record.run_id] = MadeBy(
            record.run_id, record.seq, record.time, 1 if before is None else before.values + 1
        )
