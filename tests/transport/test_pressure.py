"""Pressure: what reads a connection waits for those behind it, and so does the server, through TCP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator

import pytest
from aiohttp.client_proto import ResponseHandler
from reactivex import operators as ops
from reactivex.testing import TestScheduler

from rxworker.errors import TransportError, TransportTimeoutError
from rxworker.providers import Anthropic
from rxworker.providers.base import HttpRequest
from rxworker.testing import anthropic_frames, say
from rxworker.transport import Client, HttpTransport, Retry
from rxworker.transport.answer import Timeouts
from rxworker.transport.base import PRESSURE

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RawServer = Callable[[Handler], Awaitable[str]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
FRAME = b"data: " + b"x" * 16_000 + b"\n\n"
MAX = 64 * 1024 * 1024
"""Far more than aiohttp and the machine hold between a client and a server."""


class Gate:
    """A `Pressure` that is set by hand."""

    def __init__(self) -> None:
        self.is_full = False
        self.asked = 0
        self._opened: asyncio.Future[None] | None = None

    def hold(self) -> Awaitable[object] | None:
        self.asked += 1
        if not self.is_full:
            return None
        self._opened = asyncio.get_running_loop().create_future()
        return self._opened

    @property
    def is_holding(self) -> bool:
        return self._opened is not None and not self._opened.done()

    def open(self) -> None:
        self.is_full = False
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)


class Source:
    """Sends and sends, and counts."""

    def __init__(self, frames: list[bytes], most: int = MAX) -> None:
        self.frames = frames
        self.most = most
        self.sent = 0
        self.gone = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        try:
            for frame in self.frames[:-1]:
                writer.write(frame)
            while self.sent < self.most:
                writer.write(self.frames[-1])
                self.sent += len(self.frames[-1])
                await writer.drain()
            await reader.read()
        except ConnectionError:
            pass
        finally:
            self.gone.set()


async def until(condition: Callable[[], bool]) -> None:
    """Turns of the event loop pass until it is so."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - whatever it is, it happens on this loop
            await asyncio.sleep(0)


async def flat(count: Callable[[], int], turns: int = 500) -> int:
    """Turns of the event loop pass until a count has stood still for many of them; gives the count."""
    last, still = count(), 0
    async with asyncio.timeout(60):
        while still < turns:
            await asyncio.sleep(0)
            last, still = (last, still + 1) if count() == last else (count(), 0)
    return last


@pytest.fixture
def gate() -> Generator[Gate, None, None]:
    made = Gate()
    token = PRESSURE.set(made)
    yield made
    PRESSURE.reset(token)


class Body:
    """What arrived. Each chunk may fill a gate."""

    def __init__(self, base_url: str, fills: Gate | None = None) -> None:
        self.size = 0
        self._fills = fills
        self.ends: list[Exception | None] = []
        request = HttpRequest(base_url + "/v1/messages", {}, b"{}")
        self.subscription = HttpTransport().send(request).subscribe(self._add, self.ends.append, self._end)

    def _add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self._fills is not None:
            self._fills.is_full = True

    def _end(self) -> None:
        self.ends.append(None)


