"""What of a run is written on the page, record by record."""

from __future__ import annotations

from rxworker.cli.page import Page
from rxworker.events import (
    AttemptRetract,
    BlockStop,
    HookMessage,
    HookVerdict,
    Record,
    RefusalDelta,
    RunPause,
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


def show_record(page: Page, record: Record) -> None:
    """Write what a person wants to know of a record, which of many is nothing."""
    match record.event:
        case TextDelta(text=text, choice=0) | RefusalDelta(text=text, choice=0):
            page.say("text", text)
        case ThinkingDelta(text=text, choice=0):
            page.say("thinking", text)
        case BlockStop():
            page.end_line()
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
        case AttemptRetract(reason=reason):
            page.note(f"taken back, asking again: {one_line(reason)}")
        case HookMessage(hook=hook, content=content):
            page.note(f"{one_line(hook)}: {one_line(content)}")
        case HookVerdict(hook=hook, verdict=verdict, reason=reason):
            page.note(f"{one_line(hook)}: {verdict} {one_line(reason)}")
        case _:
            pass


__all__ = ["show_record"]
