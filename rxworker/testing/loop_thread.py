"""An event loop in a thread of its own, for code that has none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

B = TypeVar("B")


class LoopThread:
    """An event loop that runs in a thread until `stop` is called.

    >>> import asyncio
    >>> thread = LoopThread("example")
    >>> thread.call(asyncio.sleep(0, "done"))
    'done'
    >>> thread.stop()
    """

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def call(self, work: Coroutine[Any, Any, B]) -> B:
        """Run a coroutine on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Stop the loop, and wait until its tasks have ended."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._wait())

    async def _wait(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._ready.set()
        await self._stop.wait()


__all__ = ["LoopThread"]
