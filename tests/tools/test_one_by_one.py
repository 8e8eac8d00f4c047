"""Operators that may wait for each item, in virtual time: subscribed to, and awaited with their source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, Subject
from reactivex import operators as ops

from rxworker.testing import Marbles
from rxworker.testing.marbles import parse, play
from rxworker.tools.coroutines import CoroutineObservable, Emitter, one_by_one, pass_through

Heard = list[tuple[int, str]]


LOG = list[str]()
"""What happens in the current test."""


async def slow(item: str) -> str:
    """A small letter takes three ticks, a capital none; ``x`` and ``X`` fail."""
    if item.islower():
        LOG.append(f"begin {item}")
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            await asyncio.sleep(1)  # it cleans up
            LOG.append(f"clean {item}")
            raise
    if item.lower() == "x":
        raise ValueError(item)
    return item


def now() -> int:
    return int(asyncio.get_running_loop().time())


async def awaited(source: Observable[str], heard: Heard) -> None:
    try:
        await Emitter[str](lambda item: heard.append((now(), item))).follow(source)
    except Exception:
        heard.append((now(), "#"))
    else:
        heard.append((now(), "|"))


async def subscribed(source: Observable[str], heard: Heard) -> None:
    over = asyncio.Event()

    def end(mark: str) -> None:
        heard.append((now(), mark))
        over.set()

    subscription = source.subscribe(lambda item: heard.append((now(), item)), lambda _: end("#"), lambda: end("|"))
    try:
        await over.wait()
    finally:
        subscription.dispose()


Way = Callable[[Observable[str], Heard], Coroutine[None, None, None]]
WAYS = pytest.mark.parametrize("way", [awaited, subscribed])


def played(source: Observable[str], way: Way, test: Marbles, until: int | None = None) -> Heard:
    """What an operator emits for a source, and when; ``until``: the tick at which it is left."""
    heard = Heard()
    LOG.clear()

    async def main() -> None:
        task = asyncio.create_task(way(source, heard))
        await asyncio.wait({task}, timeout=until)
        task.cancel()
        await asyncio.wait({task})
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert way is subscribed or not left, "a coroutine waits for all that it has begun"
        if left:
            await asyncio.wait(left)

    play(main(), test.scheduler)
    return heard


def drawn(drawing: str) -> Heard:
    marks = {"C": "|", "E": "#"}
    read: list[tuple[float, Any]] = [(each.time, each.value) for each in parse(drawing, None, 0)]
    return [(int(time), marks.get(value.kind) or value.value) for time, value in read]


@WAYS
@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("-A-B-|", "-A-B-|"),
        ("-a----b----|", "----a----b-|"),
        ("-a-b-c-|", "----a--b--(c,|)"),
        ("-a-B----c---|", "----(a,B)--c|"),
        ("-(a,b)-|", "----a--(b,|)"),
        ("--|", "--|"),
        ("-a-x-b-|", "----a--#"),
        ("-x|", "----#"),
        ("-x-b-------|", "----#"),
        ("(a,b,|)", "---a--(b,|)"),
    ],
)
def test_items_wait_in_order_and_the_end_after_them(items: str, expected: str, way: Way, test: Marbles) -> None:
    assert played(test.cold(items).pipe(one_by_one(slow)), way, test) == drawn(expected)


@WAYS
def test_an_error_of_the_source_cancels_what_it_waits_for(way: Way, test: Marbles) -> None:
    heard = played(test.cold("-a-b-#").pipe(one_by_one(slow)), way, test)
    # The coroutine goes on when the item has cleaned up.
    assert heard == drawn("----a-#" if way is awaited else "----a#")
    assert LOG == ["begin a", "begin b", "clean b"]


@WAYS
@pytest.mark.parametrize("until", range(1, 11))
def test_whenever_it_is_left_it_cancels_what_it_waits_for_and_drops_the_rest(
    until: int, way: Way, test: Marbles
) -> None:
    heard = played(test.cold("-a-b-c------|").pipe(one_by_one(slow)), way, test, until)
    assert heard == [each for each in drawn("----a--b--c-|") if each[0] <= until]
    begun = [letter for letter, tick in (("a", 1), ("b", 4), ("c", 7)) if tick <= until]
    ended = [item for _, item in heard]
    clean = [f"clean {letter}" for letter in begun if letter not in ended]
    assert [f"begin {letter}" for letter in begun] + clean == LOG
    assert len(clean) <= 1


@WAYS
@pytest.mark.parametrize("items", ["-a-b-----|", "(a,b)-----|", "(a,b,|)"])
def test_what_is_left_at_the_first_item_begins_no_other(items: str, way: Way, test: Marbles) -> None:
    assert played(test.cold(items).pipe(one_by_one(slow)), way, test, 2) == []
    assert LOG == ["begin a", "clean a"]


def test_disposing_at_an_item_closes_what_has_not_begun() -> None:
    """In the same step of the event loop: no coroutine is left that was never awaited."""

    async def main() -> None:
        source, heard = Subject[str](), list[str]()
        subscription = source.pipe(one_by_one(slow)).subscribe(heard.append)
        for item in "Aab":
            source.on_next(item)
        subscription.dispose()
        source.on_next("c")
        source.on_completed()
        await asyncio.sleep(0)
        assert (heard, asyncio.all_tasks()) == ([], {asyncio.current_task()})

    LOG.clear()
    play(main())
    assert LOG == []


def test_an_observer_that_disposes_at_an_item_receives_no_other() -> None:
    async def main() -> None:
        heard = list[str]()

        def take(item: str) -> None:
            heard.append(item)
            subscription.dispose()

        subscription = (
            reactivex.concat(reactivex.of("a", "b"), reactivex.never()).pipe(one_by_one(slow)).subscribe(take)
        )
        await asyncio.sleep(10)
        assert heard == ["a"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    LOG.clear()
    play(main())
    assert LOG == ["begin a"]


@WAYS
def test_an_item_that_is_pushed_while_another_one_is_emitted_comes_after_those_that_wait(way: Way) -> None:
    test, again = Marbles(), Subject[str]()

    def push(item: str) -> None:
        if item == "a":
            again.on_next("C")
            again.on_completed()

    source = reactivex.merge(test.cold("-(a,B)-|"), again)
    heard = played(source.pipe(one_by_one(slow), ops.do_action(push)), way, test)
    assert [item for _, item in heard] == ["a", "B", "C", "|"]


class Source:
    """A coroutine as a source: it waits as many ticks as a digit says, and emits a letter."""

    def __init__(self, steps: str) -> None:
        self._steps = steps

    def observable(self) -> CoroutineObservable[str]:
        return CoroutineObservable(self._work, set())

    async def _work(self, emitter: Emitter[str]) -> None:
        for step in self._steps:
            if step.isdigit():
                await asyncio.sleep(int(step))
            else:
                emitter.emit(step)


@WAYS
def test_items_are_not_held_back_until_a_coroutine_that_emits_them_ends(way: Way, test: Marbles) -> None:
    pipe = Source("a9b9").observable().pipe(one_by_one(slow), one_by_one(slow))
    assert played(pipe, way, test) == [(6, "a"), (15, "b"), (18, "|")]


@WAYS
@pytest.mark.parametrize(("steps", "expected"), [("x9", "---#"), ("a1x9", "---a--#"), ("X9a", "#"), ("1X9", "-#")])
def test_an_error_does_not_wait_for_a_coroutine_that_waits(steps: str, expected: str, way: Way) -> None:
    async def same(item: str) -> str:
        return item

    pipe = Source(steps).observable().pipe(one_by_one(same), one_by_one(slow))
    assert played(pipe, way, Marbles()) == drawn(expected)


async def test_who_cancels_at_the_error_of_an_item_is_not_overheard() -> None:
    async def fails(item: str) -> str:
        task.cancel()
        raise ValueError(item)

    task = asyncio.create_task(awaited(Source("a9").observable().pipe(one_by_one(fails)), []))
    with pytest.raises(asyncio.CancelledError):
        await task


@given(st.text("abxAX123", max_size=6))
def test_it_emits_the_same_subscribed_to_and_awaited(steps: str) -> None:
    def heard(way: Way) -> Heard:
        return played(Source(steps).observable().pipe(one_by_one(slow)), way, Marbles())

    assert heard(awaited) == heard(subscribed)


def test_what_follows_at_once_has_no_other_task() -> None:
    async def main() -> None:
        tasks = set[object]()

        async def note(item: str) -> str:
            await asyncio.sleep(1)
            tasks.add(asyncio.current_task())
            return item

        await Emitter[str](lambda _: None).follow(Source("ab").observable().pipe(one_by_one(note)))
        assert await pass_through(one_by_one(note), "c") == "c"
        assert tasks == {asyncio.current_task()}

    play(main())


def test_a_pipe_that_is_destroyed_cancels_what_it_waits_for_beside_its_source() -> None:
    """To close a coroutine raises GeneratorExit in it, after which it cannot await."""

    async def main() -> None:
        source = Source("a9").observable().pipe(one_by_one(slow))
        pipe: Any = Emitter[str](lambda _: None).follow(source)
        pipe.send(None)
        await asyncio.sleep(1)
        pipe.close()
        await asyncio.sleep(2)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    LOG.clear()
    play(main())
    assert LOG == ["begin a", "clean a"]
