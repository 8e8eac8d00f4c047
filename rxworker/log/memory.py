"""A log in the memory of one process, for tests and for runs that need not outlive it."""

from __future__ import annotations

import threading
import time
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import islice, takewhile
from typing import final

from msgspec import Struct

from rxworker.errors import CommandConflictError, FencedError, LeaseHeldError, RunStatusError
from rxworker.log.base import EventLog, already_stored, no_run
from rxworker.log.format import Entry
from rxworker.log.leases import LEASE
from rxworker.log.store import Append, Codec, StoredRow
from rxworker.log.values import OPEN, Claim, StoredStatus
from rxworker.messages.settings import check_plain


class _StoredRun(Struct, eq=False):
    run_id: str
    row: bytes
    created: float
    number: int
    status: StoredStatus = "running"
    epoch: int = 0
    last_seq: int = 0
    owner: str = ""
    lease_until: float = 0.0
    updated: float = 0.0
    size: int = 0
    entries: list[Entry] = []
    commands: list[tuple[float, str, bytes]] = []
    revision: int = 0

    def stored(self) -> StoredRow:
        return StoredRow(
            self.run_id, self.row, self.status, self.epoch, self.last_seq, self.owner, self.lease_until,
            self.created, self.updated, self.size, self.revision,
            len(self.commands),
        )  # fmt: skip


@final
class MemoryLog(EventLog):
    """A log in the memory of this process.

    Args:
        codec: Applied to what is stored.
        owner: The name of this process in claims.
        lease: Seconds that a claim lasts without a heartbeat.
        clock: Returns the time in seconds since the epoch.

    Example:
        >>> import asyncio
        >>> from rxworker.log.format import entries_of
        >>> from rxworker.events import Record, RunStop
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         claim = await log.claim("run-1", create=True)
        ...         end = Record(1, "run-1", 0, 0, 0.0, RunStop())
        ...         await log.append(claim, entries_of([end], claim.epoch), after=0)
        ...         print([entry.kind async for entry in log.read("run-1")])
        >>> asyncio.run(main())
        ['run_stop']
    """

    searches_texts = True
    keeps_bases = True

    def __init__(
        self,
        *,
        codec: Codec | None = None,
        owner: str = "",
        lease: float = LEASE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(codec=codec, owner=owner, lease=lease)
        check_plain("MemoryLog(clock)", clock)
        self._wall = clock
        self._lock = threading.Lock()  # claims are renewed in another thread
        self._runs: dict[str, _StoredRun] = {}
        self._listed: list[_StoredRun] = []  # without deleted ones, the oldest first
        self._changed: dict[str, _StoredRun] = {}  # in the order of their revisions
        self._revision = 0
        self._folds: dict[str, tuple[int, bytes]] = {}
        self._bases: dict[str, str] = {}
        self.id = uuid.uuid4().hex

    def _revised(self, run: _StoredRun) -> None:
        self._revision += 1
        run.revision = self._revision
        self._changed.pop(run.run_id, None)
        self._changed[run.run_id] = run

    def _get(self, run_id: str) -> _StoredRun:
        found = self._runs.get(run_id)
        if found is None or found.status == "deleted":
            raise no_run(run_id)
        return found

    async def _claim(self, run_id: str, row: bytes | None, statuses: Collection[StoredStatus]) -> Claim:
        now = self._wall()
        with self._lock:
            if row is not None:
                known = self._runs.get(run_id)
                if known is None:
                    known = _StoredRun(run_id, row, now, len(self._runs), updated=now)
                    self._runs[run_id] = known
                    self._listed.append(known)
                if known.last_seq or known.status == "deleted":
                    raise already_stored(run_id)
            found = self._get(run_id)
            if row is None:
                check_status(run_id, found.status, statuses)
            if found.owner and found.lease_until > now:
                raise LeaseHeldError(run_id, found.owner, found.lease_until)
            found.epoch += 1
            found.owner, found.lease_until = self.owner, now + self.lease
            self._revised(found)
            return Claim(run_id, found.epoch, found.last_seq, self.owner)

    async def _append(self, append: Append) -> bool:
        claim = append.claim
        with self._lock:
            found = self._runs.get(claim.run_id)
            if found is None:
                raise refusal(append, None)
            if (found.epoch, found.last_seq) != (claim.epoch, append.after):
                raise refusal(append, (found.epoch, found.last_seq, found.status))
            found.entries += append.entries
            found.last_seq = append.last
            found.size += append.size
            if append.row is not None and append.status is not None:
                found.row, found.status = append.row, append.status
            found.updated = self._wall()
            self._revised(found)
        return False

    async def _release(self, claim: Claim) -> None:
        with self._lock:
            found = self._runs.get(claim.run_id)
            if found is not None and found.epoch == claim.epoch:
                found.owner, found.lease_until = "", 0.0
                self._revised(found)

    def _renew(self, claims: Sequence[Claim]) -> list[str]:
        lost: list[str] = []
        with self._lock:
            until = self._wall() + self.lease
            for claim in claims:
                found = self._runs.get(claim.run_id)
                if found is None or found.epoch != claim.epoch:
                    lost.append(claim.run_id)
                elif found.owner:
                    found.lease_until = until
        return lost

    async def _read(self, run_id: str, after: int, limit: int) -> list[Entry]:
        entries = self._get(run_id).entries
        start = bisect_right(entries, after, key=lambda entry: entry.last)
        return entries[start : start + limit]

    async def _info(self, run_id: str) -> StoredRow | None:
        found = self._runs.get(run_id)
        return None if found is None else found.stored()

    async def _list(
        self, status: StoredStatus | None, before: str, limit: int, *, is_empty: bool = False
    ) -> list[StoredRow]:
        end = len(self._listed)
        if before:
            known = self._runs.get(before)
            end = 0 if known is None else self._index_of(known)
        wanted = (
            found
            for at in range(end - 1, -1, -1)
            if ((found := self._listed[at]).last_seq == 0) is is_empty and (status is None or found.status == status)
        )
        return [found.stored() for found in islice(wanted, limit)]

    def _index_of(self, run: _StoredRun) -> int:
        """Where a run is among the listed ones, or would be."""
        return bisect_left(self._listed, run.number, key=lambda found: found.number)

    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]:
        newer = takewhile(lambda found: found.revision > revision, reversed(self._changed.values()))
        return [found.stored() for found in [*newer][::-1][:limit]]

    async def _send(self, run_id: str, key: str, data: bytes) -> int:
        with self._lock:
            found = self._get(run_id)
            check_command(run_id, found.status)
            if key and any(other == key for _, other, _ in found.commands):
                raise conflict(run_id, key)
            found.commands.append((self._wall(), key, data))
            self._revised(found)
            return len(found.commands)

    async def _read_commands(self, run_id: str, after: int) -> list[tuple[int, float, bytes]]:
        commands = self._get(run_id).commands
        return [(number, stored, data) for number, (stored, _, data) in enumerate(commands[after:], after + 1)]

    async def _refer(self, claim: Claim, run_id: str, seq: int) -> bool:
        with self._lock:
            found = self._runs.get(run_id)
            if found is None or found.status == "deleted" or found.last_seq < seq:
                return False
            self._bases[claim.run_id] = run_id
            return True

    async def _referring(self, runs: Collection[str]) -> Sequence[str]:
        return [run for run, base in self._bases.items() if base in runs]

    async def _refold(self, run_id: str, entry: Entry | None, base: str) -> None:
        with self._lock:
            found = self._runs[run_id]
            if entry is None:
                found.epoch += 1
            else:
                found.size += len(entry.body) - len(found.entries[0].body)
                found.entries = [entry, *found.entries[1:]]
            if base:
                self._bases[run_id] = base
            else:
                self._bases.pop(run_id, None)

    async def _prune(self, rows: Sequence[StoredRow]) -> set[str]:
        now = self._wall()
        gone: set[str] = set()
        with self._lock:
            # A run that continues another one is newer.
            for row in sorted(rows, key=lambda row: -self._runs[row.run_id].number):
                run, found = row.run_id, self._runs[row.run_id]
                is_held = found.owner and found.lease_until > now
                if (
                    found.status != "deleted"
                    and not is_held
                    and (found.epoch, found.last_seq, len(found.commands)) == (row.epoch, row.last_seq, row.sent)
                    and run not in self._bases.values()
                ):
                    del self._listed[self._index_of(found)]
                    found.entries, found.commands, found.size, found.row = [], [], 0, b""
                    found.status = "deleted"
                    found.epoch += 1
                    self._bases.pop(run, None)
                    self._revised(found)
                    gone.add(run)
        return gone

    async def _load_fold(self, key: str) -> tuple[int, bytes] | None:
        return self._folds.get(key)

    async def _save_fold(self, key: str, expected: int, data: bytes) -> int:
        if self._folds.get(key, (0, b""))[0] != expected:
            return 0
        self._folds[key] = expected + 1, data
        return expected + 1


