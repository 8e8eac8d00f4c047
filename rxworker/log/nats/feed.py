"""Following a stream of NATS, and the end of a run in memory.

Theory of operation. A `Feed` is a consumer of some subjects of a stream: first the last message of each, then every new
one. The server numbers what it sends; where a number is missing, or not even a keep-alive message has come for five
seconds, or the connection was lost, the feed makes another consumer, which continues after the last message. A consumer
that nothing listens to is deleted by the server.

A `Tail` is the feed of one run. All that follow the run in this process share it: it keeps the newest entries, and
wakes the followers, who read from it what they have not seen. Older entries are read from the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from rxworker.errors import LogError
from rxworker.log.format import Entry
from rxworker.log.nats.connection import ApiError, Connection, Stored
from rxworker.log.nats.format import Assembler, Owner, decode, head_of
from rxworker.log.nats.session import Session
from rxworker.log.store import Milestones

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

logger = logging.getLogger("rxworker.log")

KEEP_ALIVE = 2.0
"""Seconds after which an idle consumer reports that it exists."""
UNUSED = 10.0
"""Seconds after which the server deletes a consumer that nothing listens to."""
KEPT = 1000
"""Entries that a tail keeps, at least."""
SECOND = 10**9


class _Created(Struct, frozen=True):
    num_pending: int = 0


_decode_created = msgspec.json.Decoder(_Created).decode


class Feed(ABC):
    """The last message of each of some subjects of a stream, and then every new one, in order.

    Args:
        connection: The connection.
        stream: The stream.
        subjects: The subjects, which may have wildcards.
    """

    def __init__(self, connection: Connection, stream: str, subjects: Sequence[str]) -> None:
        self._connection = connection
        self._stream = stream
        self._subjects = list(subjects)
        self._consumer = ""
        self._subscription: Subscription | None = None
        self._count = 0  # messages of this consumer
        self._initial = 0  # how many of them were there when it was made
        self.last_seq = 0
        self._heard = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None
        self.is_closed = self._is_current = self._is_due = False
        self._ready = asyncio.Event()
        self._reached = Milestones()
        self.start()

    @abstractmethod
    def _receive(self, message: Stored) -> bool:
        """Called with each message.

        If it returns ``False``, the feed begins again with the last message of each subject.
        """

    @abstractmethod
    def _began(self) -> None:
        """Called before it begins in this way, also the first time."""

    async def _prepare(self) -> None:  # noqa: B027 - most need not
        """Called before each consumer is made."""

    def _caught_up(self) -> None:  # noqa: B027 - most need not
        """Called when what was stored after that is there."""

    def start(self) -> None:
        """Make a consumer that continues after the last message."""
        if self.is_closed:
            return
        self._is_current = False
        if self._starting is not None and not self._starting.done():
            self._is_due = True
            return
        self._starting = self._connection.loop.create_task(self._start())

    async def ready(self) -> None:
        """Wait until it has the messages that were stored when it was made.

        Raises:
            LogError: They have not come for as long as the connection is patient.
        """
        if not self._ready.is_set():
            await self._connection.arrival(self._ready.wait(), f"the stream {self._stream}")

    async def close(self) -> None:
        """Delete the consumer. What waits for a message ends, and reads elsewhere."""
        self.is_closed = True
        self._ready.set()
        self._reached.reach(1 << 62)
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._leave()

    async def _leave(self) -> None:
        consumer, self._consumer = self._consumer, ""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with contextlib.suppress(Exception):  # it may belong to a connection that was closed
                await subscription.unsubscribe()
        if consumer:
            # The server forgets it by itself, later.
            with contextlib.suppress(Exception):
                await self._connection.call(f"CONSUMER.DELETE.{self._stream}.{consumer}")

    async def _start(self) -> None:
        pause = 0.02
        while not self.is_closed:
            try:
                self._is_due = False
                await self._leave()
                await self._create()
                if not self._is_due:
                    return
            except (LogError, ApiError) as error:
                logger.warning("%s cannot be followed: %s", self._stream, error, extra={"stream": self._stream})
            except Exception as error:  # of nats-py, or nothing has answered
                logger.debug(
                    "%s cannot be followed: %s", self._stream, type(error).__name__, extra={"stream": self._stream}
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _create(self) -> None:
        consumer = f"rxworker-{uuid.uuid4().hex}"
        inbox = self._connection.inbox()
        self._count = 0
        self._initial = 1 << 62
        if not self.last_seq:
            self._began()
        await self._prepare()

        async def receive(message: Msg) -> None:
            if self._is_current and self._consumer == consumer:
                await self._received(message)

        self._consumer = consumer
        self._is_current = True
        self._subscription = await self._connection.subscribe(inbox, receive)
        config: dict[str, object] = {
            "name": consumer,
            "deliver_subject": inbox,
            "ack_policy": "none",
            "max_deliver": 1,
            "filter_subjects": self._subjects,
            "deliver_policy": "last_per_subject",
            "flow_control": True,
            "idle_heartbeat": int(KEEP_ALIVE * SECOND),
            "inactive_threshold": int(UNUSED * SECOND),
            "mem_storage": True,
            "num_replicas": 1,
        }
        if self.last_seq:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": self.last_seq + 1}
        body = {"stream_name": self._stream, "config": config}
        answer = await self._connection.call(f"CONSUMER.CREATE.{self._stream}.{consumer}", body)
        self._initial = _decode_created(answer).num_pending
        self._heard = self._connection.loop.time()
        self._check_ready()
        if self._watchdog is None:
            self._watch()

    def _watch(self) -> None:
        loop = self._connection.loop
        if loop.time() - self._heard > 2.5 * KEEP_ALIVE:
            self.start()
        self._watchdog = loop.call_later(KEEP_ALIVE, self._watch)

    async def _received(self, message: Msg) -> None:
        self._heard = self._connection.loop.time()
        headers: dict[str, str] = message.headers or {}
        status = headers.get("Status")
        if status == "100":
            stalled = message.reply or headers.get("Nats-Consumer-Stalled")
            if stalled:
                await self._connection.emit(stalled)
            if int(headers.get("Nats-Last-Consumer", self._count)) > self._count:
                self.start()
            return
        if status is not None:
            self.start()
            return
        # $JS.ACK.STREAM.CONSUMER.DELIVERED.STREAM_SEQ.CONSUMER_SEQ.TIME.PENDING, with a domain and an account after ACK
        # or without
        tokens = message.reply.split(".")
        at = 5 if len(tokens) == 9 else 7
        seq, number, nanoseconds = (int(each) for each in tokens[at : at + 3])
        if number != self._count + 1:
            self.start()
            return
        self._count = number
        if not self._receive(Stored(message.subject, seq, nanoseconds / SECOND, message.data)):
            self.last_seq = 0
            self.start()
            return
        self.last_seq = seq
        self._check_ready()

    def _check_ready(self) -> None:
        if self._count >= self._initial:
            self._initial = 1 << 62
            self._caught_up()
            self._ready.set()


class Tail(Feed):
    """The newest entries of a run, its owner and the number of its commands, in memory.

    Args:
        session: The messages of the log.
        run_id: The run's id.
        has_entries: Whether it has the entries, or only the owner and the commands.
        wake: Called when something has changed.
        owned: Called with each new owner.

    Attributes:
        owner: The owner; ``None`` if there is no such run.
        error: Why the run cannot be followed, if so.
        sent: The number of the last command.
        kept_after: The entries that it keeps follow after this number.
        last: The number of the last record.
        expected: The number of a record that is known to be stored.
    """

    def __init__(
        self, session: Session, run_id: str, has_entries: bool, wake: Callable[[], None], owned: Callable[[Owner], None]
    ) -> None:
        self.run_id = run_id
        self.has_entries = has_entries
        self._place = place = session.place(run_id)
        self._wake = wake
        self._owned = owned
        self._entries: list[Entry] = []
        self._assembler: Assembler | None = None
        self.owner: Owner | None = None
        self.error: LogError | None = None
        self.sent = 0
        self.kept_after = self.last = self.expected = 0
        subjects = [place.owner, f"{place.commands}.*"]
        if has_entries:
            subjects.append(place.entries)
        super().__init__(session.connection, place.stream, subjects)

    def after(self, number: int, limit: int) -> list[Entry] | None:
        """The entries after a number; ``None`` if it does not keep all of them."""
        if number < self.kept_after:
            return None
        at = bisect_right(self._entries, number, key=lambda entry: entry.last)
        return self._entries[at : at + limit]

    async def reach(self) -> None:
        """Wait for the record with the number ``expected``, which is stored.

        Raises:
            LogError: It has not come for as long as the connection is patient.
        """
        await self.ready()
        number = self.expected
        if self.is_closed or self.last >= number or self.owner is None or self.owner.is_deleted:
            return
        what = f"record {number} of {self.run_id}, which is stored,"
        await self._connection.arrival(self._reached.add(number), what)

    def _began(self) -> None:
        self._entries = []
        self._assembler = None
        self.kept_after = self.last

    def _receive(self, message: Stored) -> bool:
        try:
            return self._take(message)
        except LogError as error:
            self.error = error
            self._wake()
            return True

    def _take(self, message: Stored) -> bool:
        if message.subject == self._place.entries:
            return self._append(message.data)
        if message.subject == self._place.owner:
            self.owner = decode(message.data, Owner, self.run_id)
            self._owned(self.owner)
        else:
            self.sent = max(self.sent, int(message.subject.rpartition(".")[2]))
        self._wake()
        return True

    def _append(self, data: bytes) -> bool:
        assembler = self._assembler
        if assembler is None:
            # The last append: it is whole, or it is left to those who read the stream.
            head = head_of(data, self.run_id)
            if head.parts:
                self.kept_after = self.last = head.last
                self._assembler = Assembler(self.run_id, head.last)
                self._notify()
                return True
            self.kept_after = self.last = head.after
            assembler = self._assembler = Assembler(self.run_id, head.after)
        entries = assembler.feed(data)
        if assembler.is_broken:
            logger.warning(
                "a record of %s is missing after %d: reading it again",
                self.run_id,
                self.last,
                extra={"run": self.run_id, "seq": self.last},
            )
            return False
        if entries:
            self._entries += entries
            self.last = entries[-1].last
            if len(entries) > 2 * KEPT or len(self._entries) > 2 * KEPT:
                self.kept_after = self._entries[-KEPT - 1].last
                del self._entries[:-KEPT]
            self._notify()
        return True

    def _notify(self) -> None:
        self._reached.reach(self.last)
        self._wake()
