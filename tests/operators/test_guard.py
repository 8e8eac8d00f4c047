"""Subscribing to a stage is what subscribing to any observable is.

Each story is told of reactivex's own and of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable, SerialDisposable
from reactivex.scheduler import ImmediateScheduler

from rxworker.operators.kernel import Guard, Sink, Stage, stage

Make: TypeAlias = Callable[[Callable[[Any, Any], Any]], Observable[Any]]


class Direct(Stage[Any]):
    is_direct = True


OURS: list[Make] = [Stage, Direct]
ALL: list[Make] = [Observable, *OURS]


class Log(abc.ObserverBase[object]):
    """Writes down what happens, and raises where it is told to."""

    def __init__(self, *, raises: Sequence[str] = ()) -> None:
        self.lines: list[str] = []
        self.raises = raises
        self.subscription = SerialDisposable()

    def note(self, line: str) -> None:
        self.lines.append(line)
        if line in self.raises:
            raise ValueError(line)
        if line == "next stop":
            self.subscription.dispose()

    def on_next(self, value: object) -> None:
        self.note(f"next {value}")

    def on_error(self, error: Exception) -> None:
        self.note(f"error {error}")

    def on_completed(self) -> None:
        self.note("completed")

    def let_go(self) -> None:
        self.note("let go")


Step: TypeAlias = Literal["a", "stop", "error", "completed", "raise"]


def told(make: Make, first: Sequence[Step], later: Sequence[Step], raises: Sequence[str]) -> object:
    """What happens when a source says this while it is subscribed to, and that later."""
    log = Log(raises=raises)
    observers: list[abc.ObserverBase[object]] = []

    def play(steps: Sequence[Step]) -> None:
        for step in steps:
            try:
                if step == "error":
                    observers[0].on_error(KeyError("no"))
                elif step == "completed":
                    observers[0].on_completed()
                elif step != "raise":
                    observers[0].on_next(step)
            except ValueError as error:
                log.lines.append(f"the source is told of {error}")
            if step == "raise":
                raise LookupError("raised")

    def subscribe(observer: abc.ObserverBase[object], _: object) -> abc.DisposableBase:
        observers.append(observer)
        play(first)
        return Disposable(log.let_go)

    try:
        log.subscription.disposable = make(subscribe).subscribe(log.on_next, log.on_error, log.on_completed)
        log.lines.append("subscribed")
        play([step for step in later if step != "raise"])
        log.subscription.dispose()
        log.subscription.dispose()
    except (ValueError, LookupError) as error:
        log.lines.append(f"whoever subscribes is told of {error}")
    return log.lines


STEPS = st.lists(st.sampled_from(["a", "stop", "error", "completed", "raise"]), max_size=5)
RAISES = st.lists(st.sampled_from(["next a", "error 'no'", "completed", "let go"]), max_size=2)


@given(STEPS, STEPS, RAISES)
def test_every_story_is_the_same(first: Sequence[Step], later: Sequence[Step], raises: Sequence[str]) -> None:
    expected = told(Observable, first, later, raises)
    assert [told(make, first, later, raises) for make in OURS] == [expected, expected]


@pytest.mark.parametrize("make", ALL)
def test_an_observer_may_be_an_object_of_any_make(make: Make) -> None:
    log, sink = Log(), Log()
    source = make(lambda observer, _: reactivex.of(1, 2).subscribe(observer))
    source.subscribe(log)
    source.subscribe(Sink(sink.on_next, sink.on_error, sink.on_completed))
    assert log.lines == sink.lines == ["next 1", "next 2", "completed"]


@pytest.mark.parametrize("make", ALL)
def test_it_runs_without_an_observer(make: Make) -> None:
    make(lambda observer, _: reactivex.of(1, 2).subscribe(observer)).subscribe()


@pytest.mark.parametrize("make", ALL)
def test_an_error_that_no_observer_receives_is_raised(make: Make) -> None:
    def subscribe(observer: abc.ObserverBase[int], _: object) -> None:
        observer.on_error(KeyError("unheard"))

    with pytest.raises(KeyError, match="unheard"):
        make(subscribe).subscribe()


@pytest.mark.parametrize("make", ALL)
def test_to_let_go_may_be_nothing_or_a_function(make: Make) -> None:
    log = Log()
    make(lambda _, __: log.let_go).subscribe().dispose()
    make(lambda _, __: None).subscribe().dispose()
    assert log.lines == ["let go"]


@pytest.mark.parametrize("make", ALL)
def test_the_source_is_given_the_scheduler(make: Make) -> None:
    given: list[object] = []
    scheduler = ImmediateScheduler()
    make(lambda _, scheduler: given.append(scheduler)).subscribe(scheduler=scheduler)
    assert given == [scheduler]


@pytest.mark.parametrize("make", ALL)
def test_who_it_is_that_listens_is_hidden(make: Make) -> None:
    assert not hasattr(make(lambda _, __: None).subscribe(), "on_next")


@pytest.mark.parametrize("make", ALL)
def test_an_operator_of_reactivex_can_cut_what_never_ends(make: Make) -> None:
    log = Log()
    endless = reactivex.of(1).pipe(ops.repeat())
    make(endless._subscribe_core).pipe(ops.take(2)).subscribe(log)
    assert log.lines == ["next 1", "next 1", "completed"]


def _both(make: Make) -> Observable[Any]:
    """Two sources that each say what they have when whoever subscribes has finished."""

    def subscribe(observer: abc.ObserverBase[Any], _: object) -> abc.DisposableBase:
        latest: Observable[Any] = reactivex.concat(reactivex.of(1), reactivex.of(2))
        other: Observable[Any] = reactivex.concat(reactivex.of(3), reactivex.of(4))
        latest.subscribe(observer.on_next)
        return other.subscribe(observer.on_next)

    return make(subscribe)


def test_sources_that_are_subscribed_to_together_take_turns() -> None:
    logs = [Log(), Log()]
    for make, log in zip([Observable, Stage], logs, strict=True):
        _both(make).subscribe(log)
    assert logs[0].lines == logs[1].lines == ["next 1", "next 3", "next 2", "next 4"]


def test_what_an_observer_begins_while_it_subscribes_comes_behind() -> None:
    def story(make: Make) -> list[str]:
        log = Log()

        def on_next(value: int) -> None:
            reactivex.of("within").subscribe(log.on_next)
            log.on_next(value)

        make(lambda observer, _: observer.on_next(1)).subscribe(on_next)
        return log.lines

    assert [story(make) for make in [Observable, Stage]] == [["next 1", "next within"]] * 2
    # What is pushed by hand is shown as it always is: in the trampoline of nobody.
    assert story(Direct) == ["next within", "next 1"]


def test_a_stage_is_direct_where_its_source_is() -> None:
    def made(source: Observable[Any]) -> Stage[Any]:
        return stage(source, lambda observer: observer)

    assert made(made(Direct())).is_direct
    assert not made(made(Stage())).is_direct
    assert not made(Observable()).is_direct


def test_the_rest_of_what_came_together_is_left_out() -> None:
    log = Log()
    guard = Guard[object](log.on_next, log.on_error, log.on_completed)
    log.subscription.disposable = Disposable(guard.dispose)
    guard.on_many(["a", "stop", "b"])
    guard.on_many(["c"])
    assert log.lines == ["next a", "next stop"]


def test_a_pipe_composes_from_left_to_right() -> None:
    def first(source: Observable[int]) -> list[object]:
        return [source, 1]

    def second(found: list[object]) -> list[object]:
        return [*found, 2]

    source: Stage[int] = Stage()
    assert source.pipe(first) == [source, 1]
    assert source.pipe(first, second) == [source, 1, 2]
    pipe: Callable[[], object] = getattr(source, "pipe")  # noqa: B009 - the types know no empty one
    assert pipe() is source
