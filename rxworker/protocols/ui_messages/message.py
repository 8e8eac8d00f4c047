"""How a UI Message Stream is told that a message begins, takes its steps, and ends or waits."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.messages import StopKind, StopReason
from rxworker.protocols.common.interrupts import interrupt_id
from rxworker.protocols.ui_messages import wire
from rxworker.protocols.ui_messages.calls import CallParts
from rxworker.protocols.ui_messages.wire import Data, UiMessagePart
from rxworker.views import (
    Retract,
    StepClose,
    StepOpen,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
)

_FINISH = {
    StopKind.END_TURN: "stop",
    StopKind.STOP_SEQUENCE: "stop",
    StopKind.MAX_TOKENS: "length",
    StopKind.TOOL_USE: "tool-calls",
    StopKind.REFUSAL: "content-filter",
    StopKind.CONTENT_FILTER: "content-filter",
}


class MessageParts:
    """The parts of a message as a whole.

    Args:
        message_id: The message's id.
        can_reset: Whether the client knows ``reset-step``.
        calls: Where calls are kept.

    >>> [part.message_id for part in MessageParts("message-1", CallParts(), can_reset=True).begin(ViewBegin("run-1"))]
    ['message-1']
    """

    def __init__(self, message_id: str | None, calls: CallParts, *, can_reset: bool) -> None:
        self._message_id = message_id
        self._calls = calls
        self._can_reset = can_reset
        self._in_step = False

    def begin(self, change: ViewBegin) -> Iterator[UiMessagePart]:
        """It begins, or goes on with calls that waited."""
        yield wire.Start(self._message_id)
        for pending in change.pending:
            # In place, where the client has the call; and otherwise it learns of it.
            yield from self._calls.available(pending.id, pending.call.name, pending.call.input)

    def open_step(self, change: StepOpen) -> Iterator[UiMessagePart]:
        """A turn begins; those of runs inside are no steps of the message."""
        if not change.scope.id:
            self._in_step = True
            yield wire.StartStep()

    def close_step(self, change: StepClose) -> Iterator[UiMessagePart]:
        """A turn is over."""
        if not change.scope.id:
            self._in_step = False
            yield wire.FinishStep()

    def finish(self, change: ViewFinish) -> Iterator[UiMessagePart]:
        """The run has finished."""
        yield wire.Finish(_finish_reason(change.stop_reason))

    def pause(self, change: ViewPause) -> Iterator[UiMessagePart]:
        """The run waits, and asks."""
        asked = False
        for pending in change.pending:
            name = interrupt_id(change.run, pending.call.id)
            if pending.needs_decision:
                asked = True
                yield wire.ToolApprovalRequest(name, pending.id, change.reason or None)
            else:
                # The client sends an answer when no call of the step is left; nobody has a say in these now.
                yield wire.ToolApprovalRequest(name, pending.id, is_automatic=True)
                yield wire.ToolApprovalResponse(name, approved=True)
        data = {"run": change.run, "hook": change.hook, "reason": change.reason}
        yield Data("data-pause", data, "pause")
        yield wire.Finish("tool-calls" if asked else "stop")

    def abort(self, change: ViewAbort) -> Iterator[UiMessagePart]:
        """The run ended without a result."""
        if change.cause == "cancel":
            yield wire.Abort(change.reason)
            return
        yield wire.ErrorPart(change.reason or change.cause)
        yield wire.Finish("error")

    def cut(self, change: ViewCut) -> Iterator[UiMessagePart]:
        """The watcher hears no more of the run."""
        yield wire.Abort(change.reason)
        yield wire.ErrorPart(change.reason)

    def take_back(self, change: Retract) -> Iterator[UiMessagePart]:
        """What a response has said is void."""
        if self._can_reset and self._in_step and not change.scope.id:
            yield wire.ResetStep()
            return
        data = {"reason": change.reason, "ids": change.blocks, "toolCallIds": change.calls}
        yield Data("data-retract", data)


def _finish_reason(reason: StopReason | None) -> str:
    return "other" if reason is None else _FINISH.get(reason.kind, "other")


__all__ = ["MessageParts"]
