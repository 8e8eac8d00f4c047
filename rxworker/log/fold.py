"""Folds over all records of a log that are kept with it, so that a restart continues them.

Theory of operation. The log gives each change of a run a greater revision. A fold reads the runs that have changed
since a revision, in that order, and of each the records after a position. In one write it keeps the revision, the
positions and the value, and this write is refused if another one was made since the fold has read. So whatever ends a
process, and wherever, each record is folded once into what is kept; of two processes that fold the same, the one whose
write is refused reads again what the other one has kept.

Positions are kept of the runs that may get further records, which an aborted one does when it is put back. A finished
run gets none but annotations, and its row has the number of the record before them; yet it may change, for example when
a tool is always allowed. So its digest is kept in place of a position: the newest ones with the value, and the others
in parts that are written once, and read when a run comes that had finished before the fold saw it.

The runs of a log as one observable: those that are stored, then those that begin, in any process.

Theory of operation. One task follows the changes of the log, and from the moment on at which it has begun to, another
one reads the list of stored runs, so that none is missed between the two; `_parts` has the runs that were emitted. Of a
run that has ended, the records up to its last number are emitted, and no other: if it is put back or annotated, it
comes again with the records that follow. A run that has not ended is followed until its reader finds its end, and that
end counts for all of its readers.

Stored runs share `AT_ONCE` places. A subscriber that reads a run when it comes, as `merge_runs` does, takes a place or
waits for one in turn, and the next stored run is emitted after it: there are never more readers than places, however
many runs are stored. What runs, or begins, needs no place.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, LocalProtocolError, LogError
from rxworker.events import Fork, Record
from rxworker.hub.history import expand
from rxworker.log.format import Entry, records_of
from rxworker.log.replay import emitted, keep_task, replay
from rxworker.log.store import ALL_RUNS, PAGE, LogReader, StoredRow, Waker
from rxworker.log.values import OPEN, RunInfo, is_storable
from rxworker.messages.settings import check_plain
from rxworker.operators.kernel import Call, Scheduler, Unstaged

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

    async def emit(push: Callable[[StoredRun], None]) -> None:
        feed = _Feed(log, since or 0.0, where, push)
        try:
            async with asyncio.TaskGroup() as tasks:
                await feed.follow(tasks)
        except BaseExceptionGroup as failed:
            if not log.is_closed:
                raise failed.exceptions[0] from None

    return emitted(emit)


@dataclass(eq=False)
class _Feed:
    """One subscription."""

    _log: LogReader
    _since: float
    _where: Where | None
    _push: Callable[[StoredRun], None]

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        # Of each run that was emitted; `None` of one that gets no more records but annotations.
        self._parts: dict[str, _Part | None] = {}

    async def follow(self, tasks: asyncio.TaskGroup) -> None:
        """Emit the runs that have not ended, and then those that begin, until the log is closed."""
        going_on: list[RunInfo] = []
        reading: asyncio.Task[None] | None = None
        async with aclosing(self._log.changes(limit=0, every=EVERY)) as changes:
            async for infos in changes:
                if not infos:  # it notes all changes from here on
                    for info in sorted(going_on, key=attrgetter("created")):
                        self._note(info)
                    reading = tasks.create_task(self._read_stored())
                for info in infos:
                    if reading is not None:
                        self._note(info)
                    elif info.status in OPEN:
                        going_on.append(info)
        if reading is not None:
            reading.cancel()

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
        if info.status == "deleted":
            self._parts.pop(run, None)
            return False
        if not info.last_seq or info.row.outer:
            return False
        if run in self._parts:
            part = self._parts[run] or _Part(until=info.row.end or info.last_seq)
            part.newest = max(part.newest, info.last_seq)
            if part.until is None or part.newest <= part.until:
                return False
            after = part.until
        elif info.created < self._since or not (self._where is None or self._where(info)):
            return False
        until = None if info.status in OPEN else info.last_seq
        part = _Part(after, info.last_seq, until)
        self._parts[run] = None if _is_whole(info) else part
        self._push(StoredRun(info, self._log, part, places))
        return True


S = TypeVar("S")

logger = logging.getLogger("rxworker.log")

SAVED_EVERY = 1.0
"""Seconds between two writes, while records arrive."""
REFUSED_FOR = 3.0
"""Seconds until the next write after one was refused, since another process writes."""
TRIES = 100
"""How often the records of a row are looked for."""
PART, MAX = 2000, 10_000
"""How many digests of finished runs are kept with the value, and in a part, which must fit in a message of NATS."""


class Kept(Struct, omit_defaults=True):
    """What is kept of a fold, in one write.

    Attributes:
        type: The name of the type of the value.
        version: The version of the fold.
        value: The value, as JSON.
        revision: The changes of the log up to this one are folded.
        positions: The number of the last folded record of each run that may get more; negative within the copied
            records of a fork.
        finished: The digests of further folded runs.
        parts: The names of the parts with those before.
    """

    type: str
    version: int
    value: msgspec.Raw
    revision: int = 0
    positions: dict[str, int] = {}
    finished: list[str] = []
    parts: list[str] = []


class Part(Struct):
    """The digests of finished runs, written once.

    Attributes:
        finished: The digests.
    """

    finished: list[str]


def fold_stored(
    log: LogReader, key: str, step: Callable[[S, Record], S], initial: S, where: Where | None, version: int
) -> Observable[S]:
    """A fold that is kept with a log; see `EventLog.fold_stored`."""
    check_plain("step or where of fold_stored(...)", step, where)
    if not is_storable(key):
        raise ConfigurationError(f"key={key!r}: give a name for the fold, such as 'cost'")
    if version < 1:
        raise ConfigurationError(f"version={version}: versions of a fold begin with 1")
    try:
        start = msgspec.json.encode(initial)
        msgspec.json.decode(start, type=type(initial))
    except (msgspec.MsgspecError, TypeError) as error:
        text = (
            f"initial={initial!r} cannot be kept as JSON: {error}. Give a number, a text, a tuple, a dict or a Struct"
        )
        raise ConfigurationError(text) from error

    def subscribe(observer: abc.ObserverBase[S], _: Scheduler = None) -> abc.DisposableBase:
        fold = _Fold(log, key, step, initial, start, where, version, observer)
        task = keep_task(fold.run())
        log.folds.add(task)
        task.add_done_callback(log.folds.discard)
        return Call(fold.dispose)

    return Unstaged(subscribe)


@dataclass(eq=False)
class _Fold(Generic[S]):
    """One subscription."""

    _log: LogReader
    _key: str
    _step: Callable[[S, Record], S]
    _value: S
    _start: bytes
    _where: Where | None
    _version: int
    _observer: abc.ObserverBase[S]

    def __post_init__(self) -> None:
        self._name = f"fold:{self._key}"  # by which a codec and errors name it
        self._type = type(self._value)
        self._waker = Waker(self._log.followers, ALL_RUNS, reads_entries=False)
        self._is_over = False
        self._raised: BaseException | None = None
        self._number = 0
        self._kept = Kept(self._type.__qualname__, self._version, msgspec.Raw(self._start))
        self._recent: set[str] = set()
        self._older: set[str] | None = None
        self._is_dirty = False
        self._is_silent = False
        self._due = 0.0

    def dispose(self) -> None:
        """Emit nothing any more, and keep what was folded."""
        self._is_over = True
        self._waker.set()

    async def run(self) -> None:
        """Fold until the log is closed, or the subscription is disposed."""
        try:
            with self._waker:
                await self._load()
                self._emit()
                try:
                    while not (self._is_over or self._log.is_closed):
                        await self._follow()
                except LocalProtocolError:  # the log was closed while it was read
                    if not self._log.is_closed:
                        raise
            if self._is_dirty:
                await self._save()
        except Exception as error:
            if error is self._raised:
                raise
            if not self._is_over:
                self._is_over = True
                self._observer.on_error(error)
        else:
            if not self._is_over:
                self._is_over = True
                self._observer.on_completed()

    async def _follow(self) -> None:
        self._waker.clear()
        rows = await self._log._changed_since(self._kept.revision, PAGE)
        for first in range(0, len(rows), AT_ONCE):
            await self._fold_some(rows[first : first + AT_ONCE])
            if self._is_over or self._log.is_closed:
                return
            is_due = self._due <= time.time() or len(self._kept.finished) >= MAX
            if is_due and not await self._save():
                return
        if rows:
            await asyncio.sleep(EVERY if len(rows) < PAGE else 0.0)
            return
        if self._is_silent:
            self._is_silent = False
            self._emit()
        if self._is_dirty and self._due <= time.time():
            await self._save()
        else:
            await self._waker.wait(self._due if self._is_dirty else None)

    def _emit(self) -> None:
        if self._is_over or self._is_silent:
            return
        try:
            self._observer.on_next(self._value)
        except BaseException as error:
            self._is_over, self._raised = True, error
            raise

    # What is kept

    async def _load(self) -> None:
        kept, self._number = None, 0
        if found := await self._log._load_fold(self._key):
            self._number, data = found
            kept = self._log._encoding.decode(data, self._name, _decode_kept)
            if kept.version > self._version:
                raise LogError(
                    f"the fold {self._key!r} was kept by a newer program, in version {kept.version}: use that, or "
                    "another key"
                )
        if kept is None or kept.version < self._version:
            kept = Kept(self._type.__qualname__, self._version, msgspec.Raw(self._start))
        try:
            if kept.type != self._type.__qualname__:
                raise msgspec.ValidationError(f"it is a {kept.type}")
            self._value = msgspec.json.decode(kept.value, type=self._type)
        except msgspec.MsgspecError as error:
            raise LogError(
                f"the fold {self._key!r} has a value that is not a {self._type.__qualname__} ({error}): give "
                f"version={kept.version + 1} to fold anew, or another key"
            ) from error
        self._kept, self._recent, self._older = kept, set(kept.finished), None
        self._is_dirty, self._due = False, time.time() + SAVED_EVERY

    async def _save(self) -> bool:
        """Keep what was folded. Returns whether it was kept; if another process has, that is read."""
        kept, log = self._kept, self._log
        if type(self._value) is not self._type:
            raise ConfigurationError(
                f"step of the fold {self._key!r} returned a {type(self._value).__qualname__}, and initial= is a "
                f"{self._type.__qualname__}: let both have one type"
            )
        self._due = time.time() + SAVED_EVERY
        if len(kept.finished) >= PART:
            part = uuid.uuid4().hex
            data = log._encoding.encode(Part(kept.finished), self._name)
            await log._save_fold(f"{self._key}/{part}", 0, data)
            if self._older is not None:
                self._older |= self._recent
            kept.parts.append(part)
            kept.finished, self._recent = [], set()
        kept.value = msgspec.Raw(msgspec.json.encode(self._value))
        data = log._encoding.encode(kept, self._name)
        number = await log._save_fold(self._key, self._number, data)
        if number:
            self._number, self._is_dirty = number, False
            return True
        await self._load()
        self._is_silent = True  # until it is where it was
        self._due = time.time() + REFUSED_FOR
        return False

    async def _was_finished(self, digest: str) -> bool:
        if digest in self._recent:
            return True
        if self._older is None:
            self._older = set()
            for part in self._kept.parts:
                found = await self._log._load_fold(f"{self._key}/{part}")
                if found is None:
                    raise LogError(f"a part of the fold {self._key!r} is missing: give a new version=")
                decoded = self._log._encoding.decode(found[1], self._name, _decode_part)
                self._older.update(decoded.finished)
        return digest in self._older

    # The records

    async def _fold_some(self, rows: Sequence[StoredRow]) -> None:
        infos = [self._log._encoding.decode_info(row) for row in rows]
        wanted = [info for info in infos if await self._is_wanted(info)]
        pages = await asyncio.gather(*[self._page(info) for info in wanted])
        is_changed = False
        for info, page in zip(wanted, pages, strict=True):
            is_changed |= await self._fold(info, page)
        self._kept.revision = infos[-1].revision
        self._is_dirty = True
        if is_changed:
            self._emit()

    async def _is_wanted(self, info: RunInfo) -> bool:
        run = info.run_id
        if info.status == "deleted":
            self._kept.positions.pop(run, None)
            return False
        if run in self._kept.positions:
            return True
        if info.error:
            self._leave_out(run, info.error)
            return False
        if not info.last_seq or info.row.outer:
            return False
        if info.status == "finished" and await self._was_finished(_digest(run)):
            if not info.row.end:
                return False
            self._kept.positions[run] = info.row.end  # annotations followed
        return self._where is None or self._where(info)

    def _leave_out(self, run_id: str, why: object) -> None:
        logger.warning("%s is not in the fold %r: %s", run_id, self._key, why, extra={"run": run_id})

    async def _page(self, info: RunInfo) -> list[Record] | None:
        """The next records of a run, up to those that its row has; ``None`` if there are none."""
        run, until = info.run_id, info.last_seq
        after = abs(self._kept.positions.get(run, 0))
        for _ in range(TRIES if after < until else 0):
            try:
                async with aclosing(self._log.pages(run, after, until=until)) as pages:
                    async for page in pages:
                        found = records_of(page, run, min(after, page[0].first - 1))
                        return [each for record in found for each in expand(record, after)]
            except LogError as error:
                if error.retryable:
                    raise
                now = await self._log.listed(run)
                if now is not None and now.status != "deleted":
                    self._leave_out(run, error)
                return None
            await asyncio.sleep(EVERY)  # a server that has the row may not have the records yet
        return None

    async def _fold(self, info: RunInfo, page: list[Record] | None) -> bool:
        """Fold the records of a run, of which the first ones were read. Returns whether there were any."""
        run, positions = info.run_id, self._kept.positions
        at, value, step = positions.get(run, 0), self._value, self._step
        is_copied, is_changed = at <= 0 and bool(info.row.fork_of), False
        while page:
            for record in page:
                event = record.event
                if is_copied and not record.path and isinstance(event, Fork):
                    is_copied = event.source != info.row.fork_of
                if not is_copied:
                    value, is_changed = step(value, record), True
            self._value, last = value, page[-1].seq
            at = positions[run] = -last if is_copied else last
            await asyncio.sleep(0)  # a log in memory never waits
            page = await self._page(info) if last < info.last_seq else None
            if page and is_changed:
                self._emit()
        if _is_whole(info) and abs(at) >= info.last_seq:
            positions.pop(run, None)
            digest = _digest(run)
            self._recent.add(digest)
            self._kept.finished.append(digest)
        return is_changed


def _is_whole(info: RunInfo) -> bool:
    """Whether nothing but annotations may follow the records of a run, and it has none yet."""
    return info.status == "finished" and not info.row.end


def _digest(run_id: str) -> str:
    return hashlib.blake2b(run_id.encode(), digest_size=8).hexdigest()


_decode_kept = msgspec.json.Decoder(Kept).decode
_decode_part = msgspec.json.Decoder(Part).decode
