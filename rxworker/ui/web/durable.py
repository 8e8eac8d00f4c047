"""Durable Streams, an open protocol for append-only streams over HTTP, as a read-only view of the runs of an event log.

A `StreamSource` is a stream: messages with offsets. `answer_stream` answers a request for one: a read, a long poll, server-sent events, or its
metadata. `LogStream` is a stored run as a source, and `durable_routes` serves the runs of a log.

The offset of a record is the epoch of its owner and its number, ``%016d_%016d``. Records that an owner has lost with its machine, and that
a later owner has replaced, have another epoch: a client that has read them gets a 410 and reads again from the beginning. So no client continues
after a record that is not in the log.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from base64 import b64encode
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from typing import Protocol, TypeAlias, cast
from urllib.parse import quote

from aiohttp import web
from msgspec import Struct

from rxworker.errors import LogError
from rxworker.events import Record
from rxworker.hub.history import expand, merged
from rxworker.log import Entry, EventLog, RunInfo, record_of
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols import encode_json, encode_record
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.ui_messages import UiMessageEncoder
from rxworker.ui.web.responses import error_response

NEXT_OFFSET = "Stream-Next-Offset"
UP_TO_DATE = "Stream-Up-To-Date"
CLOSED = "Stream-Closed"
CURSOR = "Stream-Cursor"

START = f"{0:016d}_{0:016d}"
"""The offset of the beginning of a stream."""

PAGE_BYTES = 1 << 20
"""A response has no further message after so many bytes."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_WHOLE_PAGE = "private, max-age=60, stale-while-revalidate=300"
_JSON = "application/json"
_OFFSET = re.compile(r"[0-9]{16}_[0-9]{16}", re.ASCII)
_LINE_END = re.compile(rb"\r\n|\r|\n")


# A stream


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


class StreamError(Exception):
    """A stream cannot be read.

    Attributes:
        status: The HTTP status.
        code: The error code.
        message: What to do, for the user.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class StreamSource(Protocol):
    """A stream, for the time of one request."""

    @property
    def name(self) -> str:
        """Identifies the stream among all streams of the server."""
        ...

    @property
    def content_type(self) -> str:
        """The media type of the stream. Responses of ``application/json`` are arrays of the messages."""
        ...

    async def read(self, offset: str) -> StreamPage:
        """The messages after an offset, which a page of this stream had as ``next``, or `START`.

        Raises:
            StreamError: There is no such stream, or it does not have this offset.
        """
        ...

    async def tail(self) -> StreamPage:
        """The end of the stream: a page without messages.

        Raises:
            StreamError: There is no such stream.
        """
        ...

    async def wait(self, offset: str) -> bool:
        """Wait for a change after an offset. ``False`` if the server is closing."""
        ...


# HTTP


class StreamTiming(Struct, frozen=True):
    """How long requests last.

    Attributes:
        long_poll: Seconds that a long poll waits. A stream of server-sent events has a control event at least as often.
        events: Seconds after which a stream of server-sent events ends, and the client reconnects.
    """

    long_poll: float = 20.0
    events: float = 60.0


TIMING = StreamTiming()

SendEvents: TypeAlias = Callable[
    [web.Request, AsyncGenerator[bytes, None], Mapping[str, str]], Awaitable[web.StreamResponse]
]
"""Sends the pieces of a response as they come, with these headers."""


async def send_events(
    request: web.Request, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send the pieces of a response as they come, until the client leaves."""
    response = web.StreamResponse(headers=headers)
    async with aclosing(pieces):
        try:
            await response.prepare(request)
            async for piece in pieces:
                await response.write(piece)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has left
    return response


async def answer_stream(
    request: web.Request,
    source: StreamSource,
    *,
    timing: StreamTiming = TIMING,
    send: SendEvents = send_events,
) -> web.StreamResponse:
    """Answer a request for a stream: ``GET`` and ``HEAD``; any other method gets a 405.

    Args:
        request: The request.
        source: The stream.
        timing: How long requests last.
        send: Sends server-sent events.
    """
    try:
        if request.method == "HEAD":
            return head_response(source, await source.tail())
        if request.method != "GET":
            message = "this stream is read-only: send GET or HEAD"
            return stream_error(405, "read_only", message, {"Allow": "GET, HEAD"})
        query = read_query(request)
        is_now = query.offset == "now"
        page = await (source.tail() if is_now else source.read(query.start))
        if query.live == "sse":
            events = stream_events(source, page, query.cursor, timing)
            return await send(request, events, events_headers(source))
        if query.live == "long-poll":
            if not page.messages and not page.is_closed:
                page = await next_page(source, page.next, timing.long_poll) or page
            return page_response(request, source, query, page, next_cursor(query.cursor))
        return page_response(request, source, query, page)
    except StreamError as error:
        return stream_error(error.status, error.code, error.message)


