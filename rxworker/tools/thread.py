"""Running a plain function without holding the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

B = TypeVar("B")


async def in_thread(function: Callable[[], B]) -> B:
    """Run a function in a thread of its own, and wait for it.

    A thread cannot be stopped. When the wait is cancelled the thread is left to end by itself, and what it comes to
    is dropped. That is why it is not one of the loop's pool: a function that hangs would keep its place in the pool,
    and the loop could not be closed before it.

    Args:
        function: What to run. It sees the caller's context variables.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Callable[[], B]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = _outcome(function, context)
        try:
            loop.call_soon_threadsafe(deliver, outcome)
        except RuntimeError:
            return  # the loop was closed in the meantime: nobody waits

    def deliver(outcome: Callable[[], B]) -> None:
        if not done.done():
            done.set_result(outcome)

    threading.Thread(target=work, name="rxworker-tool", daemon=True).start()
    return (await done)()


def _outcome(function: Callable[[], B], context: contextvars.Context) -> Callable[[], B]:
    """What the function came to, as a function that returns or raises it."""
    try:
        value = context.run(function)
    except BaseException as raised:
        error = raised

        def fail() -> B:
            raise error

        return fail

    def give() -> B:
        return value

    return give


__all__ = ["in_thread"]
