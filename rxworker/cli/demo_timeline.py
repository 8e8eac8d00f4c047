"""Draws the timeline of a run: a line for each block and call, with a bar for the time that it took."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal, TypeAlias

from rich.cells import set_cell_size
from rich.panel import Panel
from rich.text import Text

from rxworker.events import BlockType
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_json, describe_result
from rxworker.views import BlockView, CallView, RunView

Activity: TypeAlias = Literal["thinking", "text", "arguments", "tool", "other"]
Stretch: TypeAlias = tuple[Activity, float, float | None]
"""What was done, from when, and until when (``None``: it goes on), in seconds since the run began."""

ACTIVITIES: dict[BlockType, Activity] = {
    BlockType.THINKING: "thinking",
    BlockType.TEXT: "text",
    BlockType.REFUSAL: "text",
    BlockType.TOOL_USE: "arguments",
    BlockType.SERVER_TOOL_USE: "arguments",
}

STYLES: dict[Activity, str] = {
    "thinking": "blue",
    "text": "green",
    "arguments": "yellow",
    "tool": "magenta",
    "other": "white",
}
# Told apart without colours too: for a terminal, and for one that knows ASCII only.
MARKS: dict[Activity, tuple[str, str]] = {
    "thinking": ("─", "-"),
    "text": ("━", "="),
    "arguments": ("┅", "."),
    "tool": ("═", "#"),
    "other": ("┈", "~"),
}
SPANS = (1, 2, 4, 6, 8, 12, 20, 30, 60, 120, 300, 600, 1800, 3600)


def draw_timeline(view: RunView, width: int, height: int, *, ascii_only: bool = False) -> Panel:
    """The last blocks and calls of the run itself, as many as fit, over an axis of seconds.

    Args:
        view: What to draw.
        width: Columns of the panel.
        height: Lines of the panel.
        ascii_only: Whether the terminal knows no other characters.
    """
    shown = [item for item in view.blocks() if not item.block.choice][-max(1, height - 3) :]
    inner = width - 4
    names = min(14, max(8, inner // 6))
    details = max(0, min(36, inner // 3)) if inner >= 50 else 0
    bars = max(4, inner - names - details - 13)
    span = axis_span(view.seconds)
    lines = [
        _line(item, before, view, (names, details, bars), span, ascii_only)
        for before, item in zip([None, *shown], shown, strict=False)
    ]
    lines.append(_axis(names + details + (4 if details else 3), bars, span))
    title = Text.assemble("timeline  ", *_legend(ascii_only))
    return Panel(
        Text("\n", no_wrap=True, overflow="crop").join(lines),
        title=title if width >= 60 else "timeline",
        title_align="left",
        width=width,
        height=height,
    )


def stretches(item: BlockView, start: float) -> list[Stretch]:
    """The times in which something was done in a block or a call.

    Args:
        item: The block or call.
        start: When the run began.
    """
    activity = ACTIVITIES.get(item.block.block_type, "other")
    if not isinstance(item, CallView):
        return [(activity, item.began - start, _since(item.ended, start))]
    found: list[Stretch] = []
    written = item.ended if item.written is None else item.written
    if item.started is None or written != item.began:
        found.append((activity, item.began - start, _since(written, start)))
    if item.started is not None:
        found.append(("tool", item.started - start, _since(item.ended, start)))
    return found


def _since(time: float | None, start: float) -> float | None:
    return None if time is None else time - start


def axis_span(seconds: float) -> float:
    """How many seconds the axis shows: it grows in steps, so that the bars do not creep.

    >>> axis_span(0.3), axis_span(4.5)
    (1, 6)
    """
    return next((span for span in SPANS if span >= seconds), seconds)


def bar(
    done: Sequence[Stretch],
    now: float,
    columns: int,
    span: float,
    *,
    is_dim: bool = False,
    ascii_only: bool = False,
) -> Text:
    """The bar of a block or a call.

    >>> bar([("text", 1.0, 2.0)], 2.0, 8, 4.0, ascii_only=True).plain
    '  ==    '
    """
    cells: list[tuple[str, str]] = [(" ", "")] * columns
    for activity, start, ended in done:
        first = min(columns - 1, int(start / span * columns))
        end = now if ended is None else ended
        last = min(columns, max(first + 1, ceil(end / span * columns)))
        mark = MARKS[activity][ascii_only]
        cells[first:last] = [(mark, "dim" if is_dim else STYLES[activity])] * (last - first)
    return Text.assemble(*cells)


def _line(
    item: BlockView,
    before: BlockView | None,
    view: RunView,
    columns: tuple[int, int, int],
    span: float,
    ascii_only: bool,
) -> Text:
    names, details, bars = columns
    now = view.seconds
    done = stretches(item, view.began or 0.0)
    turn = str(item.turn) if before is None or before.turn != item.turn else ""
    sign, style = _sign(item, ascii_only)
    name = item.block.tool or item.block.block_type.value
    seconds = sum((now if end is None else end) - start for _, start, end in done)
    drawn = bar(done, now, bars, span, is_dim=item.stage == "retracted", ascii_only=ascii_only)
    return Text.assemble(
        (f"{turn:<2}"[:2], "dim"),
        (set_cell_size(one_line(name), names), "" if item.is_over else "bold"),
        " ",
        (set_cell_size(one_line(_detail(item, details), details), details), "dim"),
        " " if details else "",
        drawn,
        f"{seconds:5.1f} s ",
        (sign, style),
    )


def _detail(item: BlockView, columns: int) -> str:
    """The result or the progress of a call, or its text: of a text that is being written the end, since that is new."""
    if isinstance(item, CallView):
        if item.result is not None:
            return describe_result(item.result).removeprefix(f"{item.result.name}: ")
        if item.reports:
            return describe_json(item.progress)
    if item.stage == "open":
        return "".join(item.pieces[-4 * columns :])[-columns:] if columns else ""
    return "".join(item.pieces[:columns])


def _sign(item: BlockView, ascii_only: bool) -> tuple[str, str]:
    match item.stage:
        case "open" | "waiting" | "running":
            return (">" if ascii_only else "▸"), "bold"
        case "done":
            return (" " if ascii_only else "✓"), "green"
        case "retracted":
            return ("-" if ascii_only else "↶"), "dim"
        case "failed" | "refused" | "stopped":
            return ("!" if ascii_only else "✗"), "red"


def _axis(left: int, columns: int, span: float) -> Text:
    """Seconds, at the quarters."""
    line = [" "] * (columns + 6)
    for quarter in range(5):
        label = f"{span * quarter / 4:g}"
        at = columns * quarter // 4
        line[at : at + len(label)] = label
    return Text(" " * left + "".join(line).rstrip() + " s", style="dim")


def _legend(ascii_only: bool) -> Sequence[tuple[str, str]]:
    shown: tuple[Activity, ...] = ("thinking", "text", "arguments", "tool")
    return [
        part
        for activity in shown
        for part in ((MARKS[activity][ascii_only] * 2, STYLES[activity]), (f" {activity}  ", "dim"))
    ]