async def test_nothing_is_read_while_it_is_full_and_the_server_stops(raw_server: RawServer, gate: Gate) -> None:
    source = Source([FRAME])
    body = Body(await raw_server(source))
    await until(lambda: body.size > len(FRAME))
    gate.is_full = True
    await until(lambda: gate.is_holding)
    read, sent = body.size, await flat(lambda: source.sent)
    assert body.size == read
    assert sent < MAX / 2
    gate.open()
    await until(lambda: source.sent > sent + MAX // 8)
    assert body.size > read
    body.subscription.dispose()
    await source.gone.wait()


async def test_it_waits_again_after_every_chunk(raw_server: RawServer, gate: Gate) -> None:
    source = Source([FRAME], most=4 * 1024 * 1024)
    body = Body(await raw_server(source), fills=gate)
    sizes: list[int] = []
    for _ in range(3):
        await until(lambda: gate.is_holding)
        sizes.append(body.size)
        gate.open()
    assert sizes == sorted(set(sizes))
    body.subscription.dispose()


async def test_one_that_is_full_again_at_once_is_waited_for_again(raw_server: RawServer, gate: Gate) -> None:
    body = Body(await raw_server(Source([FRAME])), fills=gate)
    await until(lambda: gate.is_holding)
    read, asked = body.size, gate.asked
    gate.open()
    gate.is_full = True
    await until(lambda: gate.asked > asked)
    assert (body.size, gate.is_holding) == (read, True)
    body.subscription.dispose()


async def test_leaving_while_it_is_held_closes_the_connection(raw_server: RawServer, gate: Gate) -> None:
    source = Source([FRAME])
    gate.is_full = True
    body = Body(await raw_server(source))
    await until(lambda: gate.is_holding)
    body.subscription.dispose()
    async with asyncio.timeout(60):
        await source.gone.wait()
    assert body.ends == []


async def test_without_pressure_everything_is_read(raw_server: RawServer) -> None:
    source = Source([FRAME], most=4 * 1024 * 1024)
    body = Body(await raw_server(source))
    await until(lambda: body.size >= source.most)
    body.subscription.dispose()


@pytest.mark.parametrize("size", [1, 40_000])
async def test_what_came_before_a_cut_is_emitted_later_too(
    raw_server: RawServer, gate: Gate, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    is_cut, lose = asyncio.Event(), ResponseHandler.connection_lost
    got: list[bytes] = []

    def connection_lost(handler: ResponseHandler, error: BaseException | None) -> None:
        lose(handler, error)
        is_cut.set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await until(lambda: gate.is_holding)
        writer.write(b"%x\r\n%b\r\n" % (size, b"b" * size))
        writer.close()
        await is_cut.wait()
        gate.open()

    monkeypatch.setattr(ResponseHandler, "connection_lost", connection_lost)
    gate.is_full = True
    request = HttpRequest(await raw_server(serve), {}, b"{}")
    with pytest.raises(TransportError):
        await HttpTransport().send(request).pipe(ops.do_action(got.append))
    assert b"".join(got) == b"a" + b"b" * size


async def test_the_pressure_of_the_beginning_counts(raw_server: RawServer, gate: Gate) -> None:
    """A connection is read in a task of its own, which keeps the pressure that it began with."""
    source = Source([FRAME])
    body = Body(await raw_server(source))
    PRESSURE.set(None)
    await until(lambda: body.size > 0)
    gate.is_full = True
    await until(lambda: gate.is_holding)
    gate.open()
    body.subscription.dispose()


@pytest.fixture
def patient_client() -> Callable[[str, TestScheduler], Client]:
    def make(base_url: str, clock: TestScheduler) -> Client:
        provider = Anthropic("m", api_key="k", base_url=base_url)
        timeouts = Timeouts(first=None, idle=80)
        return Client(provider, timeouts=timeouts, retry=Retry(retries=0), scheduler=clock)

    return make


def frames_of(text: str) -> list[bytes]:
    """The frames of an answer up to its first delta, which is sent again and again."""
    frames = list(anthropic_frames(say(text)))
    first = next(place for place, frame in enumerate(frames) if b"content_block_delta" in frame)
    return frames[: first + 1]


async def test_silence_does_not_count_while_it_is_held_and_does_afterwards(
    raw_server: RawServer, gate: Gate, patient_client: Callable[[str, TestScheduler], Client]
) -> None:
    clock = TestScheduler()
    source = Source(frames_of("word" * 4000), most=4 * 1024 * 1024)
    errors: list[Exception] = []
    events: list[object] = []
    client = patient_client(await raw_server(source), clock)
    gate.is_full = True
    client.stream("hi").subscribe(events.append, errors.append)
    await until(lambda: gate.is_holding and bool(events))
    clock.advance_by(1000)
    assert errors == []
    gate.open()
    await until(lambda: source.sent >= source.most)
    await flat(lambda: len(events))
    clock.advance_by(70)
    assert errors == []
    clock.advance_by(40)
    await until(lambda: bool(errors))
    assert isinstance(errors[0], TransportTimeoutError)
