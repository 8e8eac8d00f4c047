"""Published streams on the server: which a client may see, and their items as clients receive them, each encoded once.

The cursor of an item is the epoch of its stream and its number, ``epoch-seq``. The epoch changes with each start of the
program, so that the cursor of an earlier one is not mistaken for a place in the present stream: its client receives
what is kept.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from reactivex import abc

from rxworker.boards import Keep, Published
from rxworker.errors import ConfigurationError, LocalProtocolError, message_of
from rxworker.events import Record
from rxworker.hub import Coalesce, Item, Latest
from rxworker.messages import JsonObject
from rxworker.operators.kernel import Call
from rxworker.protocols import EncodedRecords
from rxworker.protocols.native import encode_json, end_frame
from rxworker.protocols.socket import DeliveryName, EndOfStream, StreamItems, socket_message
from rxworker.redact import json_redactor
from rxworker.ui.web.http.responses import ApiError, log_error
from rxworker.ui.web.runs.entry import OncePerBatch
from rxworker.ui.web.runs.store import LOGGED
from rxworker.ui.web.streams.durable import JSON, PAGE_BYTES, START, StreamPage, read_offset, write_offset
from rxworker.ui.web.streams.streams import Followed, delivery_of

CURSOR = re.compile(r"([0-9]{1,15})-([0-9]{1,15})", re.ASCII)

ENCODED = 64
"""The number of items whose encoded form is kept."""


class StreamSummary(Struct, frozen=True):
    """A published stream in a few words.

    Attributes:
        name: Its name.
        schema: The JSON schema of its values.
        keep: What a client that comes late receives: ``last``, ``all``, or a number of items.
        epoch: A number that changes with each start of the program.
        seq: The number of its last item.
        status: ``running``, ``finished``, or ``aborted`` by an error.
        reason: The error.
    """

    name: str
    schema: JsonObject
    keep: Keep
    epoch: int
    seq: int
    status: str
    reason: str = ""


class StreamEntry:
    """A published stream, and what the server keeps about it.

    Args:
        published: The stream.
        rate: Deliveries per second to a client; ``None`` for any number.

    Attributes:
        redact: Removes secrets of the environment from data that is sent.
        name: Identifies it as a Durable Stream.
        content_type: The media type of its messages.
        item: Encodes the item of a record as JSON, once for all clients.
        frames: Encodes items as server-sent events, once for all clients.
        message: Encodes items as a message of a WebSocket, once for all clients.
    """

    def __init__(self, published: Published[Any], rate: float | None) -> None:
        self.published = published
        self.redact = json_redactor()
        self.name, self.content_type = f"streams/{published.name}", JSON
        self._rate = rate

        def encode(record: Record, /) -> bytes:
            return self.redact(encode_json(record.event))

        self.item = EncodedRecords(ENCODED, encode=encode)
        self.frames, self.message = OncePerBatch(self.frames_of), OncePerBatch(self.message_of)

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended."""
        return self.published.hub.ended

    def summary(self) -> StreamSummary:
        """The stream in a few words."""
        published, hub = self.published, self.published.hub
        status = "running" if not hub.ended else "finished" if hub.error is None else "aborted"
        reason = "" if hub.error is None else message_of(hub.error)
        return StreamSummary(
            published.name, published.schema, published.keep, published.epoch, hub.last_seq, status, reason
        )

    def after(self, cursor: str) -> int:
        """The number of a cursor; 0 for that of another epoch, or without one.

        Raises:
            ApiError: It is not a cursor.
        """
        if not cursor:
            return 0
        if (match := CURSOR.fullmatch(cursor)) is None:
            raise ApiError(400, "bad_cursor", "a cursor is the id of an event of this stream: its epoch and a number")
        epoch, seq = map(int, match.groups())
        return seq if epoch == self.published.epoch else 0

    def followed(
        self, encode: Callable[[Sequence[Record]], bytes], name: str, delivery: DeliveryName | None = None
    ) -> Followed:
        """The stream for a client, at the rate of the server's settings, but for deliveries that have none."""
        chosen = self.published.delivery if delivery is None else delivery_of(delivery, self._rate)
        if isinstance(chosen, Coalesce | Latest) and chosen.every is None and self._rate is not None:
            chosen = replace(chosen, every=1 / self._rate)
        return Followed(self.published.hub, encode, chosen, name)

    def frames_of(self, records: Sequence[Record]) -> bytes:
        """Items as server-sent events. A `Gap` among them is not sent, since the numbers show it."""
        epoch = self.published.epoch
        return b"".join(
            b"id: %d-%d\ndata: %b\n\n" % (epoch, record.seq, self.item(record))
            for record in records
            if isinstance(record.event, Item)
        )

    def message_of(self, records: Sequence[Record]) -> bytes:
        """Items as a message of a WebSocket."""
        published = self.published
        items = [msgspec.Raw(self.item(one)) for one in records if isinstance(one.event, Item)]
        return socket_message(StreamItems(published.name, published.epoch, items))

    def end_frame(self) -> bytes:
        """The server-sent event after the last item."""
        summary = self.summary()
        return self.redact(end_frame(summary.status, summary.reason))

    def end_message(self) -> bytes:
        """The message of a WebSocket after the last item."""
        summary = self.summary()
        return self.redact(socket_message(EndOfStream(summary.name, summary.status, summary.reason)))

    # As a Durable Stream, whose messages are the items. Those that are not kept any more are left out, which their
    # numbers show.

    async def read(self, offset: str) -> StreamPage:
        """The items after an offset.

        Raises:
            ApiError: The offset is that of another epoch.
        """
        hub, epoch = self.published.hub, self.published.epoch
        messages: list[bytes] = []
        size, after = 0, self._after_offset(offset)
        for record in hub.history.records(after):
            messages.append(self.item(record))
            size, after = size + len(messages[-1]), record.seq
            if size >= PAGE_BYTES:
                break
        is_up_to_date = after >= hub.last_seq
        return StreamPage(messages, write_offset(epoch, after), is_up_to_date, is_up_to_date and hub.ended)

    async def tail(self) -> StreamPage:
        """The end of the stream."""
        hub, epoch = self.published.hub, self.published.epoch
        return StreamPage((), write_offset(epoch, hub.last_seq), is_closed=hub.ended)

    async def wait(self, offset: str) -> bool:
        """Wait for an item after an offset, or the end of the stream."""
        watch = self.followed(self.frames, "durable stream", "latest").watch(self._after_offset(offset))
        async with aclosing(watch.batches()) as batches:
            try:
                async for batch in batches:
                    if any(isinstance(record.event, Item) for record in batch):
                        break
            except Exception:
                if not self.is_over:
                    raise
        return True

    def _after_offset(self, offset: str) -> int:
        """The number of an offset; for the beginning, that before what is kept."""
        published = self.published
        epoch, after = read_offset(offset)
        if offset != START and (epoch != published.epoch or after > published.hub.last_seq):
            raise ApiError(410, "gone_offset", "this offset belongs to an earlier start of the program: read from -1")
        return max(after, published.hub.kept_after)


