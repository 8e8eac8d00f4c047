"""Dashboards over a log: what the panels show of the runs that are stored.

Theory of operation. The stored runs that may have run at the same time are read together, and their records are taken
in the order of their times, in turns of the event loop of at most `TURN` seconds. Entries are decoded when they are
due, and not at all if no panel reads their kind. A pipeline may subscribe to more at any record and at any timer: then
what was passed over of the runs that are read, and is later than that moment, is put back and decoded.

A board over many runs takes those of the last hour first, and shows what they give until it has taken them all.
"""

from __future__ import annotations

import asyncio
import logging
import time as clock
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from time import perf_counter
from typing import NamedTuple, TypeAlias

from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.internal import noop

from rxworker.boards.dashboard import TURN, Board, Dashboard, Fold, Progress, StoredFirst
from rxworker.boards.panel import AlertChange, PanelState
from rxworker.boards.selection import EVERYTHING, SLACK, Selection
from rxworker.errors import LogError
from rxworker.events import Record
from rxworker.hub.history import expand
from rxworker.log import EventLog
from rxworker.log.fold import StoredRun, is_copy
from rxworker.log.format import Entry, record_of, type_of
from rxworker.log.replay import keep_task
from rxworker.log.values import OPEN, RunInfo
from rxworker.operators import merge_runs
from rxworker.operators.kernel import Call, SerialDisposable, Sink, connect

logger = logging.getLogger("rxworker.boards")

RECENT = 3600.0
"""Seconds: the time of which a board shows the figures until it has read all that is stored."""
AHEAD = 32
"""How many runs are read ahead, at once."""
IN_A_ROW = 32
"""How many records of a run are taken until the time is looked at."""


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
    found = await _begun(log, since, runs, fold.selection)
    await _Reader(log, found, fold.take, fold, is_named=runs is not None).read(until=time)


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
        return self.follow(observer, None, scheduler)

    def follow(
        self, observer: abc.ObserverBase[Record], board: Board | None, scheduler: abc.SchedulerBase | None
    ) -> abc.DisposableBase:
        """Subscribe; a board takes the stored records by itself."""
        subscription = SerialDisposable()

        async def read() -> None:
            try:
                last = await self._read_stored(observer, board)
                self._on_read()
                subscription.put(connect(self._later(last), Sink(*_pushing(observer, last)), scheduler))
            except Exception as error:  # also what opens the log anew, or a function that is called
                observer.on_error(error)

        subscription.put(Call(keep_task(read()).cancel))
        return subscription

    async def _read_stored(self, observer: abc.ObserverBase[Record], board: Board | None) -> dict[str, int]:
        """Give the stored records to the board, or to the observer. Returns the number of the last one of each run."""
        log, selection = self._log, self._selection
        found = await _begun(log, self._since, None, selection)
        if board is None:
            return await _Reader(log, found, observer.on_next).read()
        hour, total = clock.time() - RECENT, len(found)
        board.note_progress(0, total)
        recent = [each for each in found if each.updated >= hour]
        if hour > (selection.since or 0.0) and 2 * len(recent) <= total:
            fold = board.recent(hour)
            await _Reader(log, recent, fold.take, fold).read()
            board.show_recent(fold.at(clock.time()), hour)
        last = await _Reader(log, found, board.take_stored, board.fold).read(progress=board.note_progress)
        board.note_progress(0, 0)
        return last

    def _later(self, last: dict[str, int]) -> Observable[Record]:
        """What was not stored yet when the runs were read."""

        def is_more(info: RunInfo) -> bool:
            is_known = info.status not in OPEN and info.last_seq <= last.get(info.run_id, 0)
            return not is_known and self._selection.may_have(info)

        def later(run: StoredRun) -> Observable[Record]:
            known = last.get(run.id, 0)
            # The records before those of a run that was put back may still be read.
            return run.records_after(known) if known > run.begins_after else run.records

        return merge_runs(self._log.runs(since=self._since, where=is_more).pipe(ops.map(later)))


def _pushing(
    observer: abc.ObserverBase[Record], last: dict[str, int]
) -> tuple[Callable[[Record], None], Callable[[Exception], None], Callable[[], None]]:
    """The functions of an observer, the first of which notes the number of each record."""

    def push(record: Record) -> None:
        last[record.run_id] = record.seq
        observer.on_next(record)

    return push, observer.on_error, observer.on_completed


