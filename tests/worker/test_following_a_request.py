"""Following a request from a coroutine: leaving it, cancelling it, and its errors."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import TransportError
from rxworker.events.kinds import flatten
from rxworker.operators.kernel import NOTHING, Sink, Stage, connect
from rxworker.providers.base import HttpRequest
from rxworker.testing import ReplayServer, ServedResponse, stall
from rxworker.tools.coroutines import Emitter
from rxworker.transport import HttpTransport
from rxworker.transport.base import PRESSURE

FRAMES = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]


def send(base_url: str) -> Observable[bytes]:
    headers = {"content-type": "application/json"}
    return HttpTransport().send(HttpRequest(base_url + "/v1/messages", headers, b"{}"))


def cut(source: Observable[bytes], stop: asyncio.Future[None]) -> Observable[bytes]:
    """What a stage does that leaves its source as soon as ``stop`` is done."""

    def subscribe(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        held = connect(source, observer)

        def leave(_: asyncio.Future[None]) -> None:
            held.dispose()
            observer.on_completed()

        stop.add_done_callback(leave)
        return held

    return Stage(subscribe)


def first(source: Observable[bytes]) -> Observable[bytes]:
    """What a stage does that leaves its source within the first item."""

    def subscribe(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        def on_next(value: bytes) -> None:
            observer.on_next(value)
            held.dispose()
            observer.on_completed()

        held = connect(source, Sink(on_next, observer.on_error, observer.on_completed))
        return held

    return Stage(subscribe)


async def followed(source: Observable[bytes]) -> list[bytes]:
    heard: list[bytes] = []
    await Emitter(heard.append, lambda parts: heard.extend(flatten(parts))).follow(source)
    return heard


async def test_it_receives_all_and_continues() -> None:
    async with ReplayServer([ServedResponse.from_frames(FRAMES)]) as server:
        assert b"".join(await followed(send(server.base_url))) == b"".join(FRAMES)
        assert len(server.requests) == 1


async def test_what_goes_wrong_is_raised() -> None:
    async with ReplayServer([ServedResponse((b"{}",), status=404)]) as server:
        with pytest.raises(TransportError, match="404"):
            await followed(send(server.base_url))


async def test_leaving_when_enough_was_received_closes_the_connection_and_continues() -> None:
    async with ReplayServer([stall()]) as server:
        heard = await followed(first(send(server.base_url)))
        await server.wait_closed()
        assert (len(heard), server.disconnects) == (1, 1)
        await asyncio.sleep(0)  # a cancellation that was left behind would come out here


async def test_one_that_leaves_waits_for_no_other_that_cannot_take_more() -> None:
    class Full:
        is_full = True

        def hold(self) -> asyncio.Future[None]:
            return asyncio.get_running_loop().create_future()

    async def leave() -> None:
        PRESSURE.set(Full())
        await followed(first(send(server.base_url)))

    async with ReplayServer([stall()]) as server:
        await asyncio.wait_for(leave(), 60)
        await server.wait_closed()


async def test_being_left_from_elsewhere_closes_the_connection_and_continues() -> None:
    enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    heard: list[bytes] = []

    def take(chunk: bytes) -> None:
        if not heard:
            enough.set_result(None)
        heard.append(chunk)

    async with ReplayServer([stall()]) as server:
        await Emitter(take, lambda parts: heard.extend(flatten(parts))).follow(cut(send(server.base_url), enough))
        await server.wait_closed()
        assert server.disconnects == 1
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()
        await asyncio.sleep(0)


async def test_being_left_and_cancelled_at_once_is_to_be_cancelled() -> None:
    async with ReplayServer([ServedResponse.from_frames([], delay=60)]) as server:
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(followed(cut(send(server.base_url), stop)))
        await server.wait_requests(1)
        stop.set_result(None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_closed()
        assert server.disconnects == 1


@pytest.mark.parametrize("chunks", [[], FRAMES[:1]])
async def test_cancelling_who_follows_closes_the_connection(chunks: list[bytes]) -> None:
    async with ReplayServer([ServedResponse.from_frames([*chunks, b"late"], delay=60)]) as server:
        task = asyncio.ensure_future(followed(send(server.base_url)))
        await server.wait_requests(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_closed()
        assert server.disconnects == 1


async def test_leaving_before_it_began_sends_nothing() -> None:
    def at_once(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        connect(source, observer).dispose()
        observer.on_completed()
        return NOTHING

    async with ReplayServer(["never asked"]) as server:
        source = send(server.base_url)
        assert await followed(Stage(at_once)) == []
        assert len(server.requests) == 0


async def test_one_that_leaves_what_is_shared_takes_it_from_no_other() -> None:
    async with ReplayServer([ServedResponse.from_frames(FRAMES, delay=0.05)]) as server:
        source = send(server.base_url).pipe(ops.share())
        one, other = (asyncio.ensure_future(followed(source)) for _ in range(2))
        await server.wait_requests(1)
        one.cancel()
        assert b"".join(await other) == b"".join(FRAMES)
        assert one.cancelled()


async def test_what_is_requested_beside_it_is_not_waited_for() -> None:
    async with ReplayServer([stall()]) as other, ReplayServer([ServedResponse.from_frames(FRAMES)]) as server:
        source, by_the_way = send(server.base_url), send(other.base_url)

        def subscribe(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            aside.append(by_the_way.subscribe())
            return connect(source, observer)

        aside: list[abc.DisposableBase] = []
        assert await asyncio.wait_for(followed(Stage(subscribe)), 60)
        aside[0].dispose()
        await other.wait_closed()
