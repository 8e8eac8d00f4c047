"""A writable source of Durable Streams over an event log, for the conformance suite.

Each stream is a run, and each message an entry of it.

Reads are answered by `rxworker.ui.web.streams.durable` alone. What is written here is only what the product does not
have: creating, appending, closing, deleting and forking streams. The entries are in the log, and the rest of a stream
is in memory.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import msgspec
from aiohttp import web

from rxworker.events import Opaque, Record, RunStop
from rxworker.log import Claim, EventLog
from rxworker.log.format import entries_of, record_of
from rxworker.log.values import RunRow
from rxworker.ui.web import Settings
from rxworker.ui.web.http.responses import ApiError, error_response
from rxworker.ui.web.runs.store import RunStore
from rxworker.ui.web.server import AiohttpRequest, add_security_headers
from rxworker.ui.web.streams.durable import JSON, LogStream, answer_stream
from rxworker.ui.web.streams.streams import Streams

MAX = 2**53 - 1
CORS = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
"""The response to a browser of another origin, which the suite expects. The web server refuses such browsers."""


@dataclass(frozen=True)
class Config:
    """What a second PUT has to match."""

    content_type: str
    ttl: int | None
    expires: str | None
    source: str | None
    fork_offset: str | None
    sub_offset: int


@dataclass
class Stream:
    """A stream, beside its entries."""

    path: str
    claim: Claim
    config: Config
    source: Stream | None
    last: int = 0
    forks: int = 0
    is_closed: bool = False
    is_deleted: bool = False
    closed_by: Producer | None = None
    last_seq: str | None = None
    touched: float = field(default_factory=time.time)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def tail(self) -> str:
        return f"{self.claim.epoch if self.last else 0:016d}_{self.last:016d}"

    @property
    def is_expired(self) -> bool:
        if self.config.expires is not None:
            return time.time() >= read_time(self.config.expires)
        return self.config.ttl is not None and time.time() >= self.touched + self.config.ttl

    def headers(self) -> dict[str, str]:
        headers = {"Stream-Next-Offset": self.tail}
        if self.is_closed:
            headers["Stream-Closed"] = "true"
        return headers


@dataclass(frozen=True)
class Producer:
    """The place of an append among those of a producer."""

    id: str
    epoch: int
    seq: int


class WritableStreams:
    """Streams that clients create and write."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._streams: dict[str, Stream] = {}
        self._numbers = itertools.count(1)
        self._creating = asyncio.Lock()
        settings = Settings()
        self._sending = Streams(settings, RunStore(settings))

    def app(self) -> web.Application:
        """The server."""
        app = web.Application(client_max_size=1 << 28)
        app.on_response_prepare.append(add_security_headers)
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        try:
            match request.method:
                case "PUT":
                    async with self._creating:
                        return await self._create(request)
                case "POST":
                    return await self._append(request)
                case "DELETE":
                    await self._delete(await self._find(request.path))
                    return web.Response(status=204)
                case "OPTIONS":
                    return web.Response(status=204, headers=CORS)
                case "GET" | "HEAD":
                    return await self._read(request)
                case method:
                    raise web.HTTPMethodNotAllowed(method, ["GET", "HEAD"])
        except ApiError as error:
            return error_response(error.status, error.code, error.message)

    async def _get(self, path: str) -> Stream | None:
        stream = self._streams.get(path)
        if stream is not None and stream.is_expired and not stream.is_deleted:
            await self._delete(stream)
        return self._streams.get(path)

    async def _find(self, path: str) -> Stream:
        stream = await self._get(path)
        if stream is None:
            raise ApiError(404, "no_stream", "there is no such stream")
        if stream.is_deleted:
            raise ApiError(410, "gone", "the stream was deleted, and has forks")
        return stream

    async def _read(self, request: web.Request) -> web.StreamResponse:
        stream = await self._find(request.path)
        if request.method != "HEAD":
            stream.touched = time.time()
        source = LogStream(
            self._log, stream.claim.run_id, fold=lambda: message_of, name=stream.path,
            content_type=stream.config.content_type,
        )  # fmt: skip
        given = AiohttpRequest(request)
        sent = await answer_stream(given, source, self._sending)
        response = sent or given.sent
        if request.method == "HEAD" and stream.config.ttl is not None:
            response.headers["Stream-TTL"] = str(stream.config.ttl)
        if request.method == "HEAD" and stream.config.expires is not None:
            response.headers["Stream-Expires-At"] = stream.config.expires
        return response

    async def _create(self, request: web.Request) -> web.Response:
        config = read_config(request)
        body = await request.read()
        is_closed = request.headers.get("Stream-Closed", "").lower() == "true"
        known = await self._get(request.path)
        if known is not None:
            if known.is_deleted:
                raise ApiError(409, "exists", "the stream was deleted, and has forks")
            asked = with_type_of(config, known.config)
            if asked != known.config or is_closed != known.is_closed:
                raise ApiError(409, "exists", "the stream exists, with another configuration")
            headers = {**known.headers(), "Content-Type": known.config.content_type}
            return web.Response(headers=headers)
        source, at = None, 0
        prefix: list[bytes] = []
        if config.source is not None:
            source = await self._source(config.source)
            config = with_type_of(config, source.config)
            if media_type(config.content_type) != media_type(source.config.content_type):
                raise ApiError(409, "content_type", "the source has another content type")
            if config.ttl is None and config.expires is None:
                ttl, expires = source.config.ttl, source.config.expires
                config = Config(
                    config.content_type, ttl, expires, config.source, config.fork_offset,
                    config.sub_offset,
                )  # fmt: skip
            at = source.last if config.fork_offset is None else int(config.fork_offset[17:])
            prefix, at = await self._inherited(source, at, config.sub_offset)
        messages = split(config.content_type, body, may_be_empty=True)
        run = f"stream-{next(self._numbers)}"
        claim = await self._log.claim(run, create=True)
        stream = self._streams[request.path] = Stream(request.path, claim, config, source)
        if source is not None:
            source.forks += 1
            await self._copy(source, stream, at)
        await self._write(stream, [*prefix, *messages], is_last=is_closed)
        headers = {**stream.headers(), "Content-Type": config.content_type}
        headers["Location"] = str(request.url)
        return web.Response(status=201, headers=headers)

    async def _source(self, path: str) -> Stream:
        try:
            return await self._find(path)
        except ApiError as error:
            if error.status == 410:
                raise ApiError(409, "gone", "the source was deleted, and has forks") from None
            raise

    async def _inherited(self, source: Stream, at: int, sub_offset: int) -> tuple[list[bytes], int]:
        """The first bytes of a message that a fork has to append, and the number of the last entry that it copies."""
        if at > source.last:
            raise ApiError(400, "fork_offset", "the source does not have this offset")
        if not sub_offset:
            return [], at
        overshoot = ApiError(400, "sub_offset", "the source has less data after the offset")
        is_json = media_type(source.config.content_type) == JSON
        left = sub_offset
        async for entry in self._log.read(source.claim.run_id, at):
            for message in message_of(record_of(entry, source.claim.run_id)):
                if not is_json:
                    if sub_offset > len(message):
                        raise overshoot
                    return [message[:sub_offset]], entry.first - 1
                left -= 1
                if not left:
                    return [], entry.last
        raise overshoot

    async def _copy(self, source: Stream, stream: Stream, until: int) -> None:
        run = source.claim.run_id
        records = [record_of(entry, run) async for entry in self._log.read(run)]
        entries = entries_of([r for r in records if r.seq <= until], stream.claim.epoch)
        await self._log.append(stream.claim, entries, after=0, durable=False)
        stream.last = until

    async def _append(self, request: web.Request) -> web.Response:
        producer = read_producer(request)
        is_last = request.headers.get("Stream-Closed", "").lower() == "true"
        body = await request.read()
        stream = await self._find(request.path)
        if not body and not is_last:
            raise ApiError(400, "empty", "the body is empty")
        content_type = request.headers.get("Content-Type")
        if body and not content_type:
            raise ApiError(400, "content_type", "a body needs a Content-Type")
        async with stream.lock:
            stream.touched = time.time()
            if stream.is_closed:
                return append_to_closed(stream, producer, is_close=not body)
            if body and media_type(content_type or "") != media_type(stream.config.content_type):
                raise ApiError(409, "content_type", "the stream has another content type")
            if producer is not None:
                refusal = check_producer(stream, producer)
                if refusal is not None:
                    return refusal
            seq = request.headers.get("Stream-Seq")
            if seq is not None and stream.last_seq is not None and seq <= stream.last_seq:
                raise ApiError(409, "seq", "the Stream-Seq is not greater than the last one")
            messages = split(stream.config.content_type, body) if body else []
            await self._write(stream, messages, is_last=is_last)
            stream.last_seq = seq or stream.last_seq
            if producer is None:
                return web.Response(status=204, headers=stream.headers())
            stream.producers[producer.id] = producer.epoch, producer.seq
            if is_last:
                stream.closed_by = producer
            headers = producer_headers(stream, producer.epoch, producer.seq)
            return web.Response(status=200 if body else 204, headers=headers)

    async def _write(self, stream: Stream, messages: Sequence[bytes], *, is_last: bool) -> None:
        """Append messages in one transaction, and close the stream with the last of them."""
        run, after = stream.claim.run_id, stream.last
        events = [Opaque("message", b64encode(message).decode()) for message in messages]
        records = [Record(seq, run, 0, 0, time.time(), event) for seq, event in enumerate(events, after + 1)]
        if is_last and not records:
            # Readers wait for entries: this one is not a message.
            records.append(Record(after + 1, run, 0, 0, time.time(), RunStop()))
        row = RunRow(status="finished") if is_last else None
        entries = entries_of(records, stream.claim.epoch)
        await self._log.append(stream.claim, entries, after=after, row=row, durable=False)
        stream.last += len(records)
        stream.is_closed = is_last

    async def _delete(self, stream: Stream) -> None:
        if stream.forks:
            stream.is_deleted = True
            return
        self._streams.pop(stream.path, None)
        await self._log.release(stream.claim)
        await self._log.delete(stream.claim.run_id)
        source = stream.source
        if source is not None:
            source.forks -= 1
            if source.is_deleted and not source.forks:
                await self._delete(source)


