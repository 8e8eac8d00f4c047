"""`Ticker`: one timer for several, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

import pytest
from reactivex import Observable, abc, never
from reactivex.testing import TestScheduler

from rxworker.errors import TransportTimeoutError
from rxworker.messages import Conversation
from rxworker.operators.kernel import Stage
from rxworker.providers import OpenAIChat, Request
from rxworker.providers.base import HttpRequest
from rxworker.transport import Client, Retry, Timeouts
from rxworker.transport.clock import Ticker, loop_clock


class Member:
    def __init__(self, clock: TestScheduler, then: Callable[[], None] = lambda: None) -> None:
        self.told: list[float] = []
        self._clock = clock
        self._then = then

    def __call__(self) -> None:
        self.told.append(self._clock.clock)
        self._then()


def test_all_receive_the_same_ticks_and_joining_late_is_reported() -> None:
    clock = TestScheduler()
    ticker = Ticker(clock, 10.0)
    first, second = Member(clock), Member(clock)
    assert not ticker.join(first)
    clock.advance_to(15)
    assert ticker.join(second)
    clock.advance_to(35)
    assert (first.told, second.told) == ([10, 20, 30], [20, 30])


def test_it_rests_when_all_have_left_and_begins_anew() -> None:
    clock = TestScheduler()
    ticker = Ticker(clock, 10.0)
    member = Member(clock)
    ticker.join(member)
    clock.advance_to(12)
    ticker.leave(member)
    ticker.leave(member)
    clock.advance_to(100)
    assert not ticker.join(member)
    clock.advance_to(115)
    assert member.told == [10, 110]


def test_one_that_leaves_within_a_tick_misses_it_and_one_that_comes_receives_the_next() -> None:
    clock = TestScheduler()
    ticker = Ticker(clock, 10.0)
    leaving, coming = Member(clock), Member(clock)

    def change() -> None:
        ticker.leave(leaving)
        ticker.join(coming)

    ticker.join(Member(clock, change))
    ticker.join(leaving)
    clock.advance_to(25)
    assert (leaving.told, coming.told) == ([], [20])


def test_one_that_raises_keeps_no_other_from_receiving() -> None:
    clock = TestScheduler()
    ticker = Ticker(clock, 10.0)

    def boom() -> None:
        raise ValueError("no")

    other = Member(clock)
    ticker.join(Member(clock, boom))
    ticker.join(other)
    with pytest.raises(ValueError, match="no"):
        clock.advance_to(10)
    assert other.told == [10]
    assert ticker.join(Member(clock))  # it goes on


def test_it_goes_on_when_one_is_cancelled() -> None:
    clock = TestScheduler()
    ticker = Ticker(clock, 10.0)
    other = Member(clock)

    def boom() -> None:
        raise asyncio.CancelledError

    ticker.join(Member(clock, boom))
    ticker.join(other)
    with pytest.raises(asyncio.CancelledError):
        clock.advance_to(10)
    assert ticker.join(Member(clock))  # it goes on


async def test_it_keeps_nothing_of_the_context_of_who_came_first() -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    class Asking:
        def __call__(self) -> None:
            if not heard.done():
                heard.set_result(who.get())

    who.set("somebody")
    ticker, asking = Ticker(loop_clock(), 0.001), Asking()
    ticker.join(asking)
    assert await heard == "nobody"
    ticker.leave(asking)


async def test_a_loop_has_one_clock_and_one_ticker_for_a_pace() -> None:
    clock = loop_clock()
    assert loop_clock() is clock
    assert clock.ticker(1.0) is clock.ticker(1.0)
    assert clock.ticker(1.0) is not clock.ticker(2.0)


def test_each_loop_has_a_clock_of_its_own() -> None:
    async def clock() -> abc.SchedulerBase:
        return loop_clock()

    assert asyncio.run(clock()) is not asyncio.run(clock())


async def test_a_loop_in_another_thread_does_not_take_its_place() -> None:
    async def clock() -> abc.SchedulerBase:
        return loop_clock()

    mine = loop_clock()
    other = await asyncio.to_thread(asyncio.run, clock())
    assert loop_clock() is mine
    assert other is not mine


async def test_a_repeated_request_is_made_in_the_context_of_the_caller() -> None:
    who: ContextVar[str] = ContextVar("who")
    asked: list[str] = []

    class Silent:
        def send(self, request: HttpRequest) -> Observable[bytes]:
            def subscribe(
                observer: abc.ObserverBase[bytes], scheduler: abc.SchedulerBase | None = None
            ) -> abc.DisposableBase:
                asked.append(who.get())
                return never().subscribe(observer, scheduler=scheduler)

            return Stage(subscribe)

    client = Client(
        OpenAIChat("m", api_key="k"),
        transport=Silent(),
        timeouts=Timeouts(first=0.01),
        retry=Retry(retries=1, first=0.0),
    )

    async def ask(name: str) -> None:
        who.set(name)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        client.stream(Request(Conversation())).subscribe(on_error=over.set_exception)
        with pytest.raises(TransportTimeoutError):
            await over

    await asyncio.gather(*(asyncio.create_task(ask(name)) for name in "abc"))
    assert sorted(asked) == ["a", "a", "b", "b", "c", "c"]
