"""One answer: a run on the event loop in the background, shown by the main thread.

The run's records and Ctrl-C arrive in one queue. The first Ctrl-C cancels the run and waits for its end, a second one
waits no longer.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from msgspec import Struct

from rxworker.cli.background import Background
from rxworker.cli.chat_show import RecordPrinter
from rxworker.cli.failure import explain
from rxworker.cli.interrupt import on_interrupt
from rxworker.cli.page import Page
from rxworker.errors import RunCancelledError
from rxworker.events import Record
from rxworker.ui.describe import describe_usage
from rxworker.worker import Run, Worker


class Outcome(Enum):
    """How an answer ended."""

    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LEFT = "left"


class Interrupt(Struct, frozen=True):
    """Ctrl-C was pressed."""


class Ended(Struct, frozen=True):
    """The run has ended. ``error``: what it raised."""

    error: Exception | None = None


News: TypeAlias = Record | Interrupt | Ended


def answer(
    worker: Worker, background: Background, line: str, page: Page, *, counted: bool
) -> Outcome:
    """Ask, and show what happens until the run has ended.

    Args:
        worker: Who answers.
        background: Where it runs.
        line: What is asked.
        page: Where it is shown.
        counted: Whether to note the tokens at the end.
    """
    news: SimpleQueue[News] = SimpleQueue()
    with on_interrupt(partial(news.put, Interrupt())):
        try:
            run = background.call(partial(_begin, worker, line, news))
        except Exception as error:
            page.note(explain(error), failed=True)
            return Outcome.FAILED
        outcome = _follow(run, background, news, page)
    usage = describe_usage(run.state.usage)
    if counted and usage and outcome is not Outcome.LEFT:
        page.note(usage)
    return outcome


def _begin(worker: Worker, line: str, news: SimpleQueue[News]) -> Run:
    """Called on the loop."""
    run = worker.run(line)

    def on_error(error: Exception) -> None:
        news.put(Ended(error))

    def on_completed() -> None:
        news.put(Ended())

    run.subscribe(news.put, on_error, on_completed)
    return run


def _follow(run: Run, background: Background, news: SimpleQueue[News], page: Page) -> Outcome:
    is_cancelling, printer = False, RecordPrinter(page)
    while True:
        match news.get():
            case Interrupt():
                if is_cancelling:
                    page.end_line()
                    return Outcome.LEFT
                is_cancelling = True
                background.call(run.cancel)
            case Ended(error=error):
                page.end_line()
                return _outcome(error, page)
            case Record() as record:
                if not is_cancelling:
                    printer.print(record)


def _outcome(error: Exception | None, page: Page) -> Outcome:
    match error:
        case None:
            return Outcome.ANSWERED
        case RunCancelledError():
            page.note("cancelled")
            return Outcome.CANCELLED
        case _:
            page.note(explain(error), failed=True)
            return Outcome.FAILED


__all__ = ["Outcome", "answer"]
