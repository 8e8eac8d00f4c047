"""A door that opens once, for any thread."""

from __future__ import annotations

import threading


class Latch:
    """What ``threading.Event`` is to those who wait for something that happens once: a lock, and not a lock with a condition.

    Every run has one, and hardly any is waited for.

    Attributes:
        is_open: Whether it has opened.

    >>> latch = Latch()
    >>> latch.open()
    >>> latch.is_open, latch.wait(1.0)
    (True, True)
    """

    __slots__ = ("_lock", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Let through whoever waits, and whoever comes."""
        if not self.is_open:
            self.is_open = True
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait for it, at most so long. Whether it is open."""
        if not self.is_open and self._lock.acquire(timeout=seconds):
            self._lock.release()  # for the next one who waits
        return self.is_open


__all__ = ["Latch"]
