"""Textual's driver for terminals, for one that may go away while the app is open."""

from __future__ import annotations

import sys
import termios
from contextlib import suppress
from typing import IO, Any, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from rxworker.ui.terminal.output import Output
from rxworker.ui.terminal.run import is_terminal

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


__all__ = ["TerminalDriver"]
