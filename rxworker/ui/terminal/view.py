"""The base class of lane widgets.

It renders by line, so the cost of a growing text depends on what is added and visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, get_args

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from rxworker.ui.terminal.lanes import Lane
from rxworker.ui.terminal.section import Paint, Section, TextSection
from rxworker.views.run_view import ItemStage

STAGES: tuple[ItemStage, ...] = get_args(ItemStage)
DEEPEST = 4
"""Deeper lanes are not indented further."""


class LaneView(Widget):
    """Shows a lane: a heading and sections. Long sections are folded; Enter or a click unfolds them.

    Args:
        lane: The lane.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"lane--{name}" for name in ("title", "body", "dim", "more", "good", "bad", "busy", "added", "removed")
    }
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "fold", "Fold", tooltip="Show all of it, or less")]

    def __init__(self, lane: Lane) -> None:
        inner = f" -inner -depth{min(lane.depth, DEEPEST)}" if lane.depth else ""
        super().__init__(classes=f"lane -{lane.kind}{inner}")
        self.lane = lane
        self.unfolded = False
        self.drawn = 0
        self._rows = 0
        self._taken = 0
        self._width = 0
        self._stage: ItemStage | None = None

    # Overridden by the kinds of lanes.

    def heading(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]] | None:
        """The left and the right part of the first line, each a list of texts and styles; ``None`` for no heading."""
        return None

    def sections(self) -> Sequence[Section]:
        """The sections below the heading."""
        return ()

    def take(self, pieces: list[str]) -> None:
        """Add new pieces of the lane's text."""

    def change(self) -> None:
        """Update everything but the text."""

    def can_fold(self) -> bool:
        """Whether it can be folded or unfolded."""
        return any(isinstance(s, TextSection) and s.hidden for s in self.sections())

    # Common to all kinds.

    def show_changes(self) -> None:
        """Update from the lane."""
        pieces = self.lane.pieces
        if self._taken < len(pieces):
            self.take(pieces[self._taken :])
            self._taken = len(pieces)
        self.change()
        if self.lane.stage != self._stage:
            self._stage = self.lane.stage
            self.remove_class(*[f"-{each}" for each in STAGES if each != self._stage], update=False)
            self.add_class(f"-{self._stage}")
        self._settle()

    def action_fold(self) -> None:
        """Fold or unfold."""
        if self.can_fold():
            self.unfolded = not self.unfolded
            self._settle()

    def on_mount(self) -> None:
        """Update from the lane."""
        self.show_changes()

    def on_click(self, event: Click) -> None:
        """Fold or unfold, unless text is selected."""
        if event.chain == 1 and not self.screen.get_selected_text():
            self.action_fold()

    def _settle(self) -> None:
        if self._width:
            self._lay_out(self._width)
        self.can_focus = self.can_fold()
        rows = self._count()
        self.refresh(layout=rows != self._rows)
        self._rows = rows

    def _lay_out(self, width: int) -> None:
        for section in self.sections():
            section.resize(width)

    def _count(self) -> int:
        heights = (section.height(unfolded=self.unfolded) for section in self.sections())
        return (self.heading() is not None) + sum(heights)

    def get_content_width(self, container: Size, viewport: Size) -> int:  # noqa: ARG002
        """Return the full width of the container."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return the number of lines at this width."""
        if width != self._width:
            self._width = width
            self._lay_out(width)
        self._rows = self._count()
        return self._rows

    def render_line(self, y: int) -> Strip:
        """Render one line."""
        self.drawn += 1
        width, base = self.size.width, self.rich_style
        strip = Strip(self._row(y)).adjust_cell_length(width, base)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            strip = mark(strip, span, self.screen.get_component_rich_style("screen--selection"))
        return strip.apply_offsets(0, y)

    def _row(self, y: int) -> list[Segment]:
        place, head = y, self.heading()
        if head is not None:
            if place == 0:
                return head_row(*head, self.size.width, self._paint)
            place -= 1
        for section in self.sections():
            height = section.height(unfolded=self.unfolded)
            if place < height:
                return section.row(place, self._paint, unfolded=self.unfolded)
            place -= height
        return []

    def _paint(self, name: str) -> Style:
        return self.get_component_rich_style(f"lane--{name}")

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text."""
        rows = ("".join(segment.text for segment in self._row(y)).rstrip() for y in range(self._rows))
        return selection.extract("\n".join(rows)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002
        """Redraw after a change of the selection."""
        self.refresh()


Part = tuple[str, str]
"""A text, and the name of its style."""


def head_row(left: Iterable[Part], right: Iterable[Part], width: int, paint: Paint) -> list[Segment]:
    """Return a line with a left and a right part; the left part is cut if there is no room.

    Args:
        left: The left part.
        right: The right part.
        width: Columns.
        paint: Returns the style of a name.

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
    """Return a line with a highlighted part.

    Args:
        strip: The line.
        span: Start and end; -1 is the end of the line.
        style: Provides the background colour of the highlighted part.
    """
    start, end = span
    width = strip.cell_length
    end = width if end == -1 else end
    marked = strip.crop(start, end).apply_style(Style(bgcolor=style.bgcolor))
    return Strip.join([strip.crop(0, start), marked, strip.crop(end, width)])
