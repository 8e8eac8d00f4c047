"""Textual's driver for terminals, for one that may go away while the app is open.

Where the picture goes: a terminal that may be slow, deaf, or gone.

Theory of operation. Textual writes in a thread of its own, from a queue of thirty pieces. Were that thread to die with the
terminal, or to wait for one that nobody reads, the queue would fill and the event loop would stand still for good. So this
end never raises, and waits in a way that can be called off: the terminal is opened a second time, so that only our side of
it does not block, and while it is full the thread waits for room, or for `hurry`. What a terminal does not take is dropped.
"""

from __future__ import annotations

import os
import select
import sys
import termios
from contextlib import suppress
from typing import IO, Any, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from rxworker.ui.terminal.run import is_terminal

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


RESTORED = "\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
"""No mouse, no marked pastes, lines that wrap, plain keys, the screen that was there before, a cursor."""


class TerminalDriver(LinuxDriver):
    """As Textual's, but a terminal that is gone, or that nobody reads, holds nothing up. It is a `Terminal`.

    Args:
        app: The app.
        debug: As for Textual's.
        mouse: As for Textual's.
        size: As for Textual's.
    """

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            app, debug=debug, mouse=mouse, size=size
        )
        # As Textual does, unless standard error is redirected: then it draws on standard output.
        stream = sys.__stderr__ if is_terminal(sys.__stderr__) else sys.__stdout__
        assert stream is not None
        self.output = Output(stream.fileno(), stream.encoding)
        self._file = cast("IO[str]", self.output)

    @property
    def is_gone(self) -> bool:
        """Whether nobody sees any more what is written."""
        return self.output.is_gone

    def hurry(self) -> None:
        """The app is to end: wait for the terminal no longer than a moment. Safe in a signal handler."""
        self.output.hurry()

    def give_up(self) -> None:
        """The terminal is gone: write nothing, and read nothing, which would come at once and for ever."""
        self.output.give_up()
        self.exit_event.set()

    def run_input_thread(self) -> None:
        """Read what is typed. That nothing can be read any more is no reason to panic; `Guard` notices it too."""
        with suppress(OSError):
            super().run_input_thread()

    def restore(self) -> None:
        """Leave the terminal as it was, at once and past all queues, as far as it lets us."""
        if self.attrs_before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        self.output.write(RESTORED)
