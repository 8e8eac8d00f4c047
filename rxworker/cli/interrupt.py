"""Ctrl-C as an event instead of an exception that may come in the middle of anything."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Generator[None, None, None]:
    """While it lasts, Ctrl-C calls ``act`` and raises nothing.

    Outside the main thread, and where Ctrl-C is ignored, as in a background job, it changes nothing.

    Args:
        act: Must be brief, and safe at any moment: put something in a queue, schedule something on a loop.

    >>> heard: list[str] = []
    >>> with on_interrupt(lambda: heard.append("Ctrl-C")):
    ...     signal.raise_signal(signal.SIGINT)
    >>> heard
    ['Ctrl-C']
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before in (signal.SIG_IGN, None):
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        act()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


__all__ = ["on_interrupt"]
