"""Events that may still be retracted, and events that may not.

A request that fails after its first event may be made again: the attempt is retracted by an event, and another begins.
A consumer that shows text at once uses `live`, and removes what a retraction names. A consumer that cannot remove
anything, such as a voice or a log, uses `committed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from reactivex import abc
from reactivex.internal import noop

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Event,
    Record,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunStop,
    Status,
    ToolProgress,
    ToolStart,
    ToolStop,
)
from rxworker.events.kinds import BLOCK_EVENTS, META_EVENTS, Deltas
from rxworker.messages import StopKind
from rxworker.operators.expect import EVENTS, observing, refusal
from rxworker.operators.kernel import Ending, Operator, Sink

A = TypeVar("A", bound=Record | Event)

_Held: TypeAlias = tuple[Callable[[A], None], Callable[[], None]]

# A tool may start within a response, and is retracted with it. An entry of a run has several deltas of it.
_OF_A_RESPONSE = META_EVENTS | BLOCK_EVENTS | {ToolStart, ToolProgress, ToolStop, Deltas}


def live() -> Operator[A, A]:
    """Everything, as it happens: retracted attempts, and the retractions.

    --a--d--r--a--d--e--|      a AttemptStart, d delta, r AttemptRetract, e COMPLETED
    [ live() ]
    --a--d--r--a--d--e--|

    >>> from reactivex import of
    >>> from rxworker.events import TextDelta
    >>> of(TextDelta(0, "Rain.")).pipe(live()).subscribe(lambda event: print(event.text)) and None
    Rain.
    """
    return observing(_pass_on, "live()")


def _pass_on(observer: abc.ObserverBase[A]) -> Sink[A]:
    push = observer.on_next
    ending = Ending(observer)

    def on_next(item: A) -> None:
        nonlocal push
        if item.__class__ is not Record and item.__class__ not in EVENTS:
            push = noop
            ending.on_error(refusal("live()", "events or records", item))
        push(item)

    return Sink(on_next, ending.on_error, ending.on_completed)


def committed() -> Operator[A, A]:
    """Only the events that cannot be retracted any more.

        --a--d--r--a--d--e-----t--|    a AttemptStart, d delta, r AttemptRetract, e COMPLETED
        [ committed() ]
        -----------------(ade)-t--|

    An attempt is held back until its response completed, or until something comes after it that shows that no other
    attempt will. Then it passes whole and in order; one that is retracted never does. What it holds is at most one
    response of each run: of records, those of several runs, and of runs inside a run, are kept apart.

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
    return observing(_hold_each, "committed()")


def _hold_each(observer: abc.ObserverBase[A]) -> Sink[A]:
    """The events of each run, and of each run inside one, each as a stream of its own."""
    held: dict[object, _Held[A]] = {}

    def release() -> None:
        for _, release_one in held.values():
            release_one()

    ending = Ending(observer, release)

    def on_next(item: A) -> None:
        if ending.is_over:
            return
        if not (isinstance(item, Record) or item.__class__ in EVENTS):
            ending.on_error(refusal("committed()", "events or records", item))
            return
        key = (item.run_id, item.path) if isinstance(item, Record) else None
        if key not in held:
            held[key] = _hold(observer)
        held[key][0](item)
        if isinstance(item, Record) and isinstance(item.event, (RunStop, RunAbort, RunPause)):
            del held[key]

    return Sink(on_next, ending.on_error, ending.on_completed)


def _hold(observer: abc.ObserverBase[A]) -> _Held[A]:
    """A sink for the events of one run, and a function that emits the held ones."""
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
            if started:  # the response restarted: its events are retracted
                del held[1:]
            started = True
        elif isinstance(event, Status) and event.status is ResponseStatus.COMPLETED:
            held.append(item)
            if event.stop_reason is None or event.stop_reason.kind is not StopKind.MALFORMED:
                release()  # else it may be retracted: see what comes after it
            return
        elif event.__class__ not in _OF_A_RESPONSE:
            release()
            observer.on_next(item)
            return
        held.append(item)

    return on_next, release
