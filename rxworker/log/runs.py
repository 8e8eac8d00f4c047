"""The runs of a log as one observable: those that are stored, then those that begin, in any process.

Theory of operation. One task follows the changes of the log, and from the moment on at which it has begun to, another
one reads the list of stored runs, so that none is missed between the two; `_parts` has the runs that were emitted. Of a
run that has ended, the records up to its last number are emitted, and no other: if it is put back, it begins again, and
comes again with the records that follow. A run that has not ended is followed until its reader finds its end, and that
end counts for all of its readers.

Stored runs share `AT_ONCE` places. A subscriber that reads a run when it comes, as `merge_runs` does, takes a place or
waits for one in turn, and the next stored run is emitted after it: there are never more readers than places, however
many runs are stored. What runs, or begins, needs no place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, nullcontext
from functools import partial
from typing import TypeAlias

from msgspec import Struct, field
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import LogError
from rxworker.events import Fork, Record
from rxworker.log.follow import PAGE
from rxworker.log.format import Entry
from rxworker.log.replay import keep_task, replay
from rxworker.log.store import LogReader
from rxworker.log.values import OPEN, RunInfo
from rxworker.messages.settings import check_plain
from rxworker.operators.disposables import Call
from rxworker.operators.kernel import Scheduler, Unstaged

AT_ONCE = 16
"""How many stored runs that have ended are read at once for one subscription."""
EVERY = 0.05
"""Seconds for which changes are collected while runs are written."""

Where: TypeAlias = Callable[[RunInfo], bool]
"""Whether a run is wanted."""


class _Part(Struct, eq=False):
    """The records of a run that one subscription gives with one `StoredRun`.

    Attributes:
        after: The number of the last record before them.
        newest: The number of the last record that is known to be stored.
        until: The number of the last of them, if the run has ended.
    """

    after: int = 0
    newest: int = 0
    until: int | None = None


class StoredRun(Struct, frozen=True, eq=False):
    """A run of a log, as `EventLog.runs` emits it. It has `records`, so that `merge_runs` takes it.

    Attributes:
        info: The run when it was emitted, without its records.
        log: The log that it is in.
    """

    info: RunInfo
    log: LogReader
    _part: _Part = field(default_factory=_Part)
    _places: asyncio.Semaphore | None = None

    def __repr__(self) -> str:
        return f"StoredRun({self.id!r}, {self.info.status})"

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.info.run_id

    @property
    def begins_after(self) -> int:
        """The number of the record before its first one; above 0 for a run that was put back."""
        return self._part.after

    @property
    def records(self) -> Observable[Record]:
        """Its records from the beginning, without a gap or a double; see `EventLog.records`.

        A fork begins with its `Fork`, since the records before that are copies of those of another run. A run that is
        put back after its end is emitted again, and its records are those that follow. One that was deleted completes.
        """
        records, source = self.records_after(self._part.after), self.info.row.fork_of
        if not source or self._part.after:
            return records
        return records.pipe(ops.skip_while(partial(is_copy, source)))

    def records_after(self, seq: int) -> Observable[Record]:
        """Its records after a number; of a fork also the copied ones."""
        return replay(_Pages(self), self.id, speed=0, after=seq)


def is_copy(source: str, record: Record) -> bool:
    """Whether the record is before that of the fork from this run."""
    return bool(record.path) or not (isinstance(record.event, Fork) and record.event.source == source)


class _Pages(Struct, frozen=True):
    """The entries of a run, up to the end of its part.

    Attributes:
        run: The run.
    """

    run: StoredRun

    async def pages(self, run_id: str, after: int = 0) -> AsyncGenerator[list[Entry], None]:
        """The entries after a number."""
        run, log, part = self.run, self.run.log, self.run._part
        place = nullcontext() if part.until is None or run._places is None else run._places
        try:
            async with place:
                while part.until is None or after < part.until:
                    async with aclosing(log.pages(run_id, after, until=part.until)) as pages:
                        async for page in pages:
                            # Another reader has found the end meanwhile.
                            if part.until is not None and page[-1].last > part.until:
                                page = [each for each in page if each.last <= part.until]
                            if not page:
                                return
                            after = page[-1].last
                            yield page
                    if log.is_closed or part.until is not None:
                        return
                    if after >= part.newest:
                        part.until = after
        except LogError:
            info = await log.listed(run_id)
            if info is not None and info.status != "deleted":
                raise


def stored_runs(log: LogReader, since: float | None, where: Where | None) -> Observable[StoredRun]:
    """The runs of a log; see `EventLog.runs`."""
    check_plain("runs(where)", where)

    def subscribe(observer: abc.ObserverBase[StoredRun], _: Scheduler = None) -> abc.DisposableBase:
        feed = _Feed(log, since or 0.0, where, observer)
        feed.start(feed.follow())
        return Call(feed.dispose)

    return Unstaged(subscribe)


class _Feed(abc.DisposableBase):
    """One subscription."""

    def __init__(
        self,
        log: LogReader,
        since: float,
        where: Where | None,
        observer: abc.ObserverBase[StoredRun],
    ) -> None:
        self._log = log
        self._since = since
        self._where = where
        self._observer = observer
        self._places = asyncio.Semaphore(AT_ONCE)
        # Of each run that was emitted; `None` of one that gets no more records.
        self._parts: dict[str, _Part | None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._raised: BaseException | None = None
        self._is_over = False

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Do a part of the work in a task."""
        task = keep_task(self._guarded(work))
        task.add_done_callback(lambda _: work.close())  # if it was cancelled before it began
        self._tasks.append(task)

    async def _guarded(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception as error:
            if error is self._raised:
                raise
            self._end(error)

    def _end(self, error: Exception | None = None) -> None:
        if self._is_over:
            return
        self.dispose()
        if error is None or self._log.is_closed:
            self._observer.on_completed()
        else:
            self._observer.on_error(error)

    async def follow(self) -> None:
        """Emit the runs that have not ended, and then those that begin, until the log is closed."""
        going_on: list[RunInfo] = []
        is_listed = False
        async with aclosing(self._log.changes(limit=0, every=EVERY)) as changes:
            async for infos in changes:
                if not infos:  # it notes all changes from here on
                    is_listed = True
                    for info in sorted(going_on, key=_created):
                        self._note(info)
                    self.start(self._read_stored())
                for info in infos:
                    if is_listed:
                        self._note(info)
                    elif info.status in OPEN:
                        going_on.append(info)
        self._end()

    async def _read_stored(self) -> None:
        """Emit the stored runs, the oldest first.

        Logs list the newest first, so that the places of the pages are found before they are read.
        """
        newest = infos = await self._log.list(limit=PAGE)
        places: list[str] = []
        while infos and any(info.created >= self._since for info in infos):
            places.append(infos[-1].run_id)
            infos = await self._log.list(before=places[-1], limit=PAGE)
        for place in reversed(places[:-1]):
            await self._emit(await self._log.list(before=place, limit=PAGE))
        # This page is not read again, since it moves while runs begin; those are noted as changes.
        await self._emit(newest)

    async def _emit(self, infos: Sequence[RunInfo]) -> None:
        for info in reversed(infos):
            if self._note(info, self._places):
                await asyncio.sleep(0)  # its reader takes a place, or waits for one
                async with self._places:
                    pass

    def _note(self, info: RunInfo, places: asyncio.Semaphore | None = None) -> bool:
        """Take newer or older information about a run, whose readers need a place if it is given.

        Returns whether it was emitted.
        """
        run, after = info.run_id, 0
        if self._is_over:
            return False
        if info.status == "deleted":
            self._parts.pop(run, None)
            return False
        if not info.last_seq or info.row.outer:
            return False
        if run in self._parts:
            part = self._parts[run]
            if part is None:
                return False
            part.newest = max(part.newest, info.last_seq)
            if part.until is None or part.newest <= part.until:
                return False
            after = part.until
        elif info.created < self._since or not (self._where is None or self._where(info)):
            return False
        until = None if info.status in OPEN else info.last_seq
        part = _Part(after, info.last_seq, until)
        self._parts[run] = None if info.status == "finished" else part
        try:
            self._observer.on_next(StoredRun(info, self._log, part, places))
        except BaseException as error:
            self._raised = error
            self.dispose()
            raise
        return True

    def dispose(self) -> None:
        """Emit nothing any more."""
        self._is_over = True
        for task in self._tasks:
            task.cancel()


def _created(info: RunInfo) -> float:
    return info.created
