"""`coalesce`: deltas of a moment in one, lifecycle events at once. `throttle`: the first and the last of a moment."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import BlockStart, BlockStop, BlockType, Event, TextDelta, Usage
from rxworker.operators import coalesce, merge_deltas, throttle
from rxworker.testing.marbles import Marbles, values_of

EVENTS: dict[str, Event] = {
    "s": BlockStart(0, BlockType.TEXT),
    "e": BlockStop(0, BlockType.TEXT),
    "u": Usage(1),
    "a": TextDelta(0, "a"),
    "b": TextDelta(0, "b"),
    "c": TextDelta(0, "c"),
    "A": TextDelta(0, "abc"),
    "B": TextDelta(0, "ab"),
    "x": TextDelta(1, "x"),
}


def observe(drawing: str, until: str = "") -> list[object]:
    test = Marbles()
    source = test.hot(drawing, EVENTS)
    return list(test.observe(source.pipe(coalesce(4.0, test.scheduler)), until=until))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # deltas of a moment become one
        ("-a-b-------|", "-----B-----|"),
        ("-a-b-c-----|", "-----A-----|"),
        # the moment begins with the first delta and does not grow
        ("-a--b--c-----|", "-----B-----c-|"),
        # a lifecycle event lets out what is held, and passes at once
        ("-a-b-e-----|", "-----(B,e)-|"),
        ("-s-u-------|", "-s-u-------|"),
        # the end lets out what is held
        ("-a-b-|", "-----(B,|)"),
        ("-a-b-#", "-----(B,#)"),
    ],
)
def test_deltas_of_a_moment_become_one_and_nothing_waits_for_longer(source: str, expected: str) -> None:
    assert observe(source) == Marbles().expected(expected, EVENTS)


def test_blocks_keep_their_order(test: Marbles) -> None:
    source = test.hot("-a-x-b-----|", EVENTS)
    seen = test.observe(source.pipe(coalesce(6.0, test.scheduler)))
    assert values_of(seen) == [EVENTS["a"], EVENTS["x"], EVENTS["b"]]
    assert {record.time for record in seen[:-1]} == {207}


def test_what_is_held_is_dropped_with_the_subscription() -> None:
    assert observe("-a-b-c-----|", until="----!") == []


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=20), st.integers(0, 6))
def test_nothing_is_lost_and_nothing_changes_places(names: list[str], seconds: int) -> None:
    test = Marbles()
    source = test.hot("-" + "".join(f"{name}-" for name in names) + "|", EVENTS)
    seen = test.observe(source.pipe(coalesce(float(seconds), test.scheduler)))
    assert seen[-1] == test.expected("-" + "--" * len(names) + "|")[0]
    assert merge_deltas(values_of(seen)) == merge_deltas([EVENTS[name] for name in names])


def throttled(drawing: str, combine: Callable[[int, int], int] | None = None) -> list[object]:
    test = Marbles()
    source = test.hot(drawing, NUMBERS)
    return list(test.observe(source.pipe(throttle(4.0, combine, test.scheduler)), until="-" * 30 + "!"))


NUMBERS = {str(n): n for n in range(1, 10)}


@pytest.mark.parametrize(
    ("drawing", "last", "added"),
    [
        ("-1-2-3-------4-|", "-1---3-------4-|", "-1---5-------4-|"),
        ("-1-------------|", "-1-------------|", "-1-------------|"),
        ("-1-2---3---4---|", "-1---2---3---4-|", "-1---2---3---4-|"),
        ("-1-2-|", "-1---(2,|)", "-1---(2,|)"),
        ("-1(2,3)-|", "-1---3--|", "-1---5--|"),
        ("-1-2#", "-1--(2,#)", "-1--(2,#)"),
        ("-1|", "-1|", "-1|"),
    ],
)
def test_the_first_passes_at_once_and_the_rest_of_an_interval_at_its_end(drawing: str, last: str, added: str) -> None:
    assert throttled(drawing) == Marbles().expected(last, NUMBERS)
    assert throttled(drawing, operator.add) == Marbles().expected(added, NUMBERS)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), max_size=20))
def test_nothing_of_a_sum_is_lost_and_no_two_are_nearer_than_the_interval(steps: list[tuple[int, int]]) -> None:
    drawing = "-" + "".join("-" * pause + str(n) + "-" for pause, n in steps) + "-" * 9 + "|"
    test = Marbles()
    seen = test.observe(test.hot(drawing, NUMBERS).pipe(throttle(4.0, operator.add, test.scheduler)))
    times = [record.time for record in seen[:-1]]
    assert sum(values_of(seen)) == sum(n for _, n in steps)
    assert all(after - before >= 4 for before, after in pairwise(times))


def test_what_combines_may_raise() -> None:
    def refuse(one: int, other: int) -> int:
        raise ValueError(f"{one} and {other}")

    test = Marbles()
    source = test.hot("-1-2-3-----|", NUMBERS)
    seen = test.observe(source.pipe(throttle(4.0, refuse, test.scheduler)))
    assert values_of(seen) == [1]
    assert len(seen) == 2
    assert [each.unsubscribe for each in source.subscriptions] == [seen[-1].time]
