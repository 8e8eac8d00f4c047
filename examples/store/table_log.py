"""A log in a table: a store of your own, as small as one can be.

docs/how-to/add-a-store.md describes its methods. In place of the table think of a database that several processes
share.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection, Sequence

from msgspec import Struct

from rxworker.errors import LeaseHeldError
from rxworker.log import Claim, EventLog
from rxworker.log.base import already_stored, no_run
from rxworker.log.format import Entry
from rxworker.log.memory import check_command, check_status, conflict, refusal
from rxworker.log.store import Append, Codec, StoredRow
from rxworker.log.values import StoredStatus

POLL = 0.02
"""Seconds between two looks for changes of other processes."""


class Stored(Struct):
    """A run as it is stored."""

    row: bytes
    created: float
    status: StoredStatus = "running"
    epoch: int = 0
    last_seq: int = 0
    owner: str = ""
    lease_until: float = 0.0
    updated: float = 0.0
    size: int = 0
    revision: int = 0
    entries: list[Entry] = []
    commands: list[tuple[float, str, bytes]] = []


class TableLog(EventLog):
    """A log in a table."""

    def __init__(
        self,
        table: dict[str, Stored],
        folds: dict[str, tuple[int, bytes]] | None = None,
        *,
        codec: Codec | None = None,
        owner: str = "",
        lease: float = 15.0,
    ) -> None:
        super().__init__(codec=codec, owner=owner, lease=lease)
        self.id = f"table-{id(table)}"
        self._table = table
        self._folds = {} if folds is None else folds
        self._lock = threading.Lock()  # leases are renewed in another thread
        self._polling: asyncio.Task[None] | None = None

    @property
    def _revision(self) -> int:
        return max((stored.revision for stored in self._table.values()), default=0)

    def _get(self, run_id: str) -> Stored:
        stored = self._table.get(run_id)
        if stored is None or stored.status == "deleted":
            raise no_run(run_id)
        return stored

    def _row(self, run_id: str) -> StoredRow:
        s = self._table[run_id]
        state = (run_id, s.row, s.status, s.epoch, s.last_seq, s.owner, s.lease_until)
        return StoredRow(*state, s.created, s.updated, s.size, s.revision, len(s.commands))

    async def _claim(self, run_id: str, row: bytes | None, statuses: Collection[StoredStatus]) -> Claim:
        with self._lock:
            now = time.time()
            if row is not None:
                stored = self._table.setdefault(run_id, Stored(row, now, updated=now))
                if stored.last_seq or stored.status == "deleted":
                    raise already_stored(run_id)
            else:
                stored = self._get(run_id)
                check_status(run_id, stored.status, statuses)
            if stored.owner and stored.lease_until > now:
                raise LeaseHeldError(run_id, stored.owner, stored.lease_until)
            stored.epoch += 1
            stored.owner, stored.lease_until = self.owner, now + self.lease
            stored.revision = self._revision + 1
            return Claim(run_id, stored.epoch, stored.last_seq, self.owner)

    async def _append(self, append: Append) -> bool:
        with self._lock:
            stored = self._table.get(append.claim.run_id)
            found = stored and (stored.epoch, stored.last_seq, stored.status)
            is_same = found is not None and found[:2] == (append.claim.epoch, append.after)
            if stored is None or not is_same:
                raise refusal(append, found)
            stored.entries += append.entries
            stored.last_seq = append.last
            stored.size += append.size
            if append.row is not None and append.status is not None:
                stored.row, stored.status = append.row, append.status
            stored.updated, stored.revision = time.time(), self._revision + 1
        return False

    async def _release(self, claim: Claim) -> None:
        with self._lock:
            stored = self._table.get(claim.run_id)
            if stored is not None and stored.epoch == claim.epoch:
                stored.owner, stored.lease_until = "", 0.0
                stored.revision = self._revision + 1

    def _renew(self, claims: Sequence[Claim]) -> list[str]:
        lost: list[str] = []
        with self._lock:
            for claim in claims:
                stored = self._table.get(claim.run_id)
                if stored is None or stored.epoch != claim.epoch:
                    lost.append(claim.run_id)
                elif stored.owner:
                    stored.lease_until = time.time() + self.lease
        return lost

    async def _read(self, run_id: str, after: int, limit: int) -> list[Entry]:
        return [entry for entry in self._get(run_id).entries if entry.last > after][:limit]

    async def _info(self, run_id: str) -> StoredRow | None:
        return self._row(run_id) if run_id in self._table else None

    async def _list(
        self, status: StoredStatus | None, before: str, limit: int, *, is_empty: bool = False
    ) -> list[StoredRow]:
        runs = list(self._table)  # in the order in which they were created
        if before:
            runs = runs[: runs.index(before)]
        found = [
            run
            for run in reversed(runs)
            if (stored := self._table[run]).status in (status or stored.status, status)
            and stored.status != "deleted"
            and (stored.last_seq == 0) is is_empty
        ]
        return [self._row(run) for run in found[:limit]]

    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]:
        newer = [run for run, stored in self._table.items() if stored.revision > revision]
        newer.sort(key=lambda run: self._table[run].revision)
        return [self._row(run) for run in newer[:limit]]

    async def _send(self, run_id: str, key: str, data: bytes) -> int:
        with self._lock:
            stored = self._get(run_id)
            check_command(run_id, stored.status)
            if key and any(other == key for _, other, _ in stored.commands):
                raise conflict(run_id, key)
            stored.commands.append((time.time(), key, data))
            stored.revision = self._revision + 1
            return len(stored.commands)

    async def _read_commands(self, run_id: str, after: int) -> list[tuple[int, float, bytes]]:
        commands = enumerate(self._get(run_id).commands, 1)
        return [(number, at, data) for number, (at, _, data) in commands if number > after]

    async def _prune(self, rows: Sequence[StoredRow]) -> set[str]:
        gone: set[str] = set()
        with self._lock:
            for row in rows:
                stored = self._table[row.run_id]
                is_held = stored.owner and stored.lease_until > time.time()
                same = (stored.epoch, stored.last_seq, len(stored.commands)) == (row.epoch, row.last_seq, row.sent)
                if same and not is_held and stored.status != "deleted":
                    stored.row, stored.status, stored.entries, stored.commands = b"", "deleted", [], []
                    stored.size, stored.epoch, stored.revision = 0, stored.epoch + 1, self._revision + 1
                    gone.add(row.run_id)
        return gone

    async def _load_fold(self, key: str) -> tuple[int, bytes] | None:
        return self._folds.get(key)

    async def _save_fold(self, key: str, expected: int, data: bytes) -> int:
        if self._folds.get(key, (0, b""))[0] != expected:
            return 0
        self._folds[key] = expected + 1, data
        return expected + 1

    def _follow_started(self, run_id: str) -> None:
        if self._polling is None:
            # From the revision of now: a change before the task begins must not be missed.
            poll = self._poll(self._revision)
            self._polling = asyncio.get_running_loop().create_task(poll)

    async def _poll(self, seen: int) -> None:
        while self.followers.runs:
            await asyncio.sleep(POLL)
            for row in await self._changed_since(seen, 100):
                self.followers.wake(row.run_id)
                seen = row.revision
        self._polling = None

    async def _close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
