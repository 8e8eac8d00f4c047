"""The time of the operators in a watcher's pipeline.

They run on the hub's event loop, and what they raise detaches the watcher.

Theory of operation. An operator of reactivex that waits takes the scheduler that the subscriber passes, and otherwise
one that calls from threads of its own. A pipeline on a hub therefore ends in a `TimedPipeline`, which passes a
`WatcherClock` where the subscriber passes none. What waits, waits on the event loop. What does not wait runs at once in
the calling thread, as it does without a scheduler, so that ``of`` or ``start_with`` in a pipeline emit when they always
did.

A record is pushed within ``Hub.push``, which catches what its observer raises. A timer calls from the event loop, where
the clock catches it: the subscription is disposed, the stream ends with the exception, and the hub reports it as it
reports any watcher that raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from reactivex import Observable, abc, typing
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.hub.detach import fail_stream
from rxworker.hub.registry import WatcherRegistry
from rxworker.hub.watcher import Watcher, running_loop
from rxworker.operators.disposables import Call, SerialDisposable
from rxworker.operators.kernel import TRAMPOLINE, Stage, connect

A = TypeVar("A")


class WatcherClock(AsyncIOScheduler):
    """The time of an event loop for the operators of one subscription.

    Args:
        loop: The event loop.
        fail: Called with what an action has raised.

    Attributes:
        watcher: The name of the watcher at the other end of the pipeline, as soon as there is one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]) -> None:
        super().__init__(loop)
        self.watcher = ""
        self._fail = fail

    def schedule(self, action: typing.ScheduledAction[A], state: A | None = None) -> abc.DisposableBase:
        """Run an action that does not wait, as soon as the calling thread has finished those before it."""
        return TRAMPOLINE.schedule(action, state)

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: typing.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        """Run an action after a while, on the event loop."""

        def caught(clock: abc.SchedulerBase, state: A | None = None) -> abc.DisposableBase | None:
            try:
                return action(clock, state)
            except BaseException as error:
                self._fail(error)
                return None

        if self.to_seconds(duetime) <= 0:
            return super().schedule(caught, state)
        return super().schedule_relative(duetime, caught, state)


class TimedPipeline(Stage[A]):
    """Operators on the records or events of a hub, with the time of its event loop.

    Args:
        hub: The hub.
        pipeline: What the operators have made.
    """

    def __init__(self, hub: WatcherRegistry, pipeline: Observable[A]) -> None:
        super().__init__()
        self.timing = partial(TIMED, hub)
        self._hub = hub
        self._pipeline = pipeline

    def _subscribe_core(
        self, observer: abc.ObserverBase[A], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        loop = self._hub.loop
        if scheduler is not None or loop is None or not loop.is_running():
            return self._pipeline.subscribe(observer, scheduler=scheduler)
        upstream = SerialDisposable()

        def fail(error: BaseException) -> None:
            upstream.dispose()
            name = clock.watcher or self._hub.name_watcher("")
            fail_stream(observer, name, error, self._hub.detach_reporter.report)

        clock = WatcherClock(loop, fail)

        if running_loop() is loop:
            upstream.put(connect(self._pipeline, observer, clock))
            return upstream

        def subscribe() -> None:
            upstream.put(self._pipeline.subscribe(observer, scheduler=clock))

        self._hub.call_in_loop(subscribe)
        return Call(partial(self._hub.call_in_loop, upstream.dispose))


TIMED = TimedPipeline[Any]
"""One alias: to subscript it at each use would be four calls."""


def noted(watcher: Watcher, scheduler: abc.SchedulerBase | None) -> Watcher:
    """The watcher that a pipeline has made, whose name its clock reports."""
    if isinstance(scheduler, WatcherClock):
        scheduler.watcher = watcher.name
    return watcher
