"""A response through the operators that a worker was given, which may be anybody's.

Three things are seen to, so that no operator leaves a run waiting for ever or in another thread:

* Operators that take their time, such as ``ops.delay``, take it on the run's scheduler, unless they were given another.
* What comes out in another thread is brought back to the event loop's, in order.
* An operator that raises instead of calling ``on_error`` raises into what called it: the operator before it, the source, or a callback of
  the scheduler. Each of these catches what is raised, whatever it is, and ends the response with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from reactivex import Observable, abc, typing
from reactivex.disposable import SingleAssignmentDisposable

from rxworker.errors import as_exception
from rxworker.events import ResponseEvent
from rxworker.transport.clock import LoopClock
from rxworker.worker.context import ResponseOperator

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")


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

        def fail(error: BaseException) -> None:
            upstream.dispose()
            on_error(as_exception(error))

        def guarded(before: Observable[ResponseEvent]) -> Observable[ResponseEvent]:
            """A source for an operator, which catches what the operator raises."""

            def subscribe(
                first: abc.ObserverBase[ResponseEvent], clock: abc.SchedulerBase | None = None
            ) -> abc.DisposableBase:
                return before.subscribe(
                    caught(first.on_next, fail),
                    caught(first.on_error, fail),
                    caught(first.on_completed, fail),
                    # The model has a clock of its own.
                    scheduler=None if before is source else clock,
                )

            return Observable(subscribe)

        def on_next(event: ResponseEvent) -> None:
            home.run(lambda: observer.on_next(event))

        def on_error(error: Exception) -> None:
            home.run(lambda: observer.on_error(error))

        def on_completed() -> None:
            home.run(observer.on_completed)

        clock = _Clock(asyncio.get_running_loop(), fail)
        result = source
        for operator in operators:
            result = operator(guarded(result))
        upstream.disposable = result.subscribe(
            on_next,
            on_error,
            on_completed,
            scheduler=clock if isinstance(scheduler, LoopClock) else scheduler,
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


class _Clock(LoopClock):
    """The time of the event loop, for operators: what an action of theirs raises ends the response.

    Args:
        loop: The event loop.
        fail: Called with what was raised.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__(loop)
        self._fail = fail

    def schedule(
        self, action: typing.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        """Run an action in the next turn of the loop."""
        return super().schedule(caught(action, self._fail), state)

    def schedule_relative(
        self,
        duetime: typing.RelativeTime,
        action: typing.ScheduledAction[A],
        state: A | None = None,
    ) -> abc.DisposableBase:
        """Run an action after a while."""
        if self.to_seconds(duetime) <= 0:
            return self.schedule(action, state)
        return super().schedule_relative(duetime, caught(action, self._fail), state)


def caught(
    call: Callable[P, B | None], fail: Callable[[BaseException], None]
) -> Callable[P, B | None]:
    """The function, except that what it raises goes to ``fail``."""

    def safe(*args: P.args, **kwargs: P.kwargs) -> B | None:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            fail(error)
            return None

    return safe


__all__ = ["through"]
