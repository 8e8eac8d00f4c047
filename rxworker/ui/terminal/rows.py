"""Rows of a lane's picture that are put together from parts."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rxworker.ui.terminal.section import Paint

Part = tuple[str, str]
"""A text, and the name of its style."""


def head_row(
    left: Iterable[Part], right: Iterable[Part], width: int, paint: Paint
) -> list[Segment]:
    """A row with something at its left and something at its right; the left is cut where there is no room.

    Args:
        left: What stands at the left.
        right: What stands at the right.
        width: Columns.
        paint: From the name of a style to the style.

    >>> row = head_row([("a long title", "title")], [("done", "good")], 12, lambda _: Style())
    >>> "".join(segment.text for segment in row)
    'a long… done'
    """
    ends = [Segment(text, paint(style)) for text, style in right]
    room = width - sum(cell_len(end.text) for end in ends) - 1
    segments: list[Segment] = []
    for text, style in left:
        cut = text if cell_len(text) <= room else set_cell_size(text, max(0, room - 1)) + "…"
        segments.append(Segment(cut if room > 0 else "", paint(style)))
        room -= cell_len(segments[-1].text)
    return [*segments, Segment(" " * (max(0, room) + 1), paint("body")), *ends]


def mark(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    """A row of which a part is marked.

    Args:
        strip: The row.
        span: From where to where; -1: to the end.
        style: Its background is that of the marked part.
    """
    start, end = span
    width = strip.cell_length
    end = width if end == -1 else end
    marked = strip.crop(start, end).apply_style(Style(bgcolor=style.bgcolor))
    return Strip.join([strip.crop(0, start), marked, strip.crop(end, width)])


__all__ = ["Part", "head_row", "mark"]
