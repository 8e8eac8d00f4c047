"""The transcript: a scrolling list of lanes, and a widget for each kind of lane.

Only the newest lanes stay on the screen. A widget renders by line, so the cost of a growing text depends on what is
added and visible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Click
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from rxworker.ui.describe import plural
from rxworker.ui.terminal.diff import diff_lines, edit_lines, is_diff, plan_lines
from rxworker.ui.terminal.lanes import Lane, LaneKind
from rxworker.ui.terminal.section import DocumentSection, Paint, TextSection, is_document
from rxworker.ui.terminal.themes import app_of
from rxworker.views import NoteView as ShownNote
from rxworker.views.amounts import duration
from rxworker.views.run_view import ItemStage

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

    def __init__(self, lane: Lane, text: TextSection) -> None:
        depth = len(lane.path)
        inner = f" -inner -depth{min(depth, DEEPEST)}" if depth else ""
        self._kind = f"lane -{lane.kind}{inner}"
        super().__init__(classes=self._kind)
        self.lane = lane
        self.unfolded = False
        self._text = text
        self._rows = 0
        self._taken = 0
        self._width = 0
        self._stage: ItemStage | None = None

    # Overridden by the kinds of lanes.

    def heading(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]] | None:
        """The left and the right part of the first line, each a list of texts and styles; ``None`` for no heading."""
        return None

    def sections(self) -> Sequence[TextSection]:
        """The sections below the heading."""
        return (self._text,)

    def take(self, pieces: list[str]) -> None:
        """Add new pieces of the lane's text."""
        self._text.append("".join(pieces))

    def change(self) -> None:
        """Update everything but the text."""

    def can_fold(self) -> bool:
        """Whether it can be folded or unfolded."""
        return any(section.hidden for section in self.sections())

    # Common to all kinds.

    def show_changes(self) -> None:
        """Update from the lane."""
        if pieces := self.lane.pieces(self._taken):
            self.take(pieces)
            self._taken += len(pieces)
        self.change()
        if self.lane.item.stage != self._stage:
            self._stage = self.lane.item.stage
            self.set_classes(f"{self._kind} -{self._stage}")
        self._settle()

    def draw_again(self) -> None:
        """Redraw with the new theme."""
        if self._text.document is not None:
            self._draw_document()

    def _draw_document(self) -> None:
        """Render the text so far as Markdown, if it looks like that."""
        if is_document(text := self._text.text):
            app = app_of(self)
            self._text.document = DocumentSection(text, app.console, is_dark=app.current_theme.dark)
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

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return the number of lines at this width."""
        if width != self._width:
            self._width = width
            self._lay_out(width)
        self._rows = self._count()
        return self._rows

    def render_line(self, y: int) -> Strip:
        """Render one line."""
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


THINKING_LINES = 5
SOURCE_LINES = 4

ENDS: dict[ItemStage, Part] = {
    "stopped": ("■ stopped", "bad"),
    "retracted": ("↶ retracted", "bad"),
    "failed": ("✗ failed", "bad"),
}


STATES: dict[ItemStage, Part] = {
    **ENDS,
    "open": ("writes arguments", "busy"),
    "waiting": ("◷ waits", "busy"),
    "refused": ("⊘ not run", "bad"),
}
"""The states of a call without a duration."""


def marks(lane: Lane) -> list[Part]:
    """Return a label for how a lane ended, unless it ended normally."""
    return [ENDS[stage]] if (stage := lane.item.stage) in ENDS else []


class TextView(LaneView):
    """Text of the model: Markdown as it streams, plain if it has no marks of Markdown."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane, TextSection("body"))
        self._sources = TextSection("dim", limit=SOURCE_LINES)

    def heading(self) -> tuple[list[Part], list[Part]] | None:
        """Only for a further choice, and for a text that did not end normally."""
        label, found = self.lane.choice_label, marks(self.lane)
        if label:
            return [(label, "title")], found
        return (found, []) if found else None

    def sections(self) -> Sequence[TextSection]:
        """The text, and its sources."""
        return (self._text, self._sources)

    def take(self, pieces: list[str]) -> None:
        """Append text. It becomes a document with the first mark of Markdown."""
        _, line = self._text.lines[-1] if self._text.lines else ("", "")
        super().take(pieces)
        if self._text.document is None and is_document(line + "".join(pieces)):
            self._draw_document()

    def change(self) -> None:
        """Add sources, and render the end of the document when the text is complete."""
        sources = "\n".join(f"  [{number}] {source}" for number, source in enumerate(self.lane.sources, start=1))
        if sources != self._sources.text:
            self._sources.replace([("", sources)])
        if self.lane.item.is_over and self._text.document is not None:
            self._text.document.append("", is_last=True)


