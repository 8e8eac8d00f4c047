"""Fewer events for user interfaces: the adjacent deltas of an interval merged into one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, SerialDisposable

from rxworker.events import (
    Event,
    InputJsonDelta,
    InputValueDelta,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
)
from rxworker.messages.settings import check_number
from rxworker.operators.expect import EVENTS, expect_events, expect_scheduler, no_event
from rxworker.operators.kernel import Operator, Sink, Stage, connect

E = TypeVar("E", bound=Event)


def merge_deltas(events: Iterable[E]) -> list[E]:
    """The same story in fewer events: neighbours that add to the same text become one.

    Nothing else changes: all other events stay, everything stays in order, and a block folds to the same content.

    Raises:
        ConfigurationError: An item is not an event.

    >>> merge_deltas([TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(1, "c")])
    [TextDelta(index=0, text='ab', choice=0), TextDelta(index=1, text='c', choice=0)]
    """
    merged: list[E] = []
    pieces: list[str] = []
    first: E | None = None
    for event in events:
        if first is not None and pieces and _continues(first, event):
            pieces.append(text_of(event) or "")
            continue
        if first is not None:
            merged.append(_joined(first, pieces))
        text = text_of(event)
        if text is None and event.__class__ not in EVENTS:
            raise no_event("merge_deltas(...)", event)
        first, pieces = event, [] if text is None else [text]
    if first is not None:
        merged.append(_joined(first, pieces))
    return merged


def text_of(event: object) -> str | None:
    """The text that a delta adds to its block; ``None`` for any other event."""
    if isinstance(event, TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta):
        return event.text
    if isinstance(event, InputValueDelta) and isinstance(event.value, str):
        return event.value
    return None


def _continues(first: object, event: object) -> bool:
    if type(event) is not type(first):
        return False
    if isinstance(event, InputValueDelta) and isinstance(first, InputValueDelta):
        return (
            event.append
            and isinstance(event.value, str)
            and (event.index, event.path) == (first.index, first.path)
        )
    if isinstance(event, InputJsonDelta) and isinstance(first, InputJsonDelta):
        return event.index == first.index
    if isinstance(event, TextDelta | ThinkingDelta | RefusalDelta) and isinstance(
        first, TextDelta | ThinkingDelta | RefusalDelta
    ):
        return event.index == first.index and event.choice == first.choice
    return False


def _joined(first: E, pieces: list[str]) -> E:
    """The first of a row of neighbours, with the text of all of them."""
    if len(pieces) < 2:
        return first
    text = "".join(pieces)
    joined: object = first
    if isinstance(first, TextDelta):
        joined = TextDelta(first.index, text, first.choice)
    elif isinstance(first, ThinkingDelta):
        joined = ThinkingDelta(first.index, text, first.choice)
    elif isinstance(first, RefusalDelta):
        joined = RefusalDelta(first.index, text, first.choice)
    elif isinstance(first, InputJsonDelta):
        joined = InputJsonDelta(first.index, text)
    elif isinstance(first, InputValueDelta):
        joined = InputValueDelta(first.index, first.path, text, first.append)
    return cast(E, joined)  # it has the type of the first, which is an E


def coalesce(seconds: float, scheduler: abc.SchedulerBase) -> Operator[E, E]:
    """Hold deltas back for a moment and merge those of one block that stand next to each other.

        -s-a-b-c-d-e---|       s start, e stop, between them deltas; the moment is 4 columns
        [ coalesce(4) ]
        -s-----A---(B,e)-|     A is a b c, B is d

    Every other event lets out what is held back before it and passes at once, so that no order changes and nothing is
    dropped. So do completion and error. The scheduler must run on the source's thread.

    Args:
        seconds: How long a delta waits at most.
        scheduler: The scheduler of the timer.

    Raises:
        ConfigurationError: The time is not a number from 0 up, or there is no scheduler.
    """
    check_number("coalesce(seconds)", seconds)
    expect_scheduler("coalesce(...)", scheduler)

    def apply(source: Observable[E]) -> Observable[E]:
        expect_events(source, "coalesce(...)")

        def subscribe(
            observer: abc.ObserverBase[E], default: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            push = observer.on_next
            timer = SerialDisposable()
            held: list[E] = []
            over = False

            def let_out() -> None:
                nonlocal held
                if held:
                    events, held = held, []
                    timer.disposable = None
                    for event in merge_deltas(events):
                        push(event)

            def ring(_: abc.SchedulerBase, __: object = None) -> None:
                if not over:
                    let_out()

            def on_next(event: E) -> None:
                if over:
                    return
                if text_of(event) is None:
                    if event.__class__ not in EVENTS:
                        on_error(no_event("coalesce(...)", event))
                        return
                    let_out()
                    push(event)
                    return
                held.append(event)
                if len(held) == 1:
                    timer.disposable = scheduler.schedule_relative(seconds, ring)

            def on_error(error: Exception) -> None:
                nonlocal over
                if not over:
                    let_out()
                    over = True
                    observer.on_error(error)

            def on_completed() -> None:
                nonlocal over
                if not over:
                    let_out()
                    over = True
                    observer.on_completed()

            sink = Sink(on_next, on_error, on_completed)
            return CompositeDisposable(timer, connect(source, sink, default))

        return Stage(subscribe)

    return apply
