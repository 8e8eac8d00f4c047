"""The thread that a hub belongs to, its event loop's, and how others reach it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class HasHome(Protocol):
    """What belongs to an event loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Which; ``None`` where it belongs to whoever uses it."""
        ...


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def at_home(owned: HasHome, call: Callable[[], None]) -> None:
    """Call a function in the thread of the loop: now, if this is the one; else soon."""
    loop = owned.loop
    if loop is None or running_loop() is loop:
        call()
        return
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        call()  # the loop has closed, so that nobody else is there


__all__ = ["HasHome", "at_home", "running_loop"]
