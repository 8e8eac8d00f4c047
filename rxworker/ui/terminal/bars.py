"""The lines above and below the conversation: who answers, where the run stands, and what it has taken."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.widgets import Static

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


__all__ = ["QueueBar", "TwoEnds", "UsageBar", "WhoBar", "count_line", "usage_line", "who_line"]
