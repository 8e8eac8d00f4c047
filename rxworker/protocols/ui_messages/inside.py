"""Runs inside a run, for which the UI Message Stream has no place: as data parts.

What grows is told as it comes, and not kept (``data-inside-delta``); what is whole is kept once (``data-inside``). So a message
grows with the text, and a page that is opened later shows what was said inside, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.messages import JsonObject
from rxworker.protocols.ui_messages.wire import Data
from rxworker.views import (
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    CallProgress,
    CallResult,
    CallStart,
    Change,
    Scope,
    ScopeClose,
    ScopeOpen,
    ShownBlock,
)


class Inside:
    """Makes data parts of the changes of runs inside.

    >>> scope = Scope("call_1", ("call_1",), "ask", "call_1")
    >>> [part.data for part in Inside().feed(ScopeOpen(scope))]
    [{'name': 'ask', 'toolCallId': 'call_1', 'status': 'running'}]
    """

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def feed(self, change: Change) -> Iterator[Data]:
        """The parts that a change makes, which may be none."""
        match change:
            case ScopeOpen(scope=scope):
                yield _status(scope, "running")
            case ScopeClose(scope=scope, error=None):
                yield _status(scope, "finished")
            case ScopeClose(scope=scope, error=error):
                yield _status(scope, "failed", error)
            case BlockOpen(block=block):
                self._texts[block.id] = []
            case BlockGrow(block=block, text=text):
                self._texts.setdefault(block.id, []).append(text)
                yield Data("data-inside-delta", {**_about(block), "delta": text}, transient=True)
            case BlockClose(block=block, aborted=aborted):
                data = {**_about(block), "text": "".join(self._texts.pop(block.id, []))}
                if aborted is not None:
                    data["aborted"] = aborted
                yield Data("data-inside", data, block.id)
            case BlockWhole(block=block, kind=kind):
                yield Data("data-inside", {**_about(block), "kind": kind}, block.id)
            case CallStart(scope=scope, id=name, call=call):
                data = {"scope": scope.id, "toolCallId": name, "input": call.input}
                yield Data("data-inside-call", data, transient=True)
            case CallProgress(id=name, progress=progress):
                yield Data("data-progress", {"toolCallId": name, "progress": progress}, name)
            case CallResult(scope=scope, id=name, result=result):
                data = {
                    "scope": scope.id,
                    "toolCallId": name,
                    "output": result.text,
                    "isError": result.is_error,
                }
                yield Data("data-inside-result", data, name)
            case BlockExtra() | _:
                return


def _status(scope: Scope, status: str, error: str | None = None) -> Data:
    data: JsonObject = {"name": scope.name, "toolCallId": scope.call_id, "status": status}
    if scope.parent:
        data["parent"] = scope.parent
    if error is not None:
        data["error"] = error
    return Data("data-run", data, scope.id)


def _about(block: ShownBlock) -> JsonObject:
    about: JsonObject = {"scope": block.scope.id, "id": block.id, "kind": block.block_type.value}
    if block.tool:
        about["tool"] = block.tool
    return about


__all__ = ["Inside"]
