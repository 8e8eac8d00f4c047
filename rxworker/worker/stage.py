"""A stage of a turn that waits for things: a coroutine as a cold observable of the events it emits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker.errors import RunCancelledError

A = TypeVar("A")


def stage(
    work: Callable[[Callable[[A], None]], Awaitable[None]], tasks: set[asyncio.Task[None]]
) -> Observable[A]:
    """The events that ``work`` emits; completes when it returns, fails when it raises. Disposing cancels it.

    Args:
        work: Takes a function that emits an event.
        tasks: Holds the task while it runs, so that whoever disposed the stage can wait until it has let go.
    """

    def subscribe(
        observer: abc.ObserverBase[A], _scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        disposed = False

        async def follow() -> None:
            try:
                await work(observer.on_next)
            except asyncio.CancelledError as error:
                # Not ours: something that a hook or a tool waited for was cancelled. The run must hear of it.
                if not disposed:
                    observer.on_error(_cancelled(error))
                raise
            except Exception as error:
                observer.on_error(error)
            else:
                observer.on_completed()

        task = asyncio.get_running_loop().create_task(follow())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

        def cancel() -> None:
            nonlocal disposed
            disposed = True
            # A stage that completes disposes itself, and must not be cut off while its successor starts.
            if task is not asyncio.current_task():
                task.cancel()

        return Disposable(cancel)

    return Observable(subscribe)


def _cancelled(cause: asyncio.CancelledError) -> RunCancelledError:
    error = RunCancelledError("something that it waited for was cancelled")
    error.__cause__ = cause
    return error


__all__ = ["stage"]
