"""The messages of a NATS log, read and written over one connection.

A stream has the entries of many runs. The place of a number of a run in it is remembered where a reader has stopped,
and otherwise searched for, in halves.

`OwnedRuns` writes the runs of this process: claims, fenced appends, and releases. `prepare` makes the streams of a new
log, and checks those of another.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError, FencedError, LeaseHeldError, LogError, RunStatusError
from rxworker.log.base import already_stored, no_run
from rxworker.log.format import Entry
from rxworker.log.leases import Offset
from rxworker.log.memory import check_status, refusal
from rxworker.log.nats.connection import (
    EXPECTED,
    EXPECTED_OF,
    NOT_FOUND,
    TAKEN,
    ApiError,
    Connection,
    SequenceError,
    Stored,
)
from rxworker.log.nats.format import (
    FORMAT,
    NOTHING,
    STREAMS,
    Address,
    Assembler,
    Beat,
    Config,
    Head,
    Listed,
    Owner,
    Place,
    SentCommand,
    append_message,
    as_raw,
    commands_of,
    decode,
    encode,
    from_raw,
    head_of,
    subject_token,
)
from rxworker.log.store import Append, StoredRow, check_version
from rxworker.log.values import Claim, StoredStatus

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
    """Renews claims over a connection of its own, on an event loop that runs in the thread of the heartbeat.

    So a tool that blocks its event loop does not lose its lease. Between two renewals this loop stands still.

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
        self._runner = asyncio.Runner()
        self._connection: Connection | None = None

    def renew(self, claims: Sequence[Claim], lease: float, streams: int) -> list[str]:
        """Renew claims. Blocks.

        Returns:
            The ids of the runs that another owner has claimed, and of those that were deleted.

        Raises:
            LogError: Nothing has answered for the time between two renewals.
        """
        with self._lock:
            return self._runner.run(self._renew(claims, lease, streams))

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

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._runner.run(self._connection.close())
                self._connection = None
            self._runner.close()


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
            may_be_over = row.owner and lease_end(row, row.claimed, None) <= self.clock.now()  # or it was renewed
            rows.append(self.stored(found.seq, row, await self.beat(row.owner) if may_be_over else None))
        return rows

    def stored(self, revision: int, row: Listed, beat: tuple[float, Beat] | None) -> StoredRow:
        """The entry of a run in a list as the base takes it, with the last renewal by its owner."""
        return row.stored(revision, self.clock.wall(lease_end(row, row.claimed, beat)))

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


CONSUMERS = 100_000
"""How many consumers a stream may have: one for each process and run. The default is 1,000."""


async def prepare(session: Session, address: Address, wanted: int | None, replicas: int) -> None:
    """Make the streams of a new log, and check those of another. The session has their number from then on.

    Raises:
        LogError: The log has another number of streams, or is of a newer version; or they cannot be made.
    """
    connection, rows = session.connection, f"{session.name}-rows"
    try:
        await session.read_time()
    except LogError as error:
        if not isinstance(error.__cause__, ApiError) or error.__cause__.code != NOT_FOUND:
            raise
        subjects = [f"{session.name}.config", f"{session.name}.row.*", f"{session.name}.beat.*"]
        more: dict[str, object] = {"max_msgs_per_subject": 1, "allow_msg_ttl": True}
        await create(connection, rows, subjects, replicas, more)
        await session.read_time()
    subject = f"{session.name}.config"
    while (found := await connection.last(rows, subject)) is None:
        first = encode(Config(FORMAT, wanted or STREAMS))
        try:
            await connection.publish(subject, first, {EXPECTED: "0"}, uuid.uuid4().hex)
        except SequenceError:
            continue
        for number in range(wanted or STREAMS):
            await _create_runs(session, number, replicas)
    config = decode(found.data, Config, session.name)
    check_version(repr(address), config.v, FORMAT)
    if wanted is not None and wanted != config.streams:
        raise ConfigurationError(
            f"{address!r} has {config.streams} streams, and streams={wanted} was given: leave it out, since the "
            "number decides in which stream a run is"
        )
    session.streams = config.streams
    # The process that has made it may have ended before the last of them.
    last = f"STREAM.INFO.{session.name}-{config.streams - 1}"
    if await connection.request(last, unless=NOT_FOUND) is None:
        for number in range(config.streams):
            await _create_runs(session, number, replicas)


async def _create_runs(session: Session, number: int, replicas: int) -> None:
    """Make the stream of the entries of those runs that have this number."""
    await create(
        session.connection,
        f"{session.name}-{number}",
        [f"{session.name}.{number}.>"],
        replicas,
        {"allow_atomic": True, "max_consumers": CONSUMERS},
    )


async def create(
    connection: Connection, stream: str, subjects: list[str], replicas: int, more: dict[str, object]
) -> None:
    """Make a stream, unless there is one of this name."""
    config = {
        "name": stream,
        "subjects": subjects,
        "storage": "file",
        "retention": "limits",
        "num_replicas": replicas,
        "allow_direct": True,
        **more,
    }
    # Another process may have made it, with other replicas.
    await connection.request(f"STREAM.CREATE.{stream}", config, unless=TAKEN)
