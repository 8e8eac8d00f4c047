"""Waiting for the result of a tool: a value, an awaitable, a generator or an observable.

The rule for everything that yields several values: a value wrapped in `Progress`
is progress, and is reported at once. Of the rest, the last is the result, and each one before it is reported as progress when the
next one shows that it was not the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, cast

from msgspec import UNSET
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.scheduler.eventloop import AsyncIOThreadSafeScheduler

from rxworker.tools.context import Progress, ToolContext


class _Last:
    """Takes values one by one; knows which of them is the result."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._held: object = UNSET

    def take(self, item: object) -> None:
        if isinstance(item, Progress):
            self._context.progress(cast("Progress[object]", item).value)
            return
        if self._held is not UNSET:
            self._context.progress(self._held)
        self._held = item

    @property
    def result(self) -> object:
        return None if self._held is UNSET else self._held


class _Scheduler(AsyncIOThreadSafeScheduler):
    """Reports what an action raises. The event loop would only log it, and ``SystemExit`` would end the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__(loop)
        self._fail = fail

    def invoke_action(
        self, action: abc.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        try:
            return super().invoke_action(action, state)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._fail(error)
            return Disposable()


async def settle(value: object, context: ToolContext) -> object:
    """Wait until it is a value: await what can be awaited, follow generators and observables to their end.

    Args:
        value: What a tool's function gave back.
        context: Where progress is reported.
    """
    while True:
        if isinstance(value, Observable):
            value = await _follow(cast("Observable[Any]", value), context)
        elif isinstance(value, AsyncIterator):
            value = await _exhaust(cast("AsyncIterator[object]", value), context)
        elif inspect.isawaitable(value):
            value = await value
        else:
            return value


def settle_generator(generator: Generator[object, None, object], context: ToolContext) -> object:
    """Iterate over a plain generator, in a thread. It is closed at its next ``yield`` once the call is cancelled."""
    last = _Last(context)
    with contextlib.closing(generator):
        for item in generator:
            last.take(item)
            if context.cancelled:
                break
    return last.result


async def _exhaust(items: AsyncIterator[object], context: ToolContext) -> object:
    last = _Last(context)
    try:
        async for item in items:
            last.take(item)
    finally:
        if inspect.isasyncgen(items):
            await items.aclose()
    return last.result


async def _follow(source: Observable[Any], context: ToolContext) -> object:
    """Subscribe, on the loop's scheduler; the subscription is disposed when the wait is cancelled."""
    loop, home = asyncio.get_running_loop(), threading.get_ident()
    last, done = _Last(context), cast("asyncio.Future[BaseException | None]", loop.create_future())

    def on_loop(function: Callable[[Any], None], argument: Any) -> None:
        """Observables may notify from any thread; our state belongs to the loop's."""
        if threading.get_ident() == home:
            function(argument)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(function, argument)

    def take(item: Any) -> None:
        if done.done():
            return
        try:
            last.take(item)
        except Exception as error:
            end(error)

    def end(error: BaseException | None) -> None:
        if not done.done():
            done.set_result(error)

    def on_next(item: Any) -> None:
        on_loop(take, item)

    def on_error(error: Exception) -> None:
        on_loop(end, error)

    def on_completed() -> None:
        on_loop(end, None)

    scheduler = _Scheduler(loop, end)
    subscription = source.subscribe(on_next, on_error, on_completed, scheduler=scheduler)
    try:
        error = await done
    finally:
        subscription.dispose()
    if error is not None:
        raise error
    return last.result
