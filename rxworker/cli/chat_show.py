"""Prints the records of a run on a page, as far as a person wants to read them."""

from __future__ import annotations

from rxworker.cli.page import Page, Voice
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStop,
    HookMessage,
    HookVerdict,
    Record,
    RefusalDelta,
    ResponseStatus,
    RunPause,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
)
from rxworker.messages import ToolResult
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_call, describe_json, describe_result

AGAIN = "taken back: the response starts again"


class RecordPrinter:
    """Prints one run. What is printed stays: a mark separates text that is taken back from the text that replaces it.

    Args:
        page: Where it prints.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        # By path, since the attempts of runs inside the run are retracted apart from its own.
        self._started: set[tuple[str, ...]] = set()
        self._printed: set[tuple[str, ...]] = set()

    def print(self, record: Record) -> None:
        """Print what a person wants to read of a record, which of many records is nothing."""
        match record.event:
            case TextDelta(text=text, choice=0) | RefusalDelta(text=text, choice=0):
                self._say(record, "text", text)
            case ThinkingDelta(text=text, choice=0):
                self._say(record, "thinking", text)
            case BlockStop() | BlockAbort():
                self._page.end_line()
            case AttemptStart():
                self._begin(record)
            case Status(status=ResponseStatus.STARTED):
                if record.path in self._started:
                    self._take_back(record, AGAIN)
                self._started.add(record.path)
            case AttemptRetract(reason=reason):
                self._take_back(record, f"taken back, asking again: {one_line(reason)}")
            case _:
                _note(self._page, record)

    def _say(self, record: Record, voice: Voice, text: str) -> None:
        if voice == "text" and text:
            self._printed.add(record.path)
        self._page.say(voice, text)

    def _begin(self, record: Record) -> None:
        self._started.discard(record.path)
        self._printed.discard(record.path)

    def _take_back(self, record: Record, line: str) -> None:
        if record.path in self._printed:
            self._page.mark(line)
        else:
            self._page.note(line)
        self._begin(record)


def _note(page: Page, record: Record) -> None:
    match record.event:
        case ToolStart(call=call):
            page.note(f"-> {describe_call(call)}")
        case ToolProgress(progress=progress):
            page.note(f".. {describe_json(progress)}")
        case ToolStop(result=ToolResult() as result, seconds=seconds):
            page.note(f"<- {describe_result(result)} ({seconds:.1f} s)")
        case ToolOutput(result=result):
            page.note(f"<- {describe_result(result)}")
        case RunPause(hook=hook, reason=reason, pending=pending):
            for call in pending:
                page.note(f"-- {describe_call(call)} waits")
            page.note(f"{one_line(hook)}: {one_line(reason)} (without --plain you can decide)")
        case HookMessage(hook=hook, content=content):
            page.note(f"{one_line(hook)}: {one_line(content)}")
        case HookVerdict(hook=hook, verdict=verdict, reason=reason):
            page.note(f"{one_line(hook)}: {verdict} {one_line(reason)}")
        case _:
            pass


__all__ = ["RecordPrinter"]
