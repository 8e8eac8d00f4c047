"""`rate` and `percentile`: how much in a second, and how much for most."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.operators import percentile, rate
from rxworker.testing.marbles import Marbles, values_of

AMOUNTS = {"0": 0.0, "1": 1.0, "2": 2.0, "3": 3.0, "4": 4.0, "8": 8.0}


def test_a_rate_rises_and_falls_to_nothing(test: Marbles) -> None:
    seen = test.observe(test.hot("-4-8-------|", AMOUNTS).pipe(rate(4, test.scheduler)))
    assert seen == test.expected("-1-3-2-0---|", AMOUNTS)


@pytest.mark.parametrize("drawing", ["-4-8|", "-8|", "-4-8-------|", "----|"])
def test_a_rate_ends_at_nothing(drawing: str, test: Marbles) -> None:
    """Nothing more comes from a source that has completed."""
    seen = values_of(test.observe(test.hot(drawing, AMOUNTS).pipe(rate(4, test.scheduler))))
    assert seen[-1:] in ([], [0.0])
    assert seen[-2:] != [0.0, 0.0]


def test_a_failed_rate_ends_with_the_error_alone(test: Marbles) -> None:
    seen = test.observe(test.hot("-4-8#", AMOUNTS).pipe(rate(4, test.scheduler)))
    assert seen == test.expected("-1-3#", AMOUNTS)


def test_a_steady_source_has_a_steady_rate(test: Marbles) -> None:
    seen = test.observe(test.hot("-4" * 20 + "|", AMOUNTS).pipe(rate(4, test.scheduler)))
    assert set(values_of(seen)[3:-1]) == {2.0}


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=30))
def test_what_is_left_of_nothing_is_nothing(amounts: list[float]) -> None:
    """Sums that are taken apart by subtraction keep a rest, which would stay for ever."""
    test = Marbles()
    lookup = {f"x{n}": amount for n, amount in enumerate(amounts)}
    drawing = "-" + "".join(f"({name})" for name in lookup) + "-" * 20
    seen = test.observe(test.hot(drawing, lookup).pipe(rate(4, test.scheduler)))
    assert values_of(seen)[-1] == 0.0


def test_the_median_lies_between_two() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile([], 50) is None
    assert percentile([3.0], 0) == percentile([3.0], 100) == 3.0


def test_there_are_a_hundred_percent() -> None:
    for percent in (-1, 101, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 100"):
            percentile([1.0], percent)


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=50))
def test_percentiles_are_those_of_the_standard_library(values: list[int]) -> None:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    for percent in (1, 50, 95, 99):
        assert percentile(values, percent) == pytest.approx(cuts[percent - 1])
