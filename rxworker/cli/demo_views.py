"""The three watchers of the demonstration, each with its own subscription, view of the run and pace; and the drawing of the timeline.

The timeline has a line for each block and call, with a bar for the time that it took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, TypeAlias

from reactivex import abc
from reactivex import operators as ops
from rich.cells import set_cell_size
from rich.panel import Panel
from rich.text import Text

from rxworker.events import BlockType, Record
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_call, describe_json, describe_result, plural
from rxworker.views import BlockView, CallView, RunView, ViewItem, ViewStep
from rxworker.views.changes import BlockClose, CallResult, CallStart, StepOpen
from rxworker.worker.run import Run

WATCHERS = 3
KEPT = 200
"""How many items a view keeps: more than any screen shows."""
VOICES = {
    BlockType.THINKING: "thinking",
    BlockType.TEXT: "text",
    BlockType.REFUSAL: "text",
}


def _view() -> RunView:
    return RunView(keep=KEPT)


@dataclass
class Views:
    """The views of the watchers.

    Attributes:
        text: For the text. Its watcher subscribes to the records.
        timeline: For the timeline. Its watcher is an ``async for`` at its own pace.
        usage: For the numbers. Its watcher maps the records.
        seen: How many records each watcher has received.
    """

    text: RunView = field(default_factory=_view)
    timeline: RunView = field(default_factory=_view)
    usage: RunView = field(default_factory=_view)
    seen: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, watcher: str) -> None:
        """Count one more record for a watcher."""
        self.seen[watcher] = self.seen.get(watcher, 0) + 1


def watch_text(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the text with a plain subscription: each record is pushed on arrival."""

    def on_next(record: Record) -> None:
        views.text.step(record)
        views.count("text")

    return run.subscribe(on_next, _ignore)


def watch_usage(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the numbers with an operator: ``map`` makes a step of each record."""

    def on_next(_: ViewStep) -> None:
        views.count("usage")

    return run.pipe(ops.map(views.usage.step)).subscribe(on_next, _ignore)


async def watch_timeline(run: Run, views: Views, pause: float = 0.0) -> None:
    """Follow the timeline with a loop that waits after each record. It falls behind, and delays no other watcher.

    Args:
        run: The run.
        views: Holds the view.
        pause: Seconds of waiting.
    """
    async for record in run:
        views.timeline.step(record)
        views.count("timeline")
        if pause:
            await asyncio.sleep(pause)


def summary_line(view: RunView, watchers: int) -> str:
    """The run in one line.

    >>> summary_line(RunView(), 3)
    'One run: 0 turns, 0 tool calls, 0 tokens, 0.0 s; 3 watchers'
    """
    state = view.state
    parts = (
        plural(state.turns, "turn"),
        plural(state.tool_calls, "tool call"),
        plural(state.usage.total_tokens, "token"),
        f"{view.seconds:.1f} s",
    )
    return f"One run: {', '.join(parts)}; {plural(watchers, 'watcher')}"


class PlainAccount:
    """Takes the records of a run, and returns a line for each part that becomes complete: the demonstration without a terminal.

    >>> from rxworker.events import TurnStart
    >>> account = PlainAccount()
    >>> account.feed(Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=TurnStart()))
    ['turn 1']
    """

    def __init__(self) -> None:
        self._view = _view()

    def feed(self, record: Record) -> list[str]:
        """Take the next record; return the lines that it completes."""
        return list(self._lines(self._view.step(record)))

    def _lines(self, step: ViewStep) -> Iterator[str]:
        for change in step.changes:
            match change:
                case StepOpen(scope=scope, turn=turn) if not scope.path:
                    yield f"turn {turn}"
                case BlockClose(block=block, aborted=None) if block.block_type in VOICES:
                    voice = VOICES[block.block_type]
                    yield f"  {voice:<9} {one_line(_text_of(step.items, block.id))}"
                case CallStart(call=call):
                    yield f"  calls     {describe_call(call)}"
                case CallResult(result=result, is_placeholder=False):
                    yield f"  receives  {describe_result(result)}"
                case _:
                    pass


def _text_of(items: list[ViewItem], block_id: str) -> str:
    blocks = (item for item in items if isinstance(item, BlockView))
    return next((item.text for item in blocks if item.block.id == block_id), "")


def _ignore(_error: Exception) -> None:
    """Ignore the error, which awaiting the run raises."""


Activity: TypeAlias = Literal["thinking", "text", "arguments", "tool", "other"]
Stretch: TypeAlias = tuple[Activity, float, float | None]
"""An activity, its start and its end (``None`` if it continues), in seconds since the start of the run."""

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
# Distinguishable without colours, in a terminal and in one with ASCII only.
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
        view: The view to draw.
        width: Columns of the panel.
        height: Lines of the panel.
        ascii_only: Whether the terminal supports only ASCII.
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
    """The times of activity in a block or a call.

    Args:
        item: The block or call.
        start: The start of the run.
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
    """How many seconds the axis shows: it grows in steps, so that the bars do not move with each frame.

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
    """The result or the progress of a call, or the text of a block: the end of a growing text, since that is new."""
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
