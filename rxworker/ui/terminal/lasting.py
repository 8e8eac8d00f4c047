"""An app that ends well: with its terminal, and with the signals that end programs.

Theory of operation. Signals come in the main thread, whatever it is doing, and the end of the terminal in the guard's.
Both are passed on to the event loop, which ends the app as if a key had been pressed. Should the loop stand still, since
it waits for the terminal, the driver lets go of that; should it stand still for other reasons, the guard ends the process.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress

from textual.app import App
from textual.driver import Driver

from rxworker.ui.terminal.guard import HUNG_UP, Guard, Terminal


class LastingApp(App[None]):
    """Hears signals, and notices that its terminal is gone.

    Attributes:
        guard: To be entered around all of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.guard = Guard(self.hang_up, self._restore)
        self._home: asyncio.AbstractEventLoop | None = None
        self._early: list[int] = []
        self._unheard = False

    def end(self, number: int) -> None:
        """A signal is to end the app, or to interrupt what it does. Called on the event loop.

        Args:
            number: The signal's; that of SIGHUP too where the terminal went without one.
        """
        self.exit(return_code=128 + number)

    @property
    def is_gone(self) -> bool:
        """Whether the terminal is gone."""
        return self._terminal is not None and self._terminal.is_gone

    def get_driver_class(self) -> type[Driver]:
        """A driver that lives on when the terminal does not."""
        usual = super().get_driver_class()
        if sys.platform == "win32" or usual.__name__ != "LinuxDriver":
            return usual
        from rxworker.ui.terminal.driver import TerminalDriver

        return TerminalDriver

    def on_mount(self) -> None:
        """The event loop runs: it is told what came before that."""
        self._home = asyncio.get_running_loop()
        for number in self._early:
            self._heard(number)

    def hear(self, number: int) -> None:
        """A signal came. This is safe at any moment: it only passes on what it has heard."""
        is_again, self._unheard = self._unheard, True
        if number != signal.SIGINT or is_again:
            self.guard.expect_end(128 + number)
            if self._terminal is not None:
                self._terminal.hurry()
        self._tell(number)

    def hang_up(self) -> None:
        """The terminal is gone. Safe in every thread."""
        if self._terminal is not None:
            self._terminal.give_up()
        self._tell(HUNG_UP - 128)

    @property
    def _terminal(self) -> Terminal | None:
        return self._driver if isinstance(self._driver, Terminal) else None

    def _restore(self) -> None:
        if self._terminal is not None:
            self._terminal.restore()

    def _tell(self, number: int) -> None:
        if self._home is None:
            self._early.append(number)
            return
        with suppress(RuntimeError):  # the loop is closed: the app has ended
            self._home.call_soon_threadsafe(self._heard, number)

    def _heard(self, number: int) -> None:
        self._unheard = False
        self.end(number)


__all__ = ["LastingApp"]
