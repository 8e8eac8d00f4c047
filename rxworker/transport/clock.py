"""The time of an event loop, as a scheduler, and one shared timer for time-outs.

`LoopClock` is reactivex's ``AsyncIOScheduler`` with one small object for each waiting action, where that one makes four
and a lock each. Every response has time-outs, and few responses reach them, so that setting and cancelling a timer for
each is mostly wasted: a `Ticker` calls all that check the time at the same interval from one timer. A `LoopThread` is
an event loop beside a thread that may wait.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import datetime
from typing import Any, Self, TypeAlias, TypeVar

from reactivex import abc, typing
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.operators.kernel import SerialDisposable

Tick: TypeAlias = Callable[[], None]
"""Called at each step of time, in a context of its own, in which nothing is set."""


B = TypeVar("B")


class LoopThread:
    """An event loop that runs in a thread until `stop` is called, or until the end of a ``with`` block.

    Args:
        name: The name of the thread.
        main: Runs a coroutine on a new event loop, as ``asyncio.run`` does.
        seconds: How long `stop` waits until the tasks have ended; ``None``: for ever.

    Attributes:
        loop: The event loop.

    >>> import asyncio
    >>> with LoopThread("example") as thread:
    ...     thread.run(asyncio.sleep(0, "done")), thread.call(lambda: asyncio.get_running_loop().is_running())
    ('done', True)
    """

    def __init__(
        self, name: str, main: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run, seconds: float | None = None
    ) -> None:
        self._seconds = seconds
        self._ready = threading.Event()
        # A daemon: a task that ignores its cancellation must not keep the process alive.
        self._thread = threading.Thread(target=main, args=(self._wait(),), name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, function: Callable[[], B]) -> B:
        """Call a function on the loop, and return its result or raise its exception."""

        async def work() -> B:
            return function()

        return self.run(work())

    def run(self, work: Coroutine[Any, Any, B]) -> B:
        """Run a coroutine on the loop, and return its result or raise its exception."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self) -> None:
        """Cancel the tasks, stop the loop, and wait until they have ended."""
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(self._seconds)

    async def _wait(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._stop.wait()


class Ticker:
    """Ticks as long as it has members.

    All members are called at a tick, also when one of them raises; the first exception is raised to the clock.

    Args:
        clock: The scheduler of the timer.
        step: Seconds from one tick to the next.
    """

    __slots__ = ("_clock", "_is_on", "_members", "_step")

    def __init__(self, clock: abc.SchedulerBase, step: float) -> None:
        self._clock = clock
        self._step = step
        self._members: dict[Tick, None] = {}  # in the order in which they came
        self._is_on = False

    def join(self, member: Tick) -> bool:
        """Tick for this one, too. Whether the first tick comes before a whole step has passed."""
        self._members[member] = None
        was_on = self._is_on
        if not was_on:
            self._go_on()
        return was_on

    def leave(self, member: Tick) -> None:
        """Remove this member. The timer is not cancelled, since another member may join before it fires."""
        self._members.pop(member, None)

    def _go_on(self) -> None:
        self._is_on = True
        # A timer keeps the context it is set in, and with it the first run: for as long as there is a tick.
        Context().run(self._clock.schedule_relative, self._step, self._tick)

    def _tick(self, _clock: abc.SchedulerBase, _state: object = None) -> None:
        self._is_on = False
        failure: Exception | None = None
        try:
            for member in tuple(self._members):
                try:
                    if member in self._members:
                        member()
                except Exception as error:
                    failure = failure or error
        finally:
            # Also when one of them was cancelled: that is none of the others' business.
            if self._members and not self._is_on:
                self._go_on()
        if failure is not None:
            raise failure


A = TypeVar("A")


class LoopClock(AsyncIOScheduler):
    """Runs actions on an event loop, from its own thread.

    Args:
        loop: The event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._tickers: dict[float, Ticker] = {}

    @property
    def now(self) -> datetime:
        """The time of the loop, if that is virtual; otherwise that of day, as reactivex has it."""
        return getattr(self._loop, "now", None) or super().now

    def ticker(self, step: float) -> Ticker:
        """The one timer that ticks at this pace, in seconds."""
        ticker = self._tickers.get(step)
        if ticker is None:
            ticker = self._tickers[step] = Ticker(self, step)
        return ticker

    def schedule(self, action: typing.ScheduledAction[A], state: A | None = None) -> abc.DisposableBase:
        """Run an action in the next turn of the loop."""
        waiting = _Waiting(self, action, state)
        waiting.handle = self._loop.call_soon(waiting.run)
        return waiting

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: typing.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        """Run an action after a while."""
        seconds = duetime if isinstance(duetime, float) else self.to_seconds(duetime)
        if seconds <= 0:
            return self.schedule(action, state)
        waiting = _Waiting(self, action, state)
        waiting.handle = self._loop.call_later(seconds, waiting.run)
        return waiting


class _Waiting(SerialDisposable):
    """An action that waits, and then the disposable that it returned."""

    __slots__ = ("_action", "_clock", "_state", "handle")

    def __init__(self, clock: LoopClock, action: typing.ScheduledAction[Any], state: object) -> None:
        self._held, self._is_over = None, False  # the base's; one is made for each time-out
        self.handle: asyncio.Handle | None = None
        self._clock = clock
        self._action = action
        self._state = state

    def run(self) -> None:
        if isinstance(begun := self._action(self._clock, self._state), abc.DisposableBase):
            self.put(begun)

    def dispose(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
        super().dispose()


class _Latest(threading.local):
    """The clock of the loop that ran last in this thread, as long as it is in use."""

    clock: weakref.ref[LoopClock] | None = None


_latest = _Latest()


def loop_clock() -> LoopClock:
    """The running loop's clock.

    Raises:
        RuntimeError: No loop runs.
    """
    loop = asyncio.get_running_loop()
    clock = None if _latest.clock is None else _latest.clock()
    if clock is None or clock._loop is not loop:
        clock = LoopClock(loop)
        _latest.clock = weakref.ref(clock)
    return clock
