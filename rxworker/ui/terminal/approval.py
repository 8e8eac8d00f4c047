"""Asking a person about a tool call: run it, with these arguments or others, or not."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static, TextArea

from rxworker.messages import ToolCall
from rxworker.ui.clean import clean, one_line
from rxworker.ui.terminal.arguments import arguments_text, read_arguments
from rxworker.worker import Approve, Decision, Deny


class ApprovalScreen(ModalScreen[Decision | None]):
    """Shows a call that waits. Its result is the decision, or ``None``: later.

    Args:
        call: The call.
        reason: Why it waits.
        others: How many calls wait behind it.
    """

    AUTO_FOCUS = "#arguments"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "approve", "Run it", priority=True),
        Binding("ctrl+e", "edit", "Edit", priority=True),
        Binding("ctrl+d", "deny", "Deny", priority=True),
        Binding("escape,ctrl+c", "later", "Later", priority=True),
    ]

    def __init__(self, call: ToolCall, reason: str = "", others: int = 0) -> None:
        super().__init__()
        self._asked = call
        self._shown = arguments_text(call.input)
        self._reason = reason
        self._others = others

    def compose(self) -> ComposeResult:
        """The call, its arguments, and what may be decided."""
        waits = f"{one_line(self._asked.name, 60)} waits for you"
        more = f", and {self._others} more" if self._others else ""
        with Vertical(id="approval"):
            yield Static(waits + more, id="question", markup=False)
            yield Static(clean(self._reason), id="reason", markup=False)
            yield TextArea(self._shown, read_only=True, id="arguments", tab_behavior="focus")
            yield Static("", id="wrong", markup=False)
            yield Input(placeholder="Why not? The model reads it.", id="why", compact=True)
            with Horizontal(id="decisions"):
                yield Button("Run ^s", id="approve", variant="success", compact=True)
                yield Button("Edit ^e", id="edit", compact=True)
                yield Button("Deny ^d", id="deny", variant="error", compact=True)
                yield Button("Later esc", id="later", compact=True)

    def on_mount(self) -> None:
        """Leave out what there is nothing to say in."""
        self.query_one("#reason").display = bool(self._reason)
        self.query_one("#wrong").display = False

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        """A decision was clicked."""
        await self.run_action(str(event.button.id))

    def on_input_submitted(self) -> None:
        """A reason against it was given."""
        self.action_deny()

    def action_approve(self) -> None:
        """Run it with the arguments as they stand here."""
        text = self._editor.text
        if text == self._shown:
            self.dismiss(Approve())
            return
        try:
            # A tool that takes free text is given text: whatever the arguments are, these stand in their place.
            self.dismiss(Approve(read_arguments(text, self._asked.input)))
        except ValueError as error:
            self._complain(str(error))

    def action_edit(self) -> None:
        """Let the arguments be changed."""
        self._editor.read_only = False
        self._editor.focus()

    def action_deny(self) -> None:
        """Do not run it."""
        why = self.query_one("#why", Input).value.strip()
        self.dismiss(Deny(why) if why else Deny())

    def action_later(self) -> None:
        """Decide later."""
        self.dismiss(None)

    @property
    def _editor(self) -> TextArea:
        return self.query_one("#arguments", TextArea)

    def _complain(self, message: str) -> None:
        wrong = self.query_one("#wrong", Static)
        wrong.update(clean(message))
        wrong.display = True


__all__ = ["ApprovalScreen"]
