"""A part of a lane's picture: text that grows, or a document that is drawn once. Long ones are folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from rich.console import Console
from rich.segment import Segment
from rich.style import Style

from rxworker.ui.terminal.document import draw_document
from rxworker.ui.terminal.wrapped import WrappedText

Paint: TypeAlias = Callable[[str], Style]
"""From the name of a style to the style."""


class Section(Protocol):
    """Knows how many rows it has at a width, and each of them."""

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        ...

    def height(self, *, unfolded: bool) -> int:
        """How many rows it has."""
        ...

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:
        """One of them."""
        ...


class TextSection:
    r"""Text that may grow.

    Args:
        style: The name of its style.
        limit: How many lines are shown while it is folded; ``None``: all.
        from_end: Whether these are the last ones, of a text that is being written.
        indent: How many columns it stands to the right.

    Attributes:
        text: The text.

    >>> section = TextSection("body", limit=2)
    >>> section.text.append("one\ntwo\nthree\nfour")
    >>> section.height(unfolded=False), section.hidden
    (3, 2)
    """

    def __init__(
        self, style: str, *, limit: int | None = None, from_end: bool = False, indent: int = 0
    ) -> None:
        self.text = WrappedText()
        self.limit = limit
        self.from_end = from_end
        self._style = style
        self._indent = indent

    @property
    def hidden(self) -> int:
        """How many lines are not shown while it is folded."""
        limit = self.limit
        return 0 if limit is None else max(0, len(self.text.lines) - limit)

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        self.text.resize(width - self._indent)

    def height(self, *, unfolded: bool) -> int:
        """How many rows it has: of a folded one, the last row says how much is hidden, unless all is."""
        lines, hidden = len(self.text.lines), self.hidden
        if unfolded or not hidden:
            return lines
        return lines - hidden + (not self.from_end and self.limit != 0)

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:
        """One of its rows."""
        hidden, lines = self.hidden, self.text.lines
        folded = hidden > 0 and not unfolded
        if folded and not self.from_end and place == self.limit:
            return [self._space(paint), Segment(f"… {more_lines(hidden)}", paint("more"))]
        line = lines[place + hidden] if folded and self.from_end else lines[place]
        return [self._space(paint), Segment(line, paint(self._style))]

    def _space(self, paint: Paint) -> Segment:
        return Segment(" " * self._indent, paint(self._style))


class DocumentSection:
    """Markdown, drawn when it is complete.

    Args:
        text: The Markdown.
        console: Draws it.
        is_dark: Whether the background is dark.
    """

    def __init__(self, text: str, console: Console, *, is_dark: bool) -> None:
        self._text, self._console, self._is_dark = text, console, is_dark
        self._width = 0
        self._rows: list[list[Segment]] = []

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        if width != self._width:
            self._width = width
            self._rows = draw_document(self._text, self._console, width, is_dark=self._is_dark)

    def height(self, *, unfolded: bool) -> int:  # noqa: ARG002 - an answer is shown whole
        """How many rows it has."""
        return len(self._rows)

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:  # noqa: ARG002
        """One of its rows."""
        body = paint("body")
        return [Segment(text, body + (style or Style())) for text, style, _ in self._rows[place]]


def more_lines(number: int) -> str:
    """How much is hidden, in words.

    >>> more_lines(1), more_lines(1200)
    ('1 more line', '1,200 more lines')
    """
    return f"{number:,} more line{'' if number == 1 else 's'}"


def total_height(sections: Iterable[Section], *, unfolded: bool) -> int:
    """The rows of all of them."""
    return sum(section.height(unfolded=unfolded) for section in sections)


__all__ = ["DocumentSection", "Paint", "Section", "TextSection", "more_lines", "total_height"]
