"""The seam of event logs: what a store does. Everything else is the same for all stores, and is in `EventLog`.

Theory of operation. The methods of a `Store` work on encoded entries, rows and commands, and never look into them
(`Encoding` writes them, by the codec of the application if there is one). Each is one transaction: it reads and changes
a run in one step, or it changes nothing. What protects a run is its epoch: a claim raises it, and an append with
another one writes nothing. A failure of the database becomes a `LogError`, whose ``retryable`` states whether the same
call may succeed later.

A store reports the changes of other processes to the `Followers` of the log; `EventLog` reports those of this process.
A task that follows a run has a `Waker`. It clears the waker, reads what is stored, and waits for the waker if there is
nothing new, so that a change between the two is not missed. A store wakes it from any thread.
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from rxworker.errors import LeaseHeldError, LogError, RunStatusError, describe
from rxworker.log.format import Entry
from rxworker.log.values import LATER, Claim, Command, RunInfo, RunRow, StoredStatus, read_command
from rxworker.messages.lenient_json import encode_lenient

ALL_RUNS = ""
"""In place of the id of a run: what follows it is woken by a change of any run."""
CALLS = "\0"
"""In place of the id of a run: what follows it is woken when the log calls this process to a run that waits."""

PAGE = 500
"""How many entries or runs are read at once."""


class Followers:
    """The followers of the runs of a log in this process. Any thread may wake them, and look which there are.

    The event loop adds and removes some meanwhile, so that other threads go through copies.

    Args:
        started: Called with a run, or `ALL_RUNS`, when something begins to follow it.
        ended: Called when nothing follows it any more.

    Attributes:
        readers: How many follow the entries of a run.
    """

    def __init__(self, started: Callable[[str], None], ended: Callable[[str], None]) -> None:
        self._started = started
        self._ended = ended
        self._wakers: dict[str, set[Waker]] = {}
        self.readers = 0

    def wake(self, run_id: str, *, by_entries: bool = False) -> None:
        """Wake what follows a run, or all runs; but by entries alone not what follows its commands."""
        for waker in (*self._wakers.get(run_id, ()), *self._wakers.get(ALL_RUNS, ())):
            if waker.reads_entries or not by_entries or waker.run_id == ALL_RUNS:
                waker.set()

    def wake_all(self) -> None:
        """Wake everything."""
        for run in tuple(self._wakers):
            self.wake(run)

    @property
    def runs(self) -> Sequence[str]:
        """The ids of the runs that are followed, `ALL_RUNS`, if all are, and `CALLS`."""
        return tuple(self._wakers)

    @property
    def read_runs(self) -> Sequence[str]:
        """The ids of the runs whose entries are followed."""
        return [run for run in self.runs if self.has_reader(run)]

    def has_reader(self, run_id: str) -> bool:
        """Whether the entries of a run are followed."""
        return any(waker.reads_entries for waker in tuple(self._wakers.get(run_id, ())))

    def add(self, waker: Waker) -> None:
        """Wake this one when its run changes."""
        wakers = self._wakers.setdefault(waker.run_id, set())
        self.readers += waker.reads_entries and waker not in wakers
        wakers.add(waker)
        self._started(waker.run_id)

    def remove(self, waker: Waker) -> None:
        """Do not wake it any more."""
        wakers = self._wakers.get(waker.run_id, set())
        if waker not in wakers:
            return
        wakers.discard(waker)
        self.readers -= waker.reads_entries
        if not wakers:
            del self._wakers[waker.run_id]
            self._ended(waker.run_id)


class Milestones:
    """Futures that are done when a number is reached."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, number: int) -> asyncio.Future[None]:
        """The future of a number that is not reached yet."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, future))
        return future

    def reach(self, number: int) -> bool:
        """End what waits for a number up to this one. Returns whether anything waits for a greater one."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each[0] > number:
                self._waiting.append(each)
            elif not each[1].done():
                each[1].set_result(None)
        return bool(self._waiting)

    def take(self) -> list[asyncio.Future[None]]:
        """The futures that are not done. They wait no longer."""
        waiting, self._waiting = self._waiting, []
        return [future for _, future in waiting]


class Waker:
    """Wakes one task when a run changes, from any thread, while it is entered as a context manager.

    Args:
        followers: The followers of the log.
        run_id: The run's id, or `ALL_RUNS`.
        reads_entries: Whether its entries are followed, and not just its commands.
    """

    def __init__(self, followers: Followers, run_id: str, reads_entries: bool) -> None:
        self.run_id = run_id
        self.reads_entries = reads_entries
        self._followers = followers
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_set = False

    def __enter__(self) -> Self:
        self._followers.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._followers.remove(self)

    def set(self) -> None:
        """Wake the task."""
        if self._is_set:
            return
        self._is_set = True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            self._followers.remove(self)  # its event loop is closed

    def clear(self) -> None:
        """Wait for changes from now on."""
        self._is_set = False
        self._event.clear()

    async def wait(self, until: float | None = None) -> bool:
        """Wait until it is set, or until a time. Returns whether it is set."""
        if not self._is_set:
            # `asyncio.wait_for` loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                seconds = None if until is None else max(until - time.time(), 0.0)
                async with asyncio.timeout(seconds):
                    await self._event.wait()
        return self._is_set


