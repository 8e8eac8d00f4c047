"""``rxworker demo``: one run in several views at once, from a local server over HTTP.

The three views are side by side, or one below the other in a narrow terminal.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import partial

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rxworker.cli.answer import STYLES
from rxworker.cli.demo_script import MODEL, QUESTION, SYSTEM, answers, make_forecast
from rxworker.cli.demo_views import (
    KEPT,
    WATCHERS,
    Views,
    account_of,
    draw_timeline,
    summary_line,
    watch_text,
    watch_timeline,
    watch_usage,
)
from rxworker.cli.process import run_until_stopped, write_line
from rxworker.messages.usage import Usage
from rxworker.providers import Anthropic
from rxworker.testing import ReplayServer
from rxworker.ui.clean import clean
from rxworker.ui.terminal.lanes import TEXT_KINDS
from rxworker.ui.terminal.lifecycle import is_terminal
from rxworker.views import RunView
from rxworker.run.run import Run
from rxworker.worker.worker import Worker

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
HOW = {"text": "subscribe", "timeline": "async for", "usage": "map"}
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
        style = STYLES[TEXT_KINDS[item.block.block_type]]
        piece = "".join(item.pieces[-MAX_CHARACTERS:])[-MAX_CHARACTERS:]
        text.append("\n" + clean(piece).strip("\n"), style=style)
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
    title = f"usage  {view.seconds:.1f} s"
    return Panel(Group(*parts), title=title, title_align="left", width=width, height=height)


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
    for name, how in HOW.items():
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