class ThinkingView(LaneView):
    """Thinking: its last lines while it streams, one line when it is complete.

    Unfolded it is Markdown, as the text of the model.
    """

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane, TextSection("body", limit=THINKING_LINES, from_end=True))

    def heading(self) -> tuple[list[Part], list[Part]]:
        """The duration."""
        lane = self.lane
        took = lane.seconds(time.time())
        label = lane.choice_label
        of_choice = f" · {label}" if label else ""
        if not lane.item.is_over:
            return [(f"◌ Thinking{of_choice}", "busy")], [(duration(took), "dim")]
        sign = "▾" if self.unfolded else "▸"
        title = "Thought" if took < 0.05 else f"Thought for {duration(took)}"
        return [(f"{sign} {title}{of_choice}", "dim")], marks(lane)

    def can_fold(self) -> bool:
        """Whether it can be folded or unfolded."""
        return self._text.hidden > 0

    def change(self) -> None:
        """Fold the text when it is complete."""
        if self.lane.item.is_over and self._text.limit:
            self._text.limit = 0
            self._draw_document()


ARGUMENT_LINES = 4
RESULT_LINES = 8
DIFF_LINES = 24
PLAN_LINES = 20


class CallView(LaneView):
    """A tool call. While the arguments are written, their end is shown; then they are in the heading.

    Args:
        lane: The call.
    """

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane, TextSection("dim", limit=ARGUMENT_LINES, from_end=True))  # of the arguments
        self._progress = TextSection("dim", limit=2)
        self._result = TextSection("body", limit=RESULT_LINES)
        self._edits = TextSection("body", limit=DIFF_LINES)
        self._plan = TextSection("body", limit=PLAN_LINES)
        self._reports = self._edited = 0
        self._has_result = False

    def heading(self) -> tuple[list[Part], list[Part]]:
        """The tool, its arguments and its state."""
        lane = self.lane
        arguments = lane.arguments if lane.item.stage != "open" else ""
        label = f"({choice}) " if (choice := lane.choice_label) else ""
        return [(f"⚙ {lane.title} {label}", "title"), (arguments, "dim")], [self._state()]

    def sections(self) -> Sequence[TextSection]:
        """The arguments if needed, the progress and the result."""
        call = self.lane.call
        shown: list[TextSection] = []
        if call.stage == "open" or self.unfolded:
            shown.append(self._text)
        if call.result is None:
            shown.append(self._progress)
        return [*shown, self._plan, self._edits, self._result]

    def change(self) -> None:
        """Show new progress, or the result."""
        lane = self.lane
        if lane.reports != self._reports:
            self._reports = lane.reports
            self._progress.replace([("", lane.progress)])
            self._plan.replace(plan_lines(lane.plan))
            if len(lane.edits) != self._edited:
                self._edited = len(lane.edits)
                self._edits.replace([line for edit in lane.edits for line in edit_lines(edit)])
        if not self._has_result and (result := lane.result) is not None:
            self._has_result = True
            if is_diff(result):
                self._result.limit = DIFF_LINES
                self._result.replace(diff_lines(result))
            else:
                self._result.append(result)

    def can_fold(self) -> bool:
        """Whether there are arguments to show, or more of the result."""
        return self.lane.item.is_over or super().can_fold()

    def _state(self) -> Part:
        call = self.lane.call
        match call.stage:
            case "running":
                return f"● {duration(self.lane.seconds(time.time()))}", "busy"
            case "done":
                return f"✓ {duration(call.seconds)}" if call.seconds >= 0.05 else "✓", "good"
            case "failed":
                return f"✗ failed, {duration(call.seconds)}", "bad"
            case stage:
                return STATES[stage]


NOTE_LINES = 6
USER_LINES = 12


class UserView(LaneView):
    """A message of the user."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane, TextSection("body", limit=USER_LINES))


class NoteView(LaneView):
    """A message of a hook to the user or the model, a verdict, or the end of a run."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane, TextSection("dim", limit=NOTE_LINES))

    def heading(self) -> tuple[list[Part], list[Part]] | None:
        """The source, and the text if it is short."""
        title = [("· ", "dim"), (self.lane.title, "title")]
        text_part = [(f"  {line}", "dim") for _, line in self._text.lines] if self._is_short() else []
        item = self.lane.item
        times = [(f"{item.times} times", "dim")] if isinstance(item, ShownNote) and item.times > 1 else []
        return [*title, *text_part], times

    def sections(self) -> Sequence[TextSection]:
        """The text, if it does not fit into the heading."""
        return () if self._is_short() else (self._text,)

    def take(self, pieces: list[str]) -> None:
        """Append text."""
        self._text.append("".join(pieces).strip("\n"))

    def _lay_out(self, width: int) -> None:
        self._text.resize(width)

    def _is_short(self) -> bool:
        lines = self._text.lines
        used = cell_len(self.lane.title) + sum(cell_len(line) for _, line in lines[:1])
        return len(lines) <= 1 and used + 5 <= max(20, self._width)


