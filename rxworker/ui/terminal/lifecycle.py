"""Ends the app on signals and on the loss of its terminal, even if the event loop is blocked.

Theory of operation. A thread waits for one of two events: the terminal hangs up, which the system reports to every
process that polls it, or a signal handler calls `expect_end`. Either starts a short grace period. If the app has not
ended after it, because a hook or a tool blocks the event loop, the process ends. A signal would have ended the process
at once if the app had not installed a handler.

The signal handlers are those of Python, not of the event loop: a handler of the loop would not run while the loop waits
for a terminal that is not read. A handler of Python runs in the main thread, whatever that waits for.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Self, TextIO

GRACE = 3.0
HUNG_UP = 128 + getattr(signal, "SIGHUP", 1)
ENDED, LEAVES = b".", b"!"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is open and is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


class Guard:
    """Context manager that watches a terminal and the end of an app. Has no effect outside of the context.

    Args:
        hung_up: Called in the guard's thread when the terminal is gone.
        last: Called before the process is ended.
        terminal: The file descriptor of the terminal.
        grace: Seconds the app has to end.
    """

    def __init__(
        self, hung_up: Callable[[], None], last: Callable[[], None], *, terminal: int = 0, grace: float = GRACE
    ) -> None:
        self._hung_up, self._last = hung_up, last
        self._terminal, self._grace = terminal, grace
        self._code = HUNG_UP
        self._wake_read = self._call = -1
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if hasattr(select, "poll"):
            self._wake_read, self._call = os.pipe()
            self._thread = threading.Thread(target=self._watch, name="rxworker-guard", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            os.write(self._call, ENDED)
            self._thread.join()
            os.close(self._wake_read)
            os.close(self._call)
            self._thread = None

    def expect_end(self, code: int) -> None:
        """Start the grace period. Safe in a signal handler.

        Args:
            code: The exit code if the process has to be ended.
        """
        if self._thread is not None:
            self._code = code
            os.write(self._call, LEAVES)

    def _watch(self) -> None:
        waiting = select.poll()
        waiting.register(self._wake_read, select.POLLIN)
        waiting.register(self._terminal, 0)  # only hangup and errors
        ready = {fd for fd, _ in waiting.poll()}
        if self._wake_read in ready and os.read(self._wake_read, 1) == ENDED:
            return
        if self._wake_read not in ready:
            with suppress(RuntimeError):  # its event loop may have been closed
                self._hung_up()
        if not self._has_ended():
            self._last()
            os._exit(self._code)

    def _has_ended(self) -> bool:
        """Wait for the end of the app, at most for the grace period."""
        until, waiting = time.monotonic() + self._grace, select.poll()
        waiting.register(self._wake_read, select.POLLIN)
        while waiting.poll(max(0.0, until - time.monotonic()) * 1000):
            if os.read(self._wake_read, 1) == ENDED:
                return True
        return False


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
