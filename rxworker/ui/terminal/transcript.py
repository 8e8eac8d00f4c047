"""The conversation on the screen: a lane below the other. Of very many, the first are taken off the screen.

The widgets of lanes: what people say, what the model thinks and says, tool calls, notes, and panels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from rich.cells import cell_len
from textual.app import App
from textual.containers import VerticalScroll
from textual.widgets import Static

from rxworker.ui.describe import plural
from rxworker.ui.terminal.lanes import CallLane, Lane
from rxworker.ui.terminal.section import DocumentSection, Section, TextSection, is_document
from rxworker.ui.terminal.view import LaneView
from rxworker.views import ItemStage

Part = tuple[str, str]

THINKING_LINES = 5
SOURCE_LINES = 4

ENDS: dict[ItemStage, Part] = {
    "stopped": ("■ stopped", "bad"),
    "retracted": ("↶ taken back", "bad"),
    "failed": ("✗ failed", "bad"),
}


def marks(lane: Lane) -> list[Part]:
    """How a lane ended, where that is worth a word."""
    return [ENDS[lane.stage]] if lane.stage in ENDS else []


class TextView(LaneView):
    """What the model says: plain while it streams, as Markdown when it is whole."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self._text = TextSection("body")
        self._document: DocumentSection | None = None
        self._sources = TextSection("dim", limit=SOURCE_LINES, indent=2)
        self._cited = 0

    def heading(self) -> tuple[list[Part], list[Part]] | None:
        """Only for a further choice, and for an answer that did not end well."""
        label, found = self.lane.choice_label, marks(self.lane)
        if label:
            return [(label, "title")], found
        return (found, []) if found else None

    def sections(self) -> Sequence[Section]:
        """The text, or the document, and what it rests on."""
        return (self._document or self._text, self._sources)

    def take(self, pieces: list[str]) -> None:
        """More text."""
        self._text.text.append("".join(pieces))

    def change(self) -> None:
        """More sources; draw the document when nothing more comes."""
        for number, source in enumerate(self.lane.sources[self._cited :], self._cited + 1):
            self._sources.text.append(f"{'' if number == 1 else chr(10)}[{number}] {source}")
        self._cited = len(self.lane.sources)
        if self.lane.is_over and self._document is None:
            text = self._text.text.text
            if is_document(text):
                self.draw_document(text)

    def draw_document(self, text: str) -> None:
        """Draw the text as Markdown."""
        app = cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]
        is_dark = app.current_theme.dark
        self._document = DocumentSection(text, app.console, is_dark=is_dark)

    def draw_again(self) -> None:
        """The theme has changed."""
        if self._document is not None:
            self.draw_document(self._text.text.text)
            self._settle()


