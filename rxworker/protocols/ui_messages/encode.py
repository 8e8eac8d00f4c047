"""From the records of a run to the parts of a UI Message Stream, version 1, and to the bytes of a response.

`UiMessageEncoder` has the table from changes to parts. The parts of the message as a whole are here; blocks, calls and notes are in `parts`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Literal

from rxworker.events import Record
from rxworker.events.pause import CLIENT_TOOL
from rxworker.messages import StopKind, StopReason
from rxworker.protocols.common import RecordEncoder, data_line, interrupt_id, pump
from rxworker.protocols.ui_messages import wire
from rxworker.protocols.ui_messages.parts import BlockParts, CallParts, NestedRuns, NoteParts
from rxworker.protocols.ui_messages.wire import Data, Finish, Start, UiMessagePart
from rxworker.state import RunState
from rxworker.views.changes import (
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    CallOffer,
    CallProgress,
    CallResult,
    CallStart,
    Change,
    Note,
    Retract,
    ScopeClose,
    ScopeOpen,
    StepClose,
    StepOpen,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
)
from rxworker.worker.decisions import distinct

Encode = Callable[[Any], Iterator[UiMessagePart]]


class UiMessageEncoder(RecordEncoder[UiMessagePart]):
    """Encodes the records of one run as the parts of one message. ``useChat`` accepts the parts for any records, also incomplete ones.

    Args:
        message_id: The id of the message. For a resumed run, the id of the message that it continues.
        can_reset: Whether the client supports ``reset-step``, which retracts a failed response. Otherwise a data part
            reports the retraction.
        continues: Whether the client has the message as far as the paused run has made it, so that the pending calls are not sent again.
        replay: For a message of several runs that is sent again from its start: ``past`` for a run that another one continues, ``last`` for the
            last one. The client runs only the calls that the last run waits for.

    Example:
        >>> from rxworker.events import TextDelta
        >>> encoder = UiMessageEncoder("message-1")
        >>> record = Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [type(part).__name__ for part in encoder.feed(record)]
        ['Start', 'StartStep', 'TextStart', 'TextDeltaPart']
        >>> [type(part).__name__ for part in encoder.close("the watcher left")]
        ['TextEnd', 'FinishStep', 'Abort', 'ErrorPart']
    """

    def __init__(
        self,
        message_id: str | None = None,
        *,
        can_reset: bool = True,
        continues: bool = False,
        replay: Literal["past", "last"] | None = None,
    ) -> None:
        super().__init__()
        calls = CallParts(is_past=replay == "past")
        message = MessageParts(
            message_id,
            calls,
            can_reset=can_reset,
            continues=continues,
            was_offered=continues and replay is None,
        )
        self._nested = NestedRuns()
        self._message = message
        self._table = _table(message, BlockParts(calls), calls)

    def catch_up(self, state: RunState, run_id: str) -> list[UiMessagePart]:
        """The parts of the current response. The client already has the earlier messages."""
        self._message.was_offered = True  # what is offered waits for the client now
        return super().catch_up(state, run_id)

    def _encode(self, change: Change) -> Iterator[UiMessagePart]:
        if _is_nested(change):
            return self._nested.feed(change)
        return self._table[type(change)](change)


def _is_nested(change: Change) -> bool:
    """Whether the change belongs to a nested run."""
    match change:
        case ScopeOpen() | ScopeClose():
            return True
        case BlockOpen() | BlockGrow() | BlockExtra() | BlockClose() | BlockWhole():
            return bool(change.block.scope.id)
        case CallStart() | CallOffer() | CallProgress() | CallResult():
            return bool(change.scope.id)
        case _:
            return False


def _table(
    message: MessageParts, blocks: BlockParts, calls: CallParts
) -> dict[type[object], Encode]:
    """The table from changes to their encoders."""
    return {
        ViewBegin: message.begin,
        ViewFinish: message.finish,
        ViewPause: message.pause,
        ViewAbort: message.abort,
        ViewCut: message.cut,
        StepOpen: message.open_step,
        StepClose: message.close_step,
        Retract: message.retract,
        BlockOpen: blocks.open,
        BlockGrow: blocks.grow,
        BlockExtra: blocks.extra,
        BlockClose: blocks.close,
        BlockWhole: blocks.whole,
        CallStart: calls.start,
        CallOffer: calls.offer,
        CallProgress: calls.progress,
        CallResult: calls.result,
        Note: NoteParts().note,
    }


DONE = b"data: [DONE]\n\n"
"""The last frame of a response."""
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "x-vercel-ai-ui-message-stream": "v1",
    }
)
"""The headers of a response."""


async def ui_message_stream(
    batches: AsyncIterable[Sequence[Record]],
    message_id: str | None = None,
    *,
    can_reset: bool = True,
    continues: bool = False,
    before: Sequence[AsyncIterable[Sequence[Record]]] = (),
) -> AsyncGenerator[bytes, None]:
    """The bytes of the response, one chunk for each batch of records, and `DONE` at the end. The response needs the headers `HEADERS`.

    Everything that is open is closed at the end, also where the run fails, or its watcher is detached. A client that comes
    back is sent all of the message again, from its first record.

    Args:
        batches: The records, for example ``watch.batches()``.
        message_id: The id of the message; for a resumed run, the id of the message that it continues. A client that reconnects
            recognises the message by it.
        can_reset: Whether the client supports ``reset-step``.
        continues: Whether the client has the message as far as the paused run has made it.
        before: The records of the runs that it continues, in order, for a client that reconnects, since all of them are one
            message.
    """
    last = len(before)
    for place, source in enumerate((*before, batches)):
        encoder = UiMessageEncoder(
            message_id,
            can_reset=can_reset,
            continues=continues or place > 0,
            replay=("past" if place < last else "last") if before else None,
        )
        async with aclosing(pump(source, encoder.feed, encoder.close)) as pieces:
            async for parts in pieces:
                sent = [p for p in parts if _is_part(p, is_first=place == 0, is_last=place == last)]
                yield b"".join(map(data_line, sent))
    yield DONE


def _is_part(part: UiMessagePart, *, is_first: bool, is_last: bool) -> bool:
    """Whether it belongs to the message: a message of several runs has one start and one end."""
    return (is_first or not isinstance(part, Start)) and (is_last or not isinstance(part, Finish))


_FINISH = {
    StopKind.END_TURN: "stop",
    StopKind.STOP_SEQUENCE: "stop",
    StopKind.MAX_TOKENS: "length",
    StopKind.TOOL_USE: "stop",  # a hook has finished the run: no call of it waits
    StopKind.REFUSAL: "content-filter",
    StopKind.CONTENT_FILTER: "content-filter",
}


class MessageParts:
    """The parts of a message as a whole.

    Args:
        message_id: The message's id.
        can_reset: Whether the client supports ``reset-step``.
        continues: Whether the client has the calls that a resumed run continues with.
        was_offered: Whether the client runs those that the run has offered to it, so that they are not offered again.
        calls: The parts of calls.

    >>> [part.message_id for part in MessageParts("message-1", CallParts(), can_reset=True).begin(ViewBegin("run-1"))]
    ['message-1']
    """

    def __init__(
        self,
        message_id: str | None,
        calls: CallParts,
        *,
        can_reset: bool,
        continues: bool = False,
        was_offered: bool = False,
    ) -> None:
        self._continues = continues
        self.was_offered = was_offered
        self._message_id = message_id
        self._calls = calls
        self._can_reset = can_reset
        self._in_step = False

    def begin(self, change: ViewBegin) -> Iterator[UiMessagePart]:
        """The message begins, or continues with pending calls."""
        yield wire.Start(self._message_id)
        for pending in change.pending:
            name, call = pending.id, pending.call
            if pending.is_held or (pending.is_offered and not self.was_offered):
                parts = self._calls.show(name, call)
            else:
                parts = self._calls.available(name, call.name, call.input)
            if self._continues:
                list(parts)  # the client has it; a second time would have it run its tools again
            else:
                yield from parts

    def open_step(self, change: StepOpen) -> Iterator[UiMessagePart]:
        """A turn begins; turns of nested runs are not steps of the message."""
        if not change.scope.id:
            self._in_step = True
            self._calls.has_results = False
            yield wire.StartStep()

    def close_step(self, change: StepClose) -> Iterator[UiMessagePart]:
        """A turn has ended."""
        if not change.scope.id:
            self._in_step = False
            yield wire.FinishStep()

    def finish(self, change: ViewFinish) -> Iterator[UiMessagePart]:
        """The run has finished. Its last step has no results of calls: a client would send the message again, as if it had run them itself."""
        if self._calls.has_results:
            yield wire.StartStep()
            yield Data(
                "data-finish", {"stopReason": change.stop_reason}, "finish"
            )  # shows the step
            yield wire.FinishStep()
        yield wire.Finish(_finish_reason(change.stop_reason))

    def pause(self, change: ViewPause) -> Iterator[UiMessagePart]:
        """The run is paused. The calls that it offers to the client were sent before."""
        if change.hook == CLIENT_TOOL:
            yield wire.Finish("tool-calls")
            return
        has_request = False
        ids = distinct([pending.call.id for pending in change.pending])
        for pending, call_id in zip(change.pending, ids, strict=True):
            name = interrupt_id(change.run_id, call_id)
            yield from self._calls.wait(pending)
            if pending.needs_decision:
                has_request = True
                yield wire.ToolApprovalRequest(name, pending.id, change.reason or None)
            else:
                # The client replies when no call of the step waits, so these are approved automatically.
                yield wire.ToolApprovalRequest(name, pending.id, is_automatic=True)
                yield wire.ToolApprovalResponse(name, approved=True)
        data = {"run": change.run_id, "hook": change.hook, "reason": change.reason}
        yield Data("data-pause", data, "pause")
        yield wire.Finish("tool-calls" if has_request else "stop")

    def abort(self, change: ViewAbort) -> Iterator[UiMessagePart]:
        """The run was aborted."""
        if change.cause == "cancel":
            yield wire.Abort(change.reason)
            return
        yield wire.ErrorPart(change.reason or change.cause)
        yield wire.Finish("error")

    def cut(self, change: ViewCut) -> Iterator[UiMessagePart]:
        """The watch ended before the run."""
        yield wire.Abort(change.reason)
        yield wire.ErrorPart(change.reason)

    def retract(self, change: Retract) -> Iterator[UiMessagePart]:
        """A response is retracted."""
        if self._can_reset and self._in_step and not change.scope.id:
            yield wire.ResetStep()
            return
        data = {"reason": change.reason, "ids": change.blocks, "toolCallIds": change.calls}
        yield Data("data-retract", data)


def _finish_reason(reason: StopReason | None) -> str:
    return "other" if reason is None else _FINISH.get(reason.kind, "other")
