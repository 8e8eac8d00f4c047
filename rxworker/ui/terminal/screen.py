"""The layout of the conversation, and the display of its runs.

Theory of operation. One task follows a run. It takes all records that are available, shows them, and sleeps for a frame;
meanwhile the hub merges deltas, so the cost of the screen depends on what is new on it and not on the number of events.
`TerminalSession` makes all decisions about the conversation; the screen makes none. `ConversationScreen` adds the actions of the user, and
`Commands` act on a `RunScreen`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from textual.app import App, ComposeResult
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer

from rxworker.errors import RxWorkerError
from rxworker.hub import WatcherState
from rxworker.ui.clean import clean, one_line
from rxworker.ui.terminal.bars import (
    CommandMenu,
    Composer,
    TwoEnds,
    count_line,
    usage_line,
    who_line,
)
from rxworker.ui.terminal.lanes import Lane
from rxworker.ui.terminal.session import SessionStatus, TerminalSession
from rxworker.ui.terminal.transcript import Transcript
from rxworker.worker import Decision
from rxworker.worker.definition import Definition

PLACES: dict[SessionStatus, str] = {
    "ready": "Type a message, or / for commands. Enter sends.",
    "answering": "Type a message for the running run.",
    "pausing": "The run pauses at the next safe moment.",
    "cancelling": "Cancelling. Press Ctrl-C again to leave at once.",
    "paused": "Paused. Ctrl-R resumes; a message that you send is added.",
}
"""Placeholders of the empty input."""
DECIDE = "A call waits for approval: press Ctrl-R to decide."


def greeting(worker: Definition) -> str:
    """Return the text that is shown before the first message.

    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel
    >>> print(greeting(Worker(ScriptedModel([]))).splitlines()[0])
    Type a message to begin.
    """
    tools = ", ".join(one_line(tool.meta.name) for tool in worker.tools) or "none"
    hooks = ", ".join(one_line(name) for name, _ in worker.hooks.list()) or "none"
    text = f"Type a message to begin.\n\ntools  {tools}\nhooks  {hooks}\n\nF1 shows all keys, / all commands."
    return clean(text)


INTERRUPTED = 130
FRAME = 1 / 30
TICK = 0.5
NARROW = 70


class RunScreen(Screen[None]):
    """Shows the runs of a session.

    Args:
        session: The conversation.

    Attributes:
        session: The conversation.
        rested: Set while no run is running and everything is shown.
        can_fold: Whether a part can be folded or unfolded.
        is_left: Whether the user leaves: no new run begins, and no approval is requested.
    """

    @dataclass
    class Leave(Message):
        """The user wants to leave.

        Attributes:
            code: The exit code.
        """

        code: int = INTERRUPTED

    def __init__(self, session: TerminalSession) -> None:
        super().__init__()
        self.session = session
        self.rested = asyncio.Event()
        self.can_fold = False
        self.is_left = False
        self._watchers = 0
        self._clock: Timer | None = None
        self._began = 0.0

    def compose(self) -> ComposeResult:
        """Return the widgets from top to bottom."""
        yield TwoEnds(id="who")
        yield Transcript(greeting(self.session.worker))
        yield TwoEnds(id="queue")
        yield CommandMenu()
        yield Composer()
        yield TwoEnds(id="usage", keep_left=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start the clock and focus the input."""
        self._clock = self.set_interval(TICK, self._tick, pause=True)
        self.rested.set()
        composer = self.query_one(Composer)
        composer.menu = self.query_one(CommandMenu)
        composer.focus()
        self.show_status()

    def on_resize(self) -> None:
        """Use the compact footer on a narrow screen, to show more keys."""
        self.query_one(Footer).compact = self.size.width < NARROW

    def begin(self, text: str) -> None:
        """Start a new run with a message."""
        try:
            self.session.begin(text)
        except RxWorkerError as error:
            self.show_error(error)
            self.query_one(Composer).put_back(text)
            return
        self.follow()

    def go_on(self, decision: Decision | None = None, *, always: bool = False) -> None:
        """Decide about the call that waits, or resume a run that waits for no call."""
        try:
            if decision is None:
                self.session.resume()
            elif not self.session.decide(decision, always=always):
                self.show_approval()
                return
        except RxWorkerError as error:
            self.show_error(error)
            return
        self.follow()

    def follow(self) -> None:
        """Show the run until it ends."""
        self.rested.clear()
        self._began = time.monotonic()
        self.query_one(Transcript).anchor()
        if self._clock is not None:
            self._clock.resume()
        self.show_status()
        self.run_worker(self._show_run(), name="follow")

    def show_approval(self) -> None:
        """Request the user's decision about the call that waits."""

    def show_error(self, error: BaseException) -> None:
        """Show an error."""
        lane = self.session.error_lane(error)
        self.run_worker(self.query_one(Transcript).show([lane]))

    def show_status(self) -> None:
        """Show the state of the run, its usage and the queued messages."""
        session, status, worker = self.session, self.session.status, self.session.worker
        since = "" if session.active is None else f" {time.monotonic() - self._began:.0f} s"
        who = who_line(worker.model.name, worker.model.model, len(list(worker.tools)))
        self.query_one("#who", TwoEnds).show(who, status + since)
        totals = session.totals
        used = usage_line(totals.usage, worker.limits.prices)
        counted = count_line(totals.turns, totals.calls, self._watchers)
        self.query_one("#usage", TwoEnds).show(used, counted)
        waits = " · ".join(one_line(text, 60) for text in session.sent.queued.values())
        queue = self.query_one("#queue", TwoEnds)
        queue.display = bool(waits)
        queue.show(f"queued: {waits}", "")
        self.query_one(Composer).placeholder = (
            DECIDE if session.waiting_call is not None else PLACES[status]
        )
        can_fold = self.query_one(Transcript).can_fold
        if can_fold != self.can_fold or not self.has_class(f"-{status}"):
            self.can_fold = can_fold
            for each in PLACES:
                self.set_class(each == status, f"-{each}")
            self.refresh_bindings()

    # What commands do to the screen.

    @property
    def home(self) -> App[object]:
        """The app."""
        return cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]

    def type(self, text: str) -> None:
        """Replace the input."""
        self.query_one(Composer).type(text)

    def inform(self, text: str) -> None:
        """Show a short message."""
        self.notify(clean(text), markup=False)
        self.show_status()

    def warn(self, text: str) -> None:
        """Show why something was not done."""
        self.notify(clean(text), severity="warning", markup=False)

    async def show_session(self, lanes: Iterable[Lane]) -> None:
        """Show another conversation, and follow its run if one is running."""
        transcript = self.query_one(Transcript)
        await transcript.clear()
        await transcript.show(lanes)
        if self.session.active is not None:
            self.follow()
        self.show_status()

    def leave(self) -> None:
        """Leave the app."""
        self.post_message(self.Leave(0))

    async def _show_run(self) -> None:
        transcript, session = self.query_one(Transcript), self.session
        assert session.active is not None
        watching = session.active.watchers.subscribe(self._count_watchers, _ignore)
        try:
            async for lanes in session.follow():
                await transcript.show(lanes)
                self.show_status()
                await asyncio.sleep(FRAME)
        finally:
            watching.dispose()
        self._run_ended()

    def _run_ended(self) -> None:
        session, composer = self.session, self.query_one(Composer)
        self._watchers = 0
        if self._clock is not None:
            self._clock.pause()
        if self.is_left:
            return
        returned = session.sent.take_unread()
        if returned and session.finished:
            self.begin(returned)
            return
        if returned:
            composer.put_back(returned)
        self.show_status()
        self.rested.set()
        # Do not open the dialog while the user types: the next key might decide.
        if session.waiting_call is not None and not composer.text:
            self.show_approval()

    def _count_watchers(self, watchers: tuple[WatcherState, ...]) -> None:
        self._watchers = len(watchers)

    def _tick(self) -> None:
        self.query_one(Transcript).tick()
        self.show_status()


def _ignore(_error: Exception) -> None:
    """Ignore the error: the conversation shows it."""
