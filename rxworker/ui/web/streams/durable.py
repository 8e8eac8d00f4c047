"""Durable Streams, an open protocol for append-only streams over HTTP, read-only.

A `MessageStream` has messages with offsets. `answer_stream` answers a request for one: a read, a long poll, server-sent
events, or its metadata. Source of the protocol: https://durablestreams.com, version of the conformance suite 0.3.6.

A `LogStream` is a stored run: its records, or the parts of a user interface protocol.

The offset of a record is the epoch of its owner and its number, ``%016d_%016d``. Records that an owner has lost with
its machine, and that a later owner has replaced, have another epoch: a client that has read them gets a 410 and reads
again from the beginning. So no client continues after a record that is not in the log.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal, Protocol, TypeAlias
from urllib.parse import quote

from aiohttp import web
from msgspec import Meta, Struct

from rxworker.errors import LocalProtocolError, LogError
from rxworker.events import Record
from rxworker.hub.history import expand, merged
from rxworker.log import EventLog, RunInfo
from rxworker.log.format import record_of
from rxworker.log.values import ENDED
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols import SSE_HEADERS, encode_record
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.native import encode_json
from rxworker.protocols.ui_messages import UiMessageEncoder
from rxworker.ui.web.http.request import WebRequest
from rxworker.ui.web.http.responses import ApiError, read_query
from rxworker.ui.web.streams.streams import Streams

START = f"{0:016d}_{0:016d}"
"""The offset of the beginning of a stream."""

JSON = "application/json"

PAGE_BYTES = 1 << 20
"""A response has no further message after so many bytes."""

EncodeParts: TypeAlias = Callable[[Record], Sequence[bytes]]
"""Encodes the next record of a run, which may give no parts."""


class StreamPage(Struct, frozen=True):
    """Messages of a stream.

    Attributes:
        messages: The messages; of a JSON stream, each is a JSON value.
        next: The offset after them.
        is_up_to_date: Whether the stream has no more messages at present.
        is_closed: Whether it will never have more.
    """

    messages: Sequence[bytes]
    next: str
    is_up_to_date: bool = True
    is_closed: bool = False


class MessageStream(Protocol):
    """Messages with offsets.

    Attributes:
        name: Identifies the stream.
        content_type: The media type of the messages.
    """

    name: str
    content_type: str

    async def read(self, offset: str) -> StreamPage:
        """The messages after an offset.

        Raises:
            ApiError: There is no such stream, or it does not have this offset.
        """
        ...

    async def tail(self) -> StreamPage:
        """The end of the stream.

        Raises:
            ApiError: There is no such stream.
        """
        ...

    async def wait(self, offset: str) -> bool:
        """Wait for a message after an offset, or the end of the stream. ``False`` if neither can follow."""
        ...


NEXT_OFFSET = "Stream-Next-Offset"
UP_TO_DATE = "Stream-Up-To-Date"
CLOSED = "Stream-Closed"
CURSOR = "Stream-Cursor"

OFFSET = Meta(
    pattern=r"\A(-1|now|[0-9]{16}_[0-9]{16})\Z", examples=["-1", "now", "a Stream-Next-Offset of this stream"]
)
_WHOLE_PAGE = "private, max-age=60, stale-while-revalidate=300"
_LINE_END = re.compile(rb"\r\n|\r|\n")


LONG_POLL = 20.0
"""Seconds that a long poll waits. A stream of server-sent events has a control event at least as often."""
EVENTS = 60.0
"""Seconds after which a stream of server-sent events ends, and the client reconnects."""


async def answer_stream(request: WebRequest, source: MessageStream, streams: Streams) -> web.Response | None:
    """Answer a request for a stream: ``GET`` and ``HEAD``.

    Args:
        request: The request.
        source: The stream.
        streams: Sends server-sent events.

    Returns:
        The response; ``None`` if it was sent.

    Raises:
        ApiError: A parameter is malformed, or there is no such stream or offset.
    """
    if request.method == "HEAD":
        page = await source.tail()
        headers = {**_place_headers(page), "Content-Type": source.content_type, "ETag": _etag(source, "-1", page)}
        return web.Response(headers=headers)
    query = read_stream_query(request)
    page = await (source.tail() if query.offset == "now" else source.read(query.start))
    if query.live == "sse":
        await streams.send(request, stream_events(source, page, query.cursor), events_headers(source))
        return None
    if query.live == "long-poll":
        if not page.messages and not page.is_closed:
            page = await next_page(source, page.next, LONG_POLL) or page
        return page_response(request, source, query, page, next_cursor(query.cursor))
    return page_response(request, source, query, page)


class StreamQuery(Struct, frozen=True):
    """The parameters of a read.

    Attributes:
        offset: The offset as given; ``None`` without one.
        live: ``long-poll``, ``sse``, or empty for a read.
        cursor: The ``Stream-Cursor`` of the last response.
    """

    offset: Annotated[str, OFFSET] | None = None
    live: Literal["", "long-poll", "sse"] = ""
    cursor: str = ""

    @property
    def start(self) -> str:
        """The offset to read from, if it is not ``now``."""
        return START if self.offset in (None, "-1") else str(self.offset)


def read_stream_query(request: WebRequest) -> StreamQuery:
    """Read the parameters of a read.

    Raises:
        ApiError: One is malformed.
    """
    query = read_query(request, StreamQuery)
    if len(request.query.getall("offset", [])) > 1:
        raise ApiError(400, "bad_request", "give one offset")
    if query.offset is None and query.live:
        raise ApiError(400, "bad_request", f"live={query.live} needs an offset: -1 is the beginning")
    return query


def page_response(
    request: WebRequest, source: MessageStream, query: StreamQuery, page: StreamPage, cursor: str | None = None
) -> web.Response:
    """The response with a page.

    Args:
        request: The request: a client that has this page gets a 304.
        source: The stream.
        query: The parameters of the read.
        page: The page.
        cursor: The cursor of a long poll, which gets a 204 for a page without messages.
    """
    headers = _place_headers(page)
    if cursor is not None:
        headers[CURSOR] = cursor
    if page.is_up_to_date:
        headers[UP_TO_DATE] = "true"
    if cursor is not None and not page.messages:
        return web.Response(status=204, headers=headers)
    headers["Content-Type"] = source.content_type
    if query.offset != "now":
        # More may follow on the last page of an open stream, so that a client revalidates it each time.
        headers["Cache-Control"] = _WHOLE_PAGE if page.is_closed or not page.is_up_to_date else "private, no-cache"
        etag = headers["ETag"] = _etag(source, query.offset or "-1", page)
        if etag in map(str.strip, request.headers.get("If-None-Match", "").split(",")):
            return web.Response(status=304, headers=headers)
    return web.Response(body=_body(source, page.messages), headers=headers)


def _place_headers(page: StreamPage) -> dict[str, str]:
    """The headers with the end of a page."""
    return {NEXT_OFFSET: page.next} | ({CLOSED: "true"} if page.is_closed else {})


def _etag(source: MessageStream, start: str, page: StreamPage) -> str:
    end = f"{page.next}:c" if page.is_closed else page.next
    return f'"{quote(source.name, safe="/")}:{start}:{end}"'


def _is_json(source: MessageStream) -> bool:
    return _media_type(source) == JSON


def _media_type(source: MessageStream) -> str:
    return source.content_type.partition(";")[0].strip().lower()


def _body(source: MessageStream, messages: Sequence[bytes]) -> bytes:
    return b"[%b]" % b",".join(messages) if _is_json(source) else b"".join(messages)


async def next_page(source: MessageStream, offset: str, seconds: float) -> StreamPage | None:
    """The next page that has messages, or is the end of the stream.

    An empty page after so many seconds, and ``None`` if the server is closing.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                is_open = await source.wait(offset)
        except TimeoutError:
            return StreamPage((), offset)
        if not is_open:
            return None
        page = await source.read(offset)
        if page.messages or page.is_closed:
            return page
        offset = page.next


