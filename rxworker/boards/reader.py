"""The stored runs of a log, read together: their records in the order of their times.

Theory of operation. The runs that may have run at the same time are read together, and their records are taken in the
order of their times, in turns of the event loop of at most `TURN` seconds. Entries are decoded when they are due, and
not at all if no panel reads their kind. A pipeline may subscribe to more at any record and at any timer: then what was
passed over of the runs that are read, and is later than that moment, is put back and decoded.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from time import perf_counter, thread_time
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from reactivex.internal import noop

from rxworker.boards.dashboard import TURN, Fold, Progress
from rxworker.boards.selection import SLACK, Selection
from rxworker.errors import LogError
from rxworker.events import Record
from rxworker.hub.history import expand
from rxworker.log import EventLog
from rxworker.log.fold import is_copy
from rxworker.log.format import Entry, record_of, type_of
from rxworker.log.store import PAGE
from rxworker.log.values import OPEN, RunInfo

logger = logging.getLogger("rxworker.boards")

AHEAD = 32
"""How many runs are read ahead, at once."""
IN_A_ROW = 8
"""How many records of a run are taken until the time is looked at."""


class Begun(Struct, frozen=True, order=True, gc=False):
    """A run that is to be read. There may be many, which the garbage collector need not look at.

    Attributes:
        time: When it began at the earliest.
        run: Its id.
        source: Of a fork the run that it copies.
        last: The number of its last record, if it has ended; otherwise 0.
        updated: When it was written last.
        seq: The number of its last record when it was listed.
    """

    time: float
    run: str
    source: str
    last: int
    updated: float
    seq: int

    @staticmethod
    def of(info: RunInfo) -> Begun:
        """What a list shows of it."""
        last = 0 if info.status in OPEN else info.last_seq
        return Begun(info.began - SLACK, info.run_id, info.row.fork_of, last, info.updated, info.last_seq)


class Place(NamedTuple):
    """Where a reader is in the order of all records.

    Attributes:
        taken: The last record that it has taken.
        begun: The last run that it has begun to read.
        runs: Of each run that it reads, the number of the last record that it has taken, and of the last one that it
            has taken or passed over.
    """

    taken: tuple[float, str, int]
    begun: tuple[float, str]
    runs: dict[str, tuple[int, int]]


async def begun(log: EventLog, since: float | None, runs: Sequence[str] | None, selection: Selection) -> list[Begun]:
    """The runs that may have records of a selection, the last to begin first.

    Records of nested runs are in those of the outer ones.
    """
    if runs is not None:
        return [Begun(0.0, (await log.existing(run)).run_id, "", 0, 0.0, 0) for run in runs]
    listed = Listed(log, since, selection)
    async for _ in listed.changes():
        pass
    return listed.runs[::-1]


class Listed:
    """The runs that may have records of a selection.

    Args:
        log: The log.
        since: Only runs that began then or later.
        selection: The selection.

    Attributes:
        runs: The runs, in the order of their begin.
        known: The same by their ids.
        left_out: When the last run began that was not in time.
    """

    def __init__(self, log: EventLog, since: float | None, selection: Selection) -> None:
        self._log, self._since, self._selection = log, since, selection
        self._revision: int | None = None
        self.runs: list[Begun] = []
        self.known: dict[str, Begun] = {}
        self.left_out = float("-inf")

    def after(self, begun: tuple[float, str]) -> list[Begun]:
        """The runs that begin after one."""
        return self.runs[bisect_right(self.runs, begun, key=lambda each: (each.time, each.run)) :]

    async def changes(self) -> AsyncGenerator[tuple[float, Begun | None], None]:
        """Read the list, or what has changed since.

        Yields times from which on there are other records than before, and the run as it was, if it has got more of
        them. Records of nested runs are in those of the outer ones.
        """
        if self._revision is None:
            await self._list()
            return
        while rows := await self._log._changed_since(self._revision, PAGE):
            for row in rows:
                if (change := await self._note(self._log._encoding.decode_info(row))) is not None:
                    yield change
            self._revision = rows[-1].revision

    async def _list(self) -> None:
        since = float("-inf") if self._since is None else self._since
        async for page in self._log.list_pages():
            if self._revision is None:
                self._revision = max(info.revision for info in page)
            self.runs += [Begun.of(info) for info in page if self._wants(info)]
            self.left_out = max([self.left_out, *[info.began for info in page if info.began < since]])
            if all(info.created < since for info in page):
                break  # the newest are listed first
            await asyncio.sleep(0)  # a log in memory never waits
        self._revision = self._revision or 0
        self.runs.sort()
        self.known = {each.run: each for each in self.runs}

    def _wants(self, info: RunInfo) -> bool:
        is_in_time = self._since is None or info.began >= self._since
        return is_in_time and not info.row.outer and self._selection.may_have(info)

    async def _note(self, info: RunInfo) -> tuple[float, Begun | None] | None:
        run, now = info.run_id, Begun.of(info)
        if (known := self.known.get(run)) is None:
            if info.status == "deleted" or not info.last_seq or not self._wants(info):
                return None
            self.known[run] = now
            insort(self.runs, now)
            return now.time, None
        place = bisect_left(self.runs, known)
        if info.status == "deleted":
            del self.runs[place], self.known[run]
            return known.time, None
        self.runs[place] = self.known[run] = now
        if now.seq <= known.seq:
            return None
        try:
            page = await self._log._read_page(run, known.seq)
            times = [each.time for entry in page for each in expand(record_of(entry, run), known.seq)]
        except LogError:  # it was deleted meanwhile, or its reader reports why it cannot be read
            return known.time, None
        return (min(times), known) if times else None


_Place: TypeAlias = tuple[float, str, int]


class _Run:
    """A run that is read. What comes first is the last of each list.

    Attributes:
        begun: What is known of it.
        entries: Its entries that are not decoded yet.
        records: Its next records, which come before those.
        passed: The entries that were passed over since its last record.
        after: The number of the last record that was read.
        taken: The number of the last record that was taken.
        passed_before: The number of the last record that may have been passed over so far.
        start: Where it was when it is read on.
        is_copied: Whether the next records are those that a fork has copied.
    """

    __slots__ = ("after", "begun", "entries", "is_copied", "passed", "passed_before", "records", "start", "taken")

    def __init__(self, begun: Begun, after: int = 0, passed_before: int = 0, start: _Place | None = None) -> None:
        self.begun = begun
        self.entries: list[Entry] = []
        self.records: list[Record] = []
        self.passed: list[Entry] = []
        self.after = self.taken = after
        self.passed_before, self.start = passed_before, start
        self.is_copied = bool(begun.source) and not after

    @property
    def place(self) -> _Place:
        """The place of what comes next in the order of all records."""
        if self.records:
            return self.records[-1].time, self.begun.run, self.records[-1].seq
        return self.entries[-1].time, self.begun.run, self.entries[-1].first

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the last record that was taken, and of the last one that was taken or passed over."""
        return self.taken, max(self.taken, self.passed_before, self.passed[-1].last if self.passed else 0)

    def decode(self, entry: Entry) -> None:
        """Let its records be the next ones, without those that a fork has copied."""
        found = [*expand(record_of(entry, self.begun.run), self.taken)]
        if self.start is not None and entry.first <= self.passed_before:
            found = [each for each in found if each.seq > self.passed_before or _place_of(each) > self.start]
        while self.is_copied and found and is_copy(self.begun.source, found[0]):
            del found[0]
        self.is_copied = self.is_copied and not found
        self.records += reversed(found)

    def put_back(self, place: _Place | tuple[float]) -> None:
        """Decode what was passed over, for its records after a place."""
        self.passed_before = self.numbers[1]
        back = [each for entry in self.passed for each in expand(record_of(entry, self.begun.run))]
        self.records += reversed([each for each in back if _place_of(each) > place])
        self.passed = []


