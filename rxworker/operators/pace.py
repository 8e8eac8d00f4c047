"""Fewer events for those who draw them: deltas of a moment merged into one."""

from __future__ import annotations

from typing import TypeVar

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, SerialDisposable

from rxworker.operators.merge import merge_deltas, text_of
from rxworker.operators.stage import Sink, Stage, connect
from rxworker.operators.types import Operator

E = TypeVar("E")


def coalesce(scheduler: abc.SchedulerBase, seconds: float) -> Operator[E, E]:
    """Hold deltas back for a moment and merge those of one block that stand next to each other.

        -s-a-b-c-d-e---|       s start, e stop, between them deltas; the moment is 4 columns
        [ coalesce(4) ]
        -s-----A---(B,e)-|     A is a b c, B is d

    Every other event lets out what is held back before it and passes at once, so that no order changes and nothing is
    dropped. So do completion and error. The scheduler must run on the source's thread.

    Args:
        scheduler: Whose time it is.
        seconds: How long a delta waits at most.
    """

    def apply(source: Observable[E]) -> Observable[E]:
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
                if text_of(event) is None:
                    let_out()
                    push(event)
                    return
                held.append(event)
                if len(held) == 1:
                    timer.disposable = scheduler.schedule_relative(seconds, ring)

            def on_error(error: Exception) -> None:
                nonlocal over
                let_out()
                over = True
                observer.on_error(error)

            def on_completed() -> None:
                nonlocal over
                let_out()
                over = True
                observer.on_completed()

            sink = Sink(on_next, on_error, on_completed)
            return CompositeDisposable(timer, connect(source, sink, default))

        return Stage(subscribe)

    return apply


__all__ = ["coalesce"]
