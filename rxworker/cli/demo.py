"""``rxworker demo``: one run in several views at once, against a server of its own, over real HTTP."""

from __future__ import annotations

import asyncio
import sys

from rich.console import Console

from rxworker.cli.demo_screen import fits, show
from rxworker.cli.demo_script import MODEL, QUESTION, SYSTEM, answers, make_forecast
from rxworker.cli.demo_watch import (
    WATCHERS,
    PlainAccount,
    Views,
    summary_line,
    watch_text,
    watch_timeline,
    watch_usage,
)
from rxworker.cli.event_loop import run
from rxworker.cli.interrupt import on_interrupt
from rxworker.cli.output import is_terminal, write_line
from rxworker.providers import Anthropic
from rxworker.testing import ReplayServer
from rxworker.worker import Run, Worker

REST = 0.022
"""Seconds that the timeline's watcher rests after each record: it falls behind, and catches up."""

NEXT = """
Next:
  rxworker chat --provider anthropic --model NAME --tool my:tool
  rxworker decode anthropic FILE
  rxworker --help
"""


def demo(*, fast: bool = False) -> int:
    """Show the demonstration.

    Args:
        fast: Whether to leave out the pauses.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        RxWorkerError: The run failed.
    """
    try:
        return run(_demo(fast))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _demo(fast: bool) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    interrupted = False

    def interrupt() -> None:
        # Once: what is being cleaned up then is left to end.
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            loop.call_soon_threadsafe(task.cancel)

    with on_interrupt(interrupt):
        async with ReplayServer(answers(fast=fast)) as server:
            provider = Anthropic(MODEL, api_key="none", base_url=server.base_url)
            worker = Worker(provider, tools=[make_forecast(fast=fast)], system=SYSTEM)
            views = await _watch(worker.run(QUESTION), fast)
    write_line(summary_line(views.usage, WATCHERS))
    write_line(NEXT.rstrip())
    return 0


async def _watch(run: Run, fast: bool) -> Views:
    """Attach the watchers, show what they see, and wait for the run and for the slowest of them."""
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
    account = PlainAccount()
    write_line(QUESTION)
    async for record in run:
        for line in account.feed(record):
            write_line(line)
