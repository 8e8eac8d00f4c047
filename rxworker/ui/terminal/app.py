"""The terminal app: its looks, its keys that hold everywhere, and its end. `ConversationScreen` is what one sees of it."""

from __future__ import annotations

import asyncio
import signal
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from rxworker.ui.terminal.bars import usage_line
from rxworker.ui.terminal.conversation import ConversationScreen
from rxworker.ui.terminal.keys import KeysScreen
from rxworker.ui.terminal.lasting import LastingApp
from rxworker.ui.terminal.run_screen import NARROW
from rxworker.ui.terminal.session import Session, Wording
from rxworker.ui.terminal.transcript import Transcript
from rxworker.worker import Worker

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


__all__ = ["TerminalApp"]
