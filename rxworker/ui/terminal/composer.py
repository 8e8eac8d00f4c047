"""Where the person types. Enter sends, Ctrl-J begins a new line, up and down go through what was sent before."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Key
from textual.message import Message
from textual.widgets import TextArea

MOST_REMEMBERED = 200


class Composer(TextArea):
    """An input of one line that grows with what is typed or pasted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "delete_or_leave", "Leave", show=False, tooltip="Leave the app"),
        Binding("ctrl+j,shift+enter", "new_line", "New line", show=False),
    ]

    class Sent(Message):
        """Enter was pressed.

        Attributes:
            text: What was typed.
        """

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Leave(Message):
        """Ctrl-D was pressed and nothing was typed."""

    def __init__(self) -> None:
        super().__init__(
            compact=True, highlight_cursor_line=False, tab_behavior="focus", id="composer"
        )
        self._sent: list[str] = []
        self._at: int | None = None

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            if self.text.strip():
                self.post_message(self.Sent(self.text.strip()))
            return
        await super()._on_key(event)

    def accept(self) -> None:
        """What was typed is on its way: remember it, and be empty again."""
        self._sent.append(self.text.strip())
        del self._sent[:-MOST_REMEMBERED]
        self._at = None
        self.clear()

    def put_back(self, text: str) -> None:
        """What could not be delivered comes back, in front of what was typed since."""
        self.text = f"{text}\n{self.text}" if self.text else text
        self.move_cursor(self.document.end)

    def action_new_line(self) -> None:
        """Begin a new line."""
        self.insert("\n")

    def action_delete_or_leave(self) -> None:
        """Delete a character, or leave where nothing is typed."""
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.Leave())

    def action_cursor_up(self, select: bool = False) -> None:
        """Go up; from the first line to what was sent before."""
        if self.cursor_location[0] > 0 or select or not self._sent or not self._may_leaf():
            super().action_cursor_up(select)
        else:
            self._show(len(self._sent) - 1 if self._at is None else max(0, self._at - 1))

    def action_cursor_down(self, select: bool = False) -> None:
        """Go down; from the last line to what was sent later."""
        last = self.cursor_location[0] == self.document.line_count - 1
        if not last or select or self._at is None or not self._may_leaf():
            super().action_cursor_down(select)
        elif self._at + 1 < len(self._sent):
            self._show(self._at + 1)
        else:
            self._at = None
            self.clear()

    def _may_leaf(self) -> bool:
        """Only from an empty input, or from one that shows something sent: nothing that was typed is lost."""
        return not self.text or (self._at is not None and self.text == self._sent[self._at])

    def _show(self, at: int) -> None:
        self._at = at
        self.text = self._sent[at]
        self.move_cursor(self.document.end)


__all__ = ["Composer"]