class ThinkingView(LaneView):
    """What the model thinks: its last lines while it does, a line about it when it has."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self._text = TextSection("body", limit=THINKING_LINES, from_end=True)

    def heading(self) -> tuple[list[Part], list[Part]]:
        """How long it has thought."""
        lane = self.lane
        seconds = f"{lane.seconds(self.now()):.1f} s"
        of_choice = f" · {lane.choice_label}" if lane.choice else ""
        if not lane.is_over:
            return [(f"◌ Thinking{of_choice}", "busy")], [(seconds, "dim")]
        sign = "▾" if self.unfolded else "▸"
        told = "Thought" if seconds == "0.0 s" else f"Thought for {seconds}"
        return [(f"{sign} {told}{of_choice}", "dim")], marks(lane)

    def sections(self) -> Sequence[Section]:
        """The thoughts."""
        return (self._text,)

    def take(self, pieces: list[str]) -> None:
        """More thoughts."""
        self._text.text.append("".join(pieces))

    def change(self) -> None:
        """When they are over they are folded away."""
        if self.lane.is_over:
            self._text.limit = 0


ARGUMENT_LINES = 4
RESULT_LINES = 8


class CallView(LaneView):
    """Shows a tool call. While the arguments are written their end is shown, then they stand beside the name.

    Args:
        lane: The call.
    """

    def __init__(self, lane: CallLane) -> None:
        super().__init__(lane)
        self._call = lane
        self._arguments = TextSection("dim", limit=ARGUMENT_LINES, from_end=True)
        self._progress = TextSection("dim", limit=2)
        self._result = TextSection("body", limit=RESULT_LINES)
        self._told = 0

    def heading(self) -> tuple[list[Part], list[Part]]:
        """The tool, its arguments, and how far it is."""
        call = self._call
        told = call.arguments if call.stage != "open" else ""
        label = f"({call.choice_label}) " if call.choice else ""
        return [(f"⚙ {call.title} {label}", "title"), (told, "dim")], [self._state()]

    def sections(self) -> Sequence[Section]:
        """The arguments where they are of interest, the progress, and the result."""
        call = self._call
        shown: list[Section] = []
        if call.stage == "open" or self.unfolded:
            shown.append(self._arguments)
        if call.result is None:
            shown.append(self._progress)
        else:
            shown.append(self._result)
        return shown

    def take(self, pieces: list[str]) -> None:
        """More of the arguments."""
        self._arguments.text.append("".join(pieces))

    def change(self) -> None:
        """More progress, or the result."""
        call = self._call
        if call.told != self._told:
            self._told = call.told
            self._progress.text.replace(f"{call.progress}")
        if call.result is not None and self._result.text.is_empty:
            self._result.text.append(call.result)

    def can_fold(self) -> bool:
        """There are arguments to show, or more of the result."""
        return self._call.is_over or super().can_fold()

    def _state(self) -> Part:
        call = self._call
        match call.stage:
            case "open":
                return "writes arguments", "busy"
            case "waiting":
                return "◷ waits", "busy"
            case "running":
                return f"● {call.seconds(self.now()):.1f} s", "busy"
            case "done":
                return f"✓ {call.took:.1f} s" if call.took >= 0.05 else "✓", "good"
            case "failed":
                return f"✗ failed, {call.took:.1f} s", "bad"
            case "refused":
                return "⊘ not run", "bad"
            case "stopped":
                return "■ stopped", "bad"
            case "retracted":
                return "↶ taken back", "bad"


NOTE_LINES = 6
SAID_LINES = 12


class SaidView(LaneView):
    """What the person said."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self._text = TextSection("body", limit=SAID_LINES)

    def sections(self) -> Sequence[Section]:
        """The words."""
        return (self._text,)

    def take(self, pieces: list[str]) -> None:
        """More words."""
        self._text.text.append("".join(pieces))


class NoteView(LaneView):
    """What a hook tells, a message of a hook's to the model, what became of the run."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self._text = TextSection("dim", limit=NOTE_LINES)

    def heading(self) -> tuple[list[Part], list[Part]] | None:
        """Who tells, and what, if it is short."""
        title = [("· ", "dim"), (self.lane.title, "title")]
        lines = self._text.text.lines
        told = [(f"  {lines[0]}", "dim")] if lines and self._is_short() else []
        times = [(f"{self.lane.times} times", "dim")] if self.lane.times > 1 else []
        return [*title, *told], times

    def sections(self) -> Sequence[Section]:
        """What is told, if it does not fit beside the title."""
        return () if self._is_short() else (self._text,)

    def take(self, pieces: list[str]) -> None:
        """More of it."""
        self._text.text.append("".join(pieces).strip("\n"))

    def _lay_out(self, width: int) -> None:
        self._text.resize(width)

    def _is_short(self) -> bool:
        text = self._text.text
        used = cell_len(self.lane.title) + sum(cell_len(line) for line in text.lines[:1])
        return len(text.lines) <= 1 and used + 5 <= max(20, self._width)


class PanelView(LaneView):
    """What needs somebody: a pause, an error."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self._text = TextSection("body", limit=SAID_LINES)

    def heading(self) -> tuple[list[Part], list[Part]]:
        """What it is."""
        if self.lane.kind == "error":
            return [(f"✗ {self.lane.title}", "bad")], []
        if self.lane.is_over:
            return [("‖ Waited for you", "dim")], []
        return [(f"‖ {self.lane.title}", "busy")], []

    def sections(self) -> Sequence[Section]:
        """What to do."""
        return (self._text,)

    def take(self, pieces: list[str]) -> None:
        """More of it."""
        self._text.text.append("".join(pieces))


