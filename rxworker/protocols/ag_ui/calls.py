"""How AG-UI is told of calls that run."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.messages import JsonObject
from rxworker.protocols.ag_ui.snapshot import result_content, result_text
from rxworker.protocols.ag_ui.wire import (
    ActivitySnapshot,
    AgUiEvent,
    Custom,
    ToolCallResult,
    ours,
)
from rxworker.views import CallProgress, CallResult, CallStart


def call_start(change: CallStart) -> Iterator[AgUiEvent]:
    """A call is run."""
    call = change.call
    value = {"toolCallId": change.id, "name": call.name, "input": call.input}
    yield Custom("rxworker.tool_start", value, change.scope.id or None)


def call_progress(change: CallProgress) -> Iterator[AgUiEvent]:
    """A tool tells how far it is."""
    content: JsonObject = {"toolCallId": change.id, "progress": change.progress}
    name = f"{change.id}.progress"
    inside = change.scope.id or None
    yield ActivitySnapshot(name, "rxworker.tool_progress", content, inside)


def call_result(change: CallResult, *, is_new: bool) -> Iterator[AgUiEvent]:
    """A call has its result; a client before 1.0 knows only the text of it."""
    result = change.result
    content = result_content(result) if is_new else result_text(result)
    metadata = ours({"isError": result.is_error, "seconds": change.seconds})
    yield ToolCallResult(
        f"{change.id}.result", change.id, content, "tool", change.scope.id or None, metadata
    )


__all__ = ["call_progress", "call_result", "call_start"]
