"""A response through the operators that a worker was given, which may be anybody's.

Three things are seen to, so that no operator leaves a run waiting for ever or in another thread:

* Operators that take their time, such as ``ops.delay``, take it on the run's scheduler, unless they were given another.
* What comes out in another thread is brought back to the event loop's, in order.
* An operator that raises instead of failing raises into its source. The source catches that, and lets it end the response.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import reduce

from reactivex import Observable, abc
from reactivex.disposable import SingleAssignmentDisposable

from rxworker.events import ResponseEvent
from rxworker.worker.context import ResponseOperator


def through(
    operators: Sequence[ResponseOperator],
    source: Observable[ResponseEvent],
    scheduler: abc.SchedulerBase,
) -> Observable[ResponseEvent]:
    """The response through the operators, the first listed first.

    Args:
        operators: What it passes through.
        source: The response.
        scheduler: Whose time it is, for operators that were given none.
    """

    def subscribe(
        observer: abc.ObserverBase[ResponseEvent], _: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        upstream = SingleAssignmentDisposable()
        home = _Home()

        def guard(
            first: abc.ObserverBase[ResponseEvent], _: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            def on_next(event: ResponseEvent) -> None:
                try:
                    first.on_next(event)
                except Exception as error:
                    upstream.dispose()
                    observer.on_error(error)

            return source.subscribe(on_next, first.on_error, first.on_completed)

        def on_next(event: ResponseEvent) -> None:
            home.run(lambda: observer.on_next(event))

        def on_error(error: Exception) -> None:
            home.run(lambda: observer.on_error(error))

        def on_completed() -> None:
            home.run(observer.on_completed)

        upstream.disposable = reduce(_apply, operators, Observable(guard)).subscribe(
            on_next, on_error, on_completed, scheduler=scheduler
        )
        return upstream

    return Observable(subscribe)


class _Home:
    """The event loop's thread: what is asked for in another one is done here, in the order of asking."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: deque[Callable[[], None]] = deque()

    def run(self, action: Callable[[], None]) -> None:
        if not self._waiting and threading.get_ident() == self._thread:
            action()
            return
        self._waiting.append(action)
        self._loop.call_soon_threadsafe(self._next)

    def _next(self) -> None:
        # It leaves the row only when it is done, so that nobody overtakes it.
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()


def _apply(
    source: Observable[ResponseEvent], operator: ResponseOperator
) -> Observable[ResponseEvent]:
    return operator(source)


__all__ = ["through"]