class StreamQuery(Struct, frozen=True):
    """The parameters of a read.

    Attributes:
        offset: The offset as given; ``None`` without one.
        live: ``long-poll``, ``sse``, or empty for a read.
        cursor: The ``Stream-Cursor`` of the last response.
    """

    offset: str | None = None
    live: str = ""
    cursor: str = ""

    @property
    def start(self) -> str:
        """The offset to read from, if it is not ``now``."""
        return START if self.offset in (None, "-1") else str(self.offset)


def read_query(request: web.Request) -> StreamQuery:
    """Read the parameters of a read.

    Raises:
        StreamError: One is malformed.
    """
    offsets = request.query.getall("offset", [])
    live = request.query.get("live", "")
    if live not in ("", "long-poll", "sse"):
        raise StreamError(400, "bad_live", "live is long-poll or sse")
    if len(offsets) > 1:
        raise StreamError(400, "bad_offset", "give one offset")
    offset = offsets[0] if offsets else None
    if offset is None and live:
        raise StreamError(400, "bad_offset", f"live={live} needs an offset: -1 is the beginning")
    if offset not in (None, "-1", "now") and not _OFFSET.fullmatch(offset):
        message = "an offset is -1, now, or a Stream-Next-Offset of this stream"
        raise StreamError(400, "bad_offset", message)
    return StreamQuery(offset, live, request.query.get("cursor", ""))