class PanelView(UserView):
    """A pause or an error, which needs an action of the user: a title, and a text as a message of the user's."""

    def heading(self) -> tuple[list[Part], list[Part]]:
        """The title."""
        if self.lane.kind == "error":
            return [(f"✗ {self.lane.title}", "bad")], []
        if self.lane.item.is_over:
            return [("‖ Was paused", "dim")], []
        return [(f"‖ {self.lane.title}", "busy")], []


MAX_LANES = 400
VIEWS: dict[LaneKind, Callable[[Lane], LaneView]] = {
    "user": UserView,
    "thinking": ThinkingView,
    "text": TextView,
    "call": CallView,
    "note": NoteView,
    "pause": PanelView,
    "error": PanelView,
}


class Transcript(VerticalScroll):
    """Shows lanes. It follows the end until the user scrolls up."""

    can_focus = False

    def __init__(self, greeting: str) -> None:
        super().__init__(id="transcript")
        self._text = greeting
        self._greeting = Static(greeting, id="greeting", markup=False)
        self._views: dict[Lane, LaneView] = {}
        self._left_out = 0

    def on_mount(self) -> None:
        """Scroll to the end."""
        self.mount(self._greeting)
        self.anchor()

    async def show(self, lanes: Iterable[Lane]) -> None:
        """Show new lanes, and update changed ones."""
        fresh: list[LaneView] = []
        for lane in lanes:
            view = self._views.get(lane)
            if view is not None:
                view.show_changes()
            elif self._is_worth_showing(lane):
                view = self._views[lane] = VIEWS[lane.kind](lane)
                fresh.append(view)
        if fresh:
            for is_inner, views in groupby(fresh, lambda view: bool(view.lane.path)):
                if not is_inner:
                    await self.mount_all(views)
                    continue
                for view in views:
                    await self.mount(view, after=self._last_of(view.lane.path))
            await self._make_room()

    async def clear(self) -> None:
        """Remove all lanes, for another conversation."""
        await self.remove_children(list(self._views.values()))
        self._views.clear()
        self._left_out = 0
        self._greeting.update(self._text)
        self._greeting.display = True
        self.anchor()

    def tick(self) -> None:
        """Redraw the durations of open lanes."""
        for lane, view in self._views.items():
            if not lane.item.is_over:
                view.refresh()

    def draw_again(self) -> None:
        """Redraw with the new theme."""
        for view in self._views.values():
            view.draw_again()

    def fold_last(self) -> None:
        """Fold or unfold the last lane that can be folded, preferably one that is visible."""
        able = [view for view in self.views if view.can_fold()]
        seen = [view for view in able if view.region.overlaps(self.region)]
        for view in (seen or able)[-1:]:
            view.action_fold()

    def fold_all(self) -> None:
        """Unfold all lanes; if one is unfolded, fold all."""
        able = [view for view in self._views.values() if view.can_fold()]
        unfold = not any(view.unfolded for view in able)
        for view in able:
            if view.unfolded != unfold:
                view.action_fold()

    @property
    def can_fold(self) -> bool:
        """Whether a lane can be folded or unfolded."""
        return any(view.can_fold() for view in self._views.values())

    @property
    def views(self) -> list[LaneView]:
        """The widgets, in order."""
        return [view for view in self.children if isinstance(view, LaneView)]

    def _last_of(self, path: tuple[str, ...]) -> LaneView | None:
        """The last part of a call, so that runs of calls at once stay apart: of what is inside it, or else the call."""
        for view in reversed(self.views):
            lane = view.lane
            inside = (*lane.path, lane.call.block.call_id) if lane.kind == "call" else lane.path
            if inside[: len(path)] == path:
                return view
        return None

    def _is_worth_showing(self, lane: Lane) -> bool:
        # A thinking block may contain only a signature; an answer with calls may have an empty text.
        return lane.kind not in ("thinking", "text") or not lane.item.is_over or bool(lane.text or lane.sources)

    async def _make_room(self) -> None:
        self._greeting.display = self._left_out > 0 or not self._views
        over = len(self._views) - MAX_LANES
        if over <= 0:
            return
        old = [lane for lane in list(self._views)[:over] if lane.item.is_over]
        self._left_out += len(old)
        await self.remove_children([self._views.pop(lane) for lane in old])
        hidden = plural(self._left_out, "earlier part")
        self._greeting.update(f"{hidden} no longer shown; the worker keeps the whole conversation")
        self._greeting.display = True
