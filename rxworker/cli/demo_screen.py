"""The demonstration on a terminal: the three views, side by side or one below the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from rxworker.cli.demo_script import QUESTION
from rxworker.cli.view_text import draw_text
from rxworker.cli.view_timeline import draw_timeline
from rxworker.cli.view_usage import draw_usage
from rxworker.cli.watch import Views

FRAME = 1 / 20
WIDE, TALL = 88, 22
"""From how many columns on the numbers stand beside the text, and how many lines are used at most."""
SMALLEST = (40, 18)


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
    usage = draw_usage(views.tally, views.seen, side, numbers, published=published)
    text_width = width if width < WIDE else width - side
    text = draw_text(views.transcript, QUESTION, console, text_width, text_height)
    lanes = draw_timeline(views.lanes, width, timeline, ascii_only=ascii_only)
    if width < WIDE:
        return Group(text, lanes, usage)
    row = Table.grid()
    row.add_row(text, usage)
    return Group(row, lanes)


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


__all__ = ["draw", "fits", "show"]
