"""`time_out`: not too long for the first item, not too long between items."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reactivex.testing import Recorded

from rxworker.errors import TransportTimeoutError
from rxworker.operators import time_out
from rxworker.testing.marbles import Marbles, values_of

FIRST = TransportTimeoutError("nothing came within 8 seconds")
IDLE = TransportTimeoutError("nothing came for 8 seconds")


def held_until(test: Marbles, tick: float) -> Callable[[], bool]:
    """Whether the source is held: it is, up to a time."""

    def is_held() -> bool:
        return test.scheduler.clock < 200 + tick

    return is_held


def observe(
    drawing: str, first: float | None, idle: float | None, held: float = 0.0
) -> tuple[list[Recorded[str]], list[int]]:
    test = Marbles()
    source = test.hot(drawing)
    seen = test.observe(source.pipe(time_out(first, idle, test.scheduler, held_until(test, held))))
    return seen, [subscription.unsubscribe - 200 for subscription in source.subscriptions]


STEADY = "-a------" * 20 + "|"
# The source, the limits, until when it is held, and what is seen.
LIMITS: dict[str, tuple[str, float | None, float | None, float, str]] = {
    "a first item that comes too late": ("---------a-|", 8.0, None, 0, "--------#"),
    "a first item in time, without an idle limit": ("-------a--------------|", 8.0, None, 0, "-------a--------------|"),
    "a pause that is too long": ("-a------------|", None, 8.0, 0, "-a-------#"),
    "a steady stream": (STEADY, 8.0, 8.0, 0, STEADY),
    "no limits": ("------------------------", None, None, 0, "------------------------"),
    "the wait for the first item is not part of the pause": ("-------a-------b|", 8.0, 8.0, 0, "-------a-------b|"),
    "silence while the source is held": ("-a---------------------b-|", None, 8.0, 20, "-a---------------------b-|"),
    "a late first item while it is held": ("----------------------a-|", 8.0, None, 20, "----------------------a-|"),
    "its time begins again": ("--------------------------------a-|", 8.0, None, 15, "----------------------#"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_stream_ends_where_a_limit_is_passed_and_nowhere_else(name: str) -> None:
    drawing, first, idle, held, expected = LIMITS[name]
    seen, ends = observe(drawing, first, idle, held)
    assert seen == Marbles().expected(expected, error=FIRST if first else IDLE)
    assert ends == [seen[-1].time - 200 if seen else 800]


def test_the_error_may_be_tried_again() -> None:
    seen, _ = observe("----", 8.0, None)
    error = getattr(seen[0].value, "exception", None)
    assert isinstance(error, TransportTimeoutError)
    assert error.retryable


def test_a_pause_after_several_items_is_at_most_an_eighth_longer() -> None:
    seen, _ = observe("-a-b-c-------------|", None, 8.0)
    assert values_of(seen) == ["a", "b", "c"]
    assert len(seen) == 4
    assert 205 + 8 <= seen[-1].time <= 205 + 9


def test_nothing_comes_after_disposing(test: Marbles) -> None:
    seen: list[object] = []
    operator = time_out(8.0, 8.0, test.scheduler)
    test.hot("-a-----").pipe(operator).subscribe(seen.append, seen.append).dispose()
    assert test.observe(test.hot("-a-----").pipe(operator), until="---!") == test.expected("-a")
    assert seen == []


def test_silence_counts_from_the_moment_at_which_it_is_held_no_more(test: Marbles) -> None:
    source = test.hot("-a------------------------------------")
    operator = time_out(None, 8.0, test.scheduler, held_until(test, 20))
    seen = test.observe(source.pipe(operator))
    assert values_of(seen)[:1] == ["a"]
    assert len(seen) == 2
    assert 220 + 7 <= seen[-1].time <= 220 + 9
    assert source.subscriptions[0].unsubscribe == seen[-1].time
