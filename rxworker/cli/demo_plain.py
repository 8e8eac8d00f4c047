"""The demonstration where nothing can be drawn over: block by block, as plain text, the same each time."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.cli.transcript import Transcript, step_transcript
from rxworker.events import (
    BlockStop,
    BlockType,
    Record,
    ToolOutput,
    ToolStart,
    ToolStop,
    TurnStart,
)
from rxworker.messages import ToolResult
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_call, describe_result


class PlainAccount:
    """Takes the records of a run, and tells what became complete.

    >>> account = PlainAccount()
    >>> account.feed(Record(seq=1, run="r", turn=1, attempt=0, time=0.0, event=TurnStart()))
    ['turn 1']
    """

    def __init__(self) -> None:
        self._transcript = Transcript()

    def feed(self, record: Record) -> list[str]:
        """Take the next record; return the lines that it completes."""
        self._transcript = step_transcript(self._transcript, record)
        return list(self._lines(record))

    def _lines(self, record: Record) -> Iterator[str]:
        match record.event:
            case TurnStart():
                yield f"turn {record.turn}"
            case BlockStop(block_type=BlockType.TEXT | BlockType.THINKING | BlockType.REFUSAL):
                if self._transcript.spans:
                    span = self._transcript.spans[-1]
                    yield f"  {span.voice:<9} {one_line(span.text)}"
            case ToolStart(call=call):
                yield f"  calls     {describe_call(call)}"
            case ToolStop(result=ToolResult() as result) | ToolOutput(result=result):
                yield f"  hears     {describe_result(result)}"
            case _:
                pass


__all__ = ["PlainAccount"]
