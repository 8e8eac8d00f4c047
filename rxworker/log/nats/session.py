"""The messages of a NATS log, read and written over one connection.

A stream has the entries of many runs. The place of a number of a run in it is remembered where a reader has stopped,
and otherwise searched for, in halves.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from rxworker.errors import LeaseHeldError, LogError
from rxworker.log.base import no_run
from rxworker.log.format import Entry
from rxworker.log.leases import Offset
from rxworker.log.nats.connection import EXPECTED, Connection, SequenceError, Stored
from rxworker.log.nats.format import (
    NOTHING,
    Address,
    Assembler,
    Beat,
    Head,
    Listed,
    Owner,
    Place,
    SentCommand,
    commands_of,
    decode,
    encode,
    head_of,
    subject_token,
)
from rxworker.log.store import StoredRow
from rxworker.log.values import Claim

T = TypeVar("T")

KEPT = 3600
"""Seconds for which the server keeps the last renewal of a process that has ended, at least."""
AT_ONCE = 200
"""Claims that are checked with one request."""


class ServerClock:
    """The clock of the servers, so that leases do not depend on the clocks of the machines that run workers.

    It goes on by the monotonic clock of this process between two measurements. A measurement that differs by less than
    the time that an answer may take changes nothing.
    """

    def __init__(self) -> None:
        self._offset, self._to_wall = Offset(), Offset()
        self._measured = float("-inf")

    @property
    def age(self) -> float:
        """Seconds since the last measurement."""
        return time.monotonic() - self._measured

    def measure(self, server: float, requested: float) -> None:
        """Take the time in an answer of a server.

        Args:
            server: The time in the answer.
            requested: The monotonic time of the request.
        """
        now = time.monotonic()
        self._offset.measured(server - (requested + now) / 2, 0.02 + (now - requested) / 2)
        self._measured = now

    def now(self) -> float:
        """The time of the servers."""
        return time.monotonic() + self._offset.seconds

    def wall(self, server: float) -> float:
        """A time of the servers by the clock of this machine, which may have been set."""
        return server + self._to_wall.measured(time.time() - self.now(), 0.02) if server else 0.0


def lease_end(run: Owner | Listed, claimed: float, beat: tuple[float, Beat] | None) -> float:
    """When the lease of a run ends, by the clock of the servers; 0 if nothing owns it."""
    if not run.owner:
        return 0.0
    until = claimed + run.lease
    if beat is not None and beat[1].runs.get(run.run_id) == run.epoch:
        until = max(until, beat[0] + beat[1].lease)
    return until


class Renewer:
    """Renews claims over a connection of its own, on an event loop of its own in a thread.

    So a tool that blocks its event loop does not lose its lease.

    Args:
        address: The address of the log.
        options: More arguments of ``nats.connect``.
        owner: The name of this process in claims.
    """

    def __init__(self, address: Address, options: Mapping[str, object], owner: str) -> None:
        self._address = address
        self._options = options
        self._name = address.name
        self._owner = owner
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None

    def renew(self, claims: Sequence[Claim], lease: float, streams: int) -> list[str]:
        """Renew claims. Blocks.

        Returns:
            The ids of the runs that another owner has claimed, and of those that were deleted.

        Raises:
            LogError: Nothing has answered for the time between two renewals.
        """
        with self._lock:
            return self._run(lambda: self._renew(claims, lease, streams))

    async def _renew(self, claims: Sequence[Claim], lease: float, streams: int) -> list[str]:
        if self._connection is None:
            self._connection = Connection(
                self._address, self._options, label="rxworker heartbeat", patience=max(lease / 3, 1.0)
            )
        epochs = {claim.run_id: claim.epoch for claim in claims}
        await self._connection.publish(
            f"{self._name}.beat.{subject_token(self._owner)}",
            encode(Beat(self._owner, lease, epochs)),
            {"Nats-TTL": f"{max(KEPT, int(lease) * 10)}s"},
            f"{self._owner}.{time.monotonic_ns()}",
        )
        subjects: dict[str, list[str]] = {}
        for run in epochs:
            place = Place(self._name, run, streams)
            subjects.setdefault(place.stream, []).append(place.owner)
        lost: list[str] = []
        for stream, names in subjects.items():
            for start in range(0, len(names), AT_ONCE):
                some = names[start : start + AT_ONCE]
                found, _ = await self._connection.direct(stream, {"multi_last": some})
                owners = [decode(each.data, Owner, each.subject) for each in found]
                # A replica that is behind may know an earlier epoch, or none.
                lost += [one.run_id for one in owners if one.epoch > epochs[one.run_id]]
        return lost

    def _run(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="rxworker log heartbeat", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def close(self) -> None:
        """Close the connection, and stop the thread."""
        with self._lock:
            loop, thread, connection = self._loop, self._thread, self._connection
            if loop is None or thread is None:
                return
            if connection is not None:
                self._run(connection.close)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            self._loop = self._thread = self._connection = None


POSITIONS = 1000
"""Readers whose place in a stream is remembered."""

Known = tuple[int, Listed]
"""The entry of a run in a list, and its revision."""


class Ownership(Struct, frozen=True):
    """The last claim, release or deletion of a run.

    Attributes:
        owner: Its value.
        seq: The fence.
        time: When the server stored it.
    """

    owner: Owner
    seq: int
    time: float


class _State(Struct, frozen=True):
    last_seq: int


class _StreamTime(Struct, frozen=True):
    ts: datetime
    state: _State


_decode_stream_time = msgspec.json.Decoder(_StreamTime).decode


class Session:
    """The messages of a log.

    Args:
        connection: The connection.
        name: The name of the log.
        clock: The clock of the servers.

    Attributes:
        connection: The connection.
        streams: The number of streams; set when they are known.
    """

    def __init__(self, connection: Connection, name: str, clock: ServerClock) -> None:
        self.connection = connection
        self.name = name
        self.clock = clock
        self.streams = 0
        self._rows = f"{name}-rows"
        self._positions: OrderedDict[tuple[str, int], int] = OrderedDict()

    def place(self, run_id: str) -> Place:
        """The subjects of a run."""
        return Place(self.name, run_id, self.streams)

    async def read_time(self) -> int:
        """Set the clock, and return the last sequence number of the rows of the log."""

        async def work() -> int:
            requested = time.monotonic()
            answer = _decode_stream_time(await self.connection.call(f"STREAM.INFO.{self._rows}"))
            self.clock.measure(answer.ts.timestamp(), requested)
            return answer.state.last_seq

        return await self.connection.persist(work)

    # Owners

    async def ownership(self, run_id: str) -> Ownership | None:
        """The owner of a run; ``None`` if there is no such run."""
        place = self.place(run_id)
        found = await self.connection.last(place.stream, place.owner)
        return None if found is None else Ownership(decode(found.data, Owner, run_id), found.seq, found.time)

    async def existing(self, run_id: str) -> Ownership:
        """The owner of a run.

        Raises:
            LogError: There is no such run, or it was deleted.
        """
        found = await self.ownership(run_id)
        if found is None or found.owner.is_deleted:
            raise no_run(run_id)
        return found

    async def own(self, owner: Owner, expected: int, message_id: str) -> int:
        """Write an owner after the message with the expected sequence number, and return the new fence.

        Raises:
            SequenceError: Another process has done so.
        """
        subject = self.place(owner.run_id).owner
        return await self.connection.publish(subject, encode(owner), {EXPECTED: str(expected)}, message_id)

    async def check_free(self, found: Ownership) -> None:
        """Check that the lease of a run has expired.

        Raises:
            LeaseHeldError: It is not.
        """
        owner = found.owner
        if not owner.owner:
            return
        if self.clock.age > 1.0:
            await self.read_time()
        beat = await self.beat(owner.owner)
        until = lease_end(owner, found.time, beat)
        if until > self.clock.now():
            raise LeaseHeldError(owner.run_id, owner.owner, self.clock.wall(until))

    async def beat(self, owner: str) -> tuple[float, Beat] | None:
        """The last renewal of a process, and when it was."""
        if not owner:
            return None
        found = await self.connection.last(self._rows, f"{self.name}.beat.{subject_token(owner)}")
        return None if found is None else (found.time, decode(found.data, Beat, self.name))

    # Entries

    async def last_append(self, run_id: str) -> tuple[Stored, Head] | None:
        """The last append of a run."""
        place = self.place(run_id)
        found = await self.connection.last(place.stream, place.entries)
        return None if found is None else (found, head_of(found.data, run_id))

    async def row_of(self, owner: Owner, head: Head | None) -> Raw:
        """The last values of a run as of an append, or before the first one."""
        if head is not None and head.row != NOTHING:
            return head.row
        if head is None or not head.row_at:
            return owner.row
        place = self.place(owner.run_id)
        found = await self.connection.next(place.stream, place.entries, head.row_at)
        if found is None:
            raise LogError(f"the log of {owner.run_id} is damaged: its last values are missing")
        return head_of(found.data, owner.run_id).row

    async def history(self, run_id: str, after: int) -> list[Entry]:
        """The next entries after a number; none if there are none."""
        place = self.place(run_id)
        seq = self._positions.get((run_id, after))
        if seq is None:
            seq = await self._find(run_id, place, after)
        assembler = Assembler(run_id, after)
        entries: list[Entry] = []
        while not entries or assembler.is_partial:
            messages = await self.connection.read(place.stream, place.entries, seq)
            if not messages:
                break
            for message in messages:
                entries += assembler.feed(message.data)
                if assembler.is_broken:
                    raise LogError(
                        f"the log of {run_id} is damaged: record {assembler.last + 1} is missing. If its servers have "
                        "lost power, restore the streams from a backup"
                    )
            seq = messages[-1].seq + 1
        self._positions[run_id, assembler.last] = seq
        if len(self._positions) > POSITIONS:
            self._positions.popitem(last=False)
        return entries

    async def _find(self, run_id: str, place: Place, after: int) -> int:
        """A sequence number after the messages up to a number, and not after the next one."""
        if not after:
            return 1
        last = await self.connection.last(place.stream, place.entries)
        low, high = 1, 1 if last is None else last.seq + 1
        while low < high:
            middle = (low + high) // 2
            found = await self.connection.next(place.stream, place.entries, middle)
            if found is None:
                high = middle
                continue
            if head_of(found.data, run_id).last <= after:
                low = found.seq + 1
            else:
                high = middle
        return low

    # Commands

    async def commands(self, run_id: str, after: int) -> list[SentCommand]:
        """The commands after a number."""
        place = self.place(run_id)
        seq = 1
        if after:
            known = await self.connection.last(place.stream, f"{place.commands}.{after}")
            seq = 1 if known is None else known.seq + 1
        messages: list[Stored] = []
        while more := await self.connection.read(place.stream, f"{place.commands}.*", seq):
            messages += more
            seq = more[-1].seq + 1
        found = commands_of([message.data for message in messages], run_id)
        return [command for command in found if command.number > after]

    async def last_command(self, run_id: str) -> int:
        """The number of the last command."""
        place = self.place(run_id)
        found = await self.connection.last(place.stream, f"{place.commands}.*")
        return 0 if found is None else int(found.subject.rpartition(".")[2])

    async def purge(self, run_id: str) -> None:
        """Delete the entries and the commands of a run."""
        place = self.place(run_id)
        for subject in (place.entries, f"{place.commands}.*"):
            await self.connection.request(f"STREAM.PURGE.{place.stream}", {"filter": subject})

    # What lists show

    async def changed_since(self, revision: int) -> list[StoredRow]:
        """The runs that have changed since a revision, in the order of the changes.

        A part of them, if there are many.
        """
        rows: list[StoredRow] = []
        subject = f"{self.name}.row.*"
        for found in await self.connection.read(self._rows, subject, revision + 1):
            try:
                row = decode(found.data, Listed, self.name)
            except LogError:  # one that cannot be read must not hide the others
                continue
            until = lease_end(row, row.claimed, None)
            if row.owner and until <= self.clock.now():  # it was renewed, or has ended
                until = lease_end(row, row.claimed, await self.beat(row.owner))
            rows.append(row.stored(found.seq, self.clock.wall(until)))
        return rows

    async def row(self, run_id: str) -> Known | None:
        """The entry of a run in a list; ``None`` if there is none."""
        found = await self.connection.last(self._rows, self.place(run_id).row)
        return None if found is None else (found.seq, decode(found.data, Listed, run_id))

    async def put_row(
        self,
        run_id: str,
        change: Callable[[Listed], Listed | None],
        known: Known | None = None,
        new: Listed | None = None,
    ) -> Known | None:
        """Change what a list shows of a run; again, if another process has changed it meanwhile.

        Args:
            run_id: The run's id.
            change: Returns the new row; ``None`` to leave it as it is.
            known: What is known of it.
            new: The row, where there is none.
        """
        if known is None:
            known = await self.row(run_id)
        while (row := new if known is None else change(known[1])) is not None:
            seq, order = (0, 0) if known is None else (known[0], known[1].order or known[0])
            row = replace(row, order=order)
            try:
                seq = await self.connection.publish(
                    self.place(run_id).row, encode(row), {EXPECTED: str(seq)}, uuid.uuid4().hex
                )
            except SequenceError:
                known = await self.row(run_id)
            else:
                return seq, row
        return known

    async def repair(self, run_id: str, known: Known, head: Head) -> Known:
        """Write into the list the values of the last append, if its writer has not done so yet, or has ended before."""
        found = await self.ownership(run_id)
        if found is None or found.owner.is_deleted:
            return known
        raw = await self.row_of(found.owner, head)

        def change(row: Listed) -> Listed | None:
            if row.status == "deleted" or row.last_seq > head.last:
                return None
            if row.last_seq == head.last and row.status == head.status:
                return None
            return replace(
                row, row=raw, status=head.status, last_seq=head.last, size=head.size, updated=time.time()
            )  # fmt: skip

        return await self.put_row(run_id, change, known) or known
