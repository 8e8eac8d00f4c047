"""What a person does to a conversation: types, and presses keys."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar, cast

from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.message import Message

from rxworker.errors import RxWorkerError
from rxworker.ui.terminal.approval import ApprovalScreen
from rxworker.ui.terminal.composer import Composer
from rxworker.ui.terminal.details import DetailsScreen
from rxworker.ui.terminal.run_screen import RunScreen
from rxworker.ui.terminal.transcript import Transcript
from rxworker.ui.terminal.words import DECIDE
from rxworker.worker import Decision


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


__all__ = ["ConversationScreen"]
