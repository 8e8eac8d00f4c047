"""The three watchers of the demonstration, each with its own subscription, view of the run and pace.

And the drawing of the timeline.

The timeline has a line for each block and call, with a bar for the time that it took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from reactivex import abc
from reactivex import operators as ops
from rich.cells import set_cell_size
from rich.panel import Panel
from rich.text import Text

from rxworker.events import Record
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_call, describe_json, describe_result, plural
from rxworker.ui.terminal.lanes import TEXT_KINDS
from rxworker.ui.terminal.trace import BarKind, draw_bars, item_row
from rxworker.views import BlockView, CallView, RunView, ViewItem, ViewStep
from rxworker.views.changes import BlockClose, CallResult, CallStart, StepOpen
from rxworker.views.run_view import ItemStage
from rxworker.run.run import Run

WATCHERS = 3
KEPT = 200
"""How many items a view keeps: more than any screen shows."""


@dataclass
class Views:
    """The views of the watchers.

    Attributes:
        text: For the text. Its watcher subscribes to the records.
        timeline: For the timeline. Its watcher is an ``async for`` at its own pace.
        usage: For the numbers. Its watcher maps the records.
        seen: How many records each watcher has received.
    """

    text: RunView = field(default_factory=lambda: RunView(keep=KEPT))
    timeline: RunView = field(default_factory=lambda: RunView(keep=KEPT))
    usage: RunView = field(default_factory=lambda: RunView(keep=KEPT))
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


def account_of(step: ViewStep) -> Iterator[str]:
    """Return a line for each part of a run that a step completes: the demonstration without a terminal.

    >>> from rxworker.events import TurnStart
    >>> record = Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=TurnStart())
    >>> list(account_of(RunView().step(record)))
    ['turn 1']
    """
    for change in step.changes:
        match change:
            case StepOpen(scope=scope, turn=turn) if not scope.path:
                yield f"turn {turn}"
            case BlockClose(block=block, aborted=None) if block.block_type in TEXT_KINDS:
                voice = TEXT_KINDS[block.block_type]
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


# Distinguishable without colours, in a terminal and in one with ASCII only.
MARKS: dict[BarKind, tuple[str, str, str]] = {
    "thinking": ("─", "-", "blue"),
    "text": ("━", "=", "green"),
    "write": ("┅", ".", "yellow"),
    "run": ("═", "#", "magenta"),
    "bad": ("┈", "~", "red"),
}
"""The character of each kind of bar, in ASCII too, and its colour."""
LEGEND: dict[BarKind, str] = {
    "thinking": "thinking",
    "text": "text",
    "write": "arguments",
    "run": "tool",
}
SIGNS: dict[ItemStage, tuple[str, str, str]] = {
    "open": ("▸", ">", "bold"),
    "waiting": ("▸", ">", "bold"),
    "running": ("▸", ">", "bold"),
    "done": ("✓", " ", "green"),
    "retracted": ("↶", "-", "dim"),
    "failed": ("✗", "!", "red"),
    "refused": ("✗", "!", "red"),
    "stopped": ("✗", "!", "red"),
}
"""The sign of each stage, in ASCII too, and its style."""
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
    title = Text("timeline  ")
    for kind, name in LEGEND.items():
        title.append(MARKS[kind][ascii_only] * 2, MARKS[kind][2]).append(f" {name}  ", "dim")
    return Panel(
        Text("\n", no_wrap=True, overflow="crop").join(lines),
        title=title if width >= 60 else "timeline",
        title_align="left",
        width=width,
        height=height,
    )


def axis_span(seconds: float) -> float:
    """How many seconds the axis shows: it grows in steps, so that the bars do not move with each frame.

    >>> axis_span(0.3), axis_span(4.5)
    (1, 6)
    """
    return next((span for span in SPANS if span >= seconds), seconds)


def _line(
    item: BlockView,
    before: BlockView | None,
    view: RunView,
    columns: tuple[int, int, int],
    span: float,
    ascii_only: bool,
) -> Text:
    names, details, bars = columns
    row = item_row(item, view.began or 0.0, view.now)
    marks: dict[BarKind, tuple[str, str]] = {kind: (mark[ascii_only], mark[2]) for kind, mark in MARKS.items()}
    turn = str(item.turn) if before is None or before.turn != item.turn else ""
    sign = SIGNS[item.stage]
    name = item.block.tool or item.block.block_type.value
    seconds = sum(bar.end - bar.begin for bar in row.bars)
    return Text.assemble(
        (f"{turn:<2}"[:2], "dim"),
        (set_cell_size(one_line(name), names), "" if item.is_over else "bold"),
        " ",
        (set_cell_size(one_line(_detail(item, details), details), details), "dim"),
        " " if details else "",
        draw_bars(row.bars, span, bars, marks),
        f"{seconds:5.1f} s ",
        (sign[ascii_only], sign[2]),
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


def _axis(left: int, columns: int, span: float) -> Text:
    """Seconds, at the quarters."""
    line = [" "] * (columns + 6)
    for quarter in range(5):
        label = f"{span * quarter / 4:g}"
        at = columns * quarter // 4
        line[at : at + len(label)] = label
    return Text(" " * left + "".join(line).rstrip() + " s", style="dim")
