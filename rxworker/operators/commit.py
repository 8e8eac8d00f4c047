"""What may still be taken back, and what may not.

A request that fails after its first event may be made again: the attempt is retracted by an event, and another begins. Who shows
text at once wants `live`, and takes back what a retraction tells it to. Who cannot take anything back, such as a voice or a
log, wants `committed`.
"""

from __future__ import annotations

from typing import TypeVar

from reactivex import Observable, abc

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Event,
    Record,
    ResponseStatus,
    Status,
    is_block_event,
    is_meta,
)
from rxworker.operators.stage import Sink, stage
from rxworker.operators.types import Operator

A = TypeVar("A", Record, Event)


def live() -> Operator[A, A]:
    """Everything, as it happens: retracted attempts, and the retractions.

    --a--d--r--a--d--e--|      a AttemptStart, d delta, r AttemptRetract, e COMPLETED
    [ live() ]
    --a--d--r--a--d--e--|
    """

    def apply(source: Observable[A]) -> Observable[A]:
        return source

    return apply


def committed() -> Operator[A, A]:
    """Only what cannot be taken back any more.

        --a--d--r--a--d--e-----t--|    a AttemptStart, d delta, r AttemptRetract, e COMPLETED
        [ committed() ]
        -----------------(ade)-t--|

    An attempt is held back until its response completed, or until something comes behind it that shows that no other attempt will.
    Then it passes whole and in order; one that is retracted never does. What it holds is at most one response.

    >>> from reactivex import of
    >>> from rxworker.events import TextDelta
    >>> from rxworker.operators import text_deltas
    >>> events = of(
    ...     AttemptStart(), TextDelta(0, "He"), AttemptRetract("overloaded"),
    ...     AttemptStart(), TextDelta(0, "Hello"), Status(ResponseStatus.COMPLETED),
    ... )
    >>> events.pipe(committed(), text_deltas()).subscribe(print) and None
    Hello
    """

    def apply(source: Observable[A]) -> Observable[A]:
        return stage(source, _hold)

    return apply


def _hold(observer: abc.ObserverBase[A]) -> Sink[A]:
    held: list[A] = []
    holding = started = False

    def release() -> None:
        nonlocal holding
        holding = False
        for item in held:
            observer.on_next(item)
        held.clear()

    def on_next(item: A) -> None:
        nonlocal holding, started
        event = item.event if isinstance(item, Record) else item
        if isinstance(event, AttemptStart):
            release()
            holding, started = True, False
        elif isinstance(event, AttemptRetract):
            held.clear()
            holding = False
            return
        elif not holding:
            observer.on_next(item)
            return
        elif isinstance(event, Status) and event.status is ResponseStatus.STARTED:
            if started:  # the response began anew: what it said is taken back
                del held[1:]
            started = True
        elif isinstance(event, Status) and event.status is ResponseStatus.COMPLETED:
            held.append(item)
            release()
            return
        elif not is_meta(event) and not is_block_event(event):
            release()
            observer.on_next(item)
            return
        held.append(item)

    def on_error(error: Exception) -> None:
        release()
        observer.on_error(error)

    def on_completed() -> None:
        release()
        observer.on_completed()

    return Sink(on_next, on_error, on_completed)


__all__ = ["committed", "live"]
