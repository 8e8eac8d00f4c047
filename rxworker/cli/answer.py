"""One answer: a run on the event loop in the background, printed by the main thread.

The run's records and Ctrl-C arrive in one queue. The first Ctrl-C cancels the run and waits for its end, a second one
does not wait. A page is where the answer is printed: a terminal, with styles, or a pipe, as plain text.
"""

from __future__ import annotations

import signal
from queue import SimpleQueue
from typing import TypeAlias

from rich.console import Console

from rxworker import events
from rxworker.cli.process import explain, write_error
from rxworker.desk.conversation import Prompt
from rxworker.errors import RunCancelledError
from rxworker.operators.gate import InputGate, expect_allowed
from rxworker.run.run import Run
from rxworker.transport.clock import LoopThread
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_call, describe_json, describe_result, describe_usage
from rxworker.ui.terminal.lanes import TEXT_KINDS, TextKind, note_of
from rxworker.ui.terminal.lifecycle import on_signals
from rxworker.views import Tracker, changes
from rxworker.views.amounts import duration
from rxworker.worker.session import Session

STYLES = {"text": "", "thinking": "dim italic"}


class Page:
    """A page in a terminal. It takes the text of an answer as it arrives, and notes, each on its own line.

    Args:
        console: The terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._kind: TextKind | None = None
        self._in_line = False

    def write(self, kind: TextKind, piece: str) -> None:
        """Write more of the text or the thinking."""
        if kind != self._kind:
            self.end_line()
            self._kind = kind
            piece = piece.lstrip("\n")
        if piece:
            self._print(clean(piece), STYLES[kind], end="")
            self._in_line = not piece.endswith("\n")

    def note(self, line: str, *, failed: bool = False) -> None:
        """Write a line about an event."""
        self.end_line()
        self._print(f"  {line}", "red" if failed else "dim")

    def mark(self, line: str) -> None:
        """Write a line between two parts of the text: the text before it is no longer valid."""
        self.end_line()
        self._print(f"[{line}]", "yellow")

    def end_line(self) -> None:
        """Start a new line, unless the current one is empty."""
        if self._in_line:
            self._print("")
        self._in_line, self._kind = False, None

    def _print(self, text: str, style: str = "", end: str = "\n") -> None:
        self._console.out(text, style=style, end=end, highlight=False)


class PlainPage(Page):
    """A page for a program: text and marks on standard output, notes on standard error, and no thinking."""

    def write(self, kind: TextKind, piece: str) -> None:
        """Write more of the text, as it is."""
        if kind == "text":
            self._kind = kind
            super().write(kind, piece)

    def note(self, line: str, *, failed: bool = False) -> None:
        """Write a line about an event."""
        self.end_line()
        write_error(f"rxworker: {line}" if failed else line)

    def _print(self, text: str, style: str = "", end: str = "\n") -> None:  # noqa: ARG002
        print(text, end=end, flush=True)


Notification: TypeAlias = events.Record | BaseException | None
"""A record of the run, or its end, with the error if it failed; or a ``KeyboardInterrupt``: Ctrl-C was pressed."""


def answer(
    session: Session, background: LoopThread, line: str, page: Page, gate: InputGate | None = None, *, counted: bool
) -> BaseException | None:
    """Start a run, and print it until it has ended. Returns its error, which is printed, too.

    Args:
        session: The session.
        background: Runs the event loop.
        line: The input.
        page: The page to print on.
        gate: The input must pass it.
        counted: Whether to print the tokens at the end.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed while the run was being cancelled, and has not ended.
    """
    notifications: SimpleQueue[Notification] = SimpleQueue()
    prompt = Prompt()

    def interrupt(_: int) -> None:
        notifications.put(KeyboardInterrupt())
        background.loop.call_soon_threadsafe(prompt.cancel)

    with on_signals(interrupt, (signal.SIGINT,)):
        try:
            run = background.run(_begin(session, line, notifications, prompt, gate))
        except Exception as failed:
            run, error = None, failed
        else:
            error = _follow(run, background, notifications, page)
    is_cancelled = isinstance(error, RunCancelledError)
    if error is not None:
        page.note("cancelled" if is_cancelled else explain(error), failed=not is_cancelled)
    if counted and run is not None and (usage := describe_usage(run.state.usage)):
        page.note(usage)
    return error


async def _begin(
    session: Session, line: str, notifications: SimpleQueue[Notification], prompt: Prompt, gate: InputGate | None
) -> Run:
    """Start the run, unless it is cancelled while the gate checks the input."""
    await prompt.wait_for(expect_allowed(gate, line))
    if prompt.is_cancelled:
        raise RunCancelledError("by the user")
    run = session.run(line)
    run.subscribe(notifications.put, notifications.put, lambda: notifications.put(None))
    return run


def _follow(
    run: Run, background: LoopThread, notifications: SimpleQueue[Notification], page: Page
) -> BaseException | None:
    is_cancelling, printer = False, RunPrinter(page)
    while True:
        match notifications.get():
            case KeyboardInterrupt() as interrupt:
                if is_cancelling:
                    page.end_line()
                    raise interrupt
                is_cancelling = True
                background.call(run.cancel)
            case events.Record() as record:
                if not is_cancelling:
                    printer.print(record)
            case ended:
                page.end_line()
                return ended


class RunPrinter:
    """Prints one run on a page. Printed text stays: a mark separates retracted text from the text that replaces it.

    Args:
        page: The page to print on.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._tracker = Tracker()
        self._printed: set[str] = set()
        # Whether text was printed, by scope, since the attempts of nested runs are retracted separately.
        self._retracted: dict[str, bool] = {}

    def print(self, record: events.Record) -> None:
        """Print the part of a record that is meant for a person, if any."""
        for change in self._tracker.feed(record):
            self._show(change)

    def _show(self, change: changes.Change) -> None:
        page = self._page
        match change:
            case changes.BlockGrow(block=block, text=text) if block.block_type in TEXT_KINDS:
                kind = TEXT_KINDS[block.block_type]
                if kind == "text":
                    self._printed.add(block.id)
                page.write(kind, text)
            case changes.BlockClose():
                page.end_line()
            case changes.Retract(scope=scope, blocks=blocks):
                self._retracted[scope.id] = not self._printed.isdisjoint(blocks)
                self._printed.difference_update(blocks)
            case changes.CallStart(call=call):
                page.note(f"-> {describe_call(call)}")
            case changes.CallProgress(progress=progress):
                page.note(f".. {describe_json(progress)}")
            case changes.CallResult(result=result, seconds=seconds, is_placeholder=False, is_provided=False):
                page.note(f"<- {describe_result(result)} ({duration(seconds)})")
            case changes.ViewPause(hook=hook, reason=reason, pending=pending):
                for waiting in pending:
                    page.note(f"-- {describe_call(waiting.call)} waits")
                page.note(f"{one_line(hook)}: {one_line(reason)} (without --plain you can decide)")
            case changes.Note():
                self._note(change)
            case _:
                pass

    def _note(self, note: changes.Note) -> None:
        page, scope = self._page, note.scope.id
        match note.record.event:
            case events.AttemptStart():
                self._retracted.pop(scope, None)
            case events.Status(status=events.ResponseStatus.STARTED) if scope in self._retracted:
                self._mark(scope, "retracted: the response starts again")
            case events.AttemptRetract(reason=reason):
                self._mark(scope, f"retracted, requesting again: {one_line(reason)}")
            case _:
                for lane in note_of(note.record):
                    if lane.kind == "note":
                        page.note(one_line(f"{lane.title}: {lane.text}"))

    def _mark(self, scope: str, line: str) -> None:
        """Print a line about a retraction: between the texts if text was printed, as a note otherwise."""
        if self._retracted.pop(scope, False):
            self._page.mark(line)
        else:
            self._page.note(line)
