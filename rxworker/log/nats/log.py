"""A log in NATS JetStream, for many machines.

Theory of operation. `format` describes what is stored. A claim is a message under the owner's subject of a run.
Each append expects that this subject has not changed since (`Nats-Expected-Last-Subject-Sequence` with `-Subject`), so
that the server refuses the appends of an owner that was taken over, also those that were delayed in a network. Appends
of different runs are published without waiting for each other; those of one run one after the other, since a lost one
in the middle would leave a gap.

What a list shows is in a stream of its own, written after an append that changes it, and otherwise at most once a
second. It is a copy: the last append of a run names its status and its last values, and `info` repairs a copy that is
behind because its writer ended between the two.

The lease of a claim begins with the time that the server gave to the claim, or to the last renewal by the process that
holds it. Both are compared with the server's time now, so that the clocks of the machines that run workers do not
matter.

Requests that are repeated, and acknowledgements that are lost, are in `connection`; single messages, renewals and the
runs of this process in `session`; followers in `feed`; lists in `Index`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
import uuid
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, final

from msgspec.structs import replace

from rxworker.errors import ConfigurationError, LeaseHeldError, LogError
from rxworker.log.base import EventLog
from rxworker.log.format import Entry
from rxworker.log.leases import LEASE
from rxworker.log.memory import check_command, conflict
from rxworker.log.nats.connection import EXPECTED, PATIENCE, Connection, SequenceError, Stored
from rxworker.log.nats.feed import Feed, Tail
from rxworker.log.nats.format import (
    NOTHING,
    Address,
    Beat,
    Listed,
    Owner,
    SentCommand,
    as_raw,
    command_message,
    decode,
    from_raw,
    subject_token,
)
from rxworker.log.nats.session import OwnedRuns, Renewer, ServerClock, Session, create, prepare
from rxworker.log.store import ALL_RUNS, CALLS, Append, Codec, StoredRow
from rxworker.log.values import LATER, Claim, StoredStatus
from rxworker.tools.cancellation import keep

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

logger = logging.getLogger("rxworker.log")


class Index(Feed):
    """The last values of all runs, in memory.

    They are read at the first request for a list, and followed from then on: a list of 10,000 runs costs one request. A
    list contains everything that was stored before its request.

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
            end = 0 if known is None else bisect_left(self._orders, (known[1].order or known[0], before))
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
        newer = takewhile(lambda found: found[0] > revision, reversed(self._rows.values()))
        return [self._stored(*found) for found in [*newer][::-1][:limit]]

    async def _catch_up(self) -> None:
        last = await self._session.read_time()
        await self.ready()
        if self._seq < last and not self.is_closed:
            await self._connection.arrival(self._reached.add(last), "the list of runs")

    def _stored(self, revision: int, row: Listed) -> StoredRow:
        return self._session.stored(revision, row, self._beats.get(row.owner))

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
            place = (row.order or message.seq, row.run_id)
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


WATCHED = 10.0
"""Seconds for which an owner takes its run for watched."""
AT_ONCE = 50
"""How many runs are deleted at once."""


