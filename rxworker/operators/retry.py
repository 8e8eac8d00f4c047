"""Trying again, as long as nobody has seen anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable, abc

from rxworker.events.deltas import Parts
from rxworker.operators.disposables import Slot
from rxworker.operators.stage import Sink, Stage, connect, many
from rxworker.operators.types import Operator

A = TypeVar("A")


def retry_before_first(
    should: Callable[[Exception, int], float | None], scheduler: abc.SchedulerBase
) -> Operator[A, A]:
    """Subscribe again after an error, with a pause, unless an item has passed already.

        --#                    first subscription
             --#               second, 3 columns later
                  --a--#       third; after an item errors pass
        [ retry_before_first(three) ]
        ------------a--#

    Args:
        should: Asked with the error and the number of failures so far, from 1: how many seconds to wait before the next
            subscription, or ``None`` to give up and let the error pass. What it raises is passed on instead.
        scheduler: Whose time it is.

    >>> from reactivex import of, throw
    >>> from reactivex.scheduler import VirtualTimeScheduler
    >>> def once(error: Exception, failures: int) -> float | None:
    ...     return 0.5 if failures == 1 else None
    >>> time = VirtualTimeScheduler()
    >>> throw(ValueError("no")).pipe(retry_before_first(once, time)).subscribe(print, print) and None
    >>> time.start()
    no
    """

    def apply(source: Observable[A]) -> Observable[A]:
        def subscribe(
            observer: abc.ObserverBase[A], default: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            current = Slot()
            push, push_many = observer.on_next, many(observer)
            failures = 0
            started = False

            def on_next(item: A) -> None:
                nonlocal started
                started = True
                push(item)

            def on_many(parts: Parts[A]) -> None:
                nonlocal started
                started = True
                push_many(parts)

            def on_error(error: Exception) -> None:
                nonlocal failures
                if started:
                    observer.on_error(error)
                    return
                failures += 1
                try:
                    delay = should(error, failures)
                except Exception as other:
                    observer.on_error(other)
                    return
                if delay is None:
                    observer.on_error(error)
                else:
                    # Also without a pause through the scheduler, so that failures do not pile up on the stack.
                    current.put(scheduler.schedule_relative(delay, attempt))

            def attempt(_: abc.SchedulerBase | None = None, __: object = None) -> None:
                subscription = Slot()
                current.put(subscription)
                sink = Sink(on_next, on_error, observer.on_completed, on_many)
                try:
                    connected = connect(source, sink, default)
                except Exception as error:
                    on_error(error)
                else:
                    subscription.put(connected)

            attempt()
            return current

        return Stage(subscribe)

    return apply


__all__ = ["retry_before_first"]
