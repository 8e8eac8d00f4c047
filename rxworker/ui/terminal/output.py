"""Where the picture goes: a terminal that may be slow, deaf, or gone.

Theory of operation. Textual writes in a thread of its own, from a queue of thirty pieces. Were that thread to die with the
terminal, or to wait for one that nobody reads, the queue would fill and the event loop would stand still for good. So this
end never raises, and waits in a way that can be called off: the terminal is opened a second time, so that only our side of
it does not block, and while it is full the thread waits for room, or for `hurry`. What a terminal does not take is dropped.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress

PATIENCE = 0.5
"""Seconds that a terminal has to take something, once it is to be quick."""


class Output:
    """A text file that is a terminal, as far as Textual looks.

    Args:
        fileno: The terminal.
        encoding: Its encoding.

    Attributes:
        is_gone: Whether nothing is written any more.
    """

    def __init__(self, fileno: int, encoding: str = "utf-8") -> None:
        self.is_gone = False
        self._encoding = encoding
        self._given = fileno
        self._fd = _open_again(fileno)
        self._heard, self._wake = os.pipe()
        self._patience: float | None = None

    def write(self, text: str) -> int:
        """Write a text, as soon as the terminal takes it; nothing where it is gone."""
        data = memoryview(text.encode(self._encoding, "replace"))
        while data and not self.is_gone:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                self._wait()
            except OSError:
                self.is_gone = True
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def fileno(self) -> int:
        """The terminal's number."""
        return self._given

    def isatty(self) -> bool:
        """It is."""
        return True

    def hurry(self) -> None:
        """From now on a terminal that takes nothing for a moment is taken to be gone. Safe in a signal handler."""
        self._patience = PATIENCE
        self._call()

    def give_up(self) -> None:
        """Write nothing any more. Safe in every thread."""
        self.is_gone = True
        self._patience = 0.0
        self._call()

    def close(self) -> None:
        """Give the numbers back."""
        for fd in {self._fd, self._heard, self._wake} - {self._given}:
            os.close(fd)

    def _wait(self) -> None:
        """Until there is room, or somebody calls."""
        patience, waiting = self._patience, select.poll()
        waiting.register(self._fd, select.POLLOUT)
        if patience is None:
            waiting.register(self._heard, select.POLLIN)
        ready = waiting.poll(None if patience is None else patience * 1000)
        if not ready:
            self.is_gone = True

    def _call(self) -> None:
        with suppress(OSError):
            os.write(self._wake, b"!")


def _open_again(fileno: int) -> int:
    """The same terminal, with a mode of its own; the one that was given is shared with other processes."""
    try:
        return os.open(os.ttyname(fileno), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return fileno


__all__ = ["Output"]
