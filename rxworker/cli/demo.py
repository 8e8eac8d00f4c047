"""``rxworker demo``: one run in several views at once, with a scripted model.

The three views are side by side, or one below the other in a narrow terminal. Each has its own subscription, view of
the run and pace.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field
from reactivex import abc
from reactivex import operators as ops
from reactivex.internal import noop
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rxworker.cli.answer import STYLES, Page, RunPrinter
from rxworker.cli.demo_script import QUESTION, demo_worker
from rxworker.cli.process import run_until_stopped, write_line
from rxworker.events import Record
from rxworker.messages.usage import Usage
from rxworker.run.run import Run
from rxworker.ui.clean import clean
from rxworker.ui.describe import plural
from rxworker.ui.terminal.lanes import TEXT_KINDS
from rxworker.ui.terminal.lifecycle import is_terminal
from rxworker.ui.terminal.trace import draw_trace, item_row
from rxworker.views import RunView

KEPT = 200
"""How many items a view keeps: more than any screen shows."""


class Views(Struct):
    """The views of the watchers.

    Attributes:
        text: For the text. Its watcher subscribes to the records.
        timeline: For the timeline. Its watcher is an ``async for`` at its own pace.
        usage: For the numbers. Its watcher maps the records.
    """

    text: RunView = field(default_factory=lambda: RunView(keep=KEPT))
    timeline: RunView = field(default_factory=lambda: RunView(keep=KEPT))
    usage: RunView = field(default_factory=lambda: RunView(keep=KEPT))


def watch_text(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the text with a plain subscription: each record is pushed on arrival."""

    def on_next(record: Record) -> None:
        views.text.step(record)

    return run.subscribe(on_next, noop)  # awaiting the run raises its error


def watch_usage(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the numbers with an operator: ``map`` makes a step of each record."""
    return run.pipe(ops.map(views.usage.step)).subscribe(noop, noop)


async def watch_timeline(run: Run, views: Views, pause: float = 0.0) -> None:
    """Follow the timeline with a loop that waits after each record. It falls behind, and delays no other watcher.

    Args:
        run: The run.
        views: Holds the view.
        pause: Seconds of waiting.
    """
    async for record in run:
        views.timeline.step(record)
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


# Colours of any terminal, by the names that the themes of the app have for them.
COLOURS = {"primary": "blue", "accent": "yellow", "success": "magenta", "warning": "green", "error": "red"}


def draw_timeline(view: RunView, width: int, height: int) -> Panel:
    """The last blocks and calls of the run itself, as many as fit, each with a bar for the time that it took.

    Args:
        view: The view to draw.
        width: Columns of the panel.
        height: Lines of the panel.
    """
    shown = [item for item in view.blocks() if not item.block.choice][-max(1, height - 4) :]
    rows = [item_row(item, view.began or 0.0, view.now) for item in shown]
    drawing = draw_trace(rows, view.seconds, width - 4, COLOURS)
    return Panel(drawing, title="timeline", title_align="left", width=width, height=height)


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
    views = await _watch(demo_worker(fast=fast).run(QUESTION), fast)
    write_line(summary_line(views.usage, len(Views.__struct_fields__)))
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
            write_line(QUESTION)
            printer = RunPrinter(Page(console))
            async for record in run:
                printer.print(record)
        await timeline
        await run
    finally:
        timeline.cancel()
        await run.cancel()
    return views


FRAME = 1 / 20
WIDE, TALL = 88, 24
"""The columns from which the numbers are beside the text, and the maximum of lines."""
TIMELINE = 10
SMALLEST = (60, 20)
MAX_ROWS = 3
MAX_BLOCKS = 40
MAX_CHARACTERS = 4000
"""Blocks, and characters of each, that are laid out: more than a screen shows."""


def fits(console: Console) -> bool:
    """Whether the output is a terminal with room for the views, and with their characters."""
    width, height = console.size
    has_room = width >= SMALLEST[0] and height >= SMALLEST[1]
    return console.is_interactive and has_room and console.encoding.startswith("utf")


def draw(views: Views, console: Console, published: int) -> RenderableType:
    """The views as they are now: the numbers beside the text, or below it in a narrow terminal."""
    width, height = console.size
    width, height = min(width, 140), min(height - 1, TALL) - TIMELINE
    timeline = draw_timeline(views.timeline, width, TIMELINE)
    is_wide = width >= WIDE
    side, numbers = (38, height) if is_wide else (width, 6)
    usage = draw_usage(views, side, numbers, published=published)
    if not is_wide:
        return Group(draw_text(views.text, QUESTION, console, width, height - numbers), timeline, usage)
    row = Table.grid()
    row.add_row(draw_text(views.text, QUESTION, console, width - side, height), usage)
    return Group(row, timeline)


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


def draw_usage(views: Views, width: int, height: int, *, published: int) -> Panel:
    """Tokens by request, and how many records each watcher has received.

    Args:
        views: The views.
        width: Columns of the panel.
        height: Lines of the panel.
        published: How many records there are.
    """
    view, table = views.usage, Table.grid(padding=(0, 1), expand=True)
    table.add_column(style="dim")
    for _ in range(3):
        table.add_column(justify="right")
    table.add_row("tokens", "in", "cached", "out", style="dim")
    for number, attempt in [*enumerate(view.attempts, start=1)][-MAX_ROWS:]:
        table.add_row(f"request {number}", *_numbers(attempt.usage or Usage()))
    table.add_row("total", *_numbers(view.state.usage), style="bold")
    if height >= MAX_ROWS + 9:
        table.add_row("\nwatcher", "\nby", "\nseen", "\nlag", style="dim")
        for name, how in (("text", "subscribe"), ("timeline", "async for"), ("usage", "map")):
            seen: int = getattr(views, name).state.seq
            table.add_row(name, how, f"{seen}", f"{published - seen or ''}")
    return Panel(table, title=f"usage  {view.seconds:.1f} s", title_align="left", width=width, height=height)


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
