"""An event loop in a thread of its own, so that the main thread is free for the person at the terminal.

Reading a line, writing to a slow terminal and Ctrl-C belong to the main thread. What they hold up holds up no run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from rxworker.cli.event_loop import run

B = TypeVar("B")

PATIENCE = 1.0


class Background:
    """Runs an event loop while it is entered. Leaving cancels what still runs on it, and waits, but not for ever.

    >>> import asyncio
    >>> with Background() as background:
    ...     background.call(lambda: asyncio.get_running_loop().is_running())
    True
    """

    def __init__(self) -> None:
        self._ready = threading.Event()
        # A daemon: a tool that refuses to be cancelled must not keep the process.
        self._thread = threading.Thread(target=self._run, name="rxworker-loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, while it is entered."""
        return self._loop

    def call(self, function: Callable[[], B]) -> B:
        """Call a function on the loop, and wait for what it returns or raises."""

        async def work() -> B:
            return function()

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def _run(self) -> None:
        run(self._wait())

    async def _wait(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._stop.wait()


__all__ = ["Background"]