_LAST = "\U0010ffff"
"""After the ids of all runs."""


def _place_of(record: Record) -> _Place:
    return record.time, record.run_id, record.seq


async def _turn(_: object) -> None:
    await asyncio.sleep(0)


class Reader:
    """Reads stored runs, and takes their records in the order of their times.

    A run that is deleted meanwhile ends, and one that cannot be read is left out, unless it was named or none can be
    read.

    Args:
        log: The log.
        waiting: The runs, the last to begin first.
        take: Takes a record.
        fold: What takes it, if entries that it does not read are not to be decoded.
        is_named: Whether the runs were named.
        at: Where it begins, instead of the first record; ``waiting`` begin later.
        known: The runs that it was reading there.
        on_turn: Called when others have a turn, with the reader.

    Attributes:
        spent: Seconds of CPU that it took.
    """

    def __init__(
        self,
        log: EventLog,
        waiting: Sequence[Begun],
        take: Callable[[Record], object],
        fold: Fold | None = None,
        *,
        is_named: bool = False,
        at: Place | None = None,
        known: Mapping[str, Begun] = {},
        on_turn: Callable[[Reader], Awaitable[object]] = _turn,
    ) -> None:
        self._log = log
        self._waiting, self._going = [*waiting], list[_Run]()
        self._begun = float("-inf"), ""
        self._on_turn = on_turn
        self.spent = 0.0
        if at is not None:
            self._begun = at.begun
            self._going = [_Run(known[run], *numbers, at.taken) for run, numbers in at.runs.items()]
        self._total = len(waiting)
        self._take = take
        self._fold = fold
        self._is_named = is_named
        self._heap: list[tuple[_Place, _Run]] = []
        self._pages: dict[str, list[Entry] | BaseException] = {}
        self._last: dict[str, int] = {}
        self._unread: LogError | None = None
        self._taken: _Place | None = None if at is None else at.taken
        self._has_passed = False
        self._end = float("inf"), _LAST

    async def read(self, until: float | None = None, progress: Progress = noop) -> dict[str, int]:
        """Take the records, up to a moment.

        Returns:
            The number of the last record of each run that was read.

        Raises:
            LogError: The log cannot be read.
        """
        heap, end, began = self._heap, perf_counter() + TURN, thread_time()
        if until is not None:
            self._end = until, _LAST
        for run in self._going:
            await self._add(run)
        while heap or self._waiting:
            while self._waiting and (not heap or self._waiting[-1].time <= heap[0][0][0]):
                await self._read_ahead()
                begun = self._waiting.pop()
                self._begun = begun.time, begun.run
                await self._add(_Run(begun))
            if not heap or heap[0][0] > self._end:
                break
            _, run = heappop(heap)
            self._take_some(run)
            if not await self._add(run):
                progress(self._total - len(self._waiting) - len(heap), self._total)
            if perf_counter() > end:
                self.spent += thread_time() - began
                await self._on_turn(self)
                end, began = perf_counter() + TURN, thread_time()
        if self._unread is not None and self._taken is None:
            raise self._unread
        return self._last

    @property
    def place(self) -> Place | None:
        """Where it is, in a turn; ``None`` before the first record."""
        if self._taken is None:
            return None
        return Place(self._taken, self._begun, {run.begun.run: run.numbers for _, run in self._heap})

    async def _add(self, run: _Run) -> bool:
        """Let a run take part if it has more records; returns whether it has."""
        has_more = bool(run.records or run.entries) or await self._has_more(run)
        if has_more:
            heappush(self._heap, (run.place, run))
        return has_more

    def _take_some(self, run: _Run) -> None:
        """Take records of the run whose record is the next one, as long as it is."""
        heap, waiting, records, fold = self._heap, self._waiting, run.records, self._fold
        limit = min(heap[0][0], self._end) if heap else self._end
        if waiting:
            limit = min(limit, (waiting[-1].time,))
        for _ in range(IN_A_ROW):
            if not (records or run.entries) or (place := run.place) > limit:
                return
            if not records:
                entry = run.entries.pop()
                if self._passes(entry, run):
                    run.passed.append(entry)
                    self._has_passed = True
                else:
                    run.decode(entry)
                continue
            record = records[-1]
            if self._has_passed and fold is not None and self._moved(fold, record.time, run):
                return
            records.pop()
            if run.passed:
                run.passed = []
            before = 0 if fold is None else fold.changes
            self._taken, run.taken = place, record.seq
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

    async def _leave_out(self, begun: Begun, error: LogError) -> None:
        if self._is_named or error.retryable:
            raise error
        info = await self._log.listed(begun.run)
        if info is not None and info.status != "deleted":
            self._last[begun.run] = info.last_seq
            self._unread = self._unread or error
            logger.warning("%s is not on the board: %s", begun.run, error, extra={"run": begun.run})
