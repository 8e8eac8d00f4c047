"""Turns one after the other, and work that is awaited where it would be subscribed to: both come to the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.errors import RunCancelledError
from rxworker.tools.coroutines import CoroutineObservable, Emitter, cut_off
from rxworker.transport.clock import loop_clock
from rxworker.worker import repeat_turns
from tests.runs import settle

Heard = list[object]

STEPS = st.lists(st.sampled_from(["a", "b", ".", "!", "x"]), max_size=6)
"""Of a turn.

What it says, ``.`` where it waits, ``!`` where it fails, ``x`` where something that it waits for is cancelled.
"""


def turn_of(steps: str) -> CoroutineObservable[str]:
    async def work(emitter: Emitter[str]) -> None:
        for step in steps:
            if step == ".":
                await asyncio.sleep(0)
            elif step == "!":
                raise ValueError(steps)
            elif step == "x":
                gone = asyncio.get_running_loop().create_future()
                gone.cancel()
                await gone
            else:
                emitter.emit(step)

    return CoroutineObservable(work, set())


def turns_of(turns: list[str], scheduler: abc.SchedulerBase | None = None) -> Observable[str]:
    """The turns, as a run has them; each is begun and asked about only when its time has come."""
    left = iter(turns)
    asked = iter([*turns[1:], None])
    scheduler = scheduler or loop_clock()
    return repeat_turns(lambda: turn_of(next(left)), lambda: next(asked) is not None, scheduler)


async def subscribed(source: Observable[str]) -> Heard:
    heard: Heard = []
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_error(error: Exception) -> None:
        heard.append(f"{type(error).__name__}: {error}")
        over.set_result(None)

    source.subscribe(heard.append, on_error, lambda: over.set_result(None))
    await over
    return heard


async def followed(source: Observable[str]) -> Heard:
    heard: Heard = []

    def hear_many(events: object) -> None:
        raise AssertionError(f"nothing comes together here: {events}")

    try:
        await Emitter(heard.append, hear_many).follow(source)
    except asyncio.CancelledError as error:
        heard.append(f"RunCancelledError: {cut_off(error)}")
    except Exception as error:
        heard.append(f"{type(error).__name__}: {error}")
    return heard


@given(st.lists(STEPS.map("".join), min_size=1, max_size=4))
def test_turns_that_are_followed_emit_what_turns_do_that_are_subscribed_to(turns: list[str]) -> None:
    async def ways() -> list[Heard]:
        plain = AsyncIOScheduler(asyncio.get_running_loop())
        return [
            await subscribed(turns_of(turns, plain)),
            await followed(turns_of(turns, plain)),
            await subscribed(turns_of(turns)),
            await followed(turns_of(turns)),
        ]

    heard = asyncio.run(ways())
    assert heard == heard[:1] * 4


@pytest.mark.parametrize("way", [subscribed, followed])
async def test_every_watcher_has_received_the_end_of_a_turn_before_the_next_begins(
    way: Callable[[Observable[str]], asyncio.Future[Heard]],
) -> None:
    told: list[str] = []
    loop = asyncio.get_running_loop()

    def turn() -> Observable[str]:
        async def work(emitter: Emitter[str]) -> None:
            told.append("begin")
            loop.call_soon(told.append, "told a little later")

        return CoroutineObservable(work, set())

    rest = iter([True, True, False])
    await way(repeat_turns(turn, lambda: next(rest), loop_clock()))
    await asyncio.sleep(0)
    assert told == ["begin", "told a little later"] * 3


async def test_turns_through_an_operator_are_subscribed_to() -> None:
    source = turns_of(["a", "b"]).pipe(ops.map(str.upper))
    assert await followed(source) == ["A", "B"]


async def test_who_follows_is_cancelled_with_what_it_follows() -> None:
    let_go: list[str] = []

    async def work(emitter: Emitter[str]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            let_go.append("let go")

    task = asyncio.ensure_future(Emitter[str](print, print).follow(CoroutineObservable(work, set())))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert let_go == ["let go"]


@pytest.mark.parametrize("is_plain", [False, True])
async def test_disposing_of_turns_cancels_the_one_that_is_on(is_plain: bool) -> None:
    told: list[str] = []
    failed: list[Exception] = []
    tasks: set[asyncio.Task[None]] = set()

    async def work(emitter: Emitter[str]) -> None:
        told.append("begin")
        try:
            await asyncio.Event().wait()
        finally:
            told.append("let go")

    scheduler = AsyncIOScheduler(asyncio.get_running_loop()) if is_plain else loop_clock()
    turns = repeat_turns(lambda: CoroutineObservable(work, tasks), lambda: True, scheduler)
    subscription = turns.subscribe(on_error=failed.append)
    await settle()
    assert (told, len(tasks)) == (["begin"], int(is_plain))
    subscription.dispose()
    await settle()
    assert (told, failed, tasks) == (["begin", "let go"], [], set())


@pytest.mark.parametrize("is_plain", [False, True])
async def test_no_turn_begins_behind_one_in_which_the_listener_has_left(is_plain: bool) -> None:
    begun = 0

    async def work(emitter: Emitter[str]) -> None:
        nonlocal begun
        begun += 1
        emitter.emit("a")
        emitter.emit("b")

    scheduler = AsyncIOScheduler(asyncio.get_running_loop()) if is_plain else loop_clock()
    turns = repeat_turns(lambda: CoroutineObservable(work, set()), lambda: begun < 100, scheduler)
    seen: Heard = []
    turns.pipe(ops.take(3)).subscribe(seen.append, on_completed=lambda: seen.append("over"))
    await settle()
    assert (seen, begun) == (["a", "b", "a", "over"], 2)


async def test_what_is_cancelled_under_work_is_reported_to_who_subscribed() -> None:
    failed: list[Exception] = []
    turn_of("x").subscribe(on_error=failed.append)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (error,) = failed
    assert isinstance(error, RunCancelledError)
    assert isinstance(error.__cause__, asyncio.CancelledError)
