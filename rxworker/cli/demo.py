"""``rxworker demo``: one run in several views at once, from a local server over HTTP.

The three views are side by side, or one below the other in a narrow terminal.

The three watchers of the demonstration, each with its own subscription, view of the run and pace.

And the drawing of the timeline.

The timeline has a line for each block and call, with a bar for the time that it took.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from reactivex import abc
from reactivex import operators as ops
from reactivex.internal import noop
from rich.cells import set_cell_size
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rxworker.cli.answer import STYLES
from rxworker.cli.demo_script import MODEL, QUESTION, SYSTEM, answers, make_forecast
from rxworker.cli.process import run_until_stopped, write_line
from rxworker.events import Record
from rxworker.messages.usage import Usage
from rxworker.providers import Anthropic
from rxworker.run.run import Run
from rxworker.testing import ReplayServer
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_call, describe_json, describe_result, plural
from rxworker.ui.terminal.lanes import TEXT_KINDS
from rxworker.ui.terminal.lifecycle import is_terminal
from rxworker.ui.terminal.trace import BarKind, draw_bars, item_row
from rxworker.views import BlockView, CallView, RunView, ViewItem, ViewStep
from rxworker.views.changes import BlockClose, CallResult, CallStart, StepOpen
from rxworker.views.run_view import ItemStage
from rxworker.worker.worker import Worker

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
    seen: Counter[str] = field(default_factory=Counter[str])


def watch_text(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the text with a plain subscription: each record is pushed on arrival."""

    def on_next(record: Record) -> None:
        views.text.step(record)
        views.seen["text"] += 1

    return run.subscribe(on_next, noop)  # awaiting the run raises its error


