"""Not waiting for ever."""

from __future__ import annotations

from typing import TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable, SerialDisposable, SingleAssignmentDisposable

from rxworker.errors import TransportTimeoutError
from rxworker.operators.stage import Sink, Stage, connect
from rxworker.operators.types import Operator

A = TypeVar("A")

LOOKS = 8
"""How often a running stream is looked at within the time that it may pause."""


def time_out(
    first: float | None, idle: float | None, scheduler: abc.SchedulerBase
) -> Operator[A, A]:
    """End with a `TransportTimeoutError` when the first item does not come in time, or a pause is too long.

        --a--b------------     the pause may be 8 columns
        [ time_out(8, 8) ]
        --a--b--------#

    An item costs nothing but a mark: one timer looks eight times in the time of a pause whether there was a mark. The
    error therefore comes when the stream has been silent for ``idle``, and at most an eighth of it later, never earlier.
    The source is disposed.

    Args:
        first: Seconds until the first item; ``None`` for no limit.
        idle: Seconds between two items, and between the last one and the end; ``None`` for no limit.
        scheduler: Whose time it is. It must run on the source's thread.
    """

    def apply(source: Observable[A]) -> Observable[A]:
        def subscribe(
            observer: abc.ObserverBase[A], default: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            push = observer.on_next
            upstream = SingleAssignmentDisposable()
            timer = SerialDisposable()
            started = marked = over = False
            quiet = 0

            def end() -> bool:
                nonlocal over
                was_over, over = over, True
                timer.dispose()
                return not was_over

            def expire(message: str) -> None:
                if end():
                    upstream.dispose()
                    observer.on_error(TransportTimeoutError(message, retryable=True))

            def miss(_: abc.SchedulerBase, __: object = None) -> None:
                if not started:
                    expire(f"nothing came within {first:g} seconds")

            def look(_: abc.SchedulerBase, __: object = None) -> None:
                nonlocal marked, quiet
                quiet = 0 if marked else quiet + 1
                marked = False
                if quiet == LOOKS:
                    expire(f"nothing came for {idle:g} seconds")
                else:
                    arm()

            def arm() -> None:
                if idle is not None and not over:
                    timer.disposable = scheduler.schedule_relative(idle / LOOKS, look)

            def on_next(item: A) -> None:
                nonlocal started, marked
                if over:
                    return
                marked = True
                if not started:
                    started, marked = True, False  # the time of a pause begins right here
                    timer.disposable = None
                    arm()
                push(item)

            def on_error(error: Exception) -> None:
                if end():
                    observer.on_error(error)

            def on_completed() -> None:
                if end():
                    observer.on_completed()

            def dispose() -> None:
                end()
                upstream.dispose()

            if first is not None:
                timer.disposable = scheduler.schedule_relative(first, miss)
            sink = Sink(on_next, on_error, on_completed)
            upstream.disposable = connect(source, sink, default)
            return Disposable(dispose)

        return Stage(subscribe)

    return apply


__all__ = ["time_out"]
