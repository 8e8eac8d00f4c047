"""Signals, heard also while the event loop stands still.

A handler of the loop's own would run on the loop, and so never where the loop waits for a terminal that nobody reads. A
handler of Python's runs in the main thread, whatever that waits for.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextmanager
def on_signals(act: Callable[[int], None]) -> Generator[None, None, None]:
    """While it lasts, the signals that end programs call ``act`` with their number, and do nothing else.

    Outside the main thread it changes nothing; nor for signals that are ignored, as SIGHUP is under ``nohup``.

    Args:
        act: Must be brief, and safe at any moment.

    >>> heard: list[int] = []
    >>> with on_signals(heard.append):
    ...     signal.raise_signal(signal.SIGTERM)
    >>> heard == [signal.SIGTERM]
    True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        act(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    changed = [n for n, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in changed:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


__all__ = ["SIGNALS", "on_signals"]
