"""The runs of requests that pass: copies of their bytes, decoded beside them.

Theory of operation. An `Exchange` is a request that passes, with its response. It takes copies of the bytes, which
costs one append for each read. Some times a second the `Recorder` looks at those that have taken any, one after the
other, never for long and with pauses between them: it reads the request, finds the run that it continues, and decodes
the response so far. So no piece that passes waits for more than a moment, however many runs there are.

A run waits, after a response with calls, for the request with their results: it is found by the ids of the calls, by
the id of the response, or by a hash of the messages that the request before had. After an error that a client may retry
it waits for the same request. It ends with a response without calls; a later request of the same conversation begins a
run with the same label.

What waits to be decoded or written has a bound. Beyond it, and after any error here, a run ends as cut off, with the
reason.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Literal, TypeAlias

from aiohttp import ClientResponse, web
from msgspec import Struct, field
from reactivex import Subject

from rxworker.errors import RxWorkerError
from rxworker.events import Error, Ping, ResponseStatus, Status, TextDelta
from rxworker.events.kinds import Deltas, gather
from rxworker.events.meta import TRUNCATED
from rxworker.log.kept import conversation_of
from rxworker.log.values import CONVERSATION
from rxworker.messages import Conversation, Message, StopKind, Text, ToolCall, ToolResult
from rxworker.messages.content import wire_id
from rxworker.providers import PROVIDERS
from rxworker.providers.base import secrets_in, secrets_of_url
from rxworker.providers.batch_decoder import Part
from rxworker.providers.endpoint import masked
from rxworker.providers.service import Service
from rxworker.redact import format_error
from rxworker.run.run import Run, end_of
from rxworker.tap.builder import Mapper, RunBuilder, Tapped
from rxworker.tap.each import TapOptions
from rxworker.tap.requests import TappedRequest, key_of, read_request, unpacker
from rxworker.tap.run import tap

logger = logging.getLogger("rxworker.tap")
INTERVAL, FOR_EACH = 0.25, 0.01
"""Seconds that pieces wait to be decoded: at least, and after each response that was.

So what recording costs does not grow with their number, and never takes all of the time for a while.
"""
GROUP = 50
"""Responses that are decoded between two pauses: what they bring is one transaction of a log, or few."""
SLICE, PIECE = 0.0003, 16 * 1024
"""Seconds of decoding after which what passes has its turn, and bytes of a response that are decoded at once."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes that wait to be decoded or written, of all runs."""
MAX_RUNS = 2000
"""Runs that have not ended."""
MAX_KNOWN, MAX_ALIKE = 10_000, 64
"""Requests, calls and responses by which a run is found, and runs of the same."""
MAX_ERROR = 64 * 1024
"""Bytes of the body of an error that are read."""
CLOSING = 5.0
"""Seconds that the ends of the open runs may take to be written."""
FULL = "more waits to be recorded than fits into memory"

CLIENT = re.compile(r"[A-Za-z][\w.-]{0,40}(/[A-Za-z]\w{0,20})?")
"""The name of a client, without its version."""
HINTS = ("retry-after", "retry-after-ms", "x-should-retry")
"""The headers that decide about a retry."""

_Batch: TypeAlias = tuple[list[Tapped], int]
"""Events, and about how many bytes they are."""
Ending: TypeAlias = Literal["", "whole", "cut", "left", "stopped"]
"""How an exchange has ended: by its end, before it by the server, by the client, or by the proxy."""


@lru_cache(maxsize=256)
def _provider(name: str, model: str) -> Service:
    return PROVIDERS[name](model or "unknown")