# Server-sent events


class _Control(Struct, rename="camel", omit_defaults=True):
    stream_next_offset: str
    stream_cursor: str = ""
    up_to_date: bool = False
    stream_closed: bool = False


def events_headers(source: MessageStream) -> dict[str, str]:
    """The headers of server-sent events."""
    encoding = {"Stream-SSE-Data-Encoding": "base64"} if _is_binary(source) else {}
    return {**SSE_HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-cache", **encoding}


async def stream_events(source: MessageStream, page: StreamPage, cursor: str = "") -> AsyncGenerator[bytes, None]:
    """The server-sent events of a stream: an event with the data of each page, and a control event after it.

    Args:
        source: The stream.
        page: The first page.
        cursor: The cursor that the client has sent.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + EVENTS
    first_cursor = int(next_cursor(cursor))
    while True:
        yield page_events(source, page, str(max(first_cursor, current_cursor())))
        left = deadline - loop.time()
        if page.is_closed or left <= 0:
            return
        try:
            if page.is_up_to_date:
                if (following := await next_page(source, page.next, min(left, LONG_POLL))) is None:
                    return
                page = following
            else:
                page = await source.read(page.next)
        except ApiError:
            return  # the client reconnects, and gets the error


def page_events(source: MessageStream, page: StreamPage, cursor: str) -> bytes:
    r"""The events of a page.

    >>> from rxworker.log import MemoryLog
    >>> source = LogStream(MemoryLog(), "run-1")
    >>> page = StreamPage([b"1", b"2"], START, is_closed=True)
    >>> print(page_events(source, page, "7").decode().strip())
    event: data
    data:[1,2]
    <BLANKLINE>
    event: control
    data:{"streamNextOffset":"0000000000000000_0000000000000000","streamClosed":true}
    """
    control = _Control(page.next)
    if page.is_closed:
        control.stream_closed = True
    else:
        control.stream_cursor, control.up_to_date = cursor, page.is_up_to_date
    events = _event(b"control", encode_json(control))
    if not page.messages:
        return events
    body = _body(source, page.messages)
    return _event(b"data", b64encode(body) if _is_binary(source) else body) + events


def _event(kind: bytes, data: bytes) -> bytes:
    # Not splitlines: a line break at the end is part of the data. The first space of a line is not.
    lines = [b"data: " + line if line[:1] == b" " else b"data:" + line for line in _LINE_END.split(data)]
    return b"event: %b\n%b\n\n" % (kind, b"\n".join(lines))


def _is_binary(source: MessageStream) -> bool:
    return not _is_json(source) and not _media_type(source).startswith("text/")


CURSOR_SECONDS = 20
CURSOR_EPOCH = 1728432000  # 2024-10-09, as the protocol has it
CURSOR_JITTER = 3600


def current_cursor() -> int:
    """The number of the present interval of `CURSOR_SECONDS`."""
    return int(time.time() - CURSOR_EPOCH) // CURSOR_SECONDS


def next_cursor(given: str = "") -> str:
    """The cursor of a response.

    It is greater than that of the request, so that a cache does not return one response for ever.
    """
    now = current_cursor()
    if not (given.isascii() and given.isdecimal() and len(given) < 16) or int(given) < now:
        return str(now)
    return str(int(given) + max(1, random.randint(1, CURSOR_JITTER) // CURSOR_SECONDS))


# Stored runs


@dataclass(eq=False)
class LogStream:
    """A stored run as a stream. It is closed when the run has ended, or is paused, and has no annotations after that.

    Args:
        log: The log.
        run_id: The run's id.
        fold: Returns a function that encodes the records of the run from the first; by default each record is a
            message, as `encode_record` makes it.
        name: Identifies the stream; by default the run's id.
        redact: Removes secrets from a message.
        content_type: The media type of the messages.
    """

    log: EventLog
    run_id: str
    _: KW_ONLY
    fold: Callable[[], EncodeParts] | None = None
    name: str = ""
    redact: Callable[[bytes], bytes] | None = None
    content_type: str = JSON

    def __post_init__(self) -> None:
        self.name = self.name or self.run_id
        self._encode: EncodeParts = _encode_alone
        self._at: tuple[int, int] | None = None  # which the next read may continue after

    async def read(self, offset: str) -> StreamPage:
        """The messages after an offset.

        Raises:
            ApiError: There is no such run, or it does not have this offset.
        """
        return await self._unless_deleted(self._read(offset))

    async def _read(self, offset: str) -> StreamPage:
        info = await self._info()  # before the entries, so that an ended run has no more of them
        messages: list[bytes] = []
        size, at = 0, read_offset(offset)
        epoch, after = at
        is_found, start = self._at == at, after
        if not is_found:
            is_found = at == (0, 0)
            self._encode = _encode_alone if self.fold is None else self.fold()
            start = 0 if self.fold is not None else max(after - 1, 0)
        self._at = None
        last = info.row.end or info.last_seq
        entries = self.log.read(self.run_id, start)
        async with aclosing(entries):
            async for entry in entries:
                if entry.first > last and info.status in ENDED:
                    break
                record = record_of(entry, self.run_id)
                if entry.first <= after <= entry.last and entry.epoch == epoch:
                    is_found = True
                for known in _known(record, after):
                    self._encode(known)
                for one in expand(record, after):
                    parts = self._encode(one)
                    messages += parts if self.redact is None else map(self.redact, parts)
                    size += sum(map(len, parts))
                    at = entry.epoch, one.seq
                    if size >= PAGE_BYTES:
                        break
                if size >= PAGE_BYTES:
                    break
        if not is_found:
            message = (
                "the stream does not have this offset: its end was lost with a machine, and the run was recovered; "
                "read from -1"
            )
            raise ApiError(410, "gone_offset", message)
        self._at = at
        is_up_to_date = at[1] >= last
        return StreamPage(messages, write_offset(*at), is_up_to_date, is_up_to_date and info.status in ENDED)

    async def tail(self) -> StreamPage:
        """The end of the stream.

        Raises:
            ApiError: There is no such run.
        """
        return await self._unless_deleted(self._tail())

    async def _tail(self) -> StreamPage:
        info = await self._info()
        at = 0, 0
        async for entry in self.log.read(self.run_id, max((info.row.end or info.last_seq) - 1, 0)):
            at = entry.epoch, entry.last
            if info.row.end:
                break
        return StreamPage((), write_offset(*at), is_closed=info.status in ENDED)

    async def wait(self, offset: str) -> bool:
        """Wait for a record after an offset, or the end of the run. ``False`` if the log is closed."""
        _, after = read_offset(offset)
        try:
            async with aclosing(self.log.pages(self.run_id, after)) as pages:
                async for _ in pages:
                    return True
            await self.log.info(self.run_id)  # raises if the log was closed
        except LogError:
            return True  # the next read reports it: the run was deleted
        except LocalProtocolError:
            return False
        return True

    async def _unless_deleted(self, page: Awaitable[StreamPage]) -> StreamPage:
        """A page of the run, which may be deleted while it is read."""
        try:
            return await page
        except LogError:
            await self._info()
            raise

    async def _info(self) -> RunInfo:
        info = await self.log.info(self.run_id)
        if info is None or info.status == "deleted":
            raise ApiError(404, "no_run", "there is no such run: it was deleted, or never stored")
        return info


def _encode_alone(record: Record) -> Sequence[bytes]:
    return (encode_record(record),)


def _known(record: Record, after: int) -> Iterator[Record]:
    """The records of an entry up to a number, in as few as possible: what they give is not sent."""
    if record.seq <= after:
        yield merged(record, 0)
    elif record.first <= after:
        yield from expand(record, until=after)


def read_offset(offset: str) -> tuple[int, int]:
    """The epoch and the number of an offset."""
    epoch, _, number = offset.partition("_")
    return int(epoch), int(number)


def write_offset(epoch: int, number: int) -> str:
    """The offset of an epoch and a number."""
    return f"{epoch:016d}_{number:016d}"


FOLDS: Mapping[str, Callable[[str, Mapping[str, str]], AgUiEncoder | UiMessageEncoder] | None] = {
    "": None,
    "/ag-ui": lambda run, query: AgUiEncoder(run, run, protocol=query.get("protocol"), snapshot=True),
    "/ui": lambda run, _: UiMessageEncoder(run),
}
"""The streams of a run: its records, and the parts of user interface protocols."""


def run_stream(
    log: EventLog,
    run_id: str,
    view: str = "",
    query: Mapping[str, str] | None = None,
    redact: Callable[[bytes], bytes] | None = None,
) -> LogStream:
    """A stream of a stored run.

    Args:
        log: The log.
        run_id: The run's id.
        view: A key of `FOLDS`.
        query: The parameters of the request: AG-UI has ``protocol``, the version that the client supports.
        redact: Removes secrets from a message.
    """
    given = query or {}
    make = FOLDS[view]
    protocol = given.get("protocol", "") if view == "/ag-ui" else ""
    name = f"{run_id}{view}{protocol and '@'}{protocol}"
    if make is None:
        return LogStream(log, run_id, name=name, redact=redact)

    def fold() -> EncodeParts:
        encoder = make(run_id, given)
        return lambda record: [encode_lenient(part) for part in encoder.feed(record)]

    return LogStream(log, run_id, fold=fold, name=name, redact=redact)