def stream_error(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An error as JSON."""
    response = error_response(status, code, message)
    response.headers.update({**HEADERS, "Cache-Control": "no-store", **(headers or {})})
    return response


def head_response(source: StreamSource, page: StreamPage) -> web.Response:
    """The metadata of a stream, from the page of its end."""
    headers = {**HEADERS, "Content-Type": source.content_type, NEXT_OFFSET: page.next}
    headers["Cache-Control"] = "no-store"
    headers["ETag"] = _etag(source, "-1", page)
    if page.is_closed:
        headers[CLOSED] = "true"
    return web.Response(headers=headers)


def page_response(
    request: web.Request,
    source: StreamSource,
    query: StreamQuery,
    page: StreamPage,
    cursor: str | None = None,
) -> web.Response:
    """The response with a page.

    Args:
        request: The request: a client that has this page gets a 304.
        source: The stream.
        query: The parameters of the read.
        page: The page.
        cursor: The cursor of a long poll, which gets a 204 for a page without messages.
    """
    headers = {**HEADERS, NEXT_OFFSET: page.next}
    if cursor is not None:
        headers[CURSOR] = cursor
    if page.is_up_to_date:
        headers[UP_TO_DATE] = "true"
    if page.is_closed:
        headers[CLOSED] = "true"
    if cursor is not None and not page.messages:
        headers["Cache-Control"] = "no-store"
        return web.Response(status=204, headers=headers)
    headers["Content-Type"] = source.content_type
    if query.offset == "now":
        headers["Cache-Control"] = "no-store"
    else:
        # More may follow on the last page of an open stream, so that a client asks each time.
        is_whole = page.is_closed or not page.is_up_to_date
        headers["Cache-Control"] = _WHOLE_PAGE if is_whole else "private, no-cache"
        etag = headers["ETag"] = _etag(source, query.offset or "-1", page)
        if etag in map(str.strip, request.headers.get("If-None-Match", "").split(",")):
            return web.Response(status=304, headers=headers)
    return web.Response(body=_body(source, page.messages), headers=headers)


def _etag(source: StreamSource, start: str, page: StreamPage) -> str:
    end = f"{page.next}:c" if page.is_closed else page.next
    return f'"{quote(source.name, safe="/")}:{start}:{end}"'


def _is_json(source: StreamSource) -> bool:
    return _media_type(source) == _JSON


def _media_type(source: StreamSource) -> str:
    return source.content_type.partition(";")[0].strip().lower()


def _body(source: StreamSource, messages: Sequence[bytes]) -> bytes:
    return b"[%b]" % b",".join(messages) if _is_json(source) else b"".join(messages)


async def next_page(source: StreamSource, offset: str, seconds: float) -> StreamPage | None:
    """The next page that has messages, or is the end of the stream; an empty page after so many seconds, and ``None`` if the server is closing."""
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


def events_headers(source: StreamSource) -> dict[str, str]:
    """The headers of server-sent events."""
    headers = {
        **HEADERS,
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-cache",
        # Disables the buffer of nginx.
        "X-Accel-Buffering": "no",
    }
    if _is_binary(source):
        headers["Stream-SSE-Data-Encoding"] = "base64"
    return headers


async def stream_events(
    source: StreamSource, page: StreamPage, cursor: str = "", timing: StreamTiming = TIMING
) -> AsyncGenerator[bytes, None]:
    """The server-sent events of a stream: an event with the data of each page, and a control event after it.

    Args:
        source: The stream.
        page: The first page.
        cursor: The cursor that the client has sent.
        timing: When the events end.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timing.events
    first_cursor = int(next_cursor(cursor))
    while True:
        now = str(max(first_cursor, current_cursor()))
        yield page_events(source, page, now)
        left = deadline - loop.time()
        if page.is_closed or left <= 0:
            return
        try:
            if page.is_up_to_date:
                following = await next_page(source, page.next, min(left, timing.long_poll))
                if following is None:
                    return
                page = following
            else:
                page = await source.read(page.next)
        except StreamError:
            return  # the client reconnects, and gets the error


def page_events(source: StreamSource, page: StreamPage, cursor: str) -> bytes:
    r"""The events of a page.

    >>> from rxworker.log import MemoryLog
    >>> source = LogStream(MemoryLog(), "run-1")
    >>> page_events(source, StreamPage([b"1", b"2"], START, is_closed=True), "7").decode().splitlines()
    ['event: data', 'data:[1,2]', '', 'event: control', 'data:{"streamNextOffset":"0000000000000000_0000000000000000","streamClosed":true}', '']
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
    lines = [
        b"data: " + line if line[:1] == b" " else b"data:" + line for line in _LINE_END.split(data)
    ]
    return b"event: %b\n%b\n\n" % (kind, b"\n".join(lines))


def _is_binary(source: StreamSource) -> bool:
    return not _is_json(source) and not _media_type(source).startswith("text/")


CURSOR_SECONDS = 20
CURSOR_EPOCH = 1728432000  # 2024-10-09, as the protocol has it
CURSOR_JITTER = 3600


def current_cursor() -> int:
    """The number of the present interval of `CURSOR_SECONDS`."""
    return int(time.time() - CURSOR_EPOCH) // CURSOR_SECONDS


def next_cursor(given: str = "") -> str:
    """The cursor of a response. It is greater than that of the request, so that a cache does not return one response for ever."""
    now = current_cursor()
    if not (given.isascii() and given.isdecimal() and len(given) < 16) or int(given) < now:
        return str(now)
    return str(int(given) + max(1, random.randint(1, CURSOR_JITTER) // CURSOR_SECONDS))


# Runs

EncodeParts: TypeAlias = Callable[[Record], Sequence[bytes]]
"""Encodes the next record of a run, which may give no parts."""

ENDED = frozenset({"finished", "aborted", "paused"})


class LogStream:
    """A stored run as a stream. It is closed when the run has ended, or is paused.

    Args:
        log: The log.
        run: The run's id.
        fold: Returns a function that encodes the records of the run from the first; by default each record is a message, as `encode_record`
            makes it.
        name: Identifies the stream; by default the run's id.
        content_type: The media type of the messages.
    """

    def __init__(
        self,
        log: EventLog,
        run: str,
        *,
        fold: Callable[[], EncodeParts] | None = None,
        name: str = "",
        content_type: str = _JSON,
    ) -> None:
        self.name = name or run
        self.content_type = content_type
        self._log = log
        self._run = run
        self._fold = fold
        self._encode: EncodeParts = _encode_alone
        self._at: tuple[int, int] | None = None  # which the next read may continue after

    async def read(self, offset: str) -> StreamPage:
        """The messages after an offset.

        Raises:
            StreamError: There is no such run, or it does not have this offset.
        """
        info = await self._info()  # before the entries, so that an ended run has no more of them
        messages: list[bytes] = []
        size, at = 0, _read_offset(offset)
        epoch, after = at
        is_found, start = self._at == at, after
        if not is_found:
            is_found = at == (0, 0)
            self._encode = _encode_alone if self._fold is None else self._fold()
            start = 0 if self._fold is not None else max(after - 1, 0)
        self._at = None
        entries = cast("AsyncGenerator[Entry, None]", self._log.read(self._run, start))
        async with aclosing(entries):
            async for entry in entries:
                record = record_of(entry, self._run)
                if entry.first <= after <= entry.last and entry.epoch == epoch:
                    is_found = True
                for known in _known(record, after):
                    self._encode(known)
                for one in expand(record, after):
                    parts = self._encode(one)
                    messages += parts
                    size += sum(map(len, parts))
                    at = entry.epoch, one.seq
                    if size >= PAGE_BYTES:
                        break
                if size >= PAGE_BYTES:
                    break
        if not is_found:
            message = "the stream does not have this offset: its end was lost with a machine, and the run was recovered; read from -1"
            raise StreamError(410, "gone_offset", message)
        self._at = at
        is_up_to_date = at[1] >= info.last_seq
        is_closed = is_up_to_date and info.status in ENDED
        return StreamPage(messages, _write_offset(*at), is_up_to_date, is_closed)

    async def tail(self) -> StreamPage:
        """The end of the stream.

        Raises:
            StreamError: There is no such run.
        """
        info = await self._info()
        at = 0, 0
        async for entry in self._log.read(self._run, max(info.last_seq - 1, 0)):
            at = entry.epoch, entry.last
        return StreamPage((), _write_offset(*at), is_closed=info.status in ENDED)

    async def wait(self, offset: str) -> bool:
        """Wait for a record after an offset. ``False`` if the log is closed."""
        _, after = _read_offset(offset)
        entries = cast("AsyncGenerator[Entry, None]", self._log.follow(self._run, after))
        async with aclosing(entries):
            try:
                async for _ in entries:
                    return True
            except LogError:
                return True  # the next read reports it: the run was deleted
        return False

    async def _info(self) -> RunInfo:
        info = await self._log.info(self._run)
        if info is None or info.status == "deleted":
            raise no_stream()
        return info


def no_stream() -> StreamError:
    """The error for a run that is not stored."""
    return StreamError(404, "no_run", "there is no such run: it was deleted, or never stored")


def _encode_alone(record: Record) -> Sequence[bytes]:
    return (encode_record(record),)


def _known(record: Record, after: int) -> Iterator[Record]:
    """The records of an entry up to a number, in as few as possible: what they give is not sent."""
    if record.seq <= after:
        yield merged(record, 0)
    elif record.first <= after:
        yield from expand(record, until=after)


def _read_offset(offset: str) -> tuple[int, int]:
    epoch, _, number = offset.partition("_")
    return int(epoch), int(number)


def _write_offset(epoch: int, number: int) -> str:
    return f"{epoch:016d}_{number:016d}"


def _fold_ag_ui(run: str, query: Mapping[str, str]) -> EncodeParts:
    encoder = AgUiEncoder(run, run, protocol=query.get("protocol"), snapshot=True)
    return lambda record: [encode_lenient(event) for event in encoder.feed(record)]


def _fold_ui(run: str, query: Mapping[str, str]) -> EncodeParts:  # noqa: ARG001 - as the other one
    encoder = UiMessageEncoder(run)
    return lambda record: [encode_lenient(part) for part in encoder.feed(record)]


FOLDS: Mapping[str, Callable[[str, Mapping[str, str]], EncodeParts] | None] = {
    "": None,
    "/ag-ui": _fold_ag_ui,
    "/ui": _fold_ui,
}
"""The streams of a run: its records, and the parts of user interface protocols."""

LogOf: TypeAlias = Callable[[web.Request], EventLog | None]
"""Returns the log that has the run of a request (``request.match_info["run"]``); ``None`` if the client may not read it."""


def durable_routes(
    log_of: LogOf, *, timing: StreamTiming = TIMING, send: SendEvents = send_events
) -> list[web.RouteDef]:
    """The routes ``/runs/{run}/stream``, ``/runs/{run}/stream/ag-ui`` and ``/runs/{run}/stream/ui``.

    Args:
        log_of: Returns the log of a request.
        timing: How long requests last.
        send: Sends server-sent events.
    """

    def route(view: str) -> web.RouteDef:
        async def handle(request: web.Request) -> web.StreamResponse:
            run = request.match_info["run"]
            log = log_of(request)
            if log is None:
                error = no_stream()
                return stream_error(error.status, error.code, error.message)
            source = run_stream(log, run, view, request.query)
            return await answer_stream(request, source, timing=timing, send=send)

        return web.route("*", f"/runs/{{run}}/stream{view}", handle)

    return [route(view) for view in FOLDS]


def run_stream(
    log: EventLog, run: str, view: str = "", query: Mapping[str, str] | None = None
) -> LogStream:
    """A stream of a stored run.

    Args:
        log: The log.
        run: The run's id.
        view: A key of `FOLDS`.
        query: The parameters of the request: AG-UI has ``protocol``, the version that the client supports.
    """
    given = query or {}
    fold = FOLDS[view]
    protocol = given.get("protocol", "") if view == "/ag-ui" else ""
    name = f"{run}{view}{protocol and '@'}{protocol}"
    if fold is None:
        return LogStream(log, run, name=name)
    return LogStream(log, run, fold=lambda: fold(run, given), name=name)
