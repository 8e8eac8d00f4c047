"""An event loop in virtual time, so that a whole run plays without waiting, its tools, hooks and time limits too.

Theory of operation. Everything that waits in a run waits for its event loop: ``asyncio.sleep``, time limits, and
through `LoopClock` the operators. So it is the loop that has virtual time, and nothing else has to know. The clock is
that of a ``VirtualTimeScheduler``. When no callback is ready, the loop moves the clock to its own next timer or to the
next action of the scheduler, whichever is first, and does not sleep; what is due on the scheduler runs in the loop's
thread, like a callback. While a tool works in a thread the clock stands still for it, for as long as the loop would
have slept at most: then its work takes no time, and work that never ends reaches its time limit.

What surprises: the time of sockets and of other processes is real. A model over HTTP, or a log that other processes
share, does not play in virtual time.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from reactivex import abc
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.scheduler.scheduleditem import ScheduledItem

from rxworker.errors import LocalProtocolError
from rxworker.tools.function import ToolThread
from rxworker.transport.clock import loop_clock

A = TypeVar("A")

PATIENCE = 1.0
"""Real seconds for other threads to wake a loop in which nothing is left to happen."""
NOTHING = (
    "nothing is left to happen in virtual time, and the coroutine still waits: does it wait for an event that never "
    "comes, such as a stalled response without a time limit?"
)


class _Selector(selectors.DefaultSelector):
    """Moves the clock where a loop sleeps."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for input and output until the time is over, which takes no time."""
        loop = self.loop
        ready = super().select(0)
        if loop.run_due() or ready or (timeout is not None and timeout <= 0):
            return ready
        left = loop.seconds_left(timeout)
        if loop.has_threads():
            ready = super().select(left)
        elif left is None:
            # Another thread, such as that of a log, may still wake the loop.
            ready = super().select(PATIENCE if threading.active_count() > 1 else 0)
            if not ready:
                raise LocalProtocolError(NOTHING)
        if left is not None and not ready:
            loop.scheduler.sleep(left)
            loop.run_due()
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of a virtual scheduler, and which runs the actions of that scheduler.

    Args:
        scheduler: The scheduler. Its seconds are those of the loop.
    """

    def __init__(self, scheduler: VirtualTimeScheduler) -> None:
        self.scheduler = scheduler
        self._queue = scheduler._queue  # it has no public way to see what is next
        self._in_executor = 0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 2e-6  # a scheduler counts in microseconds

    def time(self) -> float:
        """The time of the scheduler."""
        return self.scheduler.to_seconds(self.scheduler.now)

    @property
    def now(self) -> datetime:
        """The same, for schedulers on this loop."""
        return self.scheduler.now

    def run_in_executor(self, executor: Any, func: Callable[..., A], *args: Any) -> asyncio.Future[A]:  # pyright: ignore[reportIncompatibleMethodOverride] - typeshed has TypeVarTuples here
        """The same, and the clock stands still meanwhile."""
        self._in_executor += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._leave_executor)
        return future

    def _leave_executor(self, _: object) -> None:
        self._in_executor -= 1

    async def shutdown_default_executor(self, *timeout: Any) -> None:
        """The same, in real time, as the threads end: the time limit that newer versions of Python have would pass."""
        self._in_executor += 1
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self._in_executor -= 1

    def has_threads(self) -> bool:
        """Whether a thread works for a tool or a coroutine."""
        if self._in_executor > 0:
            return True
        tools = [t for t in threading.enumerate() if isinstance(t, ToolThread)]
        return any(thread.loop is self and not thread.is_done for thread in tools)

    def run_due(self) -> bool:
        """Run the actions of the scheduler that are due; whether there were any."""
        count = 0
        while (due := self._next()) is not None and due.duetime <= self.scheduler.now:
            self._queue.dequeue()
            due.invoke()
            count += 1
        return count > 0

    def seconds_left(self, timeout: float | None) -> float | None:
        """How long until something happens, if anything will.

        ``timeout`` is how long until the next timer of the loop.
        """
        due = self._next()
        if due is None:
            return timeout
        left = (due.duetime - self.scheduler.now).total_seconds()
        return left if timeout is None else min(timeout, left)

    def _next(self) -> ScheduledItem | None:
        while self._queue and self._queue.peek().is_cancelled():
            self._queue.dequeue()
        return self._queue.peek() if self._queue else None


def run_in(scheduler: abc.SchedulerBase | None, main: Coroutine[object, object, A]) -> A:
    """Run a coroutine to its end in an event loop of its own: in virtual time, if the scheduler has it."""
    if not isinstance(scheduler, VirtualTimeScheduler):
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=partial(VirtualLoop, scheduler)) as runner:
        return runner.run(main)


def scheduler_of_run(scheduler: abc.SchedulerBase) -> abc.SchedulerBase:
    """The clock of a run that begins in the running loop, for a worker with this scheduler.

    Raises:
        LocalProtocolError: The scheduler has virtual time, and the running loop has not.
    """
    if not isinstance(scheduler, VirtualTimeScheduler):
        return scheduler
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop) and loop.scheduler is scheduler:
        return loop_clock()
    raise LocalProtocolError(
        "this worker has a scheduler in virtual time, which the running event loop does not follow: use "
        "worker.run_sync(...), or rxworker.testing.play(main(), scheduler)"
    )
