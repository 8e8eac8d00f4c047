"""Three user interfaces on one run: a console, a gauge of tokens, and a log that takes its time.

The log delays neither the run nor the others. A fourth view fails and is detached, which the records show.
Needs the environment variable ``ANTHROPIC_API_KEY``.
"""

import asyncio
import logging

from reactivex import operators as ops

from rxworker import Run, Worker
from rxworker.events import Record, Usage, WatcherDetach
from rxworker.operators import only, text_deltas
from rxworker.providers import Anthropic


def console(run: Run) -> None:
    def write(text: str) -> None:
        print(text, end="", flush=True)

    run.events.pipe(text_deltas()).subscribe(write)


def gauge(run: Run) -> list[int]:
    """The tokens of the response, whenever the provider reports them."""
    shown: list[int] = []

    def total(usage: Usage) -> int:
        return usage.total_tokens

    run.events.pipe(only(Usage), ops.map(total), ops.distinct_until_changed()).subscribe(shown.append)
    return shown


async def log(run: Run) -> list[str]:
    """One line for each sort of event, written at the log's own pace."""
    lines: list[str] = []
    async for record in run:
        await asyncio.sleep(0)  # a slow disk
        lines.append(type(record.event).__name__)
    return lines


def broken(record: Record) -> None:
    raise OSError("the display is gone")


async def main() -> None:
    run = Worker(Anthropic("claude-sonnet-5-5")).run("Describe the moon in one sentence.")
    console(run)
    shown = gauge(run)
    run.subscribe(broken)
    lines = await log(run)
    print()
    print("tokens:", shown[-1])
    print("records:", len(lines))
    async for record in run:  # a late reader also sees everything from the start
        if isinstance(record.event, WatcherDetach):
            print("detached:", record.event.error)


if __name__ == "__main__":
    # The view that fails does so on purpose: its traceback is not wanted on the console.
    logging.getLogger("rxworker.hub").setLevel(logging.ERROR)
    asyncio.run(main())
