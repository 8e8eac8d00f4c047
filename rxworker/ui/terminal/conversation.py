"""What a person does to a conversation: types, and presses keys.

What the app itself says.

The screen on which runs are shown: the bars, the conversation, the input, and what a run does to them.

Theory of operation. A run is followed by one task. It takes everything there is for it, shows it, and rests for a frame;
meanwhile deltas merge on the other side, so that the screen costs what is new on it and not the number of events. The
screen decides nothing about the conversation: `Session` does.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import ClassVar, cast

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer

from rxworker.errors import RxWorkerError
from rxworker.hub import WatcherState
from rxworker.ui.clean import clean, one_line
from rxworker.ui.terminal.bars import Composer, QueueBar, UsageBar, WhoBar
from rxworker.ui.terminal.dialogs import ApprovalScreen, DetailsScreen
from rxworker.ui.terminal.session import Session, Standing
from rxworker.ui.terminal.transcript import Transcript
from rxworker.worker import Decision, Worker

PLACES: dict[Standing, str] = {
    "ready": "Say something. Enter sends, Ctrl-J begins a new line.",
    "answering": "Say something to the run that is on.",
    "pausing": "It will pause at the next safe moment.",
    "cancelling": "Cancelling. Ctrl-C again leaves at once.",
    "paused": "Paused. Ctrl-R goes on; what you say goes with it.",
}
"""What stands in the empty input."""
DECIDE = "A call waits for you: Ctrl-R decides."


def greeting(worker: Worker) -> str:
    """What stands where nothing was said yet.

    >>> from rxworker.testing import ScriptedModel
    >>> print(greeting(Worker(ScriptedModel([]))).splitlines()[0])
    Say something to begin.
    """
    tools = ", ".join(one_line(tool.meta.name) for tool in worker.tools) or "none"
    hooks = ", ".join(one_line(name) for name, _ in worker.hooks.list()) or "none"
    told = f"Say something to begin.\n\ntools  {tools}\nhooks  {hooks}\n\nF1 shows all keys."
    return clean(told)


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


class ConversationScreen(RunScreen):
    """The conversation, and all that can be done to it. Its keys mean nothing while another screen lies above it.

    Args:
        session: The conversation.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "cancel", "Cancel", priority=True, tooltip="Cancel the answer"),
        Binding("ctrl+c", "interrupt", "Leave", priority=True, tooltip="Leave the app"),
        Binding("ctrl+r", "resume", "Go on", priority=True, tooltip="Decide, or go on"),
        Binding("ctrl+p", "pause", "Pause", priority=True, tooltip="Pause at a safe moment"),
        Binding("ctrl+o", "fold", "Unfold", priority=True, tooltip="Show all of the last part"),
        Binding("ctrl+g", "details", "Info", priority=True, tooltip="Who watches, what it has"),
        Binding("alt+o", "fold_all", "Unfold all", show=False, priority=True),
        Binding("pageup", "scroll(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Down", show=False, priority=True),
    ]

    class Leave(Message):
        """The person wants to leave."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Which keys mean something now."""
        match action:
            case "cancel":
                return self.session.active is not None
            case "interrupt":
                return self.session.active is None
            case "pause":
                return self.session.standing == "answering"
            case "resume":
                return self.session.standing == "paused"
            case "fold":
                return self.can_fold
            case _:
                return True

    @property
    def _home(self) -> App[object]:
        return cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]

    # What is typed.

    def on_composer_sent(self, message: Composer.Sent) -> None:
        """Something was said: into the run that is on, to one that was paused, or as a new one's beginning."""
        session, composer = self.session, self.query_one(Composer)
        if session.waiting_call is not None:
            self.notify(DECIDE)
            self.action_resume()
            return
        if session.active is None and session.paused is None:
            composer.accept()
            self.begin(message.text)
            return
        try:
            if session.active is not None:
                session.send(message.text)
                self.show_standing()
            else:
                session.resume(text=message.text)
                self.follow()
        except RxWorkerError as error:
            self.complain(error)
            return
        composer.accept()

    def on_key(self, event: Key) -> None:
        """What is typed while another part has the focus, or none yet, is meant for the input."""
        composer = self.query_one(Composer)
        if composer.has_focus:
            return
        if event.is_printable and event.character:
            event.stop()
            composer.focus()
            composer.insert(event.character)
        elif event.key == "enter" and composer.text.strip():
            event.stop()
            composer.post_message(Composer.Sent(composer.text.strip()))

    # What the keys do to the run.

    def action_cancel(self) -> None:
        """Cancel the answer; the second time, leave."""
        if self.session.standing == "cancelling":
            self.post_message(self.Leave())
            return
        self.session.cancel()
        self.show_standing()

    def action_interrupt(self) -> None:
        """Copy what is marked, or leave."""
        marked = self.get_selected_text() or self.query_one(Composer).selected_text
        if marked:
            self._home.copy_to_clipboard(marked)
            self.clear_selection()
            self.notify("Copied.")
        else:
            self.post_message(self.Leave())

    def action_pause(self) -> None:
        """Pause at the next safe moment."""
        with suppress(RxWorkerError):  # it has just ended
            self.session.pause()
        self.show_standing()

    def action_resume(self) -> None:
        """Decide about the call that waits, or go on."""
        if self.session.asks:
            self.ask()
        elif self.session.paused is not None:
            self.go_on()

    def ask(self) -> None:
        """Ask the person about the call that waits."""
        call, paused = self.session.waiting_call, self.session.paused
        if call is None or paused is None:
            return
        others = len(paused.pending) - 1 - paused.let_through
        reason = f"{paused.hook}: {paused.reason}".strip(": ")
        self._home.push_screen(ApprovalScreen(call, reason, max(0, others)), self._decided)

    def _decided(self, decision: Decision | None) -> None:
        if decision is not None:
            self.go_on(decision)
        self.query_one(Composer).focus()

    # What the keys do to the picture.

    def action_fold(self) -> None:
        """Unfold the last part that is folded, or fold it."""
        self.query_one(Transcript).fold_last()

    def action_fold_all(self) -> None:
        """Unfold everything, or fold it."""
        self.query_one(Transcript).fold_all()

    def action_scroll(self, pages: int) -> None:
        """Go through the conversation."""
        transcript = self.query_one(Transcript)
        (transcript.scroll_page_up if pages < 0 else transcript.scroll_page_down)(animate=False)

    def action_details(self) -> None:
        """Show who watches."""
        session = self.session
        watchers = None if session.active is None else session.active.watchers
        tools = [tool.meta.name for tool in session.worker.tools]
        self._home.push_screen(DetailsScreen(watchers, tools, session.worker.hooks.list()))
