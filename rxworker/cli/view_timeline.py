"""Drawing the lanes of a run: one line each, with a bar for every time in which something was done."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from rich.cells import set_cell_size
from rich.panel import Panel
from rich.text import Text

from rxworker.cli.lane import Activity, Lane
from rxworker.cli.lanes import Lanes
from rxworker.ui.clean import one_line

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


def draw_timeline(lanes: Lanes, width: int, height: int, *, ascii_only: bool = False) -> Panel:
    """The last lanes, as many as fit, over an axis of seconds.

    Args:
        lanes: What to draw.
        width: Columns of the panel.
        height: Lines of the panel.
        ascii_only: Whether the terminal knows no other characters.
    """
    shown = list(lanes.lanes)[-max(1, height - 3) :]
    inner = width - 4
    names = min(14, max(8, inner // 6))
    details = max(0, min(36, inner // 3)) if inner >= 50 else 0
    bars = max(4, inner - names - details - 13)
    span = axis_span(lanes.now)
    lines = [
        _line(lane, before, lanes.now, (names, details, bars), span, ascii_only)
        for before, lane in zip([None, *shown], shown, strict=False)
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


def axis_span(seconds: float) -> float:
    """How many seconds the axis shows: it grows in steps, so that the bars do not creep.

    >>> axis_span(0.3), axis_span(4.5)
    (1, 6)
    """
    return next((span for span in SPANS if span >= seconds), seconds)


def bar(lane: Lane, now: float, columns: int, span: float, *, ascii_only: bool = False) -> Text:
    """The bar of a lane.

    >>> lane = Lane(1, "text")
    >>> lane.begin("text", 1.0)
    >>> lane.end(2.0)
    >>> bar(lane, 2.0, 8, 4.0, ascii_only=True).plain
    '  ==    '
    """
    cells: list[tuple[str, str]] = [(" ", "")] * columns
    for stretch in lane.stretches:
        first = min(columns - 1, int(stretch.start / span * columns))
        end = now if stretch.end is None else stretch.end
        last = min(columns, max(first + 1, ceil(end / span * columns)))
        style = "dim" if lane.outcome == "retracted" else STYLES[stretch.activity]
        mark = MARKS[stretch.activity][ascii_only]
        cells[first:last] = [(mark, style)] * (last - first)
    return Text.assemble(*cells)


def _line(
    lane: Lane,
    before: Lane | None,
    now: float,
    columns: tuple[int, int, int],
    span: float,
    ascii_only: bool,
) -> Text:
    names, details, bars = columns
    turn = str(lane.turn) if before is None or before.turn != lane.turn else ""
    sign, style = _sign(lane, ascii_only)
    detail = set_cell_size(one_line(_end_of(lane, details), details), details)
    return Text.assemble(
        (f"{turn:<2}"[:2], "dim"),
        (set_cell_size(one_line(lane.name), names), "bold" if lane.outcome == "open" else ""),
        " ",
        (detail, "dim"),
        " " if details else "",
        bar(lane, now, bars, span, ascii_only=ascii_only),
        f"{lane.seconds(now):5.1f} s ",
        (sign, style),
    )


def _end_of(lane: Lane, columns: int) -> str:
    """Of the text that is being written, the end is what is new."""
    streams = lane.outcome == "open" and lane.stretches[-1:] != []
    return lane.detail[-columns:] if streams and columns else lane.detail


def _sign(lane: Lane, ascii_only: bool) -> tuple[str, str]:
    match lane.outcome:
        case "open":
            return (">" if ascii_only else "▸"), "bold"
        case "done":
            return (" " if ascii_only else "✓"), "green"
        case "failed":
            return ("!" if ascii_only else "✗"), "red"
        case "retracted":
            return ("-" if ascii_only else "↶"), "dim"


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


__all__ = ["axis_span", "bar", "draw_timeline"]