T = TypeVar("T")


class Codec(Protocol):
    """Encrypts or compresses what a log stores. Numbers, epochs, kinds and times stay readable."""

    def encode(self, data: bytes, run_id: str, /) -> bytes:
        """Return the bytes to store in place of ``data``. The first byte must not be ``{``, which marks plain JSON."""
        ...

    def decode(self, data: bytes, run_id: str, /) -> bytes:
        """The inverse. It may be given plain JSON, which was stored before there was a codec."""
        ...


class StoredRow(Struct, frozen=True):
    """The fields of a `RunInfo`, with the row as it is stored and its status."""

    run_id: str
    row: bytes
    status: StoredStatus
    epoch: int
    last_seq: int
    owner: str
    lease_until: float
    created: float
    updated: float
    size: int
    revision: int
    sent: int


_decode_row = msgspec.json.Decoder(RunRow).decode


class Encoding(Struct, frozen=True):
    """Values of a log to what is stored, and back.

    Attributes:
        codec: Applied to all texts.
    """

    codec: Codec | None

    def encode_entries(self, entries: Sequence[Entry], run_id: str) -> Sequence[Entry]:
        """Entries as they are stored."""
        if self.codec is None:
            return entries
        encode = self.codec.encode
        return [replace(entry, body=encode(entry.body, run_id)) for entry in entries]

    def decode_entries(self, entries: list[Entry], run_id: str) -> list[Entry]:
        """Stored entries as they were appended.

        Raises:
            LogError: They were stored with another codec.
        """
        if self.codec is None and all(entry.body[:1] == b"{" for entry in entries):
            return entries
        return [replace(entry, body=self._decode(entry.body, run_id)) for entry in entries]

    def encode(self, value: Struct, run_id: str) -> bytes:
        """A row, a command, or what is kept of a fold, as it is stored."""
        data = encode_lenient(value)
        if self.codec is None:
            return data
        try:
            return self.codec.encode(data, run_id)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit in a task would end the event loop, and all runs with it
            raise LogError(f"the codec cannot encode what is to be stored of {run_id}: {describe(error)}") from error

    def decode_info(self, stored: StoredRow, *, is_strict: bool = False) -> RunInfo:
        """A stored run without its records.

        If its values cannot be decoded, its ``error`` states why: one such run must not hide the others.

        Args:
            stored: The run as it is stored.
            is_strict: Whether to raise instead.

        Raises:
            LogError: Its values cannot be decoded, and ``is_strict`` is given.
        """
        run, data, status = stored.run_id, stored.row, stored.status
        row, why = RunRow(status), ""
        if data:
            try:
                row = replace(self.decode(data, run, _decode_row), status=status)
            except LogError as error:
                if is_strict:
                    raise
                why = str(error)
                row = RunRow(status, reason=why)
        if stored.owner == LATER:
            stored = replace(stored, owner="", lease_until=0.0)
        return RunInfo(run, row, *astuple(stored)[3:], error=why)

    def decode_command(self, run_id: str, number: int, stored: float, data: bytes) -> Command:
        """A stored command, with its number and the time when it was stored.

        Raises:
            LogError: It was stored with another codec.
        """
        return replace(self.decode(data, run_id, read_command), number=number, time=stored)

    def decode(self, data: bytes, run_id: str, decode: Callable[[bytes], T]) -> T:
        """What `encode` has made.

        Raises:
            LogError: It was stored with another codec, or is damaged.
        """
        try:
            return decode(self._decode(data, run_id))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise LogError(
                f"what is stored of {run_id} is damaged: {error}. Restore it from a backup, or delete the run"
            ) from error

    def _decode(self, data: bytes, run_id: str) -> bytes:
        if self.codec is not None:
            try:
                return self.codec.decode(data, run_id)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever a library for encryption raises
                raise LogError(
                    f"the codec cannot decode what is stored of {run_id}: {describe(error)}. Open the log with the "
                    "codec and the key that it was written with"
                ) from error
        if data[:1] != b"{":
            raise LogError(f"what is stored of {run_id} was encoded: open the log with its codec=")
        return data


_PARTS = (
    (re.compile(r"(://[^:/?#@]*):.*@", re.DOTALL), r"\1:***@"),
    (re.compile(r"([?&\s](?:ssl)?password\s*=)[^&\s]*"), r"\1***"),
)


