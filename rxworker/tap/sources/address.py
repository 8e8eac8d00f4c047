"""Streams at an address: server-sent events of JSON, and the records of another server of rxworker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from rxworker import events
from rxworker.errors import HttpStatusError, RemoteProtocolError, TransportError
from rxworker.events import Record
from rxworker.framing import SseDecoder
from rxworker.framing.sse import SseFrame
from rxworker.hub.iterate import iterate
from rxworker.messages import Json, JsonObject
from rxworker.protocols.native import decode_record
from rxworker.providers.base import HttpRequest
from rxworker.tap.builder import OF_A_PROCESS
from rxworker.transport.http import HttpTransport, shown

RETRY = 1.0
"""Seconds until the next connection, unless the server sets them."""
PIECE = 16
"""Characters of a piece of text."""
DELTAS = (events.TextDelta, events.ThinkingDelta, events.RefusalDelta, events.InputJsonDelta)
BUSY = (429, 502, 503, 504)
"""The answers after which a connection is made again."""


async def frames_of(
    url: str, body: JsonObject | None = None, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[SseFrame, None]:
    """The server-sent events of an address, of one connection. The body is sent with POST."""
    sent = {"accept": "text/event-stream", **{name.lower(): each for name, each in (headers or {}).items()}}
    if body is not None:
        sent["content-type"] = "application/json"
    data = b"" if body is None else msgspec.json.encode(body)
    request = HttpRequest(url, sent, data, method="GET" if body is None else "POST")
    decoder = SseDecoder()
    async with aclosing(iterate(HttpTransport().send(request), limit=1 << 20)) as chunks:
        async for chunk in chunks:
            for frame in decoder.feed_run(chunk):
                yield frame
    for frame in decoder.finish():
        yield frame


async def json_events(
    url: str, body: JsonObject | None = None, *, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[JsonObject, None]:
    """The events of an address that are objects, until ``[DONE]``; each with the time at which it came.

    Args:
        url: The address.
        body: Is sent with POST; ``None``: the events are read with GET.
        headers: Headers of the request, such as one with a key. They are not recorded.

    Raises:
        TransportError: There is no connection, or it broke.
        HttpStatusError: The answer is not a stream of events.
        RemoteProtocolError: An event is not an object, or there is none.
    """
    frame = None
    async with aclosing(frames_of(url, body, headers)) as frames:
        async for frame in frames:
            if frame.data == b"[DONE]":
                return
            try:
                event = msgspec.json.decode(frame.data, type=JsonObject)
            except (msgspec.DecodeError, UnicodeError) as error:
                raise RemoteProtocolError(f"an event of {shown(url)} is not a JSON object: {error}") from error
            yield {"timestamp": int(time.time() * 1000), **event}
    if frame is None:
        raise RemoteProtocolError(f"{shown(url)} answered without a server-sent event: give the address of the stream")


async def ag_ui_events(
    url: str, given: str | JsonObject | None = None, *, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[JsonObject, None]:
    """The events of an agent at an address: the source of a tap with `AGUI`.

    Args:
        url: The address.
        given: A text, or a whole ``RunAgentInput``, which is sent with POST and begins a run; ``None``: the events are
            read with GET.
        headers: Headers of the request, such as one with a key. They are not recorded.

    Raises:
        TransportError: There is no connection, or it broke.
        HttpStatusError: The answer is not a stream of events.

    Each event has the time at which it came, where the agent reports none. A tap that is started again sends its input
    again, which runs the agent once more.
    """
    if isinstance(given, str):
        messages: list[Json] = [{"id": "message-1", "role": "user", "content": given}]
        ids: JsonObject = {"threadId": "thread-1", "runId": "run-1"}
        given = {**ids, "messages": messages, "tools": [], "context": [], "state": {}, "forwardedProps": {}}
    async with aclosing(json_events(url, given, headers=headers)) as events:
        async for event in events:
            yield {"input": given, **event} if given and event.get("type") == "RUN_STARTED" else event


async def remote_records(url: str, *, headers: Mapping[str, str] | None = None) -> AsyncGenerator[Record, None]:
    """The records of a run at another server of rxworker, such as ``http://127.0.0.1:8000/api/runs/run-1/events``.

    A connection that breaks is made again, and the records go on after the last one. A server sends deltas that came
    together as one, and other ones the next time; they are given in pieces of `PIECE` characters, so that a tap that is
    started again finds what it has. What belongs to the other process, such as a detached watcher, is left out.

    Args:
        url: The address of the events of the run.
        headers: Headers of the request, such as one with a token. They are not recorded.

    Raises:
        HttpStatusError: The server refuses the request, or does not have the run.
        RemoteProtocolError: An event is not a record, or there is none.
    """
    pieces = _Pieces()
    async with aclosing(_records(url, headers)) as records:
        async for record in records:
            for each in pieces.feed(record):
                yield each
    for each in pieces.finish():
        yield each


class _Pieces:
    """Cuts the text of deltas that follow each other, however they came."""

    def __init__(self) -> None:
        self._held: Record | None = None
        self._text = ""

    def feed(self, record: Record) -> Iterator[Record]:
        event = record.event
        if not isinstance(event, DELTAS):
            yield from self.finish()
            if not isinstance(event, OF_A_PROCESS):
                yield record
            return
        if self._held is None or _key(self._held) != _key(record):
            yield from self.finish()
        self._held, self._text = record, self._text + event.text
        while len(self._text) >= PIECE:
            yield self._piece(record)

    def finish(self) -> Iterator[Record]:
        if self._held is not None and self._text:
            yield self._piece(self._held)
        self._held = None

    def _piece(self, record: Record) -> Record:
        text, self._text = self._text[:PIECE], self._text[PIECE:]
        return replace(record, event=replace(record.event, text=text), covers=1)


def _key(record: Record) -> tuple[object, ...]:
    return record.path, type(record.event), getattr(record.event, "index", None), getattr(record.event, "choice", None)


async def _records(url: str, headers: Mapping[str, str] | None) -> AsyncGenerator[Record, None]:
    """The records as they come, over any number of connections."""
    last, pause = "", RETRY
    while True:
        known = {"last-event-id": last} if last else {}
        try:
            async with aclosing(frames_of(url, None, {**(headers or {}), **known})) as frames:
                async for frame in frames:
                    last, pause = frame.id or last, pause if frame.retry is None else frame.retry / 1000
                    if frame.event == "end":
                        return
                    if frame.event == "message":
                        yield decode_record(frame.data)
        except HttpStatusError as error:
            if error.status == 204:  # there are no more
                return
            if error.status not in BUSY:
                raise
        except TransportError as error:
            if not (error.retryable and last):  # nothing was ever read there
                raise
        else:
            if not last:
                raise RemoteProtocolError(f"{shown(url)} answered without a record: give the address of a run's events")
        await asyncio.sleep(pause)
