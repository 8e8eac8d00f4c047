"""The widget of a tool call: its arguments as they come, how far it is, and what it came to."""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.ui.terminal.lane import CallLane
from rxworker.ui.terminal.section import Section, TextSection
from rxworker.ui.terminal.view import LaneView

Part = tuple[str, str]

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


__all__ = ["CallView"]
