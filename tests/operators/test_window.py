"""`sliding` and `fold_sliding`: what came within the last seconds, and nothing else; `session_windows`."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import abc
from reactivex import operators as ops
from reactivex.disposable import CompositeDisposable, Disposable
from reactivex.scheduler import HistoricalScheduler
from reactivex.testing import ReactiveTest, Recorded, TestScheduler

from rxworker.operators import Window, fold_sliding, session_windows, sliding
from rxworker.operators.kernel import Source
from rxworker.operators.window import FEW, Fold, View
from rxworker.testing.marbles import SUBSCRIBED, Marbles, values_of
from tests.seen import through

WINDOWS = {"A": ("a",), "B": ("a", "b"), "C": ("b",), "D": ()}


@pytest.mark.parametrize(
    ("source", "at_most", "expected"),
    [
        ("-a-b-----c---(d,|)", 9, "-------A-----(B,|)"),
        ("-a-b----------c-|", 9, "-------A--------(C,|)"),
        ("-a-b-c----------|", 2, "---A-----C------|"),
        ("-a-b-#", 9, "-----#"),
        ("-----|", 9, "-----|"),
    ],
)
def test_the_items_between_two_pauses_are_one_group(source: str, at_most: int, expected: str, test: Marbles) -> None:
    seen = test.observe(test.hot(source).pipe(session_windows(4, test.scheduler, at_most=at_most)))
    assert seen == test.expected(expected, {"A": ("a", "b"), "B": ("c", "d"), "C": ("c",)})


@pytest.mark.parametrize(
    ("source", "until", "expected"),
    [
        ("-a--b------------|", "", "-A--B--C--D------|"),
        ("-(a,b)-----------|", "", "-(A,B)-D---------|"),  # they leave together
        ("-a-----b---------|", "", "-A-----C-----D---|"),  # one comes when another leaves
        ("-a-|", "", "-A-|"),
        ("-a-#", "", "-A-#"),
        ("-a-----", "----!", "-A"),
    ],
)
def test_items_come_and_leave_until_it_ends_or_is_disposed(
    source: str, until: str, expected: str, test: Marbles
) -> None:
    seen = test.observe(test.hot(source).pipe(sliding(6, test.scheduler)), until=until)
    assert seen == test.expected(expected, WINDOWS)


def test_a_window_that_was_kept_does_not_change() -> None:
    time = TestScheduler()
    seen = time.create_observer()
    row = [ReactiveTest.on_next(tick, tick) for tick in range(1, 500)]
    time.create_hot_observable(row).pipe(sliding(3, time)).subscribe(seen)
    time.start()
    windows = values_of(seen.messages)
    assert windows[400] == (399, 400, 401)
    assert [len(window) for window in windows[-4:]] == [3, 2, 1, 0]


def test_a_window_is_a_sequence() -> None:
    window = Window("abcde", 1, 4)
    assert (window[0], window[-1], window[1:], list(reversed(window))) == ("b", "d", ("c", "d"), ["d", "c", "b"])
    assert window == Window("bcd", 0, 3) == ("b", "c", "d")
    assert hash(window) == hash(("b", "c", "d"))
    assert window != ["b", "c", "d"]
    with pytest.raises(IndexError):
        window[3]


def add(one: int, other: int) -> int:
    return one + other


NUMBERS = {"1": 1, "2": 2, "3": 3, "0": 0}


def test_a_fold_follows_the_window(test: Marbles) -> None:
    total = test.hot("-1--2------------|", NUMBERS).pipe(fold_sliding(add, 0, 6, test.scheduler))
    assert test.observe(total) == test.expected("-1--3--2--0------|", NUMBERS)


@pytest.mark.parametrize(("calls", "unsubscribed"), [(0, "^--!"), (2, "^------!")], ids=["comes", "leaves"])
def test_what_combining_raises_when_an_item_comes_or_leaves_ends_the_stream(calls: int, unsubscribed: str) -> None:
    left = calls

    def refuse(one: str, other: str) -> str:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError("no")
        return one + other

    test = Marbles()
    source = test.hot("-a-b-c-------------|")
    seen = test.observe(source.pipe(fold_sliding(refuse, "", 6, test.scheduler)))
    assert [str(r.value) for r in seen][-1] == "OnError(no)"
    assert source.subscriptions == test.subscriptions(unsubscribed)


Times = st.lists(st.integers(1, 60), max_size=40).map(sorted)


@given(Times, st.integers(1, 20))
def test_sliding_is_its_definition(times: list[int], width: int) -> None:
    """Whatever comes out at a tick, the last of it is what came in the ``width`` ticks up to it."""
    seen = watch(times, width)
    ticks = {record.time - SUBSCRIBED for record in seen}
    for tick in range(1, 100):
        held = [record for record in seen if record.time - SUBSCRIBED <= tick]
        expected = tuple((t, n) for n, t in enumerate(times) if tick - width < t <= tick)
        if held:
            assert values_of(held)[-1] == expected
        else:
            assert expected == ()
        changed = tick in times or tick - width in times
        assert (tick in ticks) == changed


def watch(times: list[int], width: int) -> list[Recorded[Window[tuple[int, int]]]]:
    time = TestScheduler()
    seen = time.create_observer()
    row = [ReactiveTest.on_next(SUBSCRIBED + t, (t, n)) for n, t in enumerate(times)]
    time.create_hot_observable(row).pipe(sliding(width, time)).subscribe(seen)
    time.start()
    return seen.messages


@given(Times, st.integers(1, 20))
def test_a_fold_is_the_fold_of_the_window(times: list[int], width: int) -> None:
    """Joining texts is associative and nothing else: an item in the wrong place would show."""

    def join(one: str, other: str) -> str:
        return one + other

    def text_of(item: tuple[int, int]) -> str:
        return f"{item},"

    time = TestScheduler()
    seen = time.create_observer()
    row = [ReactiveTest.on_next(SUBSCRIBED + t, text_of((t, n))) for n, t in enumerate(times)]
    time.create_hot_observable(row).pipe(fold_sliding(join, "", width, time)).subscribe(seen)
    time.start()
    windows = watch(times, width)
    texts = ["".join(map(text_of, window)) for window in values_of(windows)]
    assert values_of(seen.messages) == texts
    assert [r.time for r in seen.messages] == [r.time for r in windows]


class Counted(HistoricalScheduler):
    """Counts the timers that were set, those that are set now, and the most at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = 0
        self.pending = 0
        self.most = 0

    def schedule_relative(
        self, duetime: Any, action: abc.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        self.timers += 1
        self.pending += 1
        self.most = max(self.most, self.pending)

        def over() -> None:
            self.pending -= 1

        once = Disposable(over)  # rung, or taken back

        def ring(scheduler: abc.SchedulerBase, state: Any = None) -> abc.DisposableBase | None:
            once.dispose()
            return action(scheduler, state)

        return CompositeDisposable(once, super().schedule_relative(duetime, ring, state))


@pytest.mark.parametrize("end", ["completed", "failed", "disposed"])
def test_the_end_takes_the_timer_with_it(end: str) -> None:
    time = Counted()
    source: Source[str] = Source()
    seen: list[Window[str]] = []
    subscription = source.pipe(sliding(6, time)).subscribe(seen.append, lambda _: None)
    source.on_next("a")
    assert time.pending == 1
    ends = {
        "completed": source.on_completed,
        "failed": partial(source.on_error, OSError()),
        "disposed": subscription.dispose,
    }
    ends[end]()
    assert time.pending == 0
    time.advance_by(60)
    assert seen == [("a",)]


def test_there_is_one_timer_for_the_oldest_item_and_none_without_items() -> None:
    time = Counted()
    source: Source[int] = Source()
    source.pipe(sliding(10, time)).subscribe()
    assert time.timers == 0
    for number in range(100):
        source.on_next(number)
        time.advance_by(1)
    assert time.most == 1
    time.advance_by(1000)
    assert (time.pending, time.timers) == (0, 100)


def test_a_clock_that_is_set_back_keeps_nothing_for_ever() -> None:
    time = HistoricalScheduler()
    source: Source[str] = Source()
    seen: list[Window[str]] = []
    source.pipe(sliding(10, time)).subscribe(seen.append)
    time.advance_by(1000)
    source.on_next("a")
    time._clock = HistoricalScheduler().now  # as somebody setting the clock does
    source.on_next("b")
    assert seen[-1] == ("a", "b")
    time.advance_by(6)
    source.on_next("c")
    time.advance_by(6)
    source.on_next("d")
    assert seen[-1] == ("c", "d")


@pytest.mark.parametrize("width", [10, 1000])
def test_a_fold_combines_a_constant_number_of_times_for_an_item(width: int) -> None:
    calls = 0

    def count(one: int, other: int) -> int:
        nonlocal calls
        calls += 1
        return one + other

    fold = Fold(count, 0)
    for tick in range(10_000):
        fold.drop(tick)
        fold.push(tick + width, 1)
        assert fold.value() == min(tick + 1, width)
    assert calls <= 3 * 10_000


@pytest.mark.parametrize("width", [10, 1000])
def test_a_view_holds_at_most_twice_its_window(width: int) -> None:
    view: View[int] = View()
    rows = 0
    row = view._row
    for tick in range(10_000):
        view.drop(tick)
        view.push(tick + width, tick)
        assert len(view._row) <= 2 * width + FEW + 2
        rows += view._row is not row
        row = view._row
    assert rows <= 10_000 / min(width, FEW) + 1


def test_a_source_that_ends_within_its_subscription_is_seen() -> None:
    seen = through([1, 2], sliding(60, HistoricalScheduler()), ops.take_last(1))
    assert seen == [(1, 2)]
