"""The screen on which runs are shown: the bars, the conversation, the input, and what a run does to them.

Theory of operation. A run is followed by one task. It takes everything there is for it, shows it, and rests for a frame;
meanwhile deltas merge on the other side, so that the screen costs what is new on it and not the number of events. The
screen decides nothing about the conversation: `Session` does.
"""

from __future__ import annotations

import asyncio
import time

from textual.app import ComposeResult
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer

from rxworker.errors import RxWorkerError
from rxworker.hub import WatcherState
from rxworker.ui.terminal.bars import QueueBar, UsageBar, WhoBar
from rxworker.ui.terminal.composer import Composer
from rxworker.ui.terminal.session import Session
from rxworker.ui.terminal.transcript import Transcript
from rxworker.ui.terminal.words import DECIDE, PLACES, greeting
from rxworker.worker import Decision

FRAME = 1 / 30
TICK = 0.5
NARROW = 70


class RunScreen(Screen[None]):
    """Shows runs, one after the other.

    Args:
        session: The conversation.

    Attributes:
        session: The conversation.
        rested: Set while no run is on and all is shown.
        can_fold: Whether a part can be unfolded, or folded.
        is_left: Whether the person leaves: no run begins any more, and nobody is asked.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.rested = asyncio.Event()
        self.can_fold = False
        self.is_left = False
        self._watchers: tuple[WatcherState, ...] = ()
        self._clock: Timer | None = None
        self._began = 0.0

    def compose(self) -> ComposeResult:
        """From the top to the bottom."""
        yield WhoBar(self.session)
        yield Transcript(greeting(self.session.worker))
        yield QueueBar(self.session)
        yield Composer()
        yield UsageBar(self.session)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Make ready."""
        self._clock = self.set_interval(TICK, self._tick, pause=True)
        self.rested.set()
        self.query_one(Composer).focus()
        self.show_standing()

    def on_resize(self) -> None:
        """Where there is little room, more keys have theirs."""
        self.query_one(Footer).compact = self.size.width < NARROW

    def begin(self, text: str) -> None:
        """Say something: a new run begins."""
        try:
            self.session.begin(text)
        except RxWorkerError as error:
            self.complain(error)
            self.query_one(Composer).put_back(text)
            return
        self.follow()

    def go_on(self, decision: Decision | None = None) -> None:
        """Go on with the run that was paused, with a decision about the call that waits, or without."""
        try:
            self.session.resume(decision, is_call=decision is not None)
        except RxWorkerError as error:
            self.complain(error)
            return
        self.follow()

    def follow(self) -> None:
        """Show the run that has begun, until it ends."""
        self.rested.clear()
        self._began = time.monotonic()
        self.query_one(Transcript).anchor()
        if self._clock is not None:
            self._clock.resume()
        self.show_standing()
        self.run_worker(self._show_run(), name="follow")

    def ask(self) -> None:
        """Ask the person about the call that waits."""

    def complain(self, error: BaseException) -> None:
        """Show what went wrong."""
        lane = self.session.complain(error)
        self.run_worker(self.query_one(Transcript).show([lane]))

    def show_standing(self) -> None:
        """Show where the run stands, what it has taken, and what is queued."""
        session, standing = self.session, self.session.standing
        seconds = None if session.active is None else time.monotonic() - self._began
        self.query_one(WhoBar).tell(seconds)
        self.query_one(UsageBar).tell(len(self._watchers))
        self.query_one(QueueBar).tell()
        self.query_one(Composer).placeholder = DECIDE if session.asks else PLACES[standing]
        can_fold = self.query_one(Transcript).can_fold
        if can_fold != self.can_fold or not self.has_class(f"-{standing}"):
            self.can_fold = can_fold
            for each in PLACES:
                self.set_class(each == standing, f"-{each}")
            self.refresh_bindings()

    async def _show_run(self) -> None:
        transcript, session = self.query_one(Transcript), self.session
        assert session.active is not None
        watching = session.active.watchers.subscribe(self._count_watchers, _ignore)
        try:
            async for lanes in session.follow():
                await transcript.show(lanes)
                self.show_standing()
                await asyncio.sleep(FRAME)
        finally:
            watching.dispose()
        self._run_ended()

    def _run_ended(self) -> None:
        session, composer = self.session, self.query_one(Composer)
        self._watchers = ()
        if self._clock is not None:
            self._clock.pause()
        if self.is_left:
            return
        returned = session.sent.take_back()
        if returned and session.finished:
            self.begin(returned)
            return
        if returned:
            composer.put_back(returned)
        self.show_standing()
        self.rested.set()
        # Nobody is asked in the middle of typing: what is typed next might answer.
        if session.asks and not composer.text:
            self.ask()

    def _count_watchers(self, watchers: tuple[WatcherState, ...]) -> None:
        self._watchers = watchers

    def _tick(self) -> None:
        self.query_one(Transcript).tick()
        self.show_standing()


def _ignore(_error: Exception) -> None:
    """The conversation tells."""


__all__ = ["RunScreen"]