def sql_parts(name: str) -> dict[str, str]:
    """The parts of a file of SQL beside this one, each after a line with its name, such as ``-- [tables]``.

    A part may contain another one, by its name in braces.
    """
    text = Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
    text = re.sub(r"^--(?! \[).*\n", "", text, flags=re.MULTILINE)  # comments are not sent with each query
    _, *split = re.split(r"^-- \[(\w+)\]\n", text, flags=re.MULTILINE)
    parts = {part: statements.strip() for part, statements in zip(split[::2], split[1::2], strict=True)}
    return {part: re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], text) for part, text in parts.items()}


def masked(address: str) -> str:
    """The address without its passwords.

    >>> masked("postgresql://me:secret@db.example/runs?sslpassword=secret&schema=a")
    'postgresql://me:***@db.example/runs?sslpassword=***&schema=a'
    >>> masked("sqlite:runs.db")
    'sqlite:runs.db'
    """
    for pattern, replacement in _PARTS:
        address = pattern.sub(replacement, address)
    return address


def check_version(where: object, version: int, known: int) -> None:
    """Refuse a log that a newer rxworker has made.

    Raises:
        LogError: Its version is not known.

    >>> check_version("runs.db", 1, 1)
    """
    if version > known:
        raise LogError(
            f"{where} is a log of version {version}, and only versions up to {known} are known: use a newer rxworker"
        )


class Append(Struct, frozen=True):
    """What is written to a run in one transaction.

    Attributes:
        claim: The claim; the epoch of the run must be that of it.
        entries: The entries, possibly none.
        after: The last number that the run must have.
        row: The new row, if it changes.
        status: The status in it, by which a store lists runs.
        durable: Whether the entries must survive a loss of power when the store has answered.
    """

    claim: Claim
    entries: Sequence[Entry]
    after: int
    row: bytes | None = None
    status: StoredStatus | None = None
    durable: bool = True

    @property
    def last(self) -> int:
        """The number of the last record then."""
        return self.entries[-1].last if self.entries else self.after

    @property
    def size(self) -> int:
        """The bytes of the entries."""
        return sum([len(entry.body) for entry in self.entries])


class LogReader(Protocol):
    """What is folded, replayed or kept beside the runs needs of its log; see `EventLog`."""

    followers: Followers
    folds: set[asyncio.Task[None]]
    is_closed: bool
    _encoding: Encoding

    def pages(self, run_id: str, after: int = 0, *, until: int | None = None) -> AsyncGenerator[list[Entry], None]:
        """The entries of a run after a number, in pages."""
        ...

    async def listed(self, run_id: str) -> RunInfo | None:
        """A stored run without its records."""
        ...

    async def list(self, *, before: str = "", limit: int = 100) -> Sequence[RunInfo]:
        """Stored runs, the newest first."""
        ...

    def list_pages(self) -> AsyncGenerator[list[RunInfo], None]:
        """All of them, in pages."""
        ...

    def changes(self, *, limit: int | None = 100, every: float = 0.25) -> AsyncGenerator[list[RunInfo], None]:
        """Some stored runs, and then those that have changed."""
        ...

    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]: ...

    async def _load_fold(self, key: str) -> tuple[int, bytes] | None: ...

    async def _kept_of(self, keys: Sequence[str]) -> set[str]: ...

    async def _save_fold(self, key: str, expected: int, data: bytes) -> int: ...


class StoreOptions:
    """What a store may do besides. Without it the log works as well, if more slowly."""

    keeps_bases: bool = False
    """Whether the log stores conversations once, by the next three methods; otherwise each run has the whole one.

    See `rxworker.log.bases`.
    """

    async def _refer(self, claim: Claim, run_id: str, seq: int) -> bool:  # noqa: ARG002
        """Note that the first entry of a claimed run, which has none yet, will refer to another run.

        Returns whether that exists and has this record.

        From then on that run is not deleted.
        """
        return False

    async def _referring(self, runs: Collection[str]) -> Sequence[str]:  # noqa: ARG002
        """The runs that refer to some of these."""
        return ()

    async def _refold(self, run_id: str, entry: Entry | None, base: str) -> None:
        """Replace the first entry of a run, which refers to another base from then on, or to none.

        Without an entry, the run has none: the claim of it that it may have is void.
        """

    calls: bool = False
    """Whether the log wakes one process for a run that waits, by the next four methods.

    Otherwise each change of a run wakes all that wait for one.
    """

    async def _await_call(self, kinds: Sequence[str]) -> None:
        """Note that this process takes a run of one of these kinds, or of any.

        A call wakes the followers of `CALLS`, and ends this.
        """

    async def _call(self, kind: str, to_all: bool) -> None:
        """Call a process that waits for a run of this kind, or all that wait for any.

        A call may be lost: each looks by itself, too.
        """

    async def _dismiss_call(self) -> None:
        """Call this process no more."""

    async def _index_texts(self) -> bool:
        """Bring the index of texts up to date, for a search; returns whether there is one."""
        return False

    async def _find_texts(
        self, words: Sequence[str], tool: str, before: int, limit: int
    ) -> list[tuple[int, str, StoredRow]]:
        """The runs that the index finds, the newest first.

        The key of each, which is less than ``before``, its text, and its row.
        """
        raise NotImplementedError

    def _follow_started(self, run_id: str) -> None:
        """Called when something begins to follow a run, for stores that need to look for changes."""

    def _follow_ended(self, run_id: str) -> None:
        """Called when nothing follows a run any more."""

    async def _reclaim(self) -> None:
        """Give the room of deleted runs back."""

    async def _upgrade(self) -> None:
        """Bring the tables to the newest version."""

    async def _close(self) -> None:
        """Close connections, and end tasks."""