def stream_error(status: int, code: str, message: str, headers: dict[str, str]) -> web.Response:
    response = error_response(status, code, message)
    response.headers.update(headers)
    return response


def message_of(record: Record) -> Sequence[bytes]:
    """The message of an entry; none for the end of a stream."""
    if isinstance(record.event, Opaque):
        return (b64decode(cast("str", record.event.raw)),)
    return ()


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def read_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def read_config(request: web.Request) -> Config:
    headers = request.headers
    ttl, expires = headers.get("Stream-TTL"), headers.get("Stream-Expires-At")
    source, offset = headers.get("Stream-Forked-From"), headers.get("Stream-Fork-Offset")
    sub_offset = headers.get("Stream-Fork-Sub-Offset")
    if ttl is not None and expires is not None:
        raise ApiError(400, "expiry", "give Stream-TTL or Stream-Expires-At")
    if ttl is not None and not re.fullmatch("0|[1-9][0-9]*", ttl):
        raise ApiError(400, "expiry", "Stream-TTL is a number of seconds")
    if expires is not None:
        try:
            read_time(expires)
        except ValueError:
            raise ApiError(400, "expiry", "Stream-Expires-At is a time") from None
    if offset is not None and not re.fullmatch("[0-9]{16}_[0-9]{16}", offset):
        raise ApiError(400, "fork_offset", "Stream-Fork-Offset is an offset")
    if sub_offset is not None:
        if source is None or not re.fullmatch("0|[1-9][0-9]*", sub_offset):
            raise ApiError(400, "sub_offset", "Stream-Fork-Sub-Offset is a number, for a fork")
        if offset is None and sub_offset != "0":
            raise ApiError(400, "sub_offset", "Stream-Fork-Sub-Offset needs an offset")
    content_type = headers.get("Content-Type", "")
    if not re.match(r"[\w-]+/[\w-]+", content_type):
        content_type = "" if source is not None else "application/octet-stream"
    return Config(
        content_type, None if ttl is None else int(ttl), expires, source, offset,
        int(sub_offset or 0),
    )  # fmt: skip


