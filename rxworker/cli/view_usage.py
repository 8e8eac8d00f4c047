"""Drawing the numbers of a run, and how far its watchers are."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from rxworker.cli.tally import Tally
from rxworker.messages import Usage

HOW = {"text": "subscribe", "timeline": "async for", "usage": "scan"}
MOST_ROWS = 3


def draw_usage(
    tally: Tally, seen: Mapping[str, int], width: int, height: int, *, published: int
) -> Panel:
    """Tokens by request, and what each watcher has seen.

    Args:
        tally: The numbers.
        seen: How many records each watcher has seen.
        width: Columns of the panel.
        height: Lines of the panel.
        published: How many records there are.
    """
    parts: list[RenderableType] = [_tokens(tally)]
    if height >= MOST_ROWS + 9:
        parts += ["", _watchers(seen, published)]
    title = f"usage  {tally.seconds:.1f} s"
    return Panel(Group(*parts), title=title, title_align="left", width=width, height=height)


def _tokens(tally: Tally) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(style="dim")
    for _ in range(3):
        table.add_column(justify="right")
    table.add_row("tokens", "in", "cached", "out", style="dim")
    first = max(0, len(tally.usages) - MOST_ROWS)
    for number, usage in enumerate(tally.usages[first:], start=first + 1):
        table.add_row(f"request {number}", *_numbers(usage))
    table.add_row("total", *_numbers(tally.total), style="bold")
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
    return (
        _number(usage.input_tokens),
        _number(usage.cache_read_tokens),
        _number(usage.output_tokens),
    )


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


__all__ = ["draw_usage"]