class PublishedStreams:
    """The streams that a server serves.

    Args:
        has_users: Whether the server has users: then each stream has to name who may see it.
        rate: Deliveries per second to a client; ``None`` for any number.
    """

    def __init__(self, *, has_users: bool, rate: float | None) -> None:
        self._has_users = has_users
        self._rate = rate
        self._entries: list[StreamEntry] = []

    def add(self, published: Published[Any]) -> abc.DisposableBase:
        """Serve a stream. Disposing the result ends that; clients that watch go on until the stream ends.

        Raises:
            ConfigurationError: It is not a published stream; or the server has users and it names none, or the other
                way round; or there is one of this name for the same user.
        """
        if not isinstance(published, Published):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(f"a stream is {published!r:.60}; give the result of publish(name, observable)")
        name = published.name
        if self._has_users and published.user is None:
            raise ConfigurationError(f"the stream {name} needs a user on a server with users: publish(..., user=...)")
        if published.user is not None and not self._has_users:
            raise ConfigurationError(f"the stream {name} names a user, and the server has none: give it user=...")
        place = name, published.user
        if any((other.published.name, other.published.user) == place for other in self._entries):
            raise ConfigurationError(f"there is a stream {name} already: give this one another name")
        entry = StreamEntry(published, self._rate)
        self._entries.append(entry)
        return Call(partial(self._remove, entry))

    def _remove(self, entry: StreamEntry) -> None:
        self._entries = [other for other in self._entries if other is not entry]

    def begin(self) -> None:
        """Begin the streams that were made before there was an event loop.

        Raises:
            LocalProtocolError: A stream lives on another event loop.
        """
        for entry in self._entries:
            check_loop(entry.published)

    def of(self, owner: str | None) -> Iterator[StreamEntry]:
        """The streams that a user may see; all, if the server has no users."""
        for entry in self._entries:
            if not self._has_users or (owner is not None and _allows(entry.published, owner)):
                yield entry

    def find(self, name: str, owner: str | None) -> StreamEntry:
        """The stream of this name.

        Raises:
            ApiError: There is none that the user may see.
        """
        for entry in self.of(owner):
            if entry.published.name == name:
                return entry
        raise ApiError(404, "no_stream", "there is no such stream")


def _allows(published: Published[Any], owner: str) -> bool:
    """Whether a user may see a stream; not, if its function fails: the other streams are shown."""
    try:
        return published.allows(owner)
    except LOGGED as error:
        log_error(f"user= of the stream {published.name} failed", error, stream=published.name)
        return False


def check_loop(published: Published[Any]) -> None:
    """Check that a stream lives on the running event loop.

    Raises:
        LocalProtocolError: It does not.
    """
    if published.hub.loop is not asyncio.get_running_loop():
        raise LocalProtocolError(
            f"the stream {published.name} belongs to no event loop or to another one: publish it on the server's, or "
            "before there is one"
        )
