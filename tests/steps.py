"""An event loop that does something between two of its steps, so that a test can try every moment that a run has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SteppedLoop(asyncio.SelectorEventLoop):
    """Counts its steps. A step runs all callbacks that are ready.

    Attributes:
        steps: How many steps it has made since `at` was called.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self._at = -1
        self._act: Callable[[], object] | None = None

    def at(self, step: int, act: Callable[[], object]) -> None:
        """Call a function before this step, counted from now."""
        self.steps, self._at, self._act = 0, step, act

    def _run_once(self) -> None:
        if self.steps == self._at and self._act is not None:
            self.call_soon(self._act)
        self.steps += 1
        super()._run_once()  # type: ignore[misc]  # pyright: ignore


def run_stepped(work: Callable[[SteppedLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a loop of its own, and close that as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SteppedLoop)
        return runner.run(work(loop))
