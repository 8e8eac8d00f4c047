"""The demonstration on a terminal: the three views, side by side or one below the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rxworker.cli.demo_script import QUESTION
from rxworker.cli.demo_timeline import draw_timeline
from rxworker.cli.demo_watch import VOICES, Views
from rxworker.cli.page import STYLES
from rxworker.messages import Usage
from rxworker.ui.clean import clean
from rxworker.views import RunView

FRAME = 1 / 20
WIDE, TALL = 88, 22
"""From how many columns on the numbers stand beside the text, and how many lines are used at most."""
SMALLEST = (40, 18)
HOW = {"text": "subscribe", "timeline": "async for", "usage": "map"}
MOST_ROWS = 3
MOST_BLOCKS = 40
MOST_CHARACTERS = 4000
"""Blocks, and characters of each, that are laid out: more than a screen shows."""


def fits(console: Console) -> bool:
    """Whether there is room for the views, and somebody who sees them move."""
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
        view: What to draw.
        question: What was asked.
        console: Where it will be shown.
        width: Columns of the panel.
        height: Lines of the panel.
    """
    text = Text.assemble((f"{clean(question)}\n", "bold"))
    blocks = [b for b in view.blocks() if b.block.block_type in VOICES and not b.block.choice]
    for item in [b for b in blocks if b.pieces and b.stage != "retracted"][-MOST_BLOCKS:]:
        style = STYLES["thinking" if VOICES[item.block.block_type] == "thinking" else "text"]
        piece = "".join(item.pieces[-MOST_CHARACTERS:])[-MOST_CHARACTERS:]
        text.append("\n" + clean(piece).strip("\n"), style=style)
    room = max(1, height - 2)
    lines = text.wrap(console, max(1, width - 4))
    return Panel(
        Text("\n").join(lines[-room:]), title="text", title_align="left", width=width, height=height
    )


def draw_usage(
    view: RunView, seen: Mapping[str, int], width: int, height: int, *, published: int
) -> Panel:
    """Tokens by request, and how many records each watcher has received.

    Args:
        view: What to draw.
        seen: How many records each watcher has received.
        width: Columns of the panel.
        height: Lines of the panel.
        published: How many records there are.
    """
    parts: list[RenderableType] = [_tokens(view)]
    if height >= MOST_ROWS + 9:
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
    first = max(0, len(requests) - MOST_ROWS)
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


async def show(
    views: Views, console: Console, is_over: Callable[[], bool], published: Callable[[], int]
) -> None:
    """Draw again and again until it is over. The last picture stays on the screen."""
    with Live(
        draw(views, console, 0), console=console, auto_refresh=False, vertical_overflow="crop"
    ) as live:
        while not is_over():
            await asyncio.sleep(FRAME)
            live.update(draw(views, console, published()), refresh=True)
