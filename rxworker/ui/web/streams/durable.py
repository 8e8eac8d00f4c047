"""Durable Streams, an open protocol for append-only streams over HTTP, read-only.

A `MessageStream` has messages with offsets. `answer_stream` answers a request for one: a read, a long poll, server-sent
events, or its metadata. Source of the protocol: https://durablestreams.com, version of the conformance suite 0.3.6.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Literal
from urllib.parse import quote

from aiohttp import web
from msgspec import Meta, Struct

from rxworker.protocols import SSE_HEADERS
from rxworker.protocols.native import encode_json
from rxworker.ui.web.http.request import WebRequest
from rxworker.ui.web.http.responses import ApiError, read_query
from rxworker.ui.web.streams.stored import JSON, START, MessageStream, StreamPage
from rxworker.ui.web.streams.streams import Streams

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
        return head_response(source, await source.tail())
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


def head_response(source: MessageStream, page: StreamPage) -> web.Response:
    """The metadata of a stream, from the page of its end."""
    headers = {**_place_headers(page), "Content-Type": source.content_type}
    headers["ETag"] = _etag(source, "-1", page)
    return web.Response(headers=headers)


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
    >>> from rxworker.ui.web.streams.stored import LogStream
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
