"""The seam of event logs: what a store does, and what is the same for all of them.

A log holds runs. Each run is one gapless sequence of entries, written by one owner at a time. An owner claims the run, which raises its epoch; an
append names the epoch and the last number, and is refused if either has changed. To steer a run, any process sends it a command; the
owner reads the commands in order, and each is taken once.

A store implements the methods with an underscore. They work on encoded entries and commands; `EventLog` has the codec and the following.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from types import TracebackType
from typing import Protocol, Self, TypeAlias

import msgspec
from msgspec.structs import replace
from reactivex import Observable, abc

from rxworker.errors import LocalProtocolError, LogError, RxWorkerError
from rxworker.events import Record
from rxworker.log.entry import Entry, with_body
from rxworker.log.heartbeat import Heartbeat
from rxworker.log.pending import Leases
from rxworker.log.replay import replay
from rxworker.log.values import Claim, Command, RunInfo, RunRow, StoredStatus
from rxworker.messages.lenient_json import encode_lenient
from rxworker.operators.disposables import Call

LEASE = 15.0
"""Seconds that a claim lasts without a heartbeat."""

PAGE = 500
"""How many entries are read at once."""

FEW = 20
"""How many runs are read one by one."""

ALL_RUNS = ""
"""In place of the id of a run: what follows it is woken by a change of any run."""


class Codec(Protocol):
    """Encrypts or compresses what a log stores. Numbers, epochs, kinds and times stay readable."""

    def encode(self, data: bytes, run: str, /) -> bytes:
        """What to store in place of ``data``. Its first byte must not be ``{``, which marks plain JSON."""
        ...

    def decode(self, data: bytes, run: str, /) -> bytes:
        """The inverse. It may be given plain JSON, which was stored before there was a codec."""
        ...


_BRACE = ord("{")
_decode_row = msgspec.json.Decoder(RunRow).decode
_decode_command = msgspec.json.Decoder(Command).decode


class EventLog(ABC):
    """Stored runs. Made by `open_log`, or by the constructor of a store.

    Its methods belong to one event loop at a time. Close it with ``await log.close()``, or use ``async with``.

    Args:
        codec: Applied to what is stored.
        owner: The name of this process in claims; by default the host, the process and a random part.
        lease: Seconds that a claim lasts without a heartbeat; there are three heartbeats in a lease.

    Attributes:
        id: The name of the log, the same in each process that opens it.
        owner: The name of this process in claims.
        lease: Seconds that a claim lasts.
        heartbeat: Renews the claims of the runs of this process.
    """

    id: str

    def __init__(
        self, *, codec: Codec | None = None, owner: str = "", lease: float = LEASE
    ) -> None:
        self.lease = lease
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._codec = codec
        self.heartbeat = Heartbeat(self.renew, max(lease / 3, 0.01))
        self._wakers: dict[str, set[_Waker]] = {}
        self._following: Counter[str] = Counter()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Owners

    async def claim(self, run: str, *, create: bool = False, row: RunRow | None = None) -> Claim:
        """Become the owner of a run. Its epoch rises, so that the appends of an earlier owner are refused.

        Args:
            run: The run's id.
            create: Whether it is a new run, without entries; otherwise it must exist.
            row: What a list shows of a new run.

        Raises:
            LeaseHeldError: Another owner holds it.
            LogError: It does not exist, or ``create`` was given and it has entries.
        """
        self._check_open()
        encoded = self._encode_row(row or RunRow(), run)
        claim = await self._claim(run, create, encoded, self.lease)
        self._wake(run)
        return claim

    async def append(
        self,
        claim: Claim,
        entries: Sequence[Entry],
        *,
        after: int,
        row: RunRow | None = None,
        durable: bool = True,
    ) -> bool:
        """Append entries in one transaction.

        Args:
            claim: The claim of the run.
            entries: The entries, adjacent and in order.
            after: The number of the last record before them.
            row: The new last values of the run.
            durable: Whether the entries must survive a loss of power when this returns. Without that they survive the end of the process.

        Returns:
            Whether another process watches the run, so that it should be written more often.

        Raises:
            FencedError: Another owner has claimed the run, or its last number is not ``after``. Nothing was written.
            LogError: The store failed. Nothing was written.
        """
        self._check_open()
        if self._codec is not None:
            encode = self._codec.encode
            entries = [with_body(entry, encode(entry.body, claim.run)) for entry in entries]
        encoded = None if row is None else self._encode_row(row, claim.run)
        status = None if row is None else row.status
        is_watched = await self._append(claim, entries, after, encoded, status, durable)
        self._wake(claim.run)
        return is_watched

    async def release(self, claim: Claim) -> None:
        """Give a claim back, so that another process may claim the run at once. A claim that is lost already is ignored."""
        await self._release(claim)
        self._wake(claim.run)

    def renew(self, claims: Sequence[Claim]) -> list[str]:
        """Extend claims. Blocks; called from a thread of its own.

        Returns:
            The ids of the runs that another owner has claimed since.
        """
        return self._renew(claims, self.lease)

    # Readers

    async def read(self, run: str, after: int = 0) -> AsyncGenerator[Entry, None]:
        """The entries of a run after a number, up to the present.

        The first entry may begin before ``after``, where that is within a span.
        """
        while entries := await self._read_page(run, after):
            for entry in entries:
                yield entry
            after = entries[-1].last

    async def follow(self, run: str, after: int = 0) -> AsyncGenerator[Entry, None]:
        """The entries of a run after a number, and then those that are appended, by any process. It ends when the log is closed."""
        with self._follower(run) as waker:
            while not self._is_closed:
                waker.clear()
                entries = await self._read_page(run, after)
                for entry in entries:
                    yield entry
                if entries:
                    after = entries[-1].last
                else:
                    await waker.wait()

    def is_followed(self, run: str) -> bool:
        """Whether something in this process follows the entries of a run."""
        return run in self._following

    async def pages(self, run: str, after: int = 0) -> AsyncGenerator[list[Entry], None]:
        """The same in pages, which ends also when the run has ended or is paused, and all of it was given."""
        with self._follower(run) as waker:
            while not self._is_closed:
                waker.clear()
                entries = await self._read_page(run, after)
                if entries:
                    after = entries[-1].last
                    yield entries
                elif not self._is_closed:
                    info = await self.info(run)
                    if info is not None and info.last_seq <= after:
                        if info.status not in ("queued", "running", "deleted"):
                            return
                        await waker.wait()

    def records(self, run: str, after: int = 0) -> Observable[Record]:
        """A run as one observable, from its history to what is appended now, by any process, without a gap or a double.

            abc|    d--e|         what is stored, and what is appended
            [ log.records(run) ]
            abc----d--e|

        It is `replay` without pauses: each subscription reads the run anew, on the event loop that is running. It completes behind the last record of a run that has
        ended or is paused, or when the log is closed.

        Args:
            run: The run's id.
            after: The number of the last record to leave out. It may be within a span.

        Raises:
            LogError: As ``on_error``: there is no such run, or the log cannot be read.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.operators import events, text_deltas
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         run = Worker(ScriptedModel(["An old pond."]), log=log).run("A haiku!")
            ...         await run
            ...         texts = log.records(run.id).pipe(events(), text_deltas())
            ...         texts.subscribe(lambda text: print(text, end="|"))
            ...         await texts
            >>> asyncio.run(main())
            An o|ld p|ond.|
        """
        return replay(self, run, speed=0, after=after)

    async def info(self, run: str) -> RunInfo | None:
        """A stored run without its records; ``None`` if there is none."""
        self._check_open()
        found = await self._info(run)
        return None if found is None else self._decode_info(found)

    async def list(
        self, *, status: StoredStatus | None = None, before: str = "", limit: int = 100
    ) -> list[RunInfo]:
        """Stored runs, the newest first, without deleted ones and without those that have no entry yet.

        Args:
            status: Only runs of this status.
            before: Only runs that are older than this one, for the next page.
            limit: At most so many.
        """
        self._check_open()
        return [self._decode_info(found) for found in await self._list(status, before, limit)]

    async def changes(
        self, *, limit: int | None = 100, every: float = 0.25
    ) -> AsyncGenerator[list[RunInfo], None]:
        """The stored runs, and then those that have changed or whose lease was renewed or has ended, by any process.

        It yields the stored runs in pages, then an empty list, and then lists of changed runs. A run may come again without a change. It ends when the log is closed.

        Args:
            limit: How many runs are stored ones, the newest; ``None``: all. Those that are queued, running or paused come in any case.
            every: At most one list of changed runs in so many seconds.
        """
        with self._waker(ALL_RUNS) as waker:
            newest = await self.list(limit=PAGE if limit is None else max(limit, 1))
            revision = max((info.revision for info in newest), default=0)
            leases = Leases(self.lease / 3)
            async for infos in self._stored_pages(newest, limit):
                leases.note(infos, time.time())
                yield infos
            yield []
            while not self._is_closed:
                waker.clear()
                stored = await self._changed_since(revision, PAGE)
                infos = [self._decode_info(each) for each in stored]
                if infos:
                    revision = infos[-1].revision
                infos += await self._infos(leases.due(time.time()))
                if infos:
                    leases.note(infos, time.time())
                    yield infos
                    await asyncio.sleep(every)
                else:
                    await waker.wait(leases.next_due)

    async def _infos(self, runs: Sequence[str]) -> list[RunInfo]:
        """Stored runs without their records, in pages if there are many."""
        found: dict[str, RunInfo] = {}
        wanted = {*runs}
        infos = await self.list(status="running", limit=PAGE) if len(runs) > FEW else []
        while infos:
            found.update((info.run, info) for info in infos if info.run in wanted)
            infos = await self.list(status="running", before=infos[-1].run, limit=PAGE)
        for run in wanted - found.keys():
            info = await self.info(run)
            if info is not None:
                found[run] = info
        return [*found.values()]

    async def _stored_pages(
        self, newest: Sequence[RunInfo], limit: int | None
    ) -> AsyncGenerator[list[RunInfo], None]:
        """The newest runs in pages, and those that have not ended."""
        infos = [*newest]
        while infos:
            yield infos
            infos = [] if limit is not None else await self.list(before=infos[-1].run, limit=PAGE)
        if limit is None:
            return
        for status in ("queued", "running", "paused"):
            infos = await self.list(status=status, limit=PAGE)
            while infos:
                yield infos
                infos = await self.list(status=status, before=infos[-1].run, limit=PAGE)

    def fleet(self, *, every: float = 0.25) -> Observable[RunInfo]:
        """The last values of all runs as one observable: those that are stored, and then each one that changes, by any process.

            abc|   b--d            what is stored, and what changes
            [ log.fleet() ]
            abc----b--d-

        `Fleet` folds it. A run comes again when it has changed, and when its lease was renewed or has ended, possibly more often. Each subscription reads the log anew, on the event
        loop that is running. It completes when the log is closed.

        Args:
            every: Changes are collected for so many seconds.

        Raises:
            LogError: As ``on_error``: the log cannot be read.

        Example:
            >>> from reactivex import operators as ops
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         statuses = log.fleet(every=0).pipe(ops.map(lambda info: info.status))
            ...         statuses.pipe(ops.distinct_until_changed()).subscribe(print)
            ...         await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
            >>> asyncio.run(main())
            running
            finished
        """

        def subscribe(
            observer: abc.ObserverBase[RunInfo], _: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            task = asyncio.get_running_loop().create_task(self._push_changes(observer, every))
            return Call(task.cancel)

        return Observable(subscribe)

    async def _push_changes(self, observer: abc.ObserverBase[RunInfo], every: float) -> None:
        try:
            async with aclosing(self.changes(limit=None, every=every)) as changes:
                async for infos in changes:
                    for info in infos:
                        observer.on_next(info)
        except RxWorkerError as error:
            observer.on_error(error)
        else:
            observer.on_completed()

    # Commands

    async def send(self, run: str, command: Command) -> int:
        """Store a command for the owner of a run.

        Returns:
            Its number. When this returns, the command is stored.

        Raises:
            CommandConflictError: The run has a command with the same key.
            LogError: There is no such run, or it has ended.
        """
        self._check_open()
        number = await self._send(run, command.key, self._encoded(encode_lenient(command), run))
        self._wake(run)
        return number

    async def commands(self, run: str, after: int = 0) -> AsyncGenerator[Command, None]:
        """The commands to a run after a number, and then those that are sent. It ends when the log is closed."""
        with self._waker(run) as waker:
            while not self._is_closed:
                waker.clear()
                found = await self._read_commands(run, after)
                for number, stored, data in found:
                    after = number
                    yield self._decode_command(run, number, stored, data)
                if not found:
                    await waker.wait()

    async def sent(self, run: str) -> list[Command]:
        """The commands to a run so far."""
        self._check_open()
        return [self._decode_command(run, *found) for found in await self._read_commands(run, 0)]

    # The whole log

    async def delete(self, run: str) -> None:
        """Delete the entries and commands of a run. A tombstone remains, so that nothing is appended to it later.

        Raises:
            LeaseHeldError: A process is running it.
            LogError: There is no such run.
        """
        self._check_open()
        await self._delete(run)
        self._wake(run)

    async def prune(
        self,
        *,
        max_age: float | None = None,
        max_runs: int | None = None,
        max_bytes: int | None = None,
    ) -> list[str]:
        """Delete the oldest runs that have ended. A paused run is not deleted for its age alone; a run that is running never is.

        Args:
            max_age: Delete runs whose last entry is older than so many seconds.
            max_runs: Keep at most so many runs.
            max_bytes: Keep at most so many bytes of entries.

        Returns:
            The ids of the deleted runs.
        """
        deleted: list[str] = []
        runs, size, now, before = 0, 0, time.time(), ""
        while infos := await self.list(before=before, limit=PAGE):
            before = infos[-1].run
            for info in infos:
                runs, size = runs + 1, size + info.size
                is_old = max_age is not None and info.updated < now - max_age
                is_over = (max_runs is not None and runs > max_runs) or (
                    max_bytes is not None and size > max_bytes
                )
                if info.status == "running" or not (
                    is_over or (is_old and info.status != "paused")
                ):
                    continue
                deleted.append(info.run)
                runs, size = runs - 1, size - info.size
        for run in deleted:
            await self.delete(run)
        return deleted

    async def close(self) -> None:
        """Write what is outstanding, and end everything that follows the log."""
        if self._is_closed:
            return
        self._is_closed = True
        self._wake_all()
        await asyncio.get_running_loop().run_in_executor(None, self.heartbeat.close)
        await self._close()

    # Following

    @contextmanager
    def _follower(self, run: str) -> Generator[_Waker, None, None]:
        self._following[run] += 1
        try:
            with self._waker(run) as waker:
                yield waker
        finally:
            self._following[run] -= 1
            if not self._following[run]:
                del self._following[run]

    def _waker(self, run: str) -> _Waker:
        self._check_open()
        return _Waker(self, run)

    def _wake(self, run: str) -> None:
        """Wake what follows a run, or all runs. Any thread may call it."""
        for waker in (*self._wakers.get(run, ()), *self._wakers.get(ALL_RUNS, ())):
            waker.set()

    def _wake_all(self) -> None:
        for run in tuple(self._wakers):
            self._wake(run)

    @property
    def followed(self) -> Sequence[str]:
        """The ids of the runs that are followed now, and `ALL_RUNS`, if all are."""
        return tuple(self._wakers)

    def add_waker(self, waker: _Waker) -> None:
        """Wake this one when the run changes."""
        self._wakers.setdefault(waker.run, set()).add(waker)
        self._follow_started(waker.run)

    def remove_waker(self, waker: _Waker) -> None:
        """Do not wake it any more."""
        wakers = self._wakers.get(waker.run)
        if wakers is not None:
            wakers.discard(waker)
            if not wakers:
                del self._wakers[waker.run]
                self._follow_ended(waker.run)

    def _follow_started(self, run: str) -> None:  # noqa: B027 - most stores need not
        """Called when something begins to follow a run, for stores that need to look for changes."""

    def _follow_ended(self, run: str) -> None:  # noqa: B027 - most stores need not
        """Called when nothing follows a run any more."""

    # Codec

    def _encoded(self, data: bytes, run: str) -> bytes:
        return data if self._codec is None else self._codec.encode(data, run)

    def _decoded(self, data: bytes, run: str) -> bytes:
        if self._codec is not None:
            try:
                return self._codec.decode(data, run)
            except Exception as error:  # whatever a library for encryption raises
                why = f"{type(error).__name__}: {error}".removesuffix(": ")
                raise LogError(
                    f"the codec cannot decode what is stored of {run}: {why}. Open the log with the codec and the key that it was written with"
                ) from error
        if data[:1] != b"{":
            raise LogError(f"what is stored of {run} was encoded: open the log with its codec=")
        return data

    def _encode_row(self, row: RunRow, run: str) -> bytes:
        return self._encoded(encode_lenient(row), run)

    def _decode_info(self, stored: StoredRow) -> RunInfo:
        run, data, status, epoch, last_seq, owner, lease, created, updated, size, revision, sent = (
            stored
        )
        row = RunRow(status)
        if data:
            row = replace(_decode_row(self._decoded(data, run)), status=status)
        return RunInfo(
            run, row, epoch, last_seq, owner, lease, created, updated, size, revision, sent
        )

    def _decode_command(self, run: str, number: int, stored: float, data: bytes) -> Command:
        command = _decode_command(self._decoded(data, run))
        return replace(command, number=number, time=stored)

    async def _read_page(self, run: str, after: int) -> list[Entry]:
        self._check_open()
        entries = await self._read(run, after, PAGE)
        if self._codec is None and all(entry.body[0] == _BRACE for entry in entries):
            return entries
        return [with_body(entry, self._decoded(entry.body, run)) for entry in entries]

    def _check_open(self) -> None:
        if self._is_closed:
            raise LocalProtocolError("this log is closed: open it again")

    # What a store implements

    @abstractmethod
    async def _claim(self, run: str, create: bool, row: bytes, lease: float) -> Claim: ...

    @abstractmethod
    async def _append(
        self,
        claim: Claim,
        entries: Sequence[Entry],
        after: int,
        row: bytes | None,
        status: StoredStatus | None,
        durable: bool,
    ) -> bool: ...

    @abstractmethod
    async def _release(self, claim: Claim) -> None: ...

    @abstractmethod
    def _renew(self, claims: Sequence[Claim], lease: float) -> list[str]: ...

    @abstractmethod
    async def _read(self, run: str, after: int, limit: int) -> list[Entry]: ...

    @abstractmethod
    async def _info(self, run: str) -> StoredRow | None: ...

    @abstractmethod
    async def _list(
        self, status: StoredStatus | None, before: str, limit: int
    ) -> list[StoredRow]: ...

    @abstractmethod
    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]: ...

    @abstractmethod
    async def _send(self, run: str, key: str, data: bytes) -> int: ...

    @abstractmethod
    async def _read_commands(self, run: str, after: int) -> list[tuple[int, float, bytes]]: ...

    @abstractmethod
    async def _delete(self, run: str) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...


StoredRow: TypeAlias = tuple[
    str, bytes, StoredStatus, int, int, str, float, float, float, int, int, int
]
"""The fields of a `RunInfo`, with the row as it is stored and its status."""


class _Waker:
    """Wakes one task when a run changes, from any thread."""

    def __init__(self, log: EventLog, run: str) -> None:
        self.run = run
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_set = False

    def __enter__(self) -> Self:
        self._log.add_waker(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.remove_waker(self)

    def set(self) -> None:
        if self._is_set:
            return
        self._is_set = True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            self._log.remove_waker(self)  # its event loop is closed

    def clear(self) -> None:
        self._is_set = False
        self._event.clear()

    async def wait(self, until: float | None = None) -> None:
        """Wait until it is set, or until a time."""
        if not self._is_set:
            # `asyncio.wait_for` loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                seconds = None if until is None else max(until - time.time(), 0.0)
                async with asyncio.timeout(seconds):
                    await self._event.wait()


def already_stored(run: str) -> LogError:
    """The error for a new run that is stored."""
    return LogError(f"the log has a run {run!r} already")


def no_run(run: str) -> LogError:
    """The error for a run that is not stored."""
    return LogError(f"the log has no run {run!r}")
