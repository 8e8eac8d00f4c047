"""`map_async`: side by side, as results come and in order; `quorum`: what several agree on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, merge, of
from reactivex import operators as ops

from rxworker.operators import map_async, quorum
from rxworker.operators.kernel import Source
from rxworker.testing.marbles import Marbles, play


def works(test: Marbles, **drawings: str) -> Callable[[str], Observable[str]]:
    sources = {name: test.cold(drawing) for name, drawing in drawings.items()}

    def work(name: str) -> Observable[str]:
        return sources[name]

    return work


def test_results_come_in_the_order_of_the_items(test: Marbles) -> None:
    work = works(test, a="------A|", b="--B|")
    seen = test.observe(test.hot("-a-b----|").pipe(map_async(work, 2, in_order=True)))
    assert [(r.time - 200, str(r.value)) for r in seen] == [(7, "OnNext(A)"), (8, "OnNext(B)"), (8, "OnCompleted()")]


def test_the_first_emits_as_it_goes_and_the_second_when_it_is_its_turn(test: Marbles) -> None:
    work = works(test, a="-A-A-|", b="-B---B-|")
    seen = test.observe(test.hot("-a-b-----|").pipe(map_async(work, 2, in_order=True)))
    assert [record.time - 200 for record in seen] == [2, 4, 6, 8, 10]


def test_no_more_work_than_allowed(test: Marbles) -> None:
    one, two, three = test.cold("---A|"), test.cold("-B|"), test.cold("-C|")
    sources = {"a": one, "b": two, "c": three}

    def work(name: str) -> Observable[str]:
        return sources[name]

    test.observe(test.hot("-(a,b,c)|").pipe(map_async(work, 2, in_order=True)))
    assert one.subscriptions == test.subscriptions("-^---!")
    assert two.subscriptions == test.subscriptions("-^-!")
    assert three.subscriptions == test.subscriptions("---^-!")


def test_the_first_error_ends_everything(test: Marbles) -> None:
    slow, failing = test.cold("------A|"), test.cold("--#")
    sources = {"a": slow, "b": failing}

    def work(name: str) -> Observable[str]:
        return sources[name]

    source = test.hot("-a-b---------|")
    seen = test.observe(source.pipe(map_async(work, 2, in_order=True)))
    assert seen == test.expected("-----#")
    assert slow.subscriptions == test.subscriptions("-^---!")
    assert source.subscriptions == test.subscriptions("^----!")


def test_what_the_projection_raises_ends_everything() -> None:
    def work(_: str) -> Observable[str]:
        raise ValueError("no")

    test = Marbles()
    seen = test.observe(test.hot("-a-b-|").pipe(map_async(work, 2, in_order=True)))
    assert seen == test.expected("-#", error=ValueError("no"))


def test_disposing_ends_the_work(test: Marbles) -> None:
    slow = test.cold("---------A|")

    def work(_: str) -> Observable[str]:
        return slow

    test.observe(test.hot("-a-----------|").pipe(map_async(work, 2, in_order=True)), until="----!")
    assert slow.subscriptions == test.subscriptions("-^--!")


def test_results_come_as_they_are_done(test: Marbles) -> None:
    work = works(test, a="------A|", b="-B-B|", c="-C|")
    seen = test.observe(test.hot("-a-b-c---|").pipe(map_async(work, 2)))
    assert [(r.time - 200, str(r.value)) for r in seen] == [
        (4, "OnNext(B)"),
        (6, "OnNext(B)"),
        (7, "OnNext(A)"),
        (8, "OnNext(C)"),
        (9, "OnCompleted()"),
    ]


@pytest.mark.parametrize(("in_order", "expected"), [(False, ["b", "c", "a"]), (True, ["a", "b", "c"])])
def test_coroutines_work_side_by_side(in_order: bool, expected: list[str]) -> None:
    at_once, most = 0, 0

    async def work(name: str) -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep({"a": 9, "b": 1, "c": 5}[name])
        at_once -= 1
        return name

    async def main() -> tuple[list[str], float]:
        found = await of("a", "b", "c").pipe(map_async(work, 2, in_order=in_order), ops.to_list())
        return found, asyncio.get_running_loop().time()

    assert play(main()) == (expected, 9.0)
    assert most == 2


@pytest.mark.parametrize("is_disposed", [False, True])
def test_an_error_and_disposing_cancel_the_coroutines(is_disposed: bool) -> None:
    cancelled: list[str] = []

    async def work(name: str) -> str:
        try:
            await asyncio.sleep(1 if name == "b" else 9)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        raise ValueError(name)

    async def main() -> list[object]:
        seen: list[object] = []
        subscription = of("a", "b", "c").pipe(map_async(work, 3)).subscribe(seen.append, seen.append)
        await asyncio.sleep(0.5)
        if is_disposed:
            subscription.dispose()
        await asyncio.sleep(10)
        return seen

    assert list(map(repr, play(main()))) == ([] if is_disposed else ["ValueError('b')"])
    assert cancelled == (["a", "b", "c"] if is_disposed else ["a", "c"])


def test_a_coroutine_without_an_event_loop_is_an_error() -> None:
    async def work(name: str) -> str:
        return name

    seen: list[Exception] = []
    of("a").pipe(map_async(work, 1)).subscribe(on_error=seen.append)
    assert "needs a running event loop" in str(seen)


@pytest.mark.parametrize(
    ("source", "expected"),
    [("-a-b-a-c-|", "-----(a,|)"), ("-a-b-c-|", "-------|"), ("-a-b-#", "-----#"), ("-b-b-b-|", "---(b,|)")],
)
def test_the_first_value_of_which_there_are_enough_is_emitted(source: str, expected: str, test: Marbles) -> None:
    lookup = {"a": {"x": [1]}, "b": {"x": [2]}, "c": {}}  # values that have no hash
    assert test.observe(test.hot(source, lookup).pipe(quorum(2))) == test.expected(expected, lookup)


def test_enough_of_several_sources_leave_the_others(test: Marbles) -> None:
    slow = test.cold("---------a|")
    sources = [test.cold("-a|"), test.cold("--b|"), test.cold("---a|"), slow]
    assert test.observe(merge(*sources).pipe(quorum(2))) == test.expected("---(a,|)")
    assert slow.subscriptions == test.subscriptions("^--!")


def test_thousands_of_items_at_once_do_not_pile_up() -> None:
    seen: list[int] = []
    source: Source[int] = Source()
    source.pipe(map_async(done, 1, in_order=True)).subscribe(seen.append)
    for number in range(5000):
        source.on_next(number)
    assert seen == list(range(5000))


@pytest.mark.parametrize("in_order", [False, True])
def test_the_last_work_may_end_while_its_item_is_emitted(in_order: bool) -> None:
    source, work = Source[int](), Source[int]()
    seen: list[int] = []

    def end(number: int) -> None:
        seen.append(number)
        work.on_completed()

    source.pipe(map_async(lambda _: work, 1, in_order=in_order)).subscribe(end, on_completed=lambda: seen.append(-1))
    source.on_next(0)
    source.on_completed()
    work.on_next(1)
    assert seen == [1, -1]


def done(number: int) -> Observable[int]:
    return of(number)


@given(st.permutations(range(6)), st.integers(1, 6))
def test_the_order_of_completion_does_not_matter(order: list[int], limit: int) -> None:
    works: list[Source[int]] = [Source() for _ in range(6)]
    finished: list[bool] = [False] * 6
    seen: list[int] = []

    def work(number: int) -> Observable[int]:
        return works[number]

    source: Source[int] = Source()
    source.pipe(map_async(work, limit, in_order=True), ops.do_action(on_completed=lambda: seen.append(-1))).subscribe(
        seen.append
    )
    for number in range(6):
        source.on_next(number)
    source.on_completed()
    for number in order:
        works[number].on_next(number)
        works[number].on_completed()
        finished[number] = True
    if limit == 6:
        assert seen == [0, 1, 2, 3, 4, 5, -1]
    assert [n for n in seen if n >= 0] == sorted(n for n in seen if n >= 0)
    assert seen[-1] == -1
