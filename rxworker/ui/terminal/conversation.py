"""The screen of the conversation: its layout, keys, input and dialogs, the display of its runs, and what the user does.

Theory of operation. One task follows a run. It takes all records that are available, shows them, and sleeps for a
frame; meanwhile the hub merges deltas, so the cost of the screen depends on what is new on it and not on the number of
events. `TerminalSession` makes all decisions about the conversation; the screen makes none. `Commands` act on the
screen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import aclosing, suppress
from functools import partial
from typing import ClassVar, TypeAlias, Unpack

from reactivex.internal import noop
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.events import Key, Paste
from textual.screen import Screen
from textual.timer import Timer

from rxworker.decisions import PendingCalls
from rxworker.desk.conversation import Prompt
from rxworker.desk.meanwhile import Meanwhile, asked_in
from rxworker.errors import ConfigurationError, InputRefusedError, LocalProtocolError, RxWorkerError
from rxworker.events import PauseState
from rxworker.log.values import When
from rxworker.operators.gate import expect_allowed
from rxworker.panels import USAGE
from rxworker.ui.clean import clean, one_line
from rxworker.ui.terminal.attach import attach, complete_path
from rxworker.ui.terminal.bars import (
    Choice,
    CommandMenu,
    Composer,
    KeyLine,
    Quit,
    TwoEnds,
    count_line,
    usage_line,
    who_line,
)
from rxworker.ui.terminal.commands import SENDING, Commands, parse_command
from rxworker.ui.terminal.dialogs import ApprovalScreen
from rxworker.ui.terminal.lanes import Lane
from rxworker.ui.terminal.session import AppOptions, SessionStatus, TerminalSession, check_message
from rxworker.ui.terminal.themes import app_of
from rxworker.ui.terminal.transcript import Transcript
from rxworker.worker import Decision
from rxworker.worker.definition import Definition

Answer: TypeAlias = tuple[Decision, bool] | None
"""A decision, and whether its tool is always allowed; ``None``: later."""

PLACES: dict[SessionStatus, str] = {
    "ready": "Type a message, or / for commands. Enter sends.",
    "answering": "Type a message for the running run.",
    "pausing": "The run pauses at the next safe moment.",
    "cancelling": "Cancelling. Press Ctrl-C again to leave at once.",
    "paused": "Paused. Ctrl-R resumes; a message that you send is added.",
}
"""Placeholders of the empty input."""
DECIDE = "A call waits for approval: press Ctrl-R to decide."
ELSEWHERE = "It was decided elsewhere: /resume opens the conversation as it is now."


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


FRAME = 1 / 30
TICK = 0.5


class ConversationScreen(Screen[None]):
    """The conversation, and the actions of the user on it. Its keys are inactive while another screen is above it.

    Args:
        session: The conversation.
        options: As for `run_app`.

    Attributes:
        session: The conversation.
        can_fold: Whether a part can be folded or unfolded.
        is_left: Whether the user leaves: no new run begins, and no approval is requested.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "cancel", "Cancel", priority=True, tooltip="Cancel the answer"),
        Binding("ctrl+c", "interrupt", "Leave", priority=True, tooltip="Leave the app"),
        Binding("ctrl+r", "resume", "Resume", priority=True, tooltip="Decide, or resume the run"),
        Binding("ctrl+p", "pause", "Pause", priority=True, tooltip="Pause at a safe moment"),
        Binding("ctrl+o", "fold", "Unfold", priority=True, tooltip="Show all of the last part"),
        Binding("ctrl+g", "command('tools')", "Info", priority=True, tooltip="Watchers, tools and hooks"),
        Binding("ctrl+y", "command('trace')", "Trace", show=False, priority=True),
        Binding("f1", "command('help')", "Keys", tooltip="All keys"),
        Binding("alt+o", "fold_all", "Unfold all", show=False, priority=True),
        Binding("pageup", "scroll(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Down", show=False, priority=True),
    ]

    def __init__(self, session: TerminalSession, **options: Unpack[AppOptions]) -> None:
        super().__init__()
        self.session = session
        self._goes_on = options.get("goes_on", False)
        self.can_fold = False
        self.is_left = False
        self._clock: Timer | None = None
        self._began = 0.0
        self._is_wanted = False
        self._checked: set[Prompt] = set()  # what the gate has not let pass yet
        self._meanwhile = session.meanwhile = Meanwhile(self._ask)
        self._commands = Commands(self, session, self.show_session, options.get("dashboard") or USAGE)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Return whether a key is active now."""
        status, is_active = self.session.status, self.session.active is not None
        active = {
            "cancel": is_active or bool(self._checked),
            "interrupt": not is_active and not self._checked,
            "pause": status == "answering",
            "resume": status == "paused" or asked_in(self.session.active) is not None,
            "fold": self.can_fold,
        }
        return active.get(action, True)

    def compose(self) -> ComposeResult:
        """Return the widgets from top to bottom."""
        yield TwoEnds(id="who")
        yield Transcript(greeting(self.session.worker))
        yield TwoEnds(id="queue")
        yield CommandMenu()
        yield Composer()
        yield TwoEnds(id="usage")
        yield KeyLine(show_command_palette=False)

    def on_mount(self) -> None:
        """Start the clock and focus the input; go on with a stored conversation."""
        self._clock = self.set_interval(TICK, self._tick, pause=True)
        composer, menu = self.query_one(Composer), self.query_one(CommandMenu)
        composer.menu, menu.composer = menu, composer
        composer.focus()
        self.show_status()
        if self._goes_on:
            self.run_worker(self._commands.go_on())

    def deliver(self, text: str, when: When = "turn") -> bool:
        """Send what was typed: into the running run, to the paused run, or as the start of a new run.

        Returns:
            Whether it was sent; otherwise the user was shown why not.
        """
        session, pastes = self.session, self.query_one(Composer).pastes
        try:
            message = attach(text[1:] if text.startswith("//") else text, session.worker.workspace, pastes)
            check_message(message, session.worker)
        except (ConfigurationError, LocalProtocolError) as error:
            self.notify(clean(f"{error}. Nothing was sent."), severity="warning", timeout=20, markup=False)
            return False
        try:
            if session.send(message, text, when):
                self.follow()
        except RxWorkerError as error:
            self.show_error(error)
            return False
        self.show_status()
        return True

    def go_on(self, decision: Decision | None = None, *, always: bool = False) -> None:
        """Decide about the call that waits, or resume a run that waits for no call."""
        try:
            is_resumed = self.session.decide(decision, always=always)
        except RxWorkerError as error:
            self.show_error(error)
            return
        if is_resumed:
            self.follow()
        else:
            self.show_approval()

    def follow(self) -> None:
        """Show the run until it ends."""
        self._began = time.monotonic()
        self.query_one(Transcript).anchor()
        if self._clock is not None:
            self._clock.resume()
        self.show_status()
        self.run_worker(self._show_run(), name="follow")

    def show_error(self, error: BaseException) -> None:
        """Show an error."""
        self.run_worker(self.query_one(Transcript).show([self.session.error_lane(error)]))

    def show_status(self) -> None:
        """Show the state of the run, its usage and the queued messages."""
        session, status, worker = self.session, self.session.status, self.session.worker
        since = "" if session.active is None else f" {time.monotonic() - self._began:.0f} s"
        who = who_line(worker.model.name, worker.model.model, len(list(worker.tools)))
        line = self.query_one("#who", TwoEnds)
        line.show(who, status + since)
        totals = session.totals
        used = usage_line(totals.usage, worker.prices)
        counts = count_line(totals.turns, totals.calls, len(self._commands.watchers))
        self.query_one("#usage", TwoEnds).show(used, counts)
        waits = " · ".join(one_line(text, 60) for text in session.sent.queued.values())
        queue = self.query_one("#queue", TwoEnds)
        queue.display = bool(waits)
        queue.show(f"queued: {waits}")
        self.query_one(Composer).placeholder = DECIDE if session.waiting is not None else PLACES[status]
        can_fold = self.query_one(Transcript).can_fold or bool(self.query_one(Composer).folded)
        if can_fold != self.can_fold or not line.has_class(f"-{status}"):
            self.can_fold = can_fold
            line.set_classes(f"-{status}")  # not those of the screen, whose whole conversation would be styled again
            self.refresh_bindings()

    async def show_session(self, lanes: Iterable[Lane]) -> None:
        """Show another conversation, and follow its run if one is running."""
        transcript = self.query_one(Transcript)
        await transcript.clear()
        await transcript.show(lanes)
        if self.session.active is not None:
            self.follow()
        self.show_status()

    async def _show_run(self) -> None:
        transcript, session = self.query_one(Transcript), self.session
        assert session.active is not None
        shown = partial(setattr, self._commands, "watchers")
        watching = session.active.watchers.subscribe(shown, noop)  # `follow` shows errors
        try:
            async for lanes in session.follow():
                await transcript.show(lanes)
                self.show_status()
                await asyncio.sleep(FRAME)
            self._run_ended()
        except NoMatches:
            if app_of(self).is_running:  # otherwise it is being closed, and has removed the parts of the screen
                raise
        finally:
            watching.dispose()

    def _run_ended(self) -> None:
        session, composer = self.session, self.query_one(Composer)
        self._commands.watchers = ()
        if session.paused is None:
            self._meanwhile.close()
        if self._clock is not None:
            self._clock.pause()
        if self.is_left:
            return
        returned = session.sent.take_unread()
        if returned and session.finished:
            if not self.deliver(returned):
                composer.put_back(returned)
            return
        if returned:
            composer.put_back(returned)
        self.show_status()
        if session.paused is not None and session.waiting is not None:
            self.run_worker(self._request(session.paused.pause))

    async def _request(self, pause: PauseState) -> None:
        """Request the decisions about a run that has paused, after the question that is open."""
        decided = await self._meanwhile.answered(pause)
        if self.session.paused is None or self.session.paused.pause != pause:
            return
        self.session.opened.decided.update(decided or {})
        if decided:
            self.go_on()
        elif not self.query_one(Composer).text:
            self.show_approval()

    async def _ask(self, shown: PauseState) -> dict[int, Decision]:
        """Request the decisions about what waits in the background while the run goes on."""
        pending, decided = PendingCalls.of(shown), dict[int, Decision]()
        is_wanted, self._is_wanted = self._is_wanted, False
        if self.query_one(Composer).text and not is_wanted:  # while the user types, the next key might decide
            self.notify(DECIDE)
            return {}
        for index in pending.required:
            screen, answers = ApprovalScreen(pending, index, self.session.worker), asyncio.Queue[Answer]()
            app_of(self).push_screen(screen, answers.put_nowait)
            try:
                answer = await answers.get()
            except asyncio.CancelledError:
                if app_of(self).is_running and screen.is_current:
                    screen.dismiss(None)
                raise
            if answer is None or not await self._is_allowed(answer):
                return {}
            decided[index] = answer[0]
        return decided

    def _tick(self) -> None:
        self.query_one(Transcript).tick()
        self.show_status()

    # Input.

    async def on_text_area_changed(self) -> None:
        """Complete a command, or the path of a file, while it is typed."""
        composer, menu = self.query_one(Composer), self.query_one(CommandMenu)
        self.show_status()
        text = composer.text
        if text.startswith("/") and not text.startswith("//"):
            menu.show(await self._commands.complete(text), text)
            return
        before, rest = composer.ends
        found = complete_path(before, self.session.worker.workspace)
        menu.show([Choice(path, name, "", False, rest) for path, name in found], text)

    async def on_composer_sent(self, message: Composer.Sent) -> None:
        """Run a command, or send a message."""
        composer = self.query_one(Composer)
        pastes = [paste for label, paste in composer.pastes.items() if label in message.text]
        if not await self._is_allowed([message.text, *pastes]):
            return
        command = parse_command(message.text)
        if (command is None or command[0] in SENDING) and composer.text.strip() != message.text:
            return  # while it was checked, it was sent or changed
        if command is None:
            self._send(message.text, message.when)
            return
        if (when := SENDING.get(command[0])) and command[1]:
            self._send(command[1], when)
            return
        composer.type(message.text)
        self.query_one(CommandMenu).show([])
        before = composer.text
        if await self._commands.run(*command) and composer.text == before:
            composer.accept()
        self.show_status()

    def _send(self, text: str, when: When) -> None:
        if self.session.waiting is not None:
            self.notify(DECIDE)
            self.action_resume()
        elif self.deliver(text, when):
            self.query_one(Composer).accept()

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

    def on_paste(self, event: Paste) -> None:
        """Redirect a paste to the input if another part has the focus."""
        self.query_one(Composer).focus().paste(event.text)

    # Actions on the run.

    def action_cancel(self) -> None:
        """Cancel the run, and what the gate is checking, which stays in the input; the second time, leave."""
        for prompt in self._checked:
            prompt.cancel()
        if self.session.status == "cancelling":
            self.post_message(Quit())
            return
        self.session.cancel()
        self.show_status()

    def action_interrupt(self) -> None:
        """Copy the selected text, or leave if nothing is selected."""
        marked = self.get_selected_text() or self.query_one(Composer).selected_text
        if marked:
            app_of(self).copy_to_clipboard(marked)
            self.clear_selection()
            self.notify("Copied.")
        else:
            self.post_message(Quit())

    def action_pause(self) -> None:
        """Pause at the next safe moment."""
        with suppress(RxWorkerError):  # it has just ended
            self.session.pause()
        self.show_status()

    def action_resume(self) -> None:
        """Decide about the call that waits, or resume the run."""
        if self.session.waiting is not None:
            self.show_approval()
        elif self.session.paused is not None:
            self.go_on()
        else:
            self._is_wanted = True
            self._meanwhile.ask(self.session.active, again=True)

    def show_approval(self) -> None:
        """Request the user's decision about the call that waits."""
        opened = self.session.opened
        if self.session.waiting is not None and opened.next is not None:
            screen = ApprovalScreen(opened.pending, opened.next, self.session.worker)
            shown = self.session.paused, opened.next

            async def decided(answer: Answer) -> None:
                await self._decided(answer, shown)

            app_of(self).push_screen(screen, decided)
            if self.session.paused is not None:
                self.run_worker(self._withdraw(screen, self.session.paused.run_id), group="withdraw", exclusive=True)

    async def _withdraw(self, screen: ApprovalScreen, run_id: str) -> None:
        """Close the dialog of a paused run when another door has decided about it."""
        with suppress(RxWorkerError):  # the log cannot be read
            async with aclosing(self.session.log.commands(run_id)) as commands:
                async for command in commands:
                    if command.kind == "decide" and app_of(self).is_running and screen.is_current:
                        screen.dismiss(None)
                        self.notify(ELSEWHERE, timeout=20)

    async def _decided(self, answer: Answer, shown: tuple[object, int]) -> None:
        is_allowed = answer is not None and await self._is_allowed(answer)
        waiting = self.session.waiting
        # While the gate has checked it, another answer may have been faster: this one is about no other call.
        is_same = shown == (self.session.paused, self.session.opened.next)
        if answer is not None and waiting is not None and is_allowed and is_same:
            decision, is_always = answer
            self.go_on(decision, always=is_always)
            if is_always and waiting.call.name in self.session.allowed:
                self.notify(clean(f"{waiting.call.name} is always allowed here. /allow ends that."), markup=False)
        self.query_one(Composer).focus()

    async def _is_allowed(self, given: object) -> bool:
        """Whether the gate lets pass what the user has typed; otherwise the user has cancelled it, or was shown why."""
        prompt = Prompt()
        self._checked.add(prompt)
        try:
            await prompt.wait_for(expect_allowed(self.session.gate, given))
        except InputRefusedError as error:
            self.notify(clean(error.message), severity="warning", timeout=20, markup=False)
            return False
        finally:
            self._checked.discard(prompt)
        return not prompt.is_cancelled

    # Actions on the display.

    def action_fold(self) -> None:
        """Unfold a paste in the input; without one, fold or unfold the last part that can be folded."""
        if not self.query_one(Composer).unfold():
            self.query_one(Transcript).fold_last()

    def action_fold_all(self) -> None:
        """Fold or unfold all parts."""
        self.query_one(Transcript).fold_all()

    def action_scroll(self, pages: int) -> None:
        """Scroll the conversation by pages."""
        transcript = self.query_one(Transcript)
        (transcript.scroll_page_up if pages < 0 else transcript.scroll_page_down)(animate=False)

    async def action_command(self, name: str) -> None:
        """Run a command without an argument."""
        await self._commands.run(name, "")
