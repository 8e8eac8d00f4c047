"""Fewer events for user interfaces: the adjacent deltas of an interval merged into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace
from reactivex import abc

from rxworker.events import Event, InputJsonDelta, InputValueDelta, RefusalDelta, TextDelta, ThinkingDelta
from rxworker.events.kinds import adds_to_same
from rxworker.messages.settings import check_number
from rxworker.operators.expect import EVENTS, Follow, expect_callable, refusal, timed
from rxworker.operators.kernel import Both, Ending, Operator, SerialDisposable, Sink

A = TypeVar("A")
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
            raise refusal("merge_deltas(...)", "events", event)
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
    """Whether an event adds to the same text as the first of a row.

    It differs in its text alone, and a value by its path is appended.
    """
    if type(event) is not type(first):
        return False
    if isinstance(event, InputValueDelta) and isinstance(first, InputValueDelta):
        return event.append and isinstance(event.value, str) and (event.index, event.path) == (first.index, first.path)
    return adds_to_same(event, first)


def _joined(first: E, pieces: list[str]) -> E:
    """The first of a row of neighbours, with the text of all of them."""
    if len(pieces) < 2:
        return first
    text = "".join(pieces)
    return replace(first, value=text) if isinstance(first, InputValueDelta) else replace(first, text=text)


def coalesce(seconds: float, scheduler: abc.SchedulerBase | None = None) -> Operator[E, E]:
    """Hold deltas back for a moment and merge those of one block that stand next to each other.

        -s-a-b-c-d-e---|       s start, e stop, between them deltas; the moment is 4 columns
        [ coalesce(4) ]
        -s-----A---(B,e)-|     A is a b c, B is d

    Every other event lets out what is held back before it and passes at once, so that no order changes and nothing is
    dropped. So do completion and error. The scheduler must run on the source's thread.

    Args:
        seconds: How long a delta waits at most.
        scheduler: The scheduler of the timer, by default that of the subscription.

    Raises:
        ConfigurationError: The time is not a number from 0 up. As ``on_error``: there is no scheduler.

    >>> from reactivex import of
    >>> from reactivex.scheduler import HistoricalScheduler
    >>> texts = of(TextDelta(0, "Ra"), TextDelta(0, "in."))
    >>> texts.pipe(coalesce(0.05, HistoricalScheduler())).subscribe(lambda event: print(event.text)) and None
    Rain.
    """
    check_number("coalesce(seconds)", seconds)

    def subscribe(follow: Follow[E], observer: abc.ObserverBase[E], clock: abc.SchedulerBase) -> abc.DisposableBase:
        push = observer.on_next
        timer = SerialDisposable()
        held: list[E] = []

        def let_out() -> None:
            nonlocal held
            if held:
                events, held = held, []
                timer.put(None)
                for event in merge_deltas(events):
                    push(event)

        def ring(_: abc.SchedulerBase, __: object = None) -> None:
            let_out()

        ending = Ending(observer, let_out)

        def on_next(event: E) -> None:
            if ending.is_over:
                return
            if text_of(event) is None:
                if event.__class__ not in EVENTS:
                    ending.on_error(refusal("coalesce(...)", "events", event))
                    return
                let_out()
                push(event)
                return
            held.append(event)
            if len(held) == 1:
                timer.put(clock.schedule_relative(seconds, ring))

        return Both(timer, follow(Sink(on_next, ending.on_error, ending.on_completed)))

    return timed(subscribe, "coalesce(...)", scheduler, seconds, takes_events=True)


def throttle(
    seconds: float, combine: Callable[[A, A], A] | None = None, scheduler: abc.SchedulerBase | None = None
) -> Operator[A, A]:
    """The first item at once, and then at most one in an interval: the last, or all of it combined.

        -1-2-3-------4-|       the interval is 4 columns
        [ throttle(4) ]
        -1---3-------4-|

    What follows an item within the interval waits for its end; completion and error let it out. Nothing of a sum is
    lost with ``combine=operator.add``.

    Args:
        seconds: The interval.
        combine: Two items in one, the older first; by default the newer is kept.
        scheduler: The scheduler of the timer, by default that of the subscription. It must run on the source's thread.

    Raises:
        ConfigurationError: The interval is not a number above 0, or ``combine`` is not a function. As ``on_error``:
            there is no scheduler, or what ``combine`` raises.

    >>> from operator import add
    >>> from reactivex import of
    >>> from reactivex.scheduler import HistoricalScheduler
    >>> of(1, 2, 3).pipe(throttle(0.1, add, HistoricalScheduler())).subscribe(print) and None
    1
    5
    """
    if combine is not None:
        expect_callable("throttle(combine)", combine, "a function of two items")
    check_number("throttle(seconds)", seconds, above=0)

    def subscribe(follow: Follow[A], observer: abc.ObserverBase[A], clock: abc.SchedulerBase) -> abc.DisposableBase:
        push = observer.on_next
        timer = SerialDisposable()
        held: list[A] = []
        is_waiting = False

        def let_out() -> None:
            if held:
                push(held.pop())

        def ring(_: abc.SchedulerBase, __: object = None) -> None:
            nonlocal is_waiting
            is_waiting = False
            if held:
                wait()
                let_out()

        def wait() -> None:
            nonlocal is_waiting
            is_waiting = True
            timer.put(clock.schedule_relative(seconds, ring))

        ending = Ending(observer, timer.dispose)

        def on_next(item: A) -> None:
            if ending.is_over:
                return
            if not is_waiting:
                wait()
                push(item)
            elif held and combine is not None:
                try:
                    held[0] = combine(held[0], item)
                except Exception as error:
                    ending.on_error(error)
            else:
                held[:] = (item,)

        def on_error(error: Exception) -> None:
            let_out()
            ending.on_error(error)

        def on_completed() -> None:
            let_out()
            ending.on_completed()

        return Both(timer, follow(Sink(on_next, on_error, on_completed)))

    return timed(subscribe, "throttle(...)", scheduler, *filter(None, (seconds, combine)))