def watch_usage(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the numbers with an operator: ``map`` makes a step of each record."""

    def on_next(_: ViewStep) -> None:
        views.seen["usage"] += 1

    return run.pipe(ops.map(views.usage.step)).subscribe(on_next, noop)


async def watch_timeline(run: Run, views: Views, pause: float = 0.0) -> None:
    """Follow the timeline with a loop that waits after each record. It falls behind, and delays no other watcher.

    Args:
        run: The run.
        views: Holds the view.
        pause: Seconds of waiting.
    """
    async for record in run:
        views.timeline.step(record)
        views.seen["timeline"] += 1
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


# Distinguishable without colours, in a terminal and in one with ASCII only.
MARKS: dict[BarKind, tuple[str, str, str]] = {
    "thinking": ("─", "-", "blue"),
    "text": ("━", "=", "green"),
    "write": ("┅", ".", "yellow"),
    "run": ("═", "#", "magenta"),
    "bad": ("┈", "~", "red"),
}
"""The character of each kind of bar, in ASCII too, and its colour."""
LEGEND: dict[BarKind, str] = {"thinking": "thinking", "text": "text", "write": "arguments", "run": "tool"}
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


REST = 0.022
"""Seconds that the timeline's watcher waits after each record, so that it falls behind and catches up."""

NEXT = """
Next:
  rxworker chat --provider anthropic --model NAME --tool my:tool
  rxworker new chat desk      a project of your own, which needs no key either
  rxworker docs               the documentation, offline
  rxworker --help
"""


def demo(*, fast: bool = False, **_: object) -> int:
    """Show the demonstration. The other options of the command are those of ``--web``.

    Args:
        fast: Whether to leave out the pauses.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        RxWorkerError: The run failed.
    """
    return run_until_stopped(partial(_demo, fast))


async def _demo(fast: bool) -> None:
    async with ReplayServer(answers(fast=fast)) as server:
        provider = Anthropic(MODEL, api_key="none", base_url=server.base_url)
        worker = Worker(provider, tools=[make_forecast(fast=fast)], system=SYSTEM)
        views = await _watch(worker.run(QUESTION), fast)
    write_line(summary_line(views.usage, WATCHERS))
    write_line(NEXT.rstrip())


async def _watch(run: Run, fast: bool) -> Views:
    """Attach the watchers, show their views, and wait for the run and for the slowest watcher."""
    views = Views()
    console = Console(highlight=False)
    watch_text(run, views)
    watch_usage(run, views)
    timeline = asyncio.create_task(watch_timeline(run, views, 0.0 if fast else REST))
    try:
        if is_terminal(sys.stdout) and fits(console):
            await show(views, console, timeline.done, lambda: run.state.seq)
        else:
            await _tell(run)
        await timeline
        await run
    finally:
        timeline.cancel()
        await run.cancel()
    return views


async def _tell(run: Run) -> None:
    view = RunView(keep=KEPT)
    write_line(QUESTION)
    async for record in run:
        for line in account_of(view.step(record)):
            write_line(line)


FRAME = 1 / 20
WIDE, TALL = 88, 22
"""The columns from which the numbers are beside the text, and the maximum of lines."""
SMALLEST = (40, 18)
MAX_ROWS = 3
MAX_BLOCKS = 40
MAX_CHARACTERS = 4000
"""Blocks, and characters of each, that are laid out: more than a screen shows."""


def fits(console: Console) -> bool:
    """Whether the output is a terminal with room for the views."""
    width, height = console.size
    return console.is_interactive and width >= SMALLEST[0] and height >= SMALLEST[1]


def draw(views: Views, console: Console, published: int) -> RenderableType:
    """The views as they are now."""
    width, height = console.size
    width, height = min(width, 140), min(height - 1, TALL)
    ascii_only = not console.encoding.startswith("utf")
    timeline = 9
    text_height = height - timeline
    if width < WIDE:
        numbers = 6
        text_height -= numbers
    else:
        numbers = text_height
    side = width if width < WIDE else 38
    usage = draw_usage(views.usage, views.seen, side, numbers, published=published)
    text_width = width if width < WIDE else width - side
    text = draw_text(views.text, QUESTION, console, text_width, text_height)
    lanes = draw_timeline(views.timeline, width, timeline, ascii_only=ascii_only)
    if width < WIDE:
        return Group(text, lanes, usage)
    row = Table.grid()
    row.add_row(text, usage)
    return Group(row, lanes)


def draw_text(view: RunView, question: str, console: Console, width: int, height: int) -> Panel:
    """The end of the text, as much as fits; without text that was retracted.

    Args:
        view: The view to draw.
        question: The question.
        console: The console.
        width: Columns of the panel.
        height: Lines of the panel.
    """
    text = Text.assemble((f"{clean(question)}\n", "bold"))
    blocks = [b for b in view.blocks() if b.block.block_type in TEXT_KINDS and not b.block.choice]
    for item in [b for b in blocks if b.pieces and b.stage != "retracted"][-MAX_BLOCKS:]:
        piece = "".join(item.pieces[-MAX_CHARACTERS:])[-MAX_CHARACTERS:]
        text.append("\n" + clean(piece).strip("\n"), style=STYLES[TEXT_KINDS[item.block.block_type]])
    room = max(1, height - 2)
    lines = text.wrap(console, max(1, width - 4))
    return Panel(Text("\n").join(lines[-room:]), title="text", title_align="left", width=width, height=height)


def draw_usage(view: RunView, seen: Mapping[str, int], width: int, height: int, *, published: int) -> Panel:
    """Tokens by request, and how many records each watcher has received.

    Args:
        view: The view to draw.
        seen: How many records each watcher has received.
        width: Columns of the panel.
        height: Lines of the panel.
        published: How many records there are.
    """
    parts: list[RenderableType] = [_tokens(view)]
    if height >= MAX_ROWS + 9:
        parts += ["", _watchers(seen, published)]
    return Panel(Group(*parts), title=f"usage  {view.seconds:.1f} s", title_align="left", width=width, height=height)


def _tokens(view: RunView) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(style="dim")
    for _ in range(3):
        table.add_column(justify="right")
    table.add_row("tokens", "in", "cached", "out", style="dim")
    requests = list(view.attempts)
    first = max(0, len(requests) - MAX_ROWS)
    for number, attempt in enumerate(requests[first:], start=first + 1):
        table.add_row(f"request {number}", *_numbers(attempt.usage or Usage()))
    table.add_row("total", *_numbers(view.state.usage), style="bold")
    return table


def _watchers(seen: Mapping[str, int], published: int) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(style="dim")
    table.add_column(style="cyan")
    table.add_column(justify="right")
    table.add_column(justify="right", style="yellow", min_width=4)
    table.add_row("watcher", "by", "seen", "lag", style="dim")
    for name, how in {"text": "subscribe", "timeline": "async for", "usage": "map"}.items():
        lag = published - seen.get(name, 0)
        table.add_row(name, how, f"{seen.get(name, 0)}", f"{lag}" if lag else "")
    return table


def _numbers(usage: Usage) -> tuple[str, str, str]:
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    read, cached, written = ("" if count is None else f"{count:,}" for count in counts)
    return read, cached, written


async def show(views: Views, console: Console, is_over: Callable[[], bool], published: Callable[[], int]) -> None:
    """Redraw until the run has ended. The last frame stays on the screen."""
    with Live(draw(views, console, 0), console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while not is_over():
            await asyncio.sleep(FRAME)
            live.update(draw(views, console, published()), refresh=True)