class Exchange(Struct, eq=False):
    """A request that passes, with its response.

    Attributes:
        recorder: Makes runs of what it has taken.
        protocol: The name of the provider whose protocol it is in.
        model: The model, if the path names it.
        request: The request.
        response: The response, when it has begun.
        ending: How it has ended.
        arrived: When it began.
        ended: When it has ended.
        sent: The body of the request, until it is read.
        waiting: What is not decoded of that of the response.
        is_asked: Whether the request is whole.
        due: When it will be recorded, by the clock of the event loop; 0: no piece waits.
        is_lost: Whether it is not recorded any more.
        talk: Its run.
        reading: Its response as far as it is decoded.
    """

    recorder: Recorder
    protocol: str
    model: str
    request: web.BaseRequest
    response: ClientResponse | None = None
    ending: Ending = ""
    arrived: float = field(default_factory=time.time)
    ended: float = 0.0
    sent: bytearray = bytearray()
    waiting: bytearray = bytearray()
    is_asked: bool = False
    due: float = 0.0
    is_lost: bool = False
    talk: _Talk | None = None
    reading: _Reading | None = None

    def __repr__(self) -> str:
        return f"Exchange({self.protocol!r})"  # the rest has keys

    @property
    def is_answered(self) -> bool:
        """Whether there is a response, which is not an error; over a WebSocket it has the status of the handshake."""
        return self.response is not None and self.response.status in (200, 101)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response."""
        return {} if self.response is None else self.response.headers

    def take_request(self, data: bytes) -> None:
        """Take bytes of the body of the request."""
        self._take(self.sent, data)

    def ask(self) -> None:
        """The request is whole."""
        self.is_asked = True
        self.recorder.queue(self)

    def take(self, data: bytes) -> None:
        """Take bytes of the body of the response."""
        self._take(self.waiting, data)
        if not self.due:
            self.recorder.queue(self)

    def end(self, ending: Ending) -> None:
        """It has ended."""
        if not self.ending:
            self.ending, self.ended = ending, time.time()
            self.recorder.queue(self)

    def release(self, limit: int | None = None) -> tuple[bytes, int]:
        """Some bytes of the response; and how many are held less, with those of the request."""
        data = bytes(self.waiting[:limit])
        size = len(self.sent) + len(data)
        self.sent.clear()
        del self.waiting[:limit]
        self.recorder.size -= size
        return data, size

    def _take(self, held: bytearray, data: bytes) -> None:
        if not self.is_lost:
            held += data
            self.recorder.size += len(data)
            if self.recorder.size > MAX_BYTES:
                self.recorder.lose(self, FULL)


class _Talk(Mapper[_Batch]):
    """A run, and, once it has ended, by what a request of its conversation finds it."""

    def __init__(self, recorder: Recorder, conversation: str) -> None:
        self.status: Literal["busy", "calls", "failed", "over"] = "busy"
        self.builder = RunBuilder("proxy")
        self.key = self.echo = b""  # of the messages of its last request, and of the response
        self.ended = 0.0
        self.held = 0  # bytes of events that the run has not taken
        self.timer: asyncio.TimerHandle | None = None
        self.exchange: Exchange | None = None
        self.batches: Subject[_Batch] = Subject()
        self._recorder = recorder
        self.run_id, self.conversation = "", conversation  # the run itself is not kept: there are many of these

    def feed(self, batch: _Batch) -> list[Tapped]:
        """The run takes events."""
        events, size = batch
        self.held -= size
        self._recorder.size -= size
        return events

    def continues(self, request: TappedRequest) -> bool:
        """Whether a request belongs to this run: one with results, or the one that has failed."""
        return self.status in ("calls", "failed") and (self.status == "failed") == (self.key == request.key)


class _Reading:
    """A response that is decoded for a run."""

    def __init__(self, exchange: Exchange, talk: _Talk) -> None:
        self.talk = talk
        self.texts: list[str] = []
        self.response_id = ""
        self.last: Status | None = None
        self.error: Error | None = None
        self.provider = _provider(exchange.protocol, exchange.model)
        self.body = b""  # of an error
        self._unpack: Callable[[bytes], bytes] | None = None
        self._decoder = self.provider.decoder()
        self._feed: Callable[[bytes], Iterable[Part]] | None = getattr(self._decoder, "feed_parts", None)

    def read(self, exchange: Exchange, data: bytes) -> None:
        """Decode bytes."""
        if self._unpack is None:
            self._unpack = unpacker(exchange.headers.get("Content-Encoding", ""))
        data = self._unpack(data)
        if exchange.is_answered:
            self._take(gather(self._decoder.feed(data)) if self._feed is None else self._feed(data))
        else:
            self.body = (self.body + data)[:MAX_ERROR]

    def finish(self) -> None:
        """The bytes have ended."""
        self._take(self._decoder.finish())

    def _take(self, parts: Iterable[Part]) -> None:
        for part in parts:
            event = part.with_text(part.text()) if isinstance(part, Deltas) else part
            if self.last is not None:
                return  # an error after the end is not of the response
            if isinstance(event, Ping):
                continue
            if isinstance(event, TextDelta):
                self.texts.append(event.text)
            elif isinstance(event, Error):
                self.error = event
            elif isinstance(event, Status):
                self.response_id = event.response_id or self.response_id
                self.last = event if event.status is not ResponseStatus.STARTED else None
            self.talk.builder.decoded((event,))


class _Known:
    """By what a request finds the run that it continues, or one of its conversation."""

    def __init__(self) -> None:
        self._talks: OrderedDict[str | bytes, list[_Talk]] = OrderedDict()

    def add(self, name: str | bytes, talk: _Talk) -> None:
        """Find a run by this from now on."""
        talks = self._talks.setdefault(name, [])
        self._talks.move_to_end(name)
        if talk not in talks:
            talks.append(talk)
            del talks[:-MAX_ALIKE]
        if len(self._talks) > MAX_KNOWN:
            self._talks.popitem(last=False)

    def find(self, request: TappedRequest) -> tuple[_Talk | None, bool]:
        """The run of a request, if there is one; whether the request continues it."""
        for name in (*(f"call {each.tool_use_id}" for each in request.results), f"response {request.previous}"):
            if talks := self._talks.get(name):
                return talks[-1], talks[-1].continues(request)
        for at in range(len(request.keys), 0, -1):
            if talks := self._talks.get(request.keys[at - 1]):
                echo = key_of(*request.messages[at : request.last])
                alike = [each for each in talks if each.key == request.keys[at - 1] and each.continues(request)]
                found = next((each for each in alike if each.echo == echo), alike[0] if alike else None)
                return found or talks[-1], found is not None
        return None, False


class Recorder:
    """Makes runs of exchanges.

    Args:
        service: The host.
        idle: Seconds that a run waits for the results of its calls.
        patience: Seconds that a failed one waits for the same request.
        options: Those of `tap`.

    Attributes:
        runs: The observable of the runs, each as it begins.
        open: Those that go on, by their ids.
        size: The bytes that wait.
    """

    def __init__(self, service: str, idle: float, patience: float, options: TapOptions) -> None:
        self._service, self._idle, self._patience, self._options = service, idle, patience, options
        self.runs: Subject[Run[None]] = Subject()
        self.open: dict[str, Run[None]] = {}
        self.size = 0
        self._queue: deque[Exchange] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._known = _Known()
        self._taken = 0
        self._talks: dict[asyncio.Future[None], _Talk] = {}
        self._reported: set[str] = set()

    def queue(self, exchange: Exchange) -> None:
        """Record the new pieces soon."""
        if not exchange.due:
            loop = asyncio.get_running_loop()
            exchange.due = loop.time() + INTERVAL
            self._queue.append(exchange)
            if self._timer is None:
                self._timer = loop.call_at(exchange.due, self._tick)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = wait = loop.time()
        until = time.perf_counter() + SLICE
        while self._queue and self._queue[0].due <= now and time.perf_counter() < until:
            exchange = self._queue.popleft()
            if self._record(exchange):
                self._queue.appendleft(exchange)  # the rest comes next
            else:
                exchange.due = 0.0
                self._taken += 1
                if self._taken % GROUP == 0:
                    wait += FOR_EACH * GROUP
        self._timer = loop.call_at(max(wait, self._queue[0].due), self._tick) if self._queue else None

    async def close(self) -> None:
        """Record the new pieces, and end the runs that go on as cut off."""
        if self._timer is not None:
            self._timer.cancel()
        for exchange in self._queue:
            while self._record(exchange):
                pass
        for talk in [*self._talks.values()]:
            self._abort(talk, "the proxy was stopped")
        if self._talks:
            await asyncio.wait([*self._talks], timeout=CLOSING)
        self.runs.on_completed()

    def lose(self, exchange: Exchange, reason: str, error: Exception | None = None) -> None:
        """Record no more of an exchange: its run ends as cut off."""
        if exchange.is_lost:
            return
        exchange.is_lost = True
        exchange.release()
        if reason not in self._reported:  # once for each
            self._reported.add(reason)
            logger.warning("not recorded: %s", reason if error is None else f"{reason}\n{format_error(error)}")
        if exchange.talk is not None:
            with suppress(Exception):  # it may be what has raised
                self._abort(exchange.talk, f"not recorded any further: {reason}")

    def _record(self, exchange: Exchange) -> bool:
        """Record the next bytes of an exchange; whether there are more."""
        if exchange.is_lost or not (exchange.is_asked or exchange.ending):
            return False
        try:
            if exchange.reading is None and exchange.is_asked:
                exchange.reading = self._begin(exchange)
            data, size = exchange.release(PIECE)
            if (reading := exchange.reading) is not None:
                reading.talk.builder.time = exchange.ended or None
                if data:
                    reading.read(exchange, data)
                if exchange.ending and not exchange.waiting:
                    self._end(exchange, reading)
                self._send(reading.talk, size)
        except Exception as error:
            where = f"{type(error).__name__} in what records {exchange.protocol}"
            self.lose(exchange, error.message if isinstance(error, RxWorkerError) else where, error)
        return bool(exchange.waiting)

    def _begin(self, exchange: Exchange) -> _Reading | None:
        """Find or open the run of a request."""
        unpack = unpacker(exchange.request.headers.get("Content-Encoding", ""))
        request = read_request(unpack(bytes(exchange.sent)))
        talk, is_continued = self._known.find(request)
        if talk is None or not is_continued:
            if len(self._talks) >= MAX_RUNS:
                self.lose(exchange, f"{MAX_RUNS} runs go on")
                return None
            talk = self._open(exchange, request, "" if talk is None else talk.conversation)
        exchange.talk = talk
        if talk.timer is not None:
            talk.timer.cancel()
        talk.builder.time = exchange.arrived
        if talk.status == "calls":
            self._add(talk, request, exchange.arrived - talk.ended)
        talk.status, talk.exchange, talk.key = "busy", exchange, request.key
        talk.builder.attempt(request.model or exchange.model, exchange.protocol, self._service)
        if request.key:
            self._known.add(request.key, talk)
        return _Reading(exchange, talk)

    def _open(self, exchange: Exchange, request: TappedRequest, conversation: str) -> _Talk:
        talk = _Talk(self, conversation)
        run = tap(talk.batches, talk, **self._options)
        talk.run_id, talk.conversation = run.id, conversation or conversation_of({}, run.id)
        self.open[run.id] = run
        end = asyncio.ensure_future(end_of(run))
        self._talks[end] = talk
        end.add_done_callback(self._forget)
        client = CLIENT.match(exchange.request.headers.get("User-Agent", ""))
        every = {"provider": exchange.protocol, "client": client[0] if client else "", CONVERSATION: conversation}
        labels = {name: text for name, text in every.items() if text}
        before = Conversation(request.messages[: request.last], request.system)
        talk.builder.time = exchange.arrived
        talk.builder.start(request.new or None, before=before, labels=labels)
        self.runs.on_next(run)
        return talk

    def _forget(self, end: asyncio.Future[None]) -> None:
        """A run has ended."""
        talk = self._talks.pop(end)
        run = self.open.pop(talk.run_id)
        self.size -= talk.held
        exchange, talk.exchange = talk.exchange, None
        transport = None if exchange is None or exchange.ending else exchange.request.transport
        if transport is not None and run.state.cause == "cancel":  # here, and not by the client
            transport.abort()
        talk.held, talk.status, talk.builder = 0, "over", RunBuilder("proxy")

    def _add(self, talk: _Talk, request: TappedRequest, seconds: float) -> None:
        """Add the results of the calls, and what else a request has that continues a run."""
        calls = [*talk.builder.calls]
        for result in request.results:
            call = next((each for each in calls if _fits(result, each)), None)
            if call is not None:
                calls.remove(call)
                talk.builder.tool_stop(call.id, result.content, is_error=result.is_error, seconds=seconds)
        others = [[each for each in m.content if not isinstance(each, ToolResult)] for m in request.new]
        talk.builder.end_turn()
        talk.builder.add(*(Message.user(*content) for content in others if content))

    def _end(self, exchange: Exchange, reading: _Reading) -> None:
        """A response has ended."""
        talk = reading.talk
        talk.exchange, talk.ended = None, exchange.ended
        if exchange.is_answered and exchange.ending in ("whole", "cut"):
            reading.finish()
        if reading.last is None and exchange.ending in ("left", "stopped"):
            left = exchange.ending == "left"
            reason = "the client has closed the connection" if left else "the proxy was stopped"
            self._abort(talk, reason, "cancel" if left else "abort")
        elif reading.last is None or reading.last.status is not ResponseStatus.COMPLETED:
            self._fail(exchange, reading)
        else:
            self._answer(reading, reading.last)

    def _fail(self, exchange: Exchange, reading: _Reading) -> None:
        """A response has failed: the client may send the request again."""
        talk, error = reading.talk, reading.error
        may_retry = error is not None and (error.retryable or error.code == TRUNCATED)
        if error is None:
            request, headers = exchange.request, exchange.headers
            status = 502 if exchange.response is None else exchange.response.status
            hints = {name: headers[name] for name in HINTS if name in headers}
            known = reading.provider.error(status, hints, reading.body)
            may_retry = known.retryable or exchange.ending == "cut"
            secrets = (*secrets_in(dict(request.headers)), *secrets_of_url(request.raw_path))
            talk.builder.fail(masked(str(known), secrets), known.code, retryable=may_retry)
        if may_retry:
            self._wait(talk, "failed", self._patience, "")
        else:
            self._close(talk)

    def _answer(self, reading: _Reading, last: Status) -> None:
        """A response is whole: its calls run now, or the run has ended."""
        talk, builder = reading.talk, reading.talk.builder
        calls = builder.calls
        talk.echo = key_of(Message.assistant(*map(Text, reading.texts), *calls))
        if reading.response_id:
            self._known.add(f"response {reading.response_id}", talk)
        for call in calls:
            builder.tool_start(call.id)
            if name := wire_id(call.id):
                self._known.add(f"call {name}", talk)
        if calls or (last.stop_reason is not None and last.stop_reason.kind is StopKind.PAUSE_TURN):
            self._wait(talk, "calls", self._idle, f"no request continued it within {self._idle:g} s")
        else:
            self._close(talk)

    def _wait(self, talk: _Talk, status: Literal["calls", "failed"], seconds: float, reason: str) -> None:
        """Wait for the request that continues a run; without one it ends, as cut off if there is a reason."""

        def expire() -> None:
            talk.builder.time = None
            self._abort(talk, reason) if reason else self._close(talk)

        talk.status = status
        talk.timer = asyncio.get_running_loop().call_later(seconds, expire)

    def _abort(self, talk: _Talk, reason: str, cause: Literal["abort", "cancel"] = "abort") -> None:
        talk.builder.abort(reason, cause)
        self._close(talk)

    def _close(self, talk: _Talk) -> None:
        """A run has ended: well, or as its last response has failed, or was cut off."""
        talk.builder.end()
        talk.status = "over"
        if talk.timer is not None:
            talk.timer.cancel()
        self._send(talk, 0)
        talk.batches.on_completed()

    def _send(self, talk: _Talk, size: int) -> None:
        """Give what is built to the run."""
        events = talk.builder.take()
        if events and talk.run_id in self.open:
            talk.held += size
            self.size += size
            talk.batches.on_next((events, size))


def _fits(result: ToolResult, call: ToolCall) -> bool:
    """Whether this is the result of a call. Gemini and Ollama name the tool, and old clients of Ollama nothing."""
    if result.tool_use_id:
        return result.tool_use_id == wire_id(call.id)
    return result.name in ("", call.name)
