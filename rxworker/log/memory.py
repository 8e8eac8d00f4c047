"""A log in the memory of one process, for tests and for runs that need not outlive it."""

from __future__ import annotations

import threading
import time
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import islice, takewhile
from typing import final

from msgspec.structs import replace

from rxworker.errors import CommandConflictError, FencedError, LeaseHeldError, RunStatusError
from rxworker.log.base import EventLog, already_stored, no_run
from rxworker.log.format import Entry
from rxworker.log.leases import LEASE
from rxworker.log.store import Append, Codec, StoredRow
from rxworker.log.values import OPEN, Claim, StoredStatus
from rxworker.messages.settings import check_plain


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
        self._rows: dict[str, StoredRow] = {}  # in the order of their revisions
        self._entries: dict[str, list[Entry]] = {}
        self._commands: dict[str, list[tuple[float, str, bytes]]] = {}
        self._numbers: dict[str, int] = {}  # in the order in which they were made
        self._listed: list[str] = []  # without deleted ones, the oldest first
        self._revision = 0
        self._folds: dict[str, tuple[int, bytes]] = {}
        self._bases: dict[str, str] = {}
        self.id = uuid.uuid4().hex

    def _change(self, found: StoredRow, /, **values: object) -> StoredRow:
        """Store other values of a run, as its newest change."""
        self._revision += 1
        self._rows.pop(found.run_id, None)
        changed = self._rows[found.run_id] = replace(found, revision=self._revision, **values)
        return changed

    def _get(self, run_id: str) -> StoredRow:
        found = self._rows.get(run_id)
        if found is None or found.status == "deleted":
            raise no_run(run_id)
        return found

    async def _claim(self, run_id: str, row: bytes | None, statuses: Collection[StoredStatus]) -> Claim:
        now = self._wall()
        with self._lock:
            if row is not None:
                known = self._rows.get(run_id)
                if known is None:
                    known = self._rows[run_id] = StoredRow(run_id, row, "running", 0, 0, "", 0.0, now, now, 0, 0, 0)
                    self._entries[run_id], self._commands[run_id] = [], []
                    self._numbers[run_id] = len(self._numbers)
                    self._listed.append(run_id)
                if known.last_seq or known.status == "deleted":
                    raise already_stored(run_id)
            found = self._get(run_id)
            if row is None:
                check_status(run_id, found.status, statuses)
            if found.owner and found.lease_until > now:
                raise LeaseHeldError(run_id, found.owner, found.lease_until)
            taken = self._change(found, epoch=found.epoch + 1, owner=self.owner, lease_until=now + self.lease)
            return Claim(run_id, taken.epoch, taken.last_seq, self.owner)

    async def _append(self, append: Append) -> bool:
        run = append.claim.run_id
        with self._lock:
            found = self._rows.get(run)
            if found is None or (found.epoch, found.last_seq) != (append.claim.epoch, append.after):
                raise refusal(append, None if found is None else (found.epoch, found.last_seq, found.status))
            self._entries[run] += append.entries
            row, status, size = append.row or found.row, append.status or found.status, found.size + append.size
            self._change(found, last_seq=append.last, size=size, row=row, status=status, updated=self._wall())
        return False

    async def _release(self, claim: Claim) -> None:
        with self._lock:
            found = self._rows.get(claim.run_id)
            if found is not None and found.epoch == claim.epoch:
                self._change(found, owner="", lease_until=0.0)

    def _renew(self, claims: Sequence[Claim]) -> list[str]:
        lost: list[str] = []
        with self._lock:
            until = self._wall() + self.lease
            for claim in claims:
                found = self._rows.get(claim.run_id)
                if found is None or found.epoch != claim.epoch:
                    lost.append(claim.run_id)
                elif found.owner:
                    self._rows[claim.run_id] = replace(found, lease_until=until)
        return lost

    async def _read(self, run_id: str, after: int, limit: int) -> list[Entry]:
        entries = self._entries[self._get(run_id).run_id]
        start = bisect_right(entries, after, key=lambda entry: entry.last)
        return entries[start : start + limit]

    async def _info(self, run_id: str) -> StoredRow | None:
        return self._rows.get(run_id)

    async def _list(
        self, status: StoredStatus | None, before: str, limit: int, *, is_empty: bool = False
    ) -> list[StoredRow]:
        end = len(self._listed)
        if before:
            end = self._index_of(before) if before in self._numbers else 0
        wanted = (
            found
            for at in range(end - 1, -1, -1)
            if ((found := self._rows[self._listed[at]]).last_seq == 0) is is_empty
            and (status is None or found.status == status)
        )
        return [*islice(wanted, limit)]

    def _index_of(self, run_id: str) -> int:
        """Where a run is among the listed ones, or would be."""
        return bisect_left(self._listed, self._numbers[run_id], key=self._numbers.__getitem__)

    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]:
        newer = takewhile(lambda found: found.revision > revision, reversed(self._rows.values()))
        return [*newer][::-1][:limit]

    async def _send(self, run_id: str, key: str, data: bytes) -> int:
        with self._lock:
            found, commands = self._get(run_id), self._commands[run_id]
            check_command(run_id, found.status)
            if key and any(other == key for _, other, _ in commands):
                raise conflict(run_id, key)
            commands.append((self._wall(), key, data))
            return self._change(found, sent=found.sent + 1).sent

    async def _read_commands(self, run_id: str, after: int) -> list[tuple[int, float, bytes]]:
        commands = self._commands[self._get(run_id).run_id]
        return [(number, stored, data) for number, (stored, _, data) in enumerate(commands[after:], after + 1)]

    async def _refer(self, claim: Claim, run_id: str, seq: int) -> bool:
        with self._lock:
            found = self._rows.get(run_id)
            if found is None or found.status == "deleted" or found.last_seq < seq:
                return False
            self._bases[claim.run_id] = run_id
            return True

    async def _referring(self, runs: Collection[str]) -> Sequence[str]:
        return [run for run, base in self._bases.items() if base in runs]

    async def _refold(self, run_id: str, entry: Entry | None, base: str) -> None:
        with self._lock:
            found = self._rows[run_id]
            if entry is None:
                self._rows[run_id] = replace(found, epoch=found.epoch + 1)
            else:
                first, *rest = self._entries[run_id]
                self._rows[run_id] = replace(found, size=found.size + len(entry.body) - len(first.body))
                self._entries[run_id] = [entry, *rest]
            if base:
                self._bases[run_id] = base
            else:
                self._bases.pop(run_id, None)

    async def _prune(self, rows: Sequence[StoredRow]) -> set[str]:
        now = self._wall()
        gone: set[str] = set()
        with self._lock:
            # A run that continues another one is newer.
            for row in sorted(rows, key=lambda row: -self._numbers[row.run_id]):
                run, found = row.run_id, self._rows[row.run_id]
                is_held = found.owner and found.lease_until > now
                is_same = (found.epoch, found.last_seq, found.sent) == (row.epoch, row.last_seq, row.sent)
                if found.status != "deleted" and not is_held and is_same and run not in self._bases.values():
                    del self._listed[self._index_of(run)]
                    self._entries[run], self._commands[run] = [], []
                    self._bases.pop(run, None)
                    self._change(found, row=b"", status="deleted", size=0, sent=0, epoch=found.epoch + 1)
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
