"""The event loop that the commands run on: uvloop where it is installed, which takes half the time for the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

B = TypeVar("B")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop's, or of asyncio's where uvloop is not installed."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, B]) -> B:
    """What ``asyncio.run`` is, on such a loop.

    >>> async def answer() -> int:
    ...     return 42
    >>> run(answer())
    42
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


__all__ = ["new_event_loop", "run"]
