"""Requests whose work is done by the task that waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import reactivex
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import TransportError
from rxworker.operators.disposables import NOTHING
from rxworker.providers.base import HttpRequest
from rxworker.testing import Answer, ReplayServer, stall
from rxworker.transport import HttpTransport
from rxworker.transport.inline import INLINE, Inline
from rxworker.worker.stage import Voice

FRAMES = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]

Factory = Callable[[asyncio.AbstractEventLoop, Any], "asyncio.Task[Any]"]


def send(base_url: str) -> Observable[bytes]:
    headers = {"content-type": "application/json"}
    return HttpTransport().send(HttpRequest(base_url + "/v1/messages", headers, b"{}"))


async def followed(source: Observable[bytes]) -> list[bytes]:
    heard: list[bytes] = []
    await Voice(heard.append, heard.extend).follow(source)
    return heard


async def tasks_of(work: Awaitable[object]) -> list[str]:
    """The tasks that rxworker makes meanwhile."""
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        if work.__qualname__.startswith("_Exchange"):
            made.append(work.__qualname__)
        return asyncio.Task(work, loop=loop, **more)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        await work
    finally:
        loop.set_task_factory(None)
    return made


async def test_who_follows_a_request_makes_no_task_for_it() -> None:
    async with ReplayServer([Answer.from_frames(FRAMES), Answer.from_frames(FRAMES)]) as server:
        source = send(server.base_url)
        assert await tasks_of(followed(source)) == []
        assert await tasks_of(asyncio.ensure_future(source.pipe(ops.to_list()))) == [
            "_Exchange.run"
        ]


async def test_it_hears_all_and_goes_on() -> None:
    async with ReplayServer([Answer.from_frames(FRAMES)]) as server:
        assert b"".join(await followed(send(server.base_url))) == b"".join(FRAMES)
        assert len(server.requests) == 1


async def test_what_goes_wrong_is_raised() -> None:
    async with ReplayServer([Answer((b"{}",), status=404)]) as server:
        with pytest.raises(TransportError, match="404"):
            await followed(send(server.base_url))


async def test_leaving_when_enough_was_heard_closes_the_connection_and_goes_on() -> None:
    async with ReplayServer([stall()]) as server:
        heard = await followed(send(server.base_url).pipe(ops.take(1)))
        await server.wait_closed()
        assert (len(heard), server.disconnects) == (1, 1)
        await asyncio.sleep(0)  # a cancellation that was left behind would come out here


async def test_being_left_from_elsewhere_closes_the_connection_and_goes_on() -> None:
    loop = asyncio.get_running_loop()
    enough: asyncio.Future[None] = loop.create_future()

    def leave_later(chunk: bytes) -> None:
        if not enough.done():
            loop.call_soon(enough.set_result, None)

    async with ReplayServer([stall()]) as server:
        source = send(server.base_url).pipe(
            ops.do_action(leave_later), ops.take_until(reactivex.from_future(enough))
        )
        await followed(source)
        await server.wait_closed()
        assert server.disconnects == 1
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()
        await asyncio.sleep(0)


async def test_being_left_and_cancelled_at_once_is_to_be_cancelled() -> None:
    async with ReplayServer([Answer.from_frames([], delay=60)]) as server:
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        source = send(server.base_url).pipe(ops.take_until(reactivex.from_future(stop)))
        task = asyncio.ensure_future(followed(source))
        await server.wait_requests(1)
        stop.set_result(None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_closed()
        assert server.disconnects == 1


@pytest.mark.parametrize("chunks", [[], FRAMES[:1]])
async def test_cancelling_who_follows_closes_the_connection(chunks: list[bytes]) -> None:
    async with ReplayServer([Answer.from_frames([*chunks, b"late"], delay=60)]) as server:
        task = asyncio.ensure_future(followed(send(server.base_url)))
        await server.wait_requests(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_closed()
        assert server.disconnects == 1


async def test_leaving_before_it_began_sends_nothing() -> None:
    def at_once(
        observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        source.subscribe(observer).dispose()
        observer.on_completed()
        return NOTHING

    async with ReplayServer(["never asked"]) as server:
        source = send(server.base_url)
        assert await followed(reactivex.create(at_once)) == []
        assert len(server.requests) == 0


async def test_of_two_requests_at_once_one_has_a_task() -> None:
    answers = [Answer.from_frames(FRAMES), Answer.from_frames(FRAMES)]
    async with ReplayServer(answers) as server:
        source = reactivex.merge(send(server.base_url), send(server.base_url))
        heard: list[bytes] = []

        async def both() -> None:
            heard.extend(await followed(source))

        assert await tasks_of(both()) == ["_Exchange.run"]
        assert sorted(b"".join(heard)) == sorted(b"".join(FRAMES * 2))


async def test_the_loser_of_a_race_is_left_although_its_work_is_done_here() -> None:
    answers = [Answer.from_frames(FRAMES, delay=60), Answer.from_frames(FRAMES)]
    async with ReplayServer(answers) as server:
        slow, quick = send(server.base_url), send(server.base_url)
        heard: list[bytes] = []

        async def race() -> None:
            heard.extend(await followed(slow.pipe(ops.amb(quick))))

        await asyncio.wait_for(race(), 10)
        assert b"".join(heard) == b"".join(FRAMES)


async def test_what_is_subscribed_to_later_has_a_task_of_its_own() -> None:
    inline = Inline()
    inline.close()
    token = INLINE.set(inline)
    try:
        async with ReplayServer([Answer.from_frames(FRAMES)]) as server:
            assert b"".join(await send(server.base_url).pipe(ops.to_list())) == b"".join(FRAMES)
    finally:
        INLINE.reset(token)
    assert inline.work is None
