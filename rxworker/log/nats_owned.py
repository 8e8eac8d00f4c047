"""The runs of a NATS log that this process writes: claims, fenced appends, and releases."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection

from msgspec import Raw, Struct
from msgspec.structs import replace

from rxworker.errors import FencedError, LogError, RunStatusError
from rxworker.log.base import already_stored, no_run
from rxworker.log.memory import check_status, refusal
from rxworker.log.nats_connection import EXPECTED, EXPECTED_OF, SequenceError
from rxworker.log.nats_format import (
    NOTHING,
    Head,
    Listed,
    Owner,
    Place,
    append_message,
    as_raw,
    from_raw,
)
from rxworker.log.nats_session import Known, Ownership, Session
from rxworker.log.store import Append
from rxworker.log.values import Claim, StoredStatus

TOUCH = 1.0
"""Seconds between two updates of what a list shows of a run, while nothing but its last number changes."""


class _Held(Struct, eq=False):
    """A run that this process writes."""

    owner: Owner
    place: Place
    fence: int
    claimed: float
    row: Raw
    lock: asyncio.Lock
    last_seq: int = 0
    size: int = 0
    status: StoredStatus = "running"
    row_seq: int = 0
    row_at: int = 0
    listed: Known | None = None
    touched: float = 0.0
    checked: int = 0


class OwnedRuns:
    """Claims and appends.

    Args:
        session: The messages of the log.
        owner: The name of this process in claims.
        watch_subject: The subject on which it is notified of watchers of its runs.
    """

    def __init__(self, session: Session, owner: str, watch_subject: str) -> None:
        self._session = session
        self._name = owner
        self._watch_subject = watch_subject
        self._held: dict[str, _Held] = {}

    def forget(self, run_id: str) -> None:
        """The run was deleted."""
        self._held.pop(run_id, None)

    async def claim(
        self,
        run_id: str,
        create: bool,
        row: bytes,
        lease: float,
        statuses: Collection[StoredStatus],
    ) -> Claim:
        """As in the base."""
        message_id = uuid.uuid4().hex
        while True:
            found = await self._session.ownership(run_id)
            if found is None or found.owner.is_deleted:
                if not create:
                    raise no_run(run_id)
                if found is not None:
                    raise already_stored(run_id)
                known = Owner(run_id, 0, created=time.time())
            else:
                last = await self._session.last_append(run_id)
                if create and last is not None:
                    raise already_stored(run_id)
                if not create and last is not None:
                    check_status(run_id, last[1].status, statuses)
                await self._session.check_free(found)
                known = found.owner
            owner = replace(
                known,
                epoch=known.epoch + 1,
                owner=self._name,
                lease=lease,
                watch=self._watch_subject,
                row=as_raw(row) if create else known.row,
            )
            try:
                fence = await self._session.own(
                    owner, 0 if found is None else found.seq, f"{message_id}.{owner.epoch}"
                )
            except SequenceError:
                continue  # another process was faster
            break
        held = await self._held_of(Ownership(owner, fence, self._session.clock.now()))
        claim = Claim(run_id, owner.epoch, held.last_seq, self._name)
        self._held[run_id] = held
        if not create and held.last_seq:
            # The owner before may have ended the run between the first look and the new fence, after which it cannot.
            try:
                check_status(run_id, held.status, statuses)
            except RunStatusError:
                await self.release(claim)
                raise
        await self._list_held(held)
        return claim

    async def _held_of(self, found: Ownership) -> _Held:
        """The state of a run after its last append."""
        owner = found.owner
        held = _Held(
            owner,
            self._session.place(owner.run_id),
            found.seq,
            found.time,
            owner.row,
            asyncio.Lock(),
        )
        held.checked = self._session.connection.returns
        last = await self._session.last_append(owner.run_id)
        if last is not None:
            stored, head = last
            held.last_seq, held.size, held.status = head.last, head.size, head.status
            held.row = await self._session.row_of(owner, head)
            held.row_seq = head.row_seq
            held.row_at = stored.seq if head.row != NOTHING else head.row_at
        return held

    async def append(self, append: Append) -> None:
        """As in the base."""
        run = append.claim.run_id
        held = self._held.get(run)
        if held is None or held.owner.epoch != append.claim.epoch:
            held = await self._adopt(append)
        async with held.lock:
            if held.last_seq != append.after:
                raise refusal(append, (held.owner.epoch, held.last_seq, held.status))
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
        place, after, epoch = held.place, append.after, append.claim.epoch
        last, row, now = append.last, append.row, time.time()
        is_new = row is not None and row != from_raw(held.row)
        head = Head(
            epoch,
            after,
            last,
            held.size + append.size,
            now,
            append.status or held.status,
            as_raw(row) if is_new and row is not None else NOTHING,
            last if is_new else held.row_seq,
            0 if is_new else held.row_at,
        )
        message = append_message(head, append.entries, self._session.connection.part_size)
        expected = {EXPECTED: str(held.fence), EXPECTED_OF: place.owner}

        async def check() -> None:
            if held.checked != self._session.connection.returns:
                await self._check_kept(held)

        try:
            seq = await self._session.connection.publish(
                place.entries, message, expected, f"{place.entries}.{epoch}.{after}.{now}", check
            )
        except SequenceError:
            raise await self._refusal(append) from None
        if is_new:
            if not seq:
                stored = await self._session.last_append(append.claim.run_id)
                seq = 0 if stored is None else stored[0].seq
            held.row, held.row_seq, held.row_at = head.row, last, seq
        is_listed = is_new or head.status != held.status
        held.last_seq, held.size, held.status = last, head.size, head.status
        return is_listed

    async def _check_kept(self, held: _Held) -> None:
        """Check, after the connection was lost, that the server still has everything that it acknowledged."""
        run, returns = held.owner.run_id, self._session.connection.returns
        last = await self._session.last_append(run)
        number = 0 if last is None else last[1].last
        if number < held.last_seq:
            raise LogError(
                f"NATS has lost the records {number + 1} to {held.last_seq} of {run}, which it had acknowledged: nothing was written after them. "
                "Recover the run; to lose nothing when a server loses power, keep replicas, or set sync_interval: always"
            )
        held.checked = returns

    async def _adopt(self, append: Append) -> _Held:
        """The state of a run that this process has claimed, after an append that has failed, or after its release."""
        claim = append.claim
        found = await self._session.ownership(claim.run_id)
        if found is None or found.owner.is_deleted or found.owner.epoch != claim.epoch:
            raise await self._refusal(append)
        held = await self._held_of(found)
        self._held[claim.run_id] = held
        return held

    async def _refusal(self, append: Append) -> FencedError:
        found = await self._session.ownership(append.claim.run_id)
        if found is None or found.owner.is_deleted:
            return refusal(append, None)
        last = await self._session.last_append(append.claim.run_id)
        number = 0 if last is None else last[1].last
        return refusal(append, (found.owner.epoch, number, "running"))

    async def release(self, claim: Claim) -> None:
        """As in the base."""
        held = self._held.get(claim.run_id)
        if held is not None and held.owner.epoch == claim.epoch:
            del self._held[claim.run_id]
        found = await self._session.ownership(claim.run_id)
        if found is None or found.owner.epoch != claim.epoch or not found.owner.owner:
            return
        released = replace(found.owner, owner="", lease=0.0, watch="")
        try:
            await self._session.own(released, found.seq, uuid.uuid4().hex)
        except SequenceError:
            return  # another process has claimed it

        def free(row: Listed | None) -> Listed | None:
            if row is None or row.epoch != claim.epoch:
                return None
            return replace(row, owner="", lease=0.0)

        await self._session.put_row(claim.run_id, None, free)

    async def _list_held(self, held: _Held) -> None:
        """Write what a list shows of a run of this process."""
        owner = held.owner
        held.touched = time.monotonic()

        def fill(row: Listed | None) -> Listed | None:
            if row is not None and row.epoch > owner.epoch:
                return None
            sent = 0 if row is None else row.sent
            return Listed(
                owner.run_id, held.row, held.status, owner.epoch, held.last_seq, owner.owner, owner.lease, held.claimed,
                owner.created, time.time(), held.size, sent, 0,
            )  # fmt: skip

        held.listed = await self._session.put_row(owner.run_id, held.listed, fill)
