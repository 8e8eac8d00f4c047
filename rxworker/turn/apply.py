"""Operators and stages of the application, applied so that none leaves a run waiting for ever or in another thread.

* Operators that wait, such as ``ops.delay``, use the run's scheduler, unless they were given another.
* Events from another thread are brought back to the event loop, in order.
* An operator that raises instead of calling ``on_error`` raises into its caller: the operator before it, the source, or
  a callback of the scheduler. Each of these catches every exception, and ends the stream with it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import Any, TypeVar, cast

import msgspec
from reactivex import Observable, abc, typing
from reactivex.disposable import SingleAssignmentDisposable

from rxworker.errors import ConfigurationError, as_exception
from rxworker.events import Custom, CustomEvent
from rxworker.events.kinds import EVENTS
from rxworker.hub.watcher import caught
from rxworker.operators.kernel import Operator, Scheduler
from rxworker.transport.clock import LoopClock

A = TypeVar("A")
B = TypeVar("B")


def apply_operators(
    operators: Sequence[Operator[Any, B]],
    source: Observable[A],
    scheduler: abc.SchedulerBase,
    kinds: Set[type[object]],
    refusal: str,
) -> Observable[B]:
    """Apply operators of the application, the first listed first.

    Args:
        operators: The operators.
        source: Such as the events of a response or of a stage.
        scheduler: The clock of operators that have none of their own.
        kinds: The classes of the items that may come out.
        refusal: The error for any other, in which ``{}`` stands for its class.
    """

    def subscribe(observer: abc.ObserverBase[B], _: Scheduler = None) -> abc.DisposableBase:
        upstream = SingleAssignmentDisposable()
        thread = _LoopThread()

        def fail(error: BaseException) -> None:
            upstream.dispose()
            on_error(as_exception(error))

        def on_next(item: Any) -> None:
            if item.__class__ not in kinds:
                try:
                    if not (isinstance(item, CustomEvent) and Custom in kinds):
                        raise ConfigurationError(refusal.format(type(item).__name__))
                    item = item.custom
                except ConfigurationError as error:
                    fail(error)
                    return
            elif item.__class__ in EVENTS and (wrong := _ill_typed(item)) is not None:
                fail(ConfigurationError(f"{refusal.format(type(item).__name__)}; of this one: {wrong}"))
                return
            thread.run(lambda: observer.on_next(item))

        def on_error(error: Exception) -> None:
            thread.run(lambda: observer.on_error(error))

        def on_completed() -> None:
            thread.run(observer.on_completed)

        clock = _Clock(asyncio.get_running_loop(), fail)
        result: Observable[Any] = source
        for operator in operators:
            # The model has a clock of its own.
            guarded = _guarded(result, fail, passes_clock=result is not source)
            result = expect_observable(operator, operator(guarded))
        upstream.disposable = result.subscribe(
            on_next, on_error, on_completed, scheduler=clock if isinstance(scheduler, LoopClock) else scheduler
        )
        return upstream

    return Observable(subscribe)


def _ill_typed(event: object) -> str | None:
    """What is wrong with the type of a field, which would otherwise break each fold that reads the event later."""
    try:
        msgspec.convert(msgspec.to_builtins(event), type(event))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        return str(error)
    return None


def _guarded(source: Observable[Any], fail: Callable[[BaseException], None], *, passes_clock: bool) -> Observable[Any]:
    """The source of an operator. It catches the exceptions that the operator raises."""

    def subscribe(observer: abc.ObserverBase[Any], clock: Scheduler = None) -> abc.DisposableBase:
        return source.subscribe(
            caught(observer.on_next, fail),
            caught(observer.on_error, fail),
            caught(observer.on_completed, fail),
            scheduler=clock if passes_clock else None,
        )

    return Observable(subscribe)


def expect_observable(
    operator: Callable[..., object],
    result: Observable[Any],
    what: str = "the operator",
    instead: str = "source.pipe(...)",
) -> Observable[Any]:
    """Check what an operator or a stage of the application has returned.

    Raises:
        ConfigurationError: It is not an observable.
    """
    made = cast("object", result)
    if isinstance(made, Observable):
        return result
    if inspect.iscoroutine(made):
        made.close()
    name: str = getattr(operator, "__name__", type(operator).__name__)
    raise ConfigurationError(
        f"{what} {name} returned a {type(made).__name__}, which is not an observable: return {instead}"
    )


class _LoopThread:
    """Runs actions in the event loop's thread, in the order of the calls."""

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
        # It stays in the queue until it is done, so that no other action overtakes it.
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()


class _Clock(LoopClock):
    """The clock of the event loop, for operators. An exception in one of their actions ends the response.

    Args:
        loop: The event loop.
        fail: Called with the exception.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]) -> None:
        super().__init__(loop)
        self._fail = fail

    def schedule(self, action: typing.ScheduledAction[A], state: A | None = None) -> abc.DisposableBase:
        """Run an action in the next turn of the loop."""
        return super().schedule(caught(action, self._fail), state)

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: typing.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        """Run an action after a while."""
        if self.to_seconds(duetime) <= 0:
            return self.schedule(action, state)
        return super().schedule_relative(duetime, caught(action, self._fail), state)