def with_type_of(config: Config, other: Config) -> Config:
    """The configuration with the content type of another one, if it has the same or none.

    A fork also inherits its expiry.
    """
    content_type = config.content_type
    if not content_type or media_type(content_type) == media_type(other.content_type):
        content_type = other.content_type
    ttl, expires = config.ttl, config.expires
    if config.source is not None and ttl is None and expires is None:
        ttl, expires = other.ttl, other.expires
    return Config(content_type, ttl, expires, config.source, config.fork_offset, config.sub_offset)


def read_producer(request: web.Request) -> Producer | None:
    names = ("Producer-Id", "Producer-Epoch", "Producer-Seq")
    id_, epoch, seq = (request.headers.get(name) for name in names)
    if id_ is None and epoch is None and seq is None:
        return None
    numbers = [n for n in (epoch, seq) if n and re.fullmatch("[0-9]+", n) and int(n) <= MAX]
    if not id_ or len(numbers) != 2:
        raise ApiError(400, "producer", "a producer has an id, an epoch and a number")
    return Producer(id_, int(numbers[0]), int(numbers[1]))


def split(content_type: str, body: bytes, *, may_be_empty: bool = False) -> list[bytes]:
    """The messages of a body: an array of JSON has several."""
    if not body:
        return []
    if media_type(content_type) != JSON:
        return [body]
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        raise ApiError(400, "json", "the body is not JSON") from None
    if not isinstance(value, list):
        return [body]
    messages = [bytes(raw) for raw in msgspec.json.decode(body, type=list[msgspec.Raw])]
    if not messages and not may_be_empty:
        raise ApiError(400, "json", "the array is empty")
    return messages


