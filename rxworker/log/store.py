"""The seam of event logs: what a store does. Everything else is the same for all stores, and is in `EventLog`.

Theory of operation. The methods work on encoded entries, rows and commands, and never look into them. Each is one
transaction: it reads and changes a run in one step, or it changes nothing. What protects a run is its epoch: a claim
raises it, and an append with another one writes nothing. A store reports the changes of other processes to the
`Followers` of the log; `EventLog` reports those of this process. A failure of the database becomes a `LogError`, whose
``retryable`` states whether the same call may succeed later.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from rxworker.errors import LeaseHeldError, RunStatusError
from rxworker.log.codec import Encoding, StoredRow
from rxworker.log.follow import Followers
from rxworker.log.format import Entry
from rxworker.log.values import Claim, RunInfo, StoredStatus

_PARTS = (
    (re.compile(r"(://[^:/?#@]*):.*@", re.DOTALL), r"\1:***@"),
    (re.compile(r"([?&\s](?:ssl)?password\s*=)[^&\s]*"), r"\1***"),
)


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


class Store(ABC):
    """What a store of runs implements. A store is a subclass of `EventLog`, which calls these methods."""

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

    async def _refold(self, run_id: str, entry: Entry | None, base: str) -> None:  # noqa: B027
        """Replace the first entry of a run, which refers to another base from then on, or to none.

        Without an entry, the run has none: the claim of it that it may have is void.
        """

    calls: bool = False
    """Whether the log wakes one process for a run that waits, by the next four methods.

    Otherwise each change of a run wakes all that wait for one.
    """

    async def _await_call(self, kinds: Sequence[str]) -> None:  # noqa: B027 - see `calls`
        """Note that this process takes a run of one of these kinds, or of any.

        A call wakes the followers of `CALLS`, and ends this.
        """

    async def _call(self, kind: str, to_all: bool) -> None:  # noqa: B027
        """Call a process that waits for a run of this kind, or all that wait for any.

        A call may be lost: each looks by itself, too.
        """

    async def _dismiss_call(self) -> None:  # noqa: B027
        """Call this process no more."""

    async def _claim_any(self, runs: Sequence[str], statuses: Collection[StoredStatus]) -> Claim | None:
        """Claim the first of the runs that can be claimed; ``None`` if none can."""
        for run in runs:
            with suppress(LeaseHeldError, RunStatusError):
                return await self._claim(run, None, statuses)
        return None

    def _follow_started(self, run_id: str) -> None:  # noqa: B027 - most stores need not
        """Called when something begins to follow a run, for stores that need to look for changes."""

    def _follow_ended(self, run_id: str) -> None:  # noqa: B027 - most stores need not
        """Called when nothing follows a run any more."""

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
    async def _delete(self, run_id: str) -> bool | None:
        """Remove entries and commands, and leave a tombstone: an empty row, the status ``deleted``, and a higher epoch.

        A store that ``keeps_bases`` returns false, and changes nothing, if another run refers to it.

        Raises:
            LeaseHeldError: An owner holds it.
        """

    @abstractmethod
    async def _prune(self, rows: Sequence[StoredRow]) -> set[str]:
        """Delete runs in one transaction, as `_delete`, and return the ids of the deleted ones.

        It leaves those that a process holds, that have changed since, or that a run refers to which stays.
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

    async def _reclaim(self) -> None:  # noqa: B027 - most stores need not
        """Give the room of deleted runs back."""

    async def _upgrade(self) -> None:  # noqa: B027 - most stores have one version
        """Bring the tables to the newest version."""

    @abstractmethod
    async def _close(self) -> None:
        """Close connections, and end tasks."""
