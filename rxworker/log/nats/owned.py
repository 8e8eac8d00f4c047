"""The runs of a NATS log that this process writes: claims, fenced appends, and releases."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import FencedError, LogError, RunStatusError
from rxworker.log.base import already_stored, no_run
from rxworker.log.memory import check_status, refusal
from rxworker.log.nats.connection import EXPECTED, EXPECTED_OF, Connection, SequenceError
from rxworker.log.nats.format import NOTHING, Head, Listed, Owner, Place, append_message, as_raw, from_raw
from rxworker.log.nats.session import Known, Ownership, ServerClock, Session
from rxworker.log.store import Append
from rxworker.log.values import Claim, StoredStatus

TOUCH = 1.0
"""Seconds between two updates of what a list shows of a run, while nothing but its last number changes."""


class _Held(Struct, eq=False):
    """A run that this process writes.

    Attributes:
        owner: Its claim.
        place: Its subjects.
        fence: The sequence number of the claim.
        claimed: When the server stored it.
        head: Its last append, always with the last values, and in ``row_at`` with the sequence number of the message
            that has them.
        lock: Held by an append.
        checked: How often the connection was made when the server still had everything.
        listed: What a list shows of it.
        touched: When that was written.
    """

    owner: Owner
    place: Place
    fence: int
    claimed: float
    head: Head
    lock: asyncio.Lock
    checked: int
    listed: Known | None = None
    touched: float = 0.0


class OwnedRuns(Session):
    """A session that also writes runs.

    Args:
        connection: The connection.
        name: The name of the log.
        clock: The clock of the servers.
        owner: The name of this process in claims.
        watch_subject: The subject on which it is notified of watchers of its runs.
    """

    def __init__(self, connection: Connection, name: str, clock: ServerClock, owner: str, watch_subject: str) -> None:
        super().__init__(connection, name, clock)
        self._owner = owner
        self._watch_subject = watch_subject
        self._held: dict[str, _Held] = {}

    def forget(self, run_id: str) -> None:
        """The run was deleted."""
        self._held.pop(run_id, None)

    async def claim(self, run_id: str, row: bytes | None, lease: float, statuses: Collection[StoredStatus]) -> Claim:
        """As in the base."""
        message_id = uuid.uuid4().hex
        while True:
            found = await self.ownership(run_id)
            if found is None or found.owner.is_deleted:
                if row is None:
                    raise no_run(run_id)
                if found is not None:
                    raise already_stored(run_id)
                known = Owner(run_id, 0, created=time.time())
            else:
                last = await self.last_append(run_id)
                if row is not None and last is not None:
                    raise already_stored(run_id)
                if row is None and last is not None:
                    check_status(run_id, last[1].status, statuses)
                await self.check_free(found)
                known = found.owner
            owner = replace(
                known,
                epoch=known.epoch + 1,
                owner=self._owner,
                lease=lease,
                watch=self._watch_subject,
                row=known.row if row is None else as_raw(row),
            )
            try:
                fence = await self.own(owner, 0 if found is None else found.seq, f"{message_id}.{owner.epoch}")
            except SequenceError:
                continue  # another process was faster
            break
        held = await self._held_of(Ownership(owner, fence, self.clock.now()))
        claim = Claim(run_id, owner.epoch, held.head.last, self._owner)
        self._held[run_id] = held
        if row is None and held.head.last:
            # The owner before may have ended the run between the first look and the new fence, after which it cannot.
            try:
                check_status(run_id, held.head.status, statuses)
            except RunStatusError:
                await self.release(claim)
                raise
        await self._list_held(held)
        return claim

    async def _held_of(self, found: Ownership) -> _Held:
        """The state of a run after its last append."""
        owner, returns = found.owner, self.connection.returns
        head = Head(owner.epoch, 0, 0, 0, 0.0, "running", owner.row)
        last = await self.last_append(owner.run_id)
        if last is not None:
            stored, head = last
            row_at = stored.seq if head.row != NOTHING else head.row_at
            head = replace(head, row=await self.row_of(owner, head), row_at=row_at)
        place = self.place(owner.run_id)
        return _Held(owner, place, found.seq, found.time, head, asyncio.Lock(), returns)

    async def append(self, append: Append) -> None:
        """As in the base."""
        run = append.claim.run_id
        held = self._held.get(run)
        if held is None or held.owner.epoch != append.claim.epoch:
            held = await self._adopt(append)
        async with held.lock:
            if held.head.last != append.after:
                raise refusal(append, (held.owner.epoch, held.head.last, held.head.status))
            try:
                is_listed = await self._append_to(held, append)
                if append.durable or is_listed or time.monotonic() - held.touched > TOUCH:
                    await self._list_held(held)
            except BaseException:
                # It may have been stored, if nothing has answered: the next append reads where the run is.
                if self._held.get(run) is held:
                    del self._held[run]
                raise

    async def _append_to(self, held: _Held, append: Append) -> bool:
        """Append; returns whether the entry of the run in a list has changed."""
        place, before, epoch = held.place, held.head, append.claim.epoch
        last, row, now = append.last, append.row, time.time()
        size, status = before.size + append.size, append.status or before.status
        head = Head(epoch, before.last, last, size, now, status)
        is_new = row is not None and row != from_raw(before.row)
        if row is not None and is_new:
            head = replace(head, row=as_raw(row), row_seq=last)
        else:
            head = replace(head, row_seq=before.row_seq, row_at=before.row_at)
        message = append_message(head, append.entries, self.connection.part_size)
        expected = {EXPECTED: str(held.fence), EXPECTED_OF: place.owner}

        async def check() -> None:
            if held.checked != self.connection.returns:
                await self._check_kept(held)

        try:
            seq = await self.connection.publish(
                place.entries, message, expected, f"{place.entries}.{epoch}.{before.last}.{now}", check
            )
        except SequenceError:
            raise await self._refusal(append) from None
        if is_new:
            if not seq:
                stored = await self.last_append(append.claim.run_id)
                seq = 0 if stored is None else stored[0].seq
            held.head = replace(head, row_at=seq)
        else:
            held.head = replace(head, row=before.row)
        return is_new or status != before.status

    async def _check_kept(self, held: _Held) -> None:
        """Check, after the connection was lost, that the server still has everything that it acknowledged."""
        run, returns = held.owner.run_id, self.connection.returns
        last = await self.last_append(run)
        number = 0 if last is None else last[1].last
        if number < held.head.last:
            raise LogError(
                f"NATS has lost the records {number + 1} to {held.head.last} of {run}, which it had acknowledged: "
                "nothing was written after them. Recover the run; to lose nothing when a server loses power, keep "
                "replicas, or set sync_interval: always"
            )
        held.checked = returns

    async def _adopt(self, append: Append) -> _Held:
        """The state of a run that this process has claimed, after an append that has failed, or after its release."""
        claim = append.claim
        found = await self.ownership(claim.run_id)
        if found is None or found.owner.is_deleted or found.owner.epoch != claim.epoch:
            raise await self._refusal(append)
        held = await self._held_of(found)
        self._held[claim.run_id] = held
        return held

    async def _refusal(self, append: Append) -> FencedError:
        found = await self.ownership(append.claim.run_id)
        if found is None or found.owner.is_deleted:
            return refusal(append, None)
        last = await self.last_append(append.claim.run_id)
        return refusal(append, (found.owner.epoch, 0 if last is None else last[1].last, "running"))

    async def release(self, claim: Claim, owner: str = "", seconds: float = 0.0) -> None:
        """As in the base; or give the claim to another owner, with a lease of so many seconds from now."""
        held = self._held.get(claim.run_id)
        if held is not None and held.owner.epoch == claim.epoch:
            del self._held[claim.run_id]
        found = await self.ownership(claim.run_id)
        if found is None or found.owner.epoch != claim.epoch or not found.owner.owner:
            return
        until = self.clock.now() + seconds
        released = replace(found.owner, owner=owner, lease=seconds, watch="")
        try:
            await self.own(released, found.seq, uuid.uuid4().hex)
        except SequenceError:
            return  # another process has claimed it

        def free(row: Listed) -> Listed | None:
            lease = until - row.claimed if owner else 0.0
            return replace(row, owner=owner, lease=lease) if row.epoch == claim.epoch else None

        await self.put_row(claim.run_id, free)

    async def _list_held(self, held: _Held) -> None:
        """Write what a list shows of a run of this process."""
        owner, head = held.owner, held.head
        held.touched = time.monotonic()

        new = Listed(
            owner.run_id, head.row, head.status, owner.epoch, head.last, owner.owner, owner.lease, held.claimed,
            owner.created, time.time(), head.size, 0, 0,
        )  # fmt: skip

        def fill(row: Listed) -> Listed | None:
            return None if row.epoch > owner.epoch else replace(new, sent=row.sent)

        held.listed = await self.put_row(owner.run_id, fill, held.listed, new)
