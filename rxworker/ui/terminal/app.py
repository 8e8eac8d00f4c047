"""The terminal app: its looks, its keys that hold everywhere, and its end. `ConversationScreen` is what one sees of it.

An app that ends well: with its terminal, and with the signals that end programs.

Theory of operation. Signals come in the main thread, whatever it is doing, and the end of the terminal in the guard's.
Both are passed on to the event loop, which ends the app as if a key had been pressed. Should the loop stand still, since
it waits for the terminal, the driver lets go of that; should it stand still for other reasons, the guard ends the process.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.screen import ModalScreen

from rxworker.ui.terminal.bars import usage_line
from rxworker.ui.terminal.conversation import NARROW, ConversationScreen
from rxworker.ui.terminal.dialogs import KeysScreen
from rxworker.ui.terminal.lifecycle import HUNG_UP, Guard, Terminal
from rxworker.ui.terminal.session import Session, Wording
from rxworker.ui.terminal.transcript import Transcript
from rxworker.worker import Worker


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


PATIENCE = 2.0
BRIEF = 1.0
"""Seconds that a run has to end, where somebody waits for the app to end and where nobody is there any more."""
INTERRUPTED = 130
DARK, LIGHT = "textual-dark", "textual-light"


class TerminalApp(LastingApp):
    """A conversation with a worker in full screen.

    Args:
        worker: Who answers.
        wording: Makes the line that says what went wrong.
    """

    CSS_PATH = "app.tcss"
    TITLE = "rxworker"
    COMMAND_PALETTE_BINDING = "ctrl+backslash"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual types it so
        (0, "-narrow"),
        (NARROW, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-low"),
        (18, "-high"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Leave", show=False, priority=True),
        Binding("ctrl+t", "theme", "Light/dark", priority=True, show=False),
        Binding("f1", "keys", "Keys", tooltip="All keys"),
    ]

    def __init__(self, worker: Worker, *, wording: Wording | None = None) -> None:
        super().__init__()
        self.session = Session(worker, wording)
        self.conversation = ConversationScreen(self.session)
        self._leaving: int | None = None

    def get_default_screen(self) -> ConversationScreen:
        """The conversation."""
        return self.conversation

    def on_mount(self) -> None:
        """Make ready."""
        # Textual has new tasks begin at once, within whoever makes them. Runs are made for tasks that begin later.
        asyncio.get_running_loop().set_task_factory(None)

    def on_composer_leave(self) -> None:
        """Ctrl-D was pressed."""
        self.run_worker(self.action_leave())

    def on_conversation_screen_leave(self) -> None:
        """Ctrl-C was pressed, and not for the run."""
        self.run_worker(self.action_leave(INTERRUPTED))

    def watch_theme(self, _before: str, _now: str) -> None:
        """Draw what has colours of its own again."""
        for transcript in self.query(Transcript):
            transcript.draw_again()

    def action_theme(self) -> None:
        """Light, or dark."""
        self.theme = LIGHT if self.current_theme.dark else DARK

    def action_keys(self) -> None:
        """Show all keys."""
        if not isinstance(self.screen, ModalScreen):
            self.push_screen(KeysScreen())

    async def action_leave(self, code: int = 0, patience: float = PATIENCE) -> None:
        """Leave. A run that is on is cancelled first, and waited for, but not for ever.

        Args:
            code: The exit code.
            patience: The seconds that the run has.
        """
        if self._leaving is not None:
            self.exit(return_code=self._leaving)
            return
        self._leaving, self.conversation.is_left = code, True
        is_stuck = self.session.standing == "cancelling"
        ended = self.session.cancel()
        if ended is not None and not is_stuck:
            await asyncio.wait([ended], timeout=patience)
        totals = self.session.totals
        told = usage_line(totals.usage, self.session.worker.limits.prices)
        self.exit(
            return_code=code, message=Text(told, "dim") if told and not self.is_gone else None
        )

    def end(self, number: int) -> None:
        """A signal came: SIGINT cancels the run that is on, and all else leaves."""
        if number == signal.SIGINT and self.session.active is not None:
            self.conversation.action_cancel()
        elif self._leaving is None:  # a terminal that goes away tells it twice
            self.run_worker(self.action_leave(128 + number, BRIEF))