def check_producer(stream: Stream, producer: Producer) -> web.Response | None:
    """The response to an append that is not the next of its producer."""
    epoch, seq = stream.producers.get(producer.id, (producer.epoch, -1))
    if producer.epoch < epoch:
        headers = {"Producer-Epoch": str(epoch)}
        return stream_error(403, "stale", "another producer has begun a later epoch", headers)
    if producer.epoch > epoch:
        if producer.seq != 0:
            raise ApiError(400, "producer", "an epoch begins with 0")
        return None
    if producer.seq <= seq:
        return web.Response(status=204, headers=producer_headers(stream, epoch, seq))
    if producer.seq > seq + 1:
        headers = {"Producer-Expected-Seq": str(seq + 1), "Producer-Received-Seq": str(producer.seq)}
        return stream_error(409, "gap", "an append of the producer is missing", headers)
    return None


def append_to_closed(stream: Stream, producer: Producer | None, *, is_close: bool) -> web.Response:
    """The response to an append after the end."""
    if producer is None:
        if is_close:
            return web.Response(status=204, headers=stream.headers())
    elif producer == stream.closed_by:
        headers = producer_headers(stream, producer.epoch, producer.seq)
        return web.Response(status=204, headers=headers)
    else:
        epoch, _ = stream.producers.get(producer.id, (0, 0))
        if producer.epoch < epoch:
            return stream_error(403, "stale", "stale", {"Producer-Epoch": str(epoch)})
    return stream_error(409, "closed", "the stream is closed", stream.headers())


def producer_headers(stream: Stream, epoch: int, seq: int) -> dict[str, str]:
    return {**stream.headers(), "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}
