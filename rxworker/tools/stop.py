"""Waiting for work that may not want to stop.

Work runs in a task of its own, so that whoever waits can leave it behind: a coroutine that swallows its cancellation
must not hold the run for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

B = TypeVar("B")

GRACE = 4.0
"""Seconds that work which was cancelled is given to clean up. Less than a run that is cancelled waits for its tools."""

logger = logging.getLogger("rxworker.tools")


class TooLateError(Exception):
    """Work did not end in time.

    Attributes:
        stopped: Whether it has stopped; otherwise it was left behind, and still runs.
    """

    def __init__(self, stopped: bool) -> None:
        super().__init__("did not end in time")
        self.stopped = stopped


async def within(work: Coroutine[Any, Any, B], seconds: float | None, name: str) -> B:
    """What the work comes to. When the wait is cancelled or the time is over, the work is cancelled and waited for.

    Args:
        work: What to wait for.
        seconds: How long; ``None``: for ever.
        name: What it is called where it is reported that it does not stop.

    Raises:
        TooLateError: The time is over.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task, name)
        raise
    if not task.done():
        raise TooLateError(await _stop(task, name))
    return task.result()


async def _stop(task: asyncio.Task[Any], name: str) -> bool:
    """Cancel a task and wait until it has cleaned up, but not for ever; whether it has."""
    task.add_done_callback(_hear)
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)
    if not task.done():
        logger.warning(
            "tool %s was cancelled and has not stopped within %g seconds: it is left behind",
            name,
            GRACE,
        )
    return task.done()


def _hear(task: asyncio.Task[Any]) -> None:
    """What became of work that nobody waits for any more is of no interest, and asyncio need not complain of it."""
    if not task.cancelled():
        task.exception()


__all__ = ["GRACE", "TooLateError", "within"]
