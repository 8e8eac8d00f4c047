"""The last values of all runs of a NATS log, in memory.

They are read at the first request for a list, and followed from then on: a list of 10,000 runs costs one request. A
list contains everything that was stored before its request.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Callable
from itertools import islice

from rxworker.errors import LogError
from rxworker.log.codec import StoredRow
from rxworker.log.nats_connection import Stored
from rxworker.log.nats_feed import Feed
from rxworker.log.nats_format import Beat, Listed, decode
from rxworker.log.nats_lease import lease_end
from rxworker.log.nats_session import Session
from rxworker.log.values import StoredStatus

logger = logging.getLogger("rxworker.log")


class Index(Feed):
    """The last values of all runs.

    Args:
        session: The messages of the log.
        changed: Called when a run has changed.
    """

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self._session = session
        self._changed = changed
        # In the order of their revisions, the newest last.
        self._rows: dict[str, tuple[int, Listed]] = {}
        self._orders: list[tuple[int, str]] = []  # of those that are not deleted
        self._beats: dict[str, tuple[float, Beat]] = {}
        self._seq = 0
        self._floor = 0
        super().__init__(session.connection, f"{session.name}-rows", [f"{session.name}.>"])

    async def list(self, status: StoredStatus | None, before: str, limit: int, is_empty: bool) -> list[StoredRow]:
        """Runs, the newest first: those with entries, or those without."""
        await self._catch_up()
        end = len(self._orders)
        if before:
            known = self._rows.get(before)
            end = 0 if known is None else bisect_left(self._orders, (self._order(*known), before))
        wanted = (
            found
            for at in range(end - 1, -1, -1)
            if ((found := self._rows[self._orders[at][1]])[1].last_seq == 0) is is_empty
            and (status is None or found[1].status == status)
        )
        return [self._stored(*found) for found in islice(wanted, limit)]

    async def changed_since(self, revision: int, limit: int) -> list[StoredRow]:
        """The runs that have changed since a revision, in the order of the changes."""
        await self.ready()
        changed: list[tuple[int, Listed]] = []
        for found in reversed(self._rows.values()):
            if found[0] <= revision:
                break
            changed.append(found)
        return [self._stored(*found) for found in changed[::-1][:limit]]

    async def _catch_up(self) -> None:
        last = await self._session.read_time()
        await self.ready()
        if self._seq < last:
            await self._connection.arrival(self._reached.add(last), "the list of runs")

    def _stored(self, revision: int, row: Listed) -> StoredRow:
        until = lease_end(row, row.claimed, self._beats.get(row.owner))
        return row.stored(revision, self._session.clock.wall(until))

    def _order(self, revision: int, row: Listed) -> int:
        return row.order or revision

    def _began(self) -> None:
        self._rows, self._orders, self._beats = {}, [], {}

    def _receive(self, message: Stored) -> bool:
        try:
            self._take(message)
        except LogError as error:  # one that cannot be read must not hide the others
            logger.warning("a message of the list is left out: %s", error)
        self._advance(message.seq)
        return True

    def _take(self, message: Stored) -> None:
        if message.subject.startswith(f"{self._session.name}.row."):
            row = decode(message.data, Listed, self._session.name)
            known = self._rows.pop(row.run_id, None)
            was_listed = known is not None and known[1].status != "deleted"
            place = (self._order(message.seq, row), row.run_id)
            if row.status != "deleted" and not was_listed:
                insort(self._orders, place)
            elif row.status == "deleted" and was_listed:
                del self._orders[bisect_left(self._orders, place)]
            self._rows[row.run_id] = message.seq, row
            self._changed()
        elif message.subject.startswith(f"{self._session.name}.beat."):
            beat = decode(message.data, Beat, self._session.name)
            self._beats[beat.owner] = message.time, beat

    async def _prepare(self) -> None:
        self._floor = await self._session.read_time()

    def _caught_up(self) -> None:
        self._advance(self._floor)

    def _advance(self, seq: int) -> None:
        self._seq = max(self._seq, seq)
        self._reached.reach(self._seq)
