"""Ends the app on signals and on the loss of its terminal, even if the event loop is blocked.

Theory of operation. A signal handler, or the thread that reads the terminal, calls `Guard.expect_end`, which starts a
short grace period in a thread. If the app has not ended after it, because a hook or a tool blocks the event loop, the
process ends. A signal would have ended the process at once if the app had not installed a handler.

The signal handlers are those of Python, not of the event loop: a handler of the loop would not run while the loop waits
for a terminal that is not read. A handler of Python runs in the main thread, whatever that waits for.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Self, TextIO

GRACE = 3.0
HUNG_UP = 128 + getattr(signal, "SIGHUP", 1)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is open and is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


class Guard:
    """Context manager that ends the process if an app does not end in time. Has no effect outside of the context.

    Args:
        last: Called before the process is ended.
        grace: Seconds the app has to end.
    """

    def __init__(self, last: Callable[[], None], *, grace: float = GRACE) -> None:
        self._last, self._grace = last, grace
        self._codes = SimpleQueue[int | None]()
        self._thread = threading.Thread(target=self._watch, name="rxworker-guard", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._codes.put(None)
        self._thread.join()

    def expect_end(self, code: int) -> None:
        """Start the grace period. Thread-safe, and safe in a signal handler.

        Args:
            code: The exit code if the process has to be ended.
        """
        self._codes.put(code)

    def _watch(self) -> None:
        code, until = self._codes.get(), time.monotonic() + self._grace
        while code is not None:
            try:
                code = self._codes.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                self._last()
                os._exit(code)


SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def on_signals(act: Callable[[int], None], signals: Iterable[int] = SIGNALS) -> Generator[None, None, None]:
    """Within the context, call ``act`` with the number of each signal, instead of what it did before.

    Has no effect outside the main thread, nor on ignored signals, such as SIGHUP under ``nohup``.

    Args:
        act: Must be brief and safe in a signal handler: put something in a queue, schedule something on a loop.
        signals: The numbers of the signals; by default all that would end the program.

    >>> received: list[int] = []
    >>> with on_signals(received.append):
    ...     signal.raise_signal(signal.SIGTERM)
    >>> received == [signal.SIGTERM]
    True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        act(number)

    before = {number: signal.getsignal(number) for number in signals}
    changed = [n for n, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in changed:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])
