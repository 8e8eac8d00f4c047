"""Functions of a program that are called beside its runs, such as ``on_run=`` and ``on_alert=``.

Plain or coroutine functions, whose errors affect nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from typing import Generic, TypeVar

from rxworker.errors import LocalProtocolError
from rxworker.watchdog import watchdog, watched

A = TypeVar("A")

LOGGED = (Exception, SystemExit, GeneratorExit)
"""What a function may raise without ending the program."""


WAITING = 256
"""The maximum number of items that wait for a function."""


class Callback(Generic[A]):
    """Calls a function with each item, at once. What it returns is awaited in a task, if it can be.

    Args:
        function: A plain or a coroutine function.
        failed: Called with an item and what the function has raised.
        in_order: Whether an item waits until the function has ended for the item before. Above `WAITING` the newest is
            reported to ``failed``.
    """

    def __init__(
        self, function: Callable[[A], object], failed: Callable[[A, BaseException], object], *, in_order: bool = False
    ) -> None:
        self._function = function
        self._name: str = getattr(function, "__qualname__", type(function).__qualname__)
        self._failed = failed
        self._in_order = in_order
        self._waiting: deque[A] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, item: A) -> None:
        """Call the function; on an event loop, if it is a coroutine function."""
        if self._in_order and self._tasks:
            if len(self._waiting) < WAITING:
                self._waiting.append(item)
            else:
                self._failed(item, LocalProtocolError(f"{WAITING} calls wait for their turn"))
            return
        begun = watchdog.begin()
        try:
            result = self._function(item)
        except (*LOGGED, asyncio.CancelledError) as error:
            self._failed(item, error)
            return
        finally:
            watchdog.end(begun, "callback", self._name)
        if inspect.isawaitable(result):
            # A context of its own: it must not keep the run that has caused the call.
            task = asyncio.get_running_loop().create_task(self._finish(item, result), context=Context())
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, result))

    async def _finish(self, item: A, result: Awaitable[object]) -> None:
        try:
            await watched(result, "callback", self._name)
        except LOGGED as error:
            self._failed(item, error)

    def _ended(self, result: Awaitable[object], task: asyncio.Task[None]) -> None:
        if inspect.iscoroutine(result):
            result.close()  # it may not have begun when it was cancelled
        self._tasks.discard(task)
        if self._waiting:
            self(self._waiting.popleft())

    async def close(self) -> None:
        """Cancel what has not ended, and wait for it."""
        self._waiting.clear()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