@final
class NatsLog(EventLog):
    """A log in NATS JetStream (``pip install "/path/to/the/checkout[nats]"``; nats-server 2.12 or later).

    Any number of processes on any machines may open it.

    It connects when it is first used, and connects again by itself.

    Args:
        address: The servers, and the name of the log: ``nats://user:password@host:4222/name``; several servers are
            separated by commas.
        replicas: How many servers of a cluster keep each message of a new log, for example 3; also ``?replicas=3`` in
            the address.
        streams: The number of streams of a new log for its runs. That of a log that exists cannot be changed.
        options: More arguments of ``nats.connect``, for example ``user_credentials``, ``token`` or ``tls``.
        patience: Seconds for which the log waits for servers that are away, before it raises.
        codec: Applied to what is stored.
        owner: The name of this process in claims.
        lease: Seconds that a claim lasts without a heartbeat.

    Raises:
        ConfigurationError: The address is not that of a NATS log.
    """

    def __init__(
        self,
        address: str,
        *,
        replicas: int | None = None,
        streams: int | None = None,
        options: Mapping[str, object] | None = None,
        patience: float = PATIENCE,
        codec: Codec | None = None,
        owner: str = "",
        lease: float = LEASE,
    ) -> None:
        super().__init__(codec=codec, owner=owner, lease=lease)
        self._address = Address(address)
        if streams is not None and not 1 <= streams <= 1000:
            raise ConfigurationError(f"streams={streams}: a log has 1 to 1000 streams")
        self.id = f"nats-{self._address.name}"
        self._replicas = replicas or self._address.replicas or 1
        self._wanted = streams
        self._options = dict(options or {})
        self.patience = patience
        self._clock = ServerClock()
        self._opening: asyncio.Task[OwnedRuns] | None = None
        self._session: OwnedRuns | None = None
        self._tails: dict[str, Tail] = {}
        self._index: Index | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # The watchers of the runs of this process
        self._watched: dict[str, float] = {}
        self._watch_subject = f"{self._address.name}.watch.{subject_token(self.owner)}"
        self._marks = 0  # the generation of the connection with the subscription
        self._marking: asyncio.TimerHandle | None = None
        self._calls: list[Subscription] = []
        self._renewer = Renewer(self._address, self._options, self.owner)

    calls = True

    def __repr__(self) -> str:
        return f"NatsLog({str(self._address)!r})"

    async def _open(self) -> OwnedRuns:
        """Connect, if it has not on this event loop."""
        session, loop = self._session, asyncio.get_running_loop()
        if session is not None:
            if session.connection.loop is loop:
                return session
            # The loop before has ended, and its tasks with it.
            self._session = self._opening = self._index = None
            self._marks, self._marking = 0, None
            self._tails.clear()
        if self._opening is None or self._opening.done():  # the last one has failed
            self._opening = loop.create_task(self._connect())
        return await asyncio.shield(self._opening)

    async def _connect(self) -> OwnedRuns:
        connection = Connection(
            self._address,
            self._options,
            label=f"rxworker {self.owner}",
            patience=self.patience,
            on_return=self._returned,
        )
        session = OwnedRuns(connection, self._address.name, self._clock, self.owner, self._watch_subject)
        try:
            await prepare(session, self._address, self._wanted, self._replicas)
        except BaseException:
            await connection.close()
            raise
        self._session = session
        return session

    def _returned(self) -> None:
        """The connection was made again."""
        for tail in self._tails.values():
            tail.start()
        if self._index is not None:
            self._index.start()
        if self._session is not None and self._marks:
            self._start(self._receive_marks(self._session))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        keep(work, self._tasks)

    # Owners

    async def _claim(self, run_id: str, row: bytes | None, statuses: Collection[StoredStatus]) -> Claim:
        session = await self._open()
        await self._receive_marks(session)
        claim = await session.claim(run_id, row, self.lease, statuses)
        self._expect(run_id, claim.last_seq)
        return claim

    async def _claim_any(self, runs: Sequence[str], statuses: Collection[StoredStatus]) -> Claim | None:
        # Those that look at the same moment do not try the same ones in the same order.
        rest = random.sample(runs[1:], len(runs) - 1)
        return await super()._claim_any([runs[0], *rest], statuses)

    async def _await_call(self, kinds: Sequence[str]) -> None:
        connection = (await self._open()).connection
        await self._dismiss_call()

        async def called(_: Msg) -> None:
            await self._dismiss_call()
            self.followers.wake(CALLS)

        prefix = self._address.name
        works = [f"{prefix}.work.{subject_token(kind)}" for kind in kinds] or [f"{prefix}.work.*"]
        for subject, queue in [*((each, "work") for each in works), (f"{prefix}.workers", "")]:
            subscribe = partial(connection.subscribe, subject, called, queue)
            calls = await connection.persist(subscribe)
            self._calls.append(calls)
            await calls.unsubscribe(1)  # the server sends one call

    async def _dismiss_call(self) -> None:
        calls, self._calls = self._calls, []
        for each in calls:
            with contextlib.suppress(Exception):  # it may belong to a connection that was closed
                await each.unsubscribe()

    async def _call(self, kind: str, to_all: bool) -> None:
        subject = "workers" if to_all else f"work.{subject_token(kind)}"
        await (await self._open()).connection.emit(f"{self._address.name}.{subject}")

    async def _append(self, append: Append) -> bool:
        run, session = append.claim.run_id, await self._open()
        await session.append(append)
        self._expect(run, append.last)
        return run in self._watched and self._watched[run] > time.monotonic()

    async def _release(self, claim: Claim) -> None:
        self._watched.pop(claim.run_id, None)
        await (await self._open()).release(claim)

    async def _postpone(self, claim: Claim, until: float) -> None:
        self._watched.pop(claim.run_id, None)
        await (await self._open()).release(claim, LATER, until - time.time())

    def _renew(self, claims: Sequence[Claim]) -> list[str]:
        return [] if self._session is None else self._renewer.renew(claims, self.lease, self._session.streams)

    # What lists show

    async def _info(self, run_id: str) -> StoredRow | None:
        session = await self._open()
        known, last = await asyncio.gather(session.row(run_id), session.last_append(run_id))
        if known is None:
            return None
        if last is not None and known[1].status != "deleted":
            head = last[1]
            row = known[1]
            if head.row_seq > row.last_seq or (head.last >= row.last_seq and head.status != row.status):
                known = await session.repair(run_id, known, head)
            if head.last > known[1].last_seq:
                row = replace(known[1], last_seq=head.last, size=head.size, updated=head.time)
                known = known[0], row
            self._expect(run_id, head.last)
        return session.stored(*known, await session.beat(known[1].owner))

    async def _list(
        self, status: StoredStatus | None, before: str, limit: int, *, is_empty: bool = False
    ) -> list[StoredRow]:
        while True:
            index = await self._rows()
            rows = await index.list(status, before, limit, is_empty)
            if self.is_closed or not index.is_closed:  # as `_changed_since` does while others read it
                return rows

    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]:
        if ALL_RUNS in self.followers.runs:
            return await (await self._rows()).changed_since(revision, limit)
        # Who only looks for runs now and then is not sent each change.
        index, self._index = self._index, None
        if index is not None:
            self._start(index.close())
        return await (await self._open()).changed_since(revision)

    async def _rows(self) -> Index:
        session = await self._open()
        if self._index is None:
            self._index = Index(session, lambda: self.followers.wake(ALL_RUNS))
        return self._index

    async def _load_fold(self, key: str) -> tuple[int, bytes] | None:
        session = await self._open()
        subject = f"{session.name}.fold.{subject_token(key)}"
        found = await session.connection.last(f"{session.name}-folds", subject)
        return None if found is None else (found.seq, found.data)

    async def _save_fold(self, key: str, expected: int, data: bytes) -> int:
        session = await self._open()
        connection, name = session.connection, session.name
        if not expected:  # logs of earlier versions have no such stream
            most: dict[str, object] = {"max_msgs_per_subject": 1}
            await create(connection, f"{name}-folds", [f"{name}.fold.*"], self._replicas, most)
        subject = f"{name}.fold.{subject_token(key)}"
        try:
            return await connection.publish(subject, data, {EXPECTED: str(expected)}, uuid.uuid4().hex)
        except SequenceError:
            return 0

    # Readers

    async def _read(self, run_id: str, after: int, limit: int) -> list[Entry]:
        session = await self._open()
        tail = self._tails.get(run_id)
        if tail is None or not tail.has_entries:
            return await self._read_stream(session, run_id, after)
        await tail.reach()
        if tail.error is not None:
            raise LogError(str(tail.error))
        # The replica that it follows may be behind, and not have the owner yet.
        is_known = not tail.is_closed and tail.owner is not None and not tail.owner.is_deleted
        kept = tail.after(after, limit) if is_known else None
        return await self._read_stream(session, run_id, after) if kept is None else kept

    async def _read_stream(self, session: OwnedRuns, run_id: str, after: int) -> list[Entry]:
        entries = await session.history(run_id, after)
        if not entries:
            await session.existing(run_id)
        return entries

    def _expect(self, run_id: str, number: int) -> None:
        """A record of this number is stored, so that a reader in this process must not miss it."""
        tail = self._tails.get(run_id)
        if tail is not None:
            tail.expected = max(tail.expected, number)

    def _follow_started(self, run_id: str) -> None:
        if run_id not in (ALL_RUNS, CALLS):
            self._start(self._follow(run_id))

    def _follow_ended(self, run_id: str) -> None:
        if run_id in self._tails and not self.is_closed:
            self._start(self._unfollow(run_id))

    async def _follow(self, run_id: str) -> None:
        try:
            session = await self._open()
        except LogError:
            return  # the reader raises it
        tail, has_entries = self._tails.get(run_id), self.followers.has_reader(run_id)
        if (
            run_id not in self.followers.runs
            or self.is_closed
            or (tail is not None and (tail.has_entries or not has_entries))
        ):
            return
        self._tails[run_id] = Tail(session, run_id, has_entries, partial(self.followers.wake, run_id), self._mark)
        if self._marking is None:
            self._mark_all()
        if tail is not None:
            await tail.close()

    async def _unfollow(self, run_id: str) -> None:
        if run_id not in self.followers.runs and (tail := self._tails.pop(run_id, None)) is not None:
            await tail.close()

    # Watchers

    async def _receive_marks(self, session: OwnedRuns) -> None:
        """Receive notifications of watchers of the runs of this process."""
        connection = session.connection
        if self._marks == connection.generation:
            return

        async def marked(message: Msg) -> None:
            self._watched[message.data.decode()] = time.monotonic() + WATCHED

        await connection.persist(lambda: connection.subscribe(self._watch_subject, marked))
        self._marks = connection.generation

    def _mark(self, owner: Owner) -> None:
        """Request that the owner of a run writes more often."""
        tail, session = self._tails.get(owner.run_id), self._session
        if tail is None or session is None or not tail.has_entries:
            return
        if owner.owner and owner.owner != self.owner:
            self._start(session.connection.emit(owner.watch, owner.run_id.encode()))

    def _mark_all(self) -> None:
        for tail in self._tails.values():
            if tail.owner is not None:
                self._mark(tail.owner)
        is_needed = self._tails and not self.is_closed
        loop = asyncio.get_running_loop()
        self._marking = loop.call_later(WATCHED / 2, self._mark_all) if is_needed else None

    # Commands

    async def _send(self, run_id: str, key: str, data: bytes) -> int:
        session = await self._open()
        await session.existing(run_id)
        last = await session.last_append(run_id)
        check_command(run_id, "running" if last is None else last[1].status)
        number, message_id = 0, uuid.uuid4().hex
        place = session.place(run_id)
        while True:
            if key:
                sent = await session.commands(run_id, number)
                number = sent[-1].number if sent else number
                if any(command.key == key for command in sent):
                    await self._count_commands(session, run_id, number)
                    raise conflict(run_id, key)
            else:
                number = await session.last_command(run_id)
            command = SentCommand(number + 1, key, time.time(), as_raw(data))
            try:
                await session.connection.publish(
                    f"{place.commands}.{number + 1}",
                    command_message(command, session.connection.part_size),
                    {EXPECTED: "0"},
                    f"{message_id}.{number + 1}",
                )
            except SequenceError:
                continue  # another process was faster
            await self._count_commands(session, run_id, number + 1)
            return number + 1

    async def _count_commands(self, session: OwnedRuns, run_id: str, sent: int) -> None:
        tail = self._tails.get(run_id)
        if tail is not None:
            tail.sent = max(tail.sent, sent)

        def count(row: Listed) -> Listed | None:
            return None if row.sent >= sent else replace(row, sent=sent)

        await session.put_row(run_id, count)

    async def _read_commands(self, run_id: str, after: int) -> list[tuple[int, float, bytes]]:
        session = await self._open()
        tail = self._tails.get(run_id)
        if tail is not None:
            await tail.ready()
            if tail.sent <= after:
                return []
        found = await session.commands(run_id, after)
        return [(command.number, command.time, from_raw(command.body)) for command in found]

    # The whole log

    async def _prune(self, rows: Sequence[StoredRow]) -> set[str]:
        """There is no transaction over several runs: so many are deleted at once."""
        session = await self._open()
        waiting = list(reversed(rows))
        gone: set[str] = set()

        async def delete_some() -> None:
            while waiting:
                row = waiting.pop()
                with contextlib.suppress(LeaseHeldError):
                    if await self._bury(session, row):
                        gone.add(row.run_id)

        await asyncio.gather(*(delete_some() for _ in range(AT_ONCE)))
        return gone

    async def _bury(self, session: OwnedRuns, known: StoredRow) -> bool:
        """Delete a run, unless it has changed since; returns whether this call has.

        The rest is also done for a process that has ended while it deleted the run.
        """
        run_id = known.run_id
        found = await session.ownership(run_id)
        if found is None:
            return False
        owner, is_ours = found.owner, not found.owner.is_deleted
        if is_ours:
            last, sent = await session.last_append(run_id), await session.last_command(run_id)
            now = (owner.epoch, 0 if last is None else last[1].last, sent)
            if now != (known.epoch, known.last_seq, known.sent):
                return False
            await session.check_free(found)
            owner = Owner(run_id, owner.epoch + 1, created=owner.created, is_deleted=True)
            try:
                await session.own(owner, found.seq, uuid.uuid4().hex)
            except SequenceError:
                return False
        session.forget(run_id)
        await session.purge(run_id)

        def empty(row: Listed) -> Listed | None:
            return replace(row, row=NOTHING, status="deleted", epoch=owner.epoch, owner="", lease=0.0, size=0)

        await session.put_row(run_id, empty)
        return is_ours

    async def _close(self) -> None:
        if self._marking is not None:
            self._marking.cancel()
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        feeds: list[Feed] = [*self._tails.values()]
        if self._index is not None:
            feeds.append(self._index)
        await asyncio.gather(*(feed.close() for feed in feeds))
        self._tails.clear()
        if self._session is not None:
            await self._session.connection.close()
        await asyncio.get_running_loop().run_in_executor(None, self._renewer.close)