MOST_LANES = 400
VIEWS: dict[str, type[LaneView]] = {
    "user": SaidView,
    "thinking": ThinkingView,
    "text": TextView,
    "note": NoteView,
    "pause": PanelView,
    "error": PanelView,
}


class Transcript(VerticalScroll):
    """Shows lanes. It stays at the end while it is there, and where the person scrolls to otherwise."""

    can_focus = False

    def __init__(self, greeting: str) -> None:
        super().__init__(id="transcript")
        self._greeting = Static(greeting, id="greeting", markup=False)
        self._views: dict[Lane, LaneView] = {}
        self._left_out = 0

    def on_mount(self) -> None:
        """Stay at the end."""
        self.mount(self._greeting)
        self.anchor()

    async def show(self, lanes: Iterable[Lane]) -> None:
        """Show lanes that are new, and what is new in the others."""
        fresh: list[LaneView] = []
        for lane in lanes:
            view = self._views.get(lane)
            if view is not None:
                view.show_news()
            elif self._is_worth_showing(lane):
                view = self._views[lane] = view_of(lane)
                fresh.append(view)
        if fresh:
            await self.mount_all(fresh)
            await self._make_room()

    def tick(self) -> None:
        """Let the clocks of what goes on go on."""
        for lane, view in self._views.items():
            if not lane.is_over:
                view.refresh()

    def draw_again(self) -> None:
        """The theme has changed."""
        for view in self._views.values():
            if isinstance(view, TextView):
                view.draw_again()

    def fold_last(self) -> LaneView | None:
        """Fold or unfold the last lane that can be, among those in view if there is one."""
        able = [view for view in self._views.values() if view.can_fold()]
        seen = [view for view in able if view.region.overlaps(self.region)]
        if not able:
            return None
        (seen or able)[-1].action_fold()
        return (seen or able)[-1]

    def fold_all(self) -> None:
        """Unfold all lanes, or fold them if one is unfolded."""
        able = [view for view in self._views.values() if view.can_fold()]
        unfold = not any(view.unfolded for view in able)
        for view in able:
            if view.unfolded != unfold:
                view.action_fold()

    @property
    def can_fold(self) -> bool:
        """Whether a lane can be unfolded, or folded."""
        return any(view.can_fold() for view in self._views.values())

    @property
    def views(self) -> list[LaneView]:
        """The widgets, in order."""
        return list(self._views.values())

    def _is_worth_showing(self, lane: Lane) -> bool:
        # A block of thinking may have nothing but its seal; an answer with calls may have an empty text.
        return (
            bool(lane.pieces or lane.sources)
            or lane.kind not in ("thinking", "text")
            or not lane.is_over
        )

    async def _make_room(self) -> None:
        self._greeting.display = self._left_out > 0 or not self._views
        over = len(self._views) - MOST_LANES
        if over <= 0:
            return
        old = [lane for lane in list(self._views)[:over] if lane.is_over]
        self._left_out += len(old)
        await self.remove_children([self._views.pop(lane) for lane in old])
        told = plural(self._left_out, "earlier part")
        self._greeting.update(f"{told} no longer shown; the worker still has all that was said")
        self._greeting.display = True


def view_of(lane: Lane) -> LaneView:
    """The widget for a lane."""
    return CallView(lane) if isinstance(lane, CallLane) else VIEWS[lane.kind](lane)