class _Begun(NamedTuple):
    """A run that is to be read.

    Attributes:
        time: When it began at the earliest.
        run: Its id.
        source: Of a fork the run that it copies.
        last: The number of its last record, if it has ended; otherwise 0.
        updated: When it was written last.
    """

    time: float
    run: str
    source: str
    last: int
    updated: float


async def _begun(log: EventLog, since: float | None, runs: Sequence[str] | None, selection: Selection) -> list[_Begun]:
    """The runs that may have records of a selection, the last to begin first.

    Records of nested runs are in those of the outer ones.
    """
    if runs is not None:
        return [_Begun(0.0, (await log.existing(run)).run_id, "", 0, 0.0) for run in runs]
    found: list[_Begun] = []
    async for page in log.list_pages():
        for info in page:
            if (since is None or info.created >= since) and not info.row.outer and selection.may_have(info):
                last = 0 if info.status in OPEN else info.last_seq
                found.append(_Begun(info.created - SLACK, info.run_id, info.row.fork_of, last, info.updated))
        if since is not None and all(info.created < since for info in page):
            break  # the newest are listed first
        await asyncio.sleep(0)  # a log in memory never waits
    return sorted(found, reverse=True)


class _Run:
    """A run that is read. What comes first is the last of each list.

    Attributes:
        begun: What is known of it.
        entries: Its entries that are not decoded yet.
        records: Its next records, which come before those.
        passed: The entries that were passed over since its last record.
        after: The number of the last record that was read.
        is_copied: Whether the next records are those that a fork has copied.
    """

    __slots__ = ("after", "begun", "entries", "is_copied", "passed", "records")

    def __init__(self, begun: _Begun) -> None:
        self.begun = begun
        self.entries: list[Entry] = []
        self.records: list[Record] = []
        self.passed: list[Entry] = []
        self.after = 0
        self.is_copied = bool(begun.source)

    @property
    def place(self) -> _Place:
        """The place of what comes next in the order of all records."""
        if self.records:
            return self.records[-1].time, self.begun.run, self.records[-1].seq
        return self.entries[-1].time, self.begun.run, self.entries[-1].first

    def decode(self, entry: Entry) -> None:
        """Let its records be the next ones, without those that a fork has copied."""
        found = [*expand(record_of(entry, self.begun.run))]
        while self.is_copied and found and is_copy(self.begun.source, found[0]):
            del found[0]
        self.is_copied = self.is_copied and not found
        self.records += reversed(found)

    def put_back(self, place: _Place | tuple[float]) -> None:
        """Decode what was passed over, for its records after a place."""
        back = [each for entry in self.passed for each in expand(record_of(entry, self.begun.run))]
        self.records += reversed([each for each in back if (each.time, each.run_id, each.seq) > place])
        self.passed = []


_Place: TypeAlias = tuple[float, str, int]
_LAST = "\U0010ffff"
"""After the ids of all runs."""


