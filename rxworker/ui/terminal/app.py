"""The terminal app: theme, global keys, signals and shutdown. `ConversationScreen` shows the conversation.

Theory of operation. Signals arrive in the main thread at any time; a hangup of the terminal arrives in the guard's
thread. Both are forwarded to the event loop, which ends the app as if a key had been pressed. If the loop is blocked
because it waits for the terminal, the driver stops waiting; if it is blocked for another reason, the guard ends the
process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.screen import ModalScreen

from rxworker.boards import Dashboard
from rxworker.panels import USAGE
from rxworker.transport import Model
from rxworker.ui.terminal.bars import Quit, usage_line
from rxworker.ui.terminal.conversation import NARROW, ConversationScreen
from rxworker.ui.terminal.dialogs import KeysScreen
from rxworker.ui.terminal.lifecycle import HUNG_UP, Guard
from rxworker.ui.terminal.session import FindModel, TerminalSession, Wording
from rxworker.ui.terminal.themes import DARK, LIGHT, THEMES
from rxworker.ui.terminal.transcript import Transcript
from rxworker.worker.session import Session
from rxworker.worker.worker import Worker

if TYPE_CHECKING:
    from rxworker.ui.terminal.driver import TerminalDriver

LEAVE_SECONDS = 2.0
SIGNAL_SECONDS = 1.0
LOST = "This conversation is not stored. Press the key again to leave and lose it; /export writes it to a file."
"""Seconds a run has to end: when the user leaves, and when a signal or a hangup ends the app."""


class TerminalApp(App[None]):
    """A conversation with a worker in full screen. It handles signals and the loss of its terminal.

    Args:
        worker: Answers the messages; or the session that the app continues.
        wording: Returns the line that describes an error.
        models: Other models that ``/model`` offers.
        find_model: Returns the model of a provider's name and a model's name, for ``/model``.
        goes_on: Whether it begins with the stored conversation that was used last.
        dashboard: What ``/usage`` shows of the conversation; by default `rxworker.panels.USAGE`.

    Attributes:
        guard: Context manager to enter around the whole run of the app.
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

    def __init__(
        self,
        worker: Worker | Session,
        *,
        wording: Wording | None = None,
        models: Iterable[Model] = (),
        find_model: FindModel | None = None,
        goes_on: bool = False,
        dashboard: Dashboard | None = None,
    ) -> None:
        super().__init__()
        self.guard = Guard(self.hang_up, self._restore)
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._early: list[int] = []
        self._is_pending = False
        for theme in THEMES:
            self.register_theme(theme)
        if "TEXTUAL_THEME" not in os.environ:
            self.theme = DARK
        self.session = TerminalSession(worker, wording, models, find_model)
        self.conversation = ConversationScreen(self.session, goes_on=goes_on, dashboard=dashboard or USAGE)
        self._leaving: int | None = None
        self._asked = ""

    def get_default_screen(self) -> ConversationScreen:
        """The conversation."""
        return self.conversation

    def on_mount(self) -> None:
        """Set up the event loop, and handle the signals that arrived before it ran."""
        self._event_loop = asyncio.get_running_loop()
        # Textual starts tasks eagerly, inside the code that creates them. Runs expect tasks to start later.
        self._event_loop.set_task_factory(None)
        for number in self._early:
            self._handle(number)

    async def on_unmount(self) -> None:
        """Give the conversation back."""
        await self.session.close()

    def on_quit(self, message: Quit) -> None:
        """Leave after Ctrl-D, after a command, or after Ctrl-C if it did not cancel a run."""
        self.run_worker(self.action_leave(message.code))

    def watch_theme(self, _before: str, _now: str) -> None:
        """Redraw the parts that have colours of their own."""
        if self.is_running:
            for transcript in self.query(Transcript):
                transcript.draw_again()

    def action_theme(self) -> None:
        """Switch between the light and the dark theme."""
        self.theme = LIGHT if self.current_theme.dark else DARK

    def action_keys(self) -> None:
        """Show all keys."""
        if not isinstance(self.screen, ModalScreen):
            self.push_screen(KeysScreen())

    async def action_leave(self, code: int = 0) -> None:
        """Leave; if a conversation is lost with the app, only when this is pressed again.

        Args:
            code: The exit code.
        """
        session = self.session
        is_new = not session.is_stored and session.latest != self._asked
        if is_new and session.status != "cancelling":  # then it is the second Ctrl-C
            self._asked = session.latest
            self.notify(LOST, severity="warning", timeout=10)
            return
        await self.leave(code)

    async def leave(self, code: int, seconds: float = LEAVE_SECONDS) -> None:
        """Leave. A running run is cancelled first and gets a limited time to end.

        Args:
            code: The exit code.
            seconds: Seconds the run has to end.
        """
        if self._leaving is not None:
            self.exit(return_code=self._leaving)
            return
        self._leaving, self.conversation.is_left = code, True
        is_stuck = self.session.status == "cancelling"
        ended = self.session.cancel()
        if ended is not None and not is_stuck:
            await asyncio.wait([ended], timeout=seconds)
        totals = self.session.totals
        usage = usage_line(totals.usage, self.session.worker.prices)
        self.exit(return_code=code, message=Text(usage, "dim") if usage and not self.is_gone else None)

    # Signals, and the loss of the terminal.

    @property
    def is_gone(self) -> bool:
        """Whether the terminal is closed."""
        return self._terminal is not None and self._terminal.output.is_gone

    def get_driver_class(self) -> type[Driver]:
        """A driver that survives the loss of the terminal."""
        usual = super().get_driver_class()
        if sys.platform == "win32" or usual.__name__ != "LinuxDriver":
            return usual
        from rxworker.ui.terminal.driver import TerminalDriver

        return TerminalDriver

    def forward_signal(self, number: int) -> None:
        """Forward a signal to the event loop. Safe in a signal handler."""
        is_again, self._is_pending = self._is_pending, True
        if number != signal.SIGINT or is_again:
            self.guard.expect_end(128 + number)
            if self._terminal is not None:
                self._terminal.output.limit_wait()
        self._post(number)

    def hang_up(self) -> None:
        """Handle the loss of the terminal. Thread-safe."""
        if self._terminal is not None:
            self._terminal.give_up()
        self._post(HUNG_UP - 128)

    @property
    def _terminal(self) -> TerminalDriver | None:
        driver = self._driver
        return cast("TerminalDriver", driver) if hasattr(driver, "output") else None

    def _restore(self) -> None:
        if self._terminal is not None:
            self._terminal.restore()

    def _post(self, number: int) -> None:
        if self._event_loop is None:
            self._early.append(number)
            return
        with suppress(RuntimeError):  # the loop is closed: the app has ended
            self._event_loop.call_soon_threadsafe(self._handle, number)

    def _handle(self, number: int) -> None:
        """SIGINT cancels the running run, any other signal leaves.

        SIGHUP also if the terminal closed without a signal.
        """
        self._is_pending = False
        if number == signal.SIGINT and self.session.active is not None:
            self.conversation.action_cancel()
        elif self._leaving is None:  # a terminal that closes may send the signal twice
            self.run_worker(self.leave(128 + number, SIGNAL_SECONDS))