class Store(StoreOptions, ABC):
    """What a store of runs implements. A store is a subclass of `EventLog`, which calls these methods."""

    async def _claim_any(self, runs: Sequence[str], statuses: Collection[StoredStatus]) -> Claim | None:
        """Claim the first of the runs that can be claimed; ``None`` if none can."""
        for run in runs:
            with suppress(LeaseHeldError, RunStatusError):
                return await self._claim(run, None, statuses)
        return None

    @abstractmethod
    async def _claim(self, run_id: str, row: bytes | None, statuses: Collection[StoredStatus]) -> Claim:
        """Raise the epoch of a run, and set its owner and the end of its lease.

        Args:
            run_id: The run's id.
            row: The row of a new run; ``None`` if it must exist.
            statuses: The statuses that it may have, compared in the same transaction.

        Raises:
            LeaseHeldError: An owner holds it.
            RunStatusError: It has another status.
            LogError: It does not exist, or a new one has entries.
        """

    @abstractmethod
    async def _append(self, append: Append) -> bool:
        """Add entries. Returns whether another process follows the run.

        Raises:
            FencedError: The epoch or the last number is another one. Nothing was written.
        """

    @abstractmethod
    async def _release(self, claim: Claim) -> None:
        """Give a claim back, if the epoch of the run is still that of it."""

    async def _postpone(self, claim: Claim, until: float) -> None:
        """Give the claim of a queued run back that is due at a time.

        A store that processes of a version before `RunRow.due` may have open gives it to `LATER`, with a lease until
        then, since they do not read that field.
        """
        del until
        await self._release(claim)

    @abstractmethod
    def _renew(self, claims: Sequence[Claim]) -> list[str]:
        """Extend leases, and return the ids of the runs that are lost. It blocks, in a thread of its own."""

    @abstractmethod
    async def _read(self, run_id: str, after: int, limit: int) -> list[Entry]:
        """The first entries that end after a number."""

    @abstractmethod
    async def _info(self, run_id: str) -> StoredRow | None:
        """The row of a run, also of a deleted one."""

    @abstractmethod
    async def _list(
        self, status: StoredStatus | None, before: str, limit: int, *, is_empty: bool = False
    ) -> list[StoredRow]:
        """Runs with entries, or those without, the newest first and without deleted ones."""

    @abstractmethod
    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]:
        """Runs in the order of their revisions, after one.

        Each change gives a run a revision greater than all before.
        """

    @abstractmethod
    async def _send(self, run_id: str, key: str, data: bytes) -> int:
        """Add a command, and return its number, from 1.

        Raises:
            CommandConflictError: The run has one with the same key.
            RunStatusError: It has ended.
        """

    @abstractmethod
    async def _read_commands(self, run_id: str, after: int) -> list[tuple[int, float, bytes]]:
        """The commands after a number: the number, when it was stored, and the data."""

    @abstractmethod
    async def _prune(self, rows: Sequence[StoredRow]) -> set[str]:
        """Delete runs in one transaction, and return the ids of the deleted ones.

        Their entries and commands are removed, and a tombstone remains: an empty row, the status ``deleted``, and a
        higher epoch. It leaves those that a process holds, that have changed since, or that a run refers to which
        stays.
        """

    @abstractmethod
    async def _load_fold(self, key: str) -> tuple[int, bytes] | None:
        """What was kept last under a key, with the number of that write; ``None`` if there is nothing."""

    async def _kept_of(self, keys: Sequence[str]) -> set[str]:
        """Those of some keys under which something is kept."""
        found = await asyncio.gather(*[self._load_fold(key) for key in keys])
        return {key for key, one in zip(keys, found, strict=True) if one and one[1]}

    @abstractmethod
    async def _save_fold(self, key: str, expected: int, data: bytes) -> int:
        """Keep data under a key, if the last write of it has the number ``expected``; 0 if there is none.

        Returns the number of this write, or 0 if it was refused.

        It must not survive a loss of power that the entries before it do not survive.
        """