def refusal(append: Append, found: tuple[int, int, str] | None) -> FencedError:
    """The error for an append that does not continue the run.

    Args:
        append: The append.
        found: The epoch, the last number and the status in the log; ``None`` if there is no such run.
    """
    claim, run = append.claim, append.claim.run_id
    if found is None or found[2] == "deleted":
        return FencedError(f"{run} was deleted from the log: nothing is written to it any more", run_id=run)
    epoch, last_seq, _ = found
    if epoch != claim.epoch:
        return FencedError(
            f"{run} was taken over by another process (epoch {epoch}; this one had {claim.epoch}): nothing was "
            "written, and this process stops working on it. Watch the run through the log",
            run_id=run,
        )
    return FencedError(
        f"the log of {run} ends with record {last_seq}, and an append would continue after {append.after}: nothing was "
        "written",
        run_id=run,
    )


def check_status(run_id: str, status: str, statuses: Collection[str]) -> None:
    """Refuse the claim of a run of another status.

    Raises:
        RunStatusError: It has another one.
    """
    if status in statuses:
        return
    if status == "paused":
        text = f"{run_id} is paused: it cannot be claimed; decide about it, which resumes it as another run"
    elif status in OPEN:
        text = f"{run_id} is {status}, not {' or '.join(sorted(statuses))}: wait until it has ended"
    else:
        text = f"{run_id} has ended ({status}): it cannot be claimed; load it for its result, or start a new run"
    raise RunStatusError(text, run_id=run_id, status=status)


def check_command(run_id: str, status: str) -> None:
    """Refuse a command to a run that has ended.

    Raises:
        RunStatusError: It has.
    """
    if status not in (*OPEN, "paused"):
        text = f"{run_id} has ended ({status}): it takes no commands; start a new run"
        raise RunStatusError(text, run_id=run_id, status=status)


def conflict(run_id: str, key: str) -> CommandConflictError:
    """The error for a second command with the same key."""
    return CommandConflictError(f"{run_id} has a command with the key {key!r} already: the first one counts")
