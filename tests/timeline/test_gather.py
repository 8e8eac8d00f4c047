"""Handlers that are given deltas together: what holds for them when they come one by one holds then, too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from reactivex import abc

from rxworker.events import BlockStart, BlockStop, BlockType, Event, Ping, TextDelta
from rxworker.events.kinds import Deltas
from rxworker.operators.kernel import NOTHING, Stage, many
from rxworker.timeline import TextBlockCollector, Timeline


class Failing(TextBlockCollector):
    """One that cannot."""

    def gather(self, scope: list[str], deltas: Deltas[Any], /) -> None:
        """Raise."""
        raise ValueError("no more")


class Gathering(TextBlockCollector):
    """Keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def gather(self, scope: list[str], deltas: Deltas[Any], /) -> None:
        """Keep."""
        self.given += deltas.texts


@pytest.mark.parametrize(("failing", "raised"), [(1, ValueError), (2, ExceptionGroup)])
def test_one_that_raises_keeps_no_other_from_its_deltas(failing: int, raised: type[Exception]) -> None:
    timeline, gathering = Timeline(), Gathering()
    for _ in range(failing):
        timeline.on_text_block(Failing())
    timeline.on_text_block(gathering)
    timeline.dispatch(BlockStart(0, BlockType.TEXT))
    with pytest.raises(raised):
        timeline.dispatch_many([Deltas(TextDelta(0, ""), ["a", "b"])])
    assert gathering.given == ["a", "b"]


START, STOP = BlockStart(0, BlockType.TEXT), BlockStop(0, BlockType.TEXT)
ROW: Deltas[Event] = Deltas(TextDelta(0, ""), ["a", "b", "c"])
READ: list[Event | Deltas[Event]] = [Ping(), START, TextDelta(0, "o"), ROW, STOP, Ping()]
EVENTS = [Ping(), START, TextDelta(0, "o"), *ROW, STOP, Ping()]


class Stopping(TextBlockCollector):
    """One that cannot keep a whole text."""

    def _add(self, item: str | partial[str]) -> None:
        raise ValueError(item)


def together(rows: Sequence[Event | Deltas[Event]]) -> Stage[Event]:
    def subscribe(observer: abc.ObserverBase[Event], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        for row in rows:
            many(observer)(row if isinstance(row, Deltas) else [row])
        observer.on_completed()
        return NOTHING

    return Stage(subscribe)


def test_what_comes_together_is_handled_and_passed_on_as_if_it_came_one_by_one() -> None:
    timeline, texts = Timeline(), TextBlockCollector()
    timeline.on_text_block(texts)
    seen: list[Event] = []
    together(READ).pipe(timeline).subscribe(seen.append)
    assert seen == EVENTS
    assert texts.collected() == ["oabc"]


def test_of_what_comes_together_all_before_a_handler_raises_is_passed_on() -> None:
    timeline = Timeline()
    timeline.on_text_block(Stopping())
    seen: list[Event | str] = []

    def fail(error: Exception) -> None:
        seen.append(str(error))

    together(READ).pipe(timeline).subscribe(seen.append, fail)
    assert seen == [Ping(), START, TextDelta(0, "o"), *ROW, "oabc"]


def test_a_handler_that_may_do_more_than_gather_has_each_event_before_the_next_is_passed_on() -> None:
    timeline = Timeline()
    seen: list[Event | str] = []
    timeline.on_text_block(TextBlockCollector())

    def handle(_: Ping) -> None:
        seen.append("handled")

    timeline.on_ping(handle)
    together(READ).pipe(timeline).subscribe(seen.append)
    assert seen == ["handled", *EVENTS[:-1], "handled", Ping()]


def test_what_one_that_gathers_dispatches_comes_behind_the_event_that_is_handled() -> None:
    class Echoing(TextBlockCollector):
        def _add(self, item: str | partial[str]) -> None:
            super()._add(item)
            if item == "oabc":
                timeline.dispatch(TextDelta(1, "echo"))
                timeline.dispatch(BlockStop(1, BlockType.TEXT))

    timeline, texts = Timeline(), TextBlockCollector()
    timeline.on_text_block(Echoing())
    timeline.on_text_block(texts)
    later = [TextDelta(2, "later"), BlockStop(2, BlockType.TEXT)]
    together([*READ, *later]).pipe(timeline).subscribe()
    assert texts.collected() == ["oabc", "echo", "later"]