class _Reader:
    """Reads stored runs, and takes their records in the order of their times.

    A run that is deleted meanwhile ends, and one that cannot be read is left out, unless it was named or none can be
    read.

    Args:
        log: The log.
        waiting: The runs, the last to begin first.
        take: Takes a record.
        fold: What takes it, if entries that it does not read are not to be decoded.
        is_named: Whether the runs were named.
    """

    def __init__(
        self,
        log: EventLog,
        waiting: Sequence[_Begun],
        take: Callable[[Record], object],
        fold: Fold | None = None,
        *,
        is_named: bool = False,
    ) -> None:
        self._log = log
        self._waiting = [*waiting]
        self._total = len(waiting)
        self._take = take
        self._fold = fold
        self._is_named = is_named
        self._heap: list[tuple[_Place, _Run]] = []
        self._pages: dict[str, list[Entry] | BaseException] = {}
        self._last: dict[str, int] = {}
        self._unread: LogError | None = None
        self._taken: _Place | None = None
        self._has_passed = False
        self._end = float("inf"), _LAST

    async def read(self, until: float | None = None, progress: Progress = noop) -> dict[str, int]:
        """Take the records, up to a moment.

        Returns:
            The number of the last record of each run that was read.

        Raises:
            LogError: The log cannot be read.
        """
        heap, end = self._heap, perf_counter() + TURN
        if until is not None:
            self._end = until, _LAST
        while heap or self._waiting:
            while self._waiting and (not heap or self._waiting[-1].time <= heap[0][0][0]):
                run = _Run(self._waiting[-1])
                await self._read_ahead()
                self._waiting.pop()
                if await self._has_more(run):
                    heappush(heap, (run.place, run))
            if not heap or heap[0][0] > self._end:
                break
            _, run = heappop(heap)
            self._take_some(run)
            if perf_counter() > end:
                await asyncio.sleep(0)
                end = perf_counter() + TURN
            if run.records or run.entries or await self._has_more(run):
                heappush(heap, (run.place, run))
            else:
                progress(self._total - len(self._waiting) - len(heap), self._total)
        if self._unread is not None and self._taken is None:
            raise self._unread
        return self._last

    def _take_some(self, run: _Run) -> None:
        """Take records of the run whose record is the next one, as long as it is."""
        if not run.records:
            entry = run.entries.pop()
            if self._passes(entry, run):
                run.passed.append(entry)
                self._has_passed = True
                return
            run.decode(entry)
        heap, waiting, records, fold = self._heap, self._waiting, run.records, self._fold
        limit = min(heap[0][0], self._end) if heap else self._end
        if waiting:
            limit = min(limit, (waiting[-1].time,))
        for _ in range(min(IN_A_ROW, len(records))):
            record = records[-1]
            place = record.time, record.run_id, record.seq
            if place > limit:
                return
            if self._has_passed and fold is not None and self._moved(fold, record.time, run):
                return
            records.pop()
            if run.passed:
                run.passed = []
            before = 0 if fold is None else fold.changes
            self._taken = place
            self._take(record)
            if self._has_passed and fold is not None and fold.changes != before:
                self._put_back(place, run)
                return

    def _passes(self, entry: Entry, run: _Run) -> bool:
        """Whether no panel reads the records of an entry.

        The last one of the time that is selected is decoded: the time of the fold is that of its last record.
        """
        fold = self._fold
        if fold is None or not run.entries or run.entries[-1].time >= fold.until:
            return False
        return type_of(entry.kind) in fold.unread

    def _moved(self, fold: Fold, time: float, run: _Run) -> bool:
        """Run the timers before a record of a run. Returns whether a pipeline reads more since then."""
        last = None
        while time < fold.until and fold.clock.has_due(time) and (due := fold.due) is not None and due != last:
            before, last = fold.changes, due
            fold.move_to(min(due + 1e-6, time))  # a date has microseconds
            if fold.changes != before:
                self._put_back(max(self._taken or (due,), (due,)), run)
                return True
        return False

    def _put_back(self, place: _Place | tuple[float], run: _Run) -> None:
        """Put back what was passed over of a run, and of the others that are read, after a place."""
        self._has_passed = False
        run.put_back(place)
        for _, other in self._heap:
            other.put_back(place)
        self._heap[:] = [(other.place, other) for _, other in self._heap]
        heapify(self._heap)

    # The log

    async def _read_ahead(self) -> None:
        """Read the first entries of the runs that begin next."""
        if self._waiting[-1].run in self._pages:
            return
        runs = [each.run for each in self._waiting[: -AHEAD - 1 : -1]]
        pages = await asyncio.gather(*[self._log._read_page(run, 0) for run in runs], return_exceptions=True)
        self._pages = dict(zip(runs, pages, strict=True))

    async def _has_more(self, run: _Run) -> bool:
        """Read the next entries of a run; returns whether there are any."""
        begun = run.begun
        try:
            while not (run.records or run.entries):
                if begun.last and run.after >= begun.last:
                    return False
                page = self._pages.pop(begun.run, None) or await self._log._read_page(begun.run, run.after)
                if isinstance(page, BaseException):
                    raise page
                if not page:
                    return False
                run.after = self._last[begun.run] = page[-1].last
                run.entries = page[::-1]
                while run.is_copied and run.entries and not run.records:
                    run.decode(run.entries.pop())
        except LogError as error:
            await self._leave_out(begun, error)
            return False
        return True

    async def _leave_out(self, begun: _Begun, error: LogError) -> None:
        if self._is_named or error.retryable:
            raise error
        info = await self._log.listed(begun.run)
        if info is not None and info.status != "deleted":
            self._last[begun.run] = info.last_seq
            self._unread = self._unread or error
            logger.warning("%s is not on the board: %s", begun.run, error, extra={"run": begun.run})
