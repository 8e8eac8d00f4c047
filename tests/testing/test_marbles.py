"""The marble dialect does what its table says."""

from __future__ import annotations

import pytest
from reactivex.testing import ReactiveTest

from rxworker.testing.marbles import Marbles, parse


def test_columns_are_ticks_and_spaces_are_free() -> None:
    assert parse("-a -b|", None, 200) == [
        ReactiveTest.on_next(201, "a"),
        ReactiveTest.on_next(203, "b"),
        ReactiveTest.on_completed(204),
    ]


def test_a_group_is_simultaneous_and_takes_its_printed_width() -> None:
    assert parse("(a,b)-c", None, 0) == [
        ReactiveTest.on_next(0, "a"),
        ReactiveTest.on_next(0, "b"),
        ReactiveTest.on_next(6, "c"),
    ]


def test_an_error_is_the_one_given() -> None:
    failure = ValueError("no")
    assert parse("-#", None, 0, failure) == [ReactiveTest.on_error(1, failure)]


def test_names_are_looked_up_also_digits() -> None:
    assert parse("-1", {"1": "one"}, 0) == [ReactiveTest.on_next(1, "one")]
    assert parse("-1", None, 0) == [ReactiveTest.on_next(1, "1")]


def test_a_name_that_is_missing_is_reported() -> None:
    with pytest.raises(ValueError, match="no 'b', only 'a'"):
        parse("-b", {"a": 1}, 0)


@pytest.mark.parametrize("drawing", ["-a,b", "-(a", "-a)", "((a))"])
def test_what_cannot_be_read_is_reported(drawing: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        parse(drawing, None, 0)


def test_a_hot_marble_in_column_one_is_missed_and_a_cold_one_is_not() -> None:
    test = Marbles()
    assert test.observe(test.hot("a-b|")) == test.expected("--b|")
    test = Marbles()
    assert test.observe(test.cold("a-b|")) == test.expected("a-b|")


def test_a_test_is_disposed_at_the_end_or_where_it_is_set() -> None:
    test = Marbles()
    never = test.hot("-")
    assert test.observe(never) == []
    assert never.subscriptions == test.subscriptions("^")
    test = Marbles()
    source = test.hot("-a-b-")
    assert test.observe(lambda: source, until="--!") == test.expected("-a")
    assert source.subscriptions == test.subscriptions("^-!")
