"""The time of an event loop, as a scheduler.

It is reactivex's ``AsyncIOScheduler`` with one small object for each thing that waits, where that one makes four with a lock
each. What looks at the time again and again shares a timer (see `Ticker`), so a loop has one clock for as long as anybody uses it.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any, TypeVar

from reactivex import abc, typing
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.operators.disposables import Slot
from rxworker.transport.ticker import Ticker

A = TypeVar("A")


class LoopClock(AsyncIOScheduler):
    """Runs actions on an event loop, from its own thread.

    Args:
        loop: The event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._tickers: dict[float, Ticker] = {}

    def is_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it is this loop's."""
        return self._loop is loop

    def ticker(self, step: float) -> Ticker:
        """The one timer that ticks at this pace, in seconds."""
        ticker = self._tickers.get(step)
        if ticker is None:
            ticker = self._tickers[step] = Ticker(self, step)
        return ticker

    def schedule(
        self, action: typing.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        """Run an action in the next turn of the loop."""
        waiting = _Waiting(self, action, state)
        waiting.handle = self._loop.call_soon(waiting.run)
        return waiting

    def schedule_relative(
        self,
        duetime: typing.RelativeTime,
        action: typing.ScheduledAction[A],
        state: A | None = None,
    ) -> abc.DisposableBase:
        """Run an action after a while."""
        seconds = duetime if isinstance(duetime, float) else self.to_seconds(duetime)
        if seconds <= 0:
            return self.schedule(action, state)
        waiting = _Waiting(self, action, state)
        waiting.handle = self._loop.call_later(seconds, waiting.run)
        return waiting


class _Waiting(Slot):
    """An action that waits, and then what it has begun."""

    __slots__ = ("_action", "_clock", "_state", "handle")

    def __init__(
        self, clock: LoopClock, action: typing.ScheduledAction[Any], state: object
    ) -> None:
        self._held, self._is_over = None, False  # the base's; one is made for each time-out
        self.handle: asyncio.Handle | None = None
        self._clock = clock
        self._action = action
        self._state = state

    def run(self) -> None:
        begun = self._action(self._clock, self._state)
        if isinstance(begun, abc.DisposableBase):
            self.put(begun)

    def dispose(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
        super().dispose()


class _Latest(threading.local):
    """The clock of the loop that ran last in this thread, for as long as anybody uses it."""

    clock: weakref.ref[LoopClock] | None = None


_latest = _Latest()


def loop_clock() -> LoopClock:
    """The running loop's clock.

    Raises:
        RuntimeError: No loop runs.
    """
    loop = asyncio.get_running_loop()
    clock = None if _latest.clock is None else _latest.clock()
    if clock is None or not clock.is_of(loop):
        clock = LoopClock(loop)
        _latest.clock = weakref.ref(clock)
    return clock


__all__ = ["LoopClock", "loop_clock"]
