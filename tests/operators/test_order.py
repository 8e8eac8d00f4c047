"""`map_in_order`: side by side, and in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, of
from reactivex import operators as ops

from rxworker.errors import ConfigurationError
from rxworker.operators import map_in_order
from rxworker.operators.kernel import Source
from rxworker.testing.marbles import Marbles


def works(test: Marbles, **drawings: str) -> Callable[[str], Observable[str]]:
    sources = {name: test.cold(drawing) for name, drawing in drawings.items()}

    def work(name: str) -> Observable[str]:
        return sources[name]

    return work


def test_results_come_in_the_order_of_the_items() -> None:
    test = Marbles()
    work = works(test, a="------A|", b="--B|")
    seen = test.observe(test.hot("-a-b----|").pipe(map_in_order(work, 2)))
    assert [(r.time - 200, str(r.value)) for r in seen] == [(7, "OnNext(A)"), (8, "OnNext(B)"), (8, "OnCompleted()")]


def test_the_first_emits_as_it_goes_and_the_second_when_it_is_its_turn() -> None:
    test = Marbles()
    work = works(test, a="-A-A-|", b="-B---B-|")
    seen = test.observe(test.hot("-a-b-----|").pipe(map_in_order(work, 2)))
    assert [record.time - 200 for record in seen] == [2, 4, 6, 8, 10]


def test_no_more_work_than_allowed() -> None:
    test = Marbles()
    one, two, three = test.cold("---A|"), test.cold("-B|"), test.cold("-C|")
    sources = {"a": one, "b": two, "c": three}

    def work(name: str) -> Observable[str]:
        return sources[name]

    test.observe(test.hot("-(a,b,c)|").pipe(map_in_order(work, 2)))
    assert one.subscriptions == test.subscriptions("-^---!")
    assert two.subscriptions == test.subscriptions("-^-!")
    assert three.subscriptions == test.subscriptions("---^-!")


def test_the_first_error_ends_everything() -> None:
    test = Marbles()
    slow, failing = test.cold("------A|"), test.cold("--#")
    sources = {"a": slow, "b": failing}

    def work(name: str) -> Observable[str]:
        return sources[name]

    source = test.hot("-a-b---------|")
    seen = test.observe(source.pipe(map_in_order(work, 2)))
    assert seen == test.expected("-----#")
    assert slow.subscriptions == test.subscriptions("-^---!")
    assert source.subscriptions == test.subscriptions("^----!")


def test_what_the_projection_raises_ends_everything() -> None:
    def work(_: str) -> Observable[str]:
        raise ValueError("no")

    test = Marbles()
    seen = test.observe(test.hot("-a-b-|").pipe(map_in_order(work, 2)))
    assert seen == test.expected("-#", error=ValueError("no"))


def test_disposing_ends_the_work() -> None:
    test = Marbles()
    slow = test.cold("---------A|")

    def work(_: str) -> Observable[str]:
        return slow

    test.observe(test.hot("-a-----------|").pipe(map_in_order(work, 2)), until="----!")
    assert slow.subscriptions == test.subscriptions("-^--!")


def test_at_least_one_must_work() -> None:
    with pytest.raises(ConfigurationError, match="from 1 up"):
        map_in_order(of, 0)


def test_thousands_of_items_at_once_do_not_pile_up() -> None:
    seen: list[int] = []
    source: Source[int] = Source()
    source.pipe(map_in_order(done, 1)).subscribe(seen.append)
    for number in range(5000):
        source.on_next(number)
    assert seen == list(range(5000))


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
    source.pipe(map_in_order(work, limit), ops.do_action(on_completed=lambda: seen.append(-1))).subscribe(seen.append)
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
