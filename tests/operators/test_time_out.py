"""`time_out`: not too long for the first item, not too long between items."""

from __future__ import annotations

from collections.abc import Callable

from reactivex.testing import Recorded

from rxworker.errors import TransportTimeoutError
from rxworker.operators import time_out
from rxworker.testing.marbles import Marbles, values_of

FIRST = TransportTimeoutError("nothing came within 8 seconds")
IDLE = TransportTimeoutError("nothing came for 8 seconds")


def observe(drawing: str, first: float | None, idle: float | None) -> tuple[list[Recorded[str]], list[int]]:
    test = Marbles()
    source = test.hot(drawing)
    seen = test.observe(source.pipe(time_out(first, idle, test.scheduler)))
    return seen, [subscription.unsubscribe - 200 for subscription in source.subscriptions]


def test_the_first_item_must_come_in_time() -> None:
    seen, ends = observe("---------a-|", 8.0, None)
    assert seen == Marbles().expected("--------#", error=FIRST)
    assert ends == [8]


def test_the_error_may_be_tried_again() -> None:
    seen, _ = observe("----", 8.0, None)
    error = getattr(seen[0].value, "exception", None)
    assert isinstance(error, TransportTimeoutError)
    assert error.retryable


def test_a_first_item_in_time_is_enough_without_an_idle_limit() -> None:
    seen, _ = observe("-------a------------------|", 8.0, None)
    assert seen == Marbles().expected("-------a------------------|")


def test_a_pause_must_not_be_too_long() -> None:
    seen, ends = observe("-a------------|", None, 8.0)
    assert seen == Marbles().expected("-a-------#", error=IDLE)
    assert ends == [9]


def test_a_pause_after_several_items_is_at_most_an_eighth_longer() -> None:
    seen, _ = observe("-a-b-c-------------|", None, 8.0)
    assert values_of(seen) == ["a", "b", "c"]
    assert len(seen) == 4
    assert 205 + 8 <= seen[-1].time <= 205 + 9


def test_a_steady_stream_never_ends() -> None:
    drawing = "-a------" * 20 + "|"
    seen, _ = observe(drawing, 8.0, 8.0)
    assert seen == Marbles().expected(drawing)


def test_without_limits_nothing_ends() -> None:
    seen, ends = observe("------------------------", None, None)
    assert seen == []
    assert ends == [800]


def test_nothing_comes_after_disposing() -> None:
    test = Marbles()
    seen: list[object] = []
    operator = time_out(8.0, 8.0, test.scheduler)
    test.hot("-a-----").pipe(operator).subscribe(seen.append, seen.append).dispose()
    assert test.observe(test.hot("-a-----").pipe(operator), until="---!") == test.expected("-a")
    assert seen == []


def test_the_wait_for_the_first_item_is_not_part_of_the_pause_after_it() -> None:
    seen, _ = observe("-------a-------b|", 8.0, 8.0)
    assert seen == Marbles().expected("-------a-------b|")


def held_until(test: Marbles, tick: float) -> Callable[[], bool]:
    """Whether the source is held: it is, up to a time."""

    def is_held() -> bool:
        return test.scheduler.clock < 200 + tick

    return is_held


def test_silence_does_not_count_while_the_source_is_held() -> None:
    test = Marbles()
    operator = time_out(None, 8.0, test.scheduler, held_until(test, 20))
    seen = test.observe(test.hot("-a------------------------b-|").pipe(operator))
    assert seen == Marbles().expected("-a------------------------b-|")


def test_silence_counts_from_the_moment_at_which_it_is_held_no_more() -> None:
    test = Marbles()
    source = test.hot("-a------------------------------------")
    operator = time_out(None, 8.0, test.scheduler, held_until(test, 20))
    seen = test.observe(source.pipe(operator))
    assert values_of(seen)[:1] == ["a"]
    assert len(seen) == 2
    assert 220 + 7 <= seen[-1].time <= 220 + 9
    assert source.subscriptions[0].unsubscribe == seen[-1].time


def test_the_first_item_is_waited_for_while_the_source_is_held() -> None:
    test = Marbles()
    operator = time_out(8.0, None, test.scheduler, held_until(test, 20))
    seen = test.observe(test.hot("----------------------a-|").pipe(operator))
    assert seen == Marbles().expected("----------------------a-|")


def test_the_first_item_has_its_time_again_when_it_is_held_no_more() -> None:
    test = Marbles()
    operator = time_out(8.0, None, test.scheduler, held_until(test, 15))
    seen = test.observe(test.hot("--------------------------------a-|").pipe(operator))
    assert seen == Marbles().expected("----------------------#", error=FIRST)
