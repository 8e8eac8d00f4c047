"""``rxworker dash``: what the panels of a dashboard show of the runs of a log, as text."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from math import isnan

from msgspec.structs import replace

from rxworker.boards import PanelState, board_text, explain, fold_log, read_selection
from rxworker.boards.stored import LogRecords
from rxworker.cli.process import MISUSED, CommandError, run_async, run_until_stopped, write_line
from rxworker.cli.resolve import dashboard_of
from rxworker.log.open import open_stored
from rxworker.redact import redact
from rxworker.ui.clean import clean

CLEAR = "\033[H\033[2J\033[3J"
"""Begins a terminal anew."""


def dash(
    address: str,
    dashboard: str,
    *,
    runs: Sequence[str] | None = None,
    at: float | None = None,
    since: float | None = None,
    until: float | None = None,
    where: Sequence[tuple[str, str]] | None = None,
    width: int | None = None,
    explained: bool = False,
    follow: bool = False,
) -> int:
    """Print a dashboard once, or again whenever it has changed.

    Its arguments are the options of the command; see ``rxworker dash --help``.

    Returns:
        The exit code.

    Raises:
        CommandError: The name is not that of a dashboard.
        ConfigurationError: There is no such log or filter, or its value is not valid.
        LogError: There is no such run, or the log cannot be read.
    """
    found = dashboard_of(dashboard)
    if explained:
        found = replace(found, panels=[replace(each, pipeline=explain(each.pipeline)) for each in found.panels])
    selected = read_selection(where or (), since=since, until=until)
    found = replace(found, selection=selected.within(found.selection))

    def text_of(states: Sequence[PanelState]) -> str:
        return clean(board_text(found, states, width=width or shutil.get_terminal_size().columns))

    async def show() -> None:
        async with open_stored(address) as log:
            board = found.show(LogRecords(log, None, found.selection))
            changed = asyncio.Event()
            board.changes.subscribe(lambda _: changed.set(), on_completed=changed.set)
            while board.error is None:
                write_line((CLEAR if sys.stdout.isatty() else "") + text_of(board.soon()))
                await changed.wait()
                changed.clear()
            raise board.error

    if follow:
        if explained or runs or at is not None:
            raise CommandError("--follow shows all runs as they change: leave out --at, --run and --explain", MISUSED)
        return run_until_stopped(show)

    async def main() -> None:
        async with open_stored(address) as log:
            states = await fold_log(found, log, time=at, runs=runs)
        write_line(text_of(states))
        for panel in found.panels if explained else ():
            write_line(redact(clean(f"\n{panel.title}\n{panel.pipeline}")))

    run_async(main())
    return 0


def read_moment(text: str) -> float:
    """Seconds since the epoch, from such a number or from a date and a time of ISO 8601.

    >>> read_moment("2026-01-01T00:00:00+00:00"), read_moment("12.5")
    (1767225600.0, 12.5)

    Raises:
        ValueError: It is neither.
    """
    try:
        moment = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text).timestamp()
    if isnan(moment):
        raise ValueError("not a number")
    return moment
