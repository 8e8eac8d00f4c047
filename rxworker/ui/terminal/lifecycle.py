"""Sees to it that the app ends: when the terminal goes away, and when something holds up an end that was asked for.

Theory of operation. A thread waits for one of two things: that the terminal hangs up, which the system tells whoever
waits for it, and `expect_end`, which signal handlers call. Either begins a short grace. When it is over and the app
still has not ended, since a hook or a tool holds the event loop, the process ends. A signal would have done that at once,
had the app not asked to hear it first.

Signals, heard also while the event loop stands still.

A handler of the loop's own would run on the loop, and so never where the loop waits for a terminal that nobody reads. A
handler of Python's runs in the main thread, whatever that waits for.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol, Self, runtime_checkable

GRACE = 3.0
HUNG_UP = 128 + getattr(signal, "SIGHUP", 1)
ENDED, LEAVES = b".", b"!"


@runtime_checkable
class Terminal(Protocol):
    """A terminal that can be given up."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody sees any more what is written."""
        ...

    def hurry(self) -> None:
        """The app is to end: wait for the terminal no longer than a moment. Safe in a signal handler."""
        ...

    def give_up(self) -> None:
        """The terminal is gone: write nothing, and read nothing, which would come at once and for ever."""
        ...

    def restore(self) -> None:
        """Leave the terminal as it was, at once and past all queues, as far as it lets us."""
        ...


class Guard:
    """Watches over a terminal and the end of an app, while it is entered. Otherwise, it does nothing.

    Args:
        hung_up: Called when the terminal is gone, in the guard's thread.
        last: Called before the process is ended.
        terminal: The terminal's number.
        grace: The seconds that an end may take.
    """

    def __init__(
        self,
        hung_up: Callable[[], None],
        last: Callable[[], None],
        *,
        terminal: int = 0,
        grace: float = GRACE,
    ) -> None:
        self._hung_up, self._last = hung_up, last
        self._terminal, self._grace = terminal, grace
        self._code = HUNG_UP
        self._heard = self._call = -1
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if hasattr(select, "poll"):
            self._heard, self._call = os.pipe()
            self._thread = threading.Thread(target=self._watch, name="rxworker-guard", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            os.write(self._call, ENDED)
            self._thread.join()
            os.close(self._heard)
            os.close(self._call)
            self._thread = None

    def expect_end(self, code: int) -> None:
        """The app is about to end. Safe in a signal handler.

        Args:
            code: The exit code, should the process have to be ended.
        """
        if self._thread is not None:
            self._code = code
            os.write(self._call, LEAVES)

    def _watch(self) -> None:
        waiting = select.poll()
        waiting.register(self._heard, select.POLLIN)
        waiting.register(self._terminal, 0)  # nothing but its end
        ready = {fd for fd, _ in waiting.poll()}
        if self._heard in ready and os.read(self._heard, 1) == ENDED:
            return
        if self._heard not in ready:
            with suppress(RuntimeError):  # its event loop may have been closed
                self._hung_up()
        if not self._has_ended():
            self._last()
            os._exit(self._code)

    def _has_ended(self) -> bool:
        """Wait for the end, but not longer than the grace."""
        until, waiting = time.monotonic() + self._grace, select.poll()
        waiting.register(self._heard, select.POLLIN)
        while waiting.poll(max(0.0, until - time.monotonic()) * 1000):
            if os.read(self._heard, 1) == ENDED:
                return True
        return False


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
