"""The actions of the user on the conversation: its keys, its input and its dialogs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Key

from rxworker.errors import RxWorkerError
from rxworker.transport import Model
from rxworker.ui.terminal.bars import CommandMenu, Composer
from rxworker.ui.terminal.commands import Commands, FindModel, parse_command
from rxworker.ui.terminal.dialogs import ApprovalScreen, DetailsScreen, TraceScreen
from rxworker.ui.terminal.diff import edit_of
from rxworker.ui.terminal.screen import DECIDE, RunScreen
from rxworker.ui.terminal.session import TerminalSession
from rxworker.ui.terminal.transcript import Transcript
from rxworker.worker import Decision


class ConversationScreen(RunScreen):
    """The conversation and its actions. Its keys are inactive while another screen is above it.

    Args:
        session: The conversation.
        models: The models that ``/model`` offers.
        find_model: Returns other models by their names.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "cancel", "Cancel", priority=True, tooltip="Cancel the answer"),
        Binding("ctrl+c", "interrupt", "Leave", priority=True, tooltip="Leave the app"),
        Binding("ctrl+r", "resume", "Resume", priority=True, tooltip="Decide, or resume the run"),
        Binding("ctrl+p", "pause", "Pause", priority=True, tooltip="Pause at a safe moment"),
        Binding("ctrl+o", "fold", "Unfold", priority=True, tooltip="Show all of the last part"),
        Binding("ctrl+g", "details", "Info", priority=True, tooltip="Watchers, tools and hooks"),
        Binding("ctrl+y", "trace", "Trace", show=False, priority=True),
        Binding("alt+o", "fold_all", "Unfold all", show=False, priority=True),
        Binding("pageup", "scroll(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Down", show=False, priority=True),
    ]

    def __init__(
        self,
        session: TerminalSession,
        models: Iterable[Model] = (),
        find_model: FindModel | None = None,
    ) -> None:
        super().__init__(session)
        self._commands = Commands(self, models, find_model)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Return whether a key is active now."""
        match action:
            case "cancel":
                return self.session.active is not None
            case "interrupt":
                return self.session.active is None
            case "pause":
                return self.session.status == "answering"
            case "resume":
                return self.session.status == "paused"
            case "fold":
                return self.can_fold
            case _:
                return True

    # Input.

    async def on_text_area_changed(self) -> None:
        """Complete a command while it is typed."""
        text, menu = self.query_one(Composer).text, self.query_one(CommandMenu)
        choices = await self._commands.complete(text) if text.startswith("/") else []
        menu.show(choices, text)

    def on_command_menu_chosen(self, message: CommandMenu.Chosen) -> None:
        """Use the choice that was clicked."""
        composer = self.query_one(Composer)
        composer.choose(message.choice, sends=True)
        composer.focus()

    async def on_composer_sent(self, message: Composer.Sent) -> None:
        """Run a command, or send a message."""
        composer = self.query_one(Composer)
        command = parse_command(message.text)
        if command is None:
            text = message.text
            self._send(text[1:] if text.startswith("//") else text)
            return
        composer.type(message.text)
        self.query_one(CommandMenu).show([])
        before = composer.text
        if await self._commands.run(*command) and composer.text == before:
            composer.accept()

    def _send(self, text: str) -> None:
        """Send a message: into the running run, to the paused run, or as the start of a new run."""
        session, composer = self.session, self.query_one(Composer)
        if session.waiting_call is not None:
            self.notify(DECIDE)
            self.action_resume()
            return
        if session.active is None and session.paused is None:
            composer.accept()
            self.begin(text)
            return
        try:
            if session.active is not None:
                session.send(text)
                self.show_status()
            else:
                session.resume(text=text)
                self.follow()
        except RxWorkerError as error:
            self.show_error(error)
            return
        composer.accept()

    def on_key(self, event: Key) -> None:
        """Redirect keys to the input if another part has the focus."""
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

    # Actions on the run.

    def action_cancel(self) -> None:
        """Cancel the run; the second time, leave."""
        if self.session.status == "cancelling":
            self.post_message(self.Leave())
            return
        self.session.cancel()
        self.show_status()

    def action_interrupt(self) -> None:
        """Copy the selected text, or leave if nothing is selected."""
        marked = self.get_selected_text() or self.query_one(Composer).selected_text
        if marked:
            self.home.copy_to_clipboard(marked)
            self.clear_selection()
            self.notify("Copied.")
        else:
            self.post_message(self.Leave())

    def action_pause(self) -> None:
        """Pause at the next safe moment."""
        with suppress(RxWorkerError):  # it has just ended
            self.session.pause()
        self.show_status()

    def action_resume(self) -> None:
        """Decide about the call that waits, or resume the run."""
        if self.session.waiting_call is not None:
            self.show_approval()
        elif self.session.paused is not None:
            self.go_on()

    def show_approval(self) -> None:
        """Request the user's decision about the call that waits."""
        call, paused = self.session.waiting_call, self.session.paused
        if call is None or paused is None:
            return
        others = len(paused.pending) - 1 - (paused.pause.at or 0)
        reason = f"{paused.hook}: {paused.reason}".strip(": ")
        edit = edit_of(call.input, self.session.worker.workspace)
        can_allow = self.session.allowable is not None
        screen = ApprovalScreen(call, reason, max(0, others), edit, can_allow=can_allow)
        self.home.push_screen(screen, self._decided)

    def _decided(self, answer: tuple[Decision, bool] | None) -> None:
        call = self.session.waiting_call
        if answer is not None and call is not None:
            decision, is_always = answer
            self.go_on(decision, always=is_always)
            if is_always and call.name in self.session.allowed:
                self.inform(f"{call.name} is always allowed here. /allow ends that.")
        self.query_one(Composer).focus()

    # Actions on the display.

    def action_fold(self) -> None:
        """Fold or unfold the last part that can be folded."""
        self.query_one(Transcript).fold_last()

    def action_fold_all(self) -> None:
        """Fold or unfold all parts."""
        self.query_one(Transcript).fold_all()

    def action_scroll(self, pages: int) -> None:
        """Scroll the conversation by pages."""
        transcript = self.query_one(Transcript)
        (transcript.scroll_page_up if pages < 0 else transcript.scroll_page_down)(animate=False)

    def action_trace(self) -> None:
        """Show the turns, requests and calls of the last run on a time axis."""
        self.home.push_screen(TraceScreen(self.session.last_run))

    def action_details(self) -> None:
        """Show watchers, tools and hooks."""
        session = self.session
        watchers = None if session.active is None else session.active.watchers
        tools = [tool.meta.name for tool in session.worker.tools]
        self.home.push_screen(DetailsScreen(watchers, tools, session.worker.hooks.list()))
