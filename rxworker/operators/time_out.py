"""Not waiting for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable, abc

from rxworker.errors import TransportTimeoutError
from rxworker.events.deltas import Parts
from rxworker.operators.disposables import Call, Slot
from rxworker.operators.stage import Sink, Stage, connect, many
from rxworker.operators.types import Operator

A = TypeVar("A")

LOOKS = 8
"""How often a stream is looked at within the time that it may pause."""


def time_out(
    first: float | None,
    idle: float | None,
    scheduler: abc.SchedulerBase,
    is_held: Callable[[], bool] | None = None,
) -> Operator[A, A]:
    """End with a `TransportTimeoutError` when the first item does not come in time, or a pause is too long.

        --a--b------------     the pause may be 8 columns
        [ time_out(8, 8) ]
        --a--b--------#

    An item costs nothing but a mark: one timer looks eight times in the time of a pause whether there was a mark. The
    error therefore comes when the stream has been silent for ``idle``, and at most an eighth of it later, never earlier.
    The same holds for the first item, where a source is held. The source is disposed.

    Args:
        first: Seconds until the first item; ``None`` for no limit.
        idle: Seconds between two items, and between the last one and the end; ``None`` for no limit.
        scheduler: Whose time it is. It must run on the source's thread.
        is_held: Whether the source is kept waiting on purpose; silence does not count then.
    """

    def apply(source: Observable[A]) -> Observable[A]:
        def subscribe(
            observer: abc.ObserverBase[A], default: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            push, push_many = observer.on_next, many(observer)
            upstream, timer = Slot(), Slot()
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

            def look(_: abc.SchedulerBase, __: object = None) -> None:
                nonlocal marked, quiet
                quiet = 0 if marked or (is_held is not None and is_held()) else quiet + 1
                marked = False
                if quiet < LOOKS:
                    arm()
                elif started:
                    expire(f"nothing came for {idle:g} seconds")
                else:
                    expire(f"nothing came within {first:g} seconds")

            def arm() -> None:
                patience = idle if started else first
                if patience is not None and not over:
                    timer.put(scheduler.schedule_relative(patience / LOOKS, look))

            def mark() -> None:
                nonlocal started, marked, quiet
                marked = True
                if not started:
                    started, marked, quiet = True, False, 0  # the time of a pause begins right here
                    timer.put(None)
                    arm()

            def on_next(item: A) -> None:
                if not over:
                    mark()
                    push(item)

            def on_many(parts: Parts[A]) -> None:
                if not over:
                    mark()
                    push_many(parts)

            def on_error(error: Exception) -> None:
                if end():
                    observer.on_error(error)

            def on_completed() -> None:
                if end():
                    observer.on_completed()

            def dispose() -> None:
                end()
                upstream.dispose()

            arm()
            sink = Sink(on_next, on_error, on_completed, on_many)
            upstream.put(connect(source, sink, default))
            return Call(dispose)

        return Stage(subscribe)

    return apply


__all__ = ["time_out"]
