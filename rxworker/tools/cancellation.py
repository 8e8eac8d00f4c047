"""Waiting for work that may not want to stop.

Work runs in a task that the waiting task can abandon: a coroutine that swallows its cancellation must not hold the run
for ever. A call of a run has a task anyway, and `at_work` holds what to silence when that one is abandoned. Work that
has a time-out, or that is done within another task, has one of its own, by `within`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

B = TypeVar("B")

GRACE = 4.0
"""Seconds that work which was cancelled is given to clean up. Less than a run that is cancelled waits for its tools."""

logger = logging.getLogger("rxworker.tools")


at_work: dict[asyncio.Task[object], tuple[str, Callable[[], None]]] = {}
"""The tool that runs in each task that is a call's own, and the function that drops its reports if it is abandoned."""


class TooLateError(Exception):
    """Work did not end in time.

    Attributes:
        stopped: Whether it has stopped; otherwise it was abandoned, and still runs.
    """

    def __init__(self, stopped: bool) -> None:
        super().__init__("did not end in time")
        self.stopped = stopped


def keep(work: Coroutine[Any, Any, B], tasks: set[asyncio.Task[B]], name: str | None = None) -> asyncio.Task[B]:
    """Begin a task that a set holds until it has ended: the event loop alone may lose it."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def within(
    work: Coroutine[object, None, B], seconds: float | None, name: str = "", grace: float | None = None
) -> B:
    """The result of the work. When the wait is cancelled or the time has expired, the work is cancelled and waited for.

    Args:
        work: The coroutine to wait for.
        seconds: The time-out in seconds; ``None``: no time-out.
        name: The name of the tool, for the report that it does not stop; no report without one.
        grace: Seconds that it is given to clean up; `GRACE` by default.

    Raises:
        TooLateError: The time has expired.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task, name, grace)
        raise
    if not task.done():
        raise TooLateError(await _stop(task, name, grace))
    return task.result()


def is_destroyed(error: BaseException, task: asyncio.Task[object] | None) -> bool:
    """Whether ``GeneratorExit`` was raised because the coroutine and its task are destroyed: it must not continue."""
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return asyncio.current_task() is not task
    except RuntimeError:
        return True


async def stop_all(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel what still runs, and wait until it has cleaned up; but not for ever."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        # A second cancellation would break into the cleaning-up after the first.
        if not task.cancelling():
            task.cancel()
    if not running:
        return
    _, late = await asyncio.wait(running, timeout=GRACE)
    # What is not at work any more, or has a task of its own for it, is about to end by itself.
    ending = [task for task in late if not _leave(task)]
    if ending:
        await asyncio.wait(ending)
    for task in running:
        if task.done():
            retrieve(task)


def _leave(task: asyncio.Task[object]) -> bool:
    """Abandon a task; whether something runs in it that does not stop."""
    work = at_work.pop(task, None)
    if work is None:
        return False
    name, silence = work
    silence()
    task.add_done_callback(retrieve)
    _warn(name)
    return True


async def _stop(task: asyncio.Task[object], name: str, grace: float | None) -> bool:
    """Cancel a task and wait until it has cleaned up, but not for ever; whether it has."""
    task.add_done_callback(retrieve)
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE if grace is None else grace)
    if not task.done() and name:
        _warn(name)
    return task.done()


def _warn(name: str) -> None:
    logger.warning(
        "tool %s was cancelled and has not stopped within %g seconds: it is abandoned",
        name,
        GRACE,
        extra={"tool": name},
    )


def retrieve(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception of abandoned work, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
