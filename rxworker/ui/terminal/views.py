"""The widgets of what people say, of notes, and of what needs somebody."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from rxworker.ui.terminal.lane import Lane
from rxworker.ui.terminal.section import Section, TextSection
from rxworker.ui.terminal.view import LaneView

Part = tuple[str, str]

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


__all__ = ["NoteView", "PanelView", "SaidView"]
