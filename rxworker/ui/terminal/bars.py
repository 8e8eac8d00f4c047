"""The lines above and below the conversation: who answers, where the run stands, and what it has taken.

Where the person types. Enter sends, Ctrl-J begins a new line, up and down go through what was sent before.
"""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.message import Message
from textual.widgets import Static, TextArea

from rxworker.messages import Prices, Usage
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_usage, plural
from rxworker.ui.terminal.session import Session


class TwoEnds(Static):
    """A line with something at its left and something at its right.

    Args:
        keep_left: Whether the right goes where there is no room for both; otherwise the left is cut.
        id: As for every widget.
    """

    def __init__(self, *, keep_left: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self.left = self.right = ""
        self._keep_left = keep_left

    def show(self, left: str, right: str) -> None:
        """Show these."""
        if (left, right) != (self.left, self.right):
            self.left, self.right = left, right
            self.refresh()

    def render(self) -> Text:
        """The line."""
        width = self.size.width
        needed = cell_len(self.right) + (cell_len(self.left) + 1 if self._keep_left else 0)
        right = self.right if needed < width else ""
        room = max(0, width - cell_len(right) - bool(right))
        left = self.left
        if cell_len(left) > room:
            left = set_cell_size(left, max(0, room - 1)) + "…"
        line = Text(set_cell_size(left, room), no_wrap=True, end="")
        if right:
            line.append(" " + right)
        return line


class WhoBar(TwoEnds):
    """Who answers, and where the run stands.

    Args:
        session: The conversation.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(id="who")
        worker = session.worker
        self._session = session
        self._who = who_line(worker.model.name, worker.model.model, len(list(worker.tools)))

    def tell(self, seconds: float | None) -> None:
        """Show it, with the seconds since the run began, if one is on."""
        since = "" if seconds is None else f" {seconds:.0f} s"
        self.show(self._who, self._session.standing + since)


class UsageBar(TwoEnds):
    """What all runs have taken, and who watches.

    Args:
        session: The conversation.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(id="usage", keep_left=True)
        self._session = session

    def tell(self, watchers: int) -> None:
        """Show it."""
        totals, prices = self._session.totals, self._session.worker.limits.prices
        counted = count_line(totals.turns, totals.calls, watchers)
        self.show(usage_line(totals.usage, prices), counted)


class QueueBar(TwoEnds):
    """What was sent into the run and is not in its conversation yet; there only while something is.

    Args:
        session: The conversation.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(id="queue")
        self._session = session

    def tell(self) -> None:
        """Show it."""
        waits = " · ".join(one_line(text, 60) for text in self._session.sent.queued.values())
        self.display = bool(waits)
        self.show(f"will be told: {waits}", "")


def usage_line(usage: Usage, prices: Prices | None) -> str:
    """Tokens and their cost.

    >>> usage_line(Usage(input_tokens=1000, output_tokens=100), Prices(input=3.0, output=15.0))
    '1,000 tokens in, 100 out · cost 0.0045 USD'
    """
    told = describe_usage(usage)
    if not told:
        return ""
    more = "+" if usage.is_partial else ""
    if prices is None:
        return f"{told}{more}"
    return f"{told}{more} · cost {prices.cost(usage):.4f} {one_line(prices.currency, 12)}".rstrip()


def count_line(turns: int, calls: int, watchers: int) -> str:
    """What has happened, in numbers, as far as anything has.

    >>> count_line(2, 1, 3), count_line(1, 0, 0)
    ('2 turns · 1 call · 3 watchers', '1 turn')
    """
    counted = ((turns, "turn"), (calls, "call"), (watchers, "watcher"))
    return " · ".join(plural(number, noun) for number, noun in counted if number)


def who_line(provider: str, model: str, tools: int) -> str:
    """Who answers.

    >>> who_line("openai_chat", "m", 2)
    'openai-chat m · 2 tools'
    """
    who = one_line(f"{provider.replace('_', '-')} {model}", 60)
    return who + (f" · {plural(tools, 'tool')}" if tools else "")


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
