"""The widgets of what the model thinks and says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from textual.app import App

from rxworker.ui.terminal.document import is_document
from rxworker.ui.terminal.lane import Lane, Stage
from rxworker.ui.terminal.section import DocumentSection, Section, TextSection
from rxworker.ui.terminal.view import LaneView

Part = tuple[str, str]

THINKING_LINES = 5
SOURCE_LINES = 4

ENDS: dict[Stage, Part] = {
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


__all__ = ["TextView", "ThinkingView"]
