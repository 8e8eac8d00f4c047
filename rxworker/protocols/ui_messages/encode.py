"""From the records of a run to the parts of a UI Message Stream, version 1, and to the bytes of a response.

`HANDLERS` is the table from changes to parts. The parts of calls and of the runs inside the run are in `parts`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Literal

from msgspec.structs import replace

from rxworker import events
from rxworker.decisions import distinct
from rxworker.events.pause import CLIENT_TOOL, NESTED, UNTIL
from rxworker.messages import Json, StopKind
from rxworker.protocols import common
from rxworker.protocols.common import Wire, tagged
from rxworker.protocols.native import SSE_HEADERS
from rxworker.protocols.ui_messages.parts import CallParts, NestedRuns, data_part, inside, source_part
from rxworker.state import RunState, apply_change
from rxworker.views import changes


class UiMessageEncoder(common.RecordEncoder[Wire]):
    """Encodes the records of one run as the parts of one message.

    ``useChat`` accepts the parts for any records, also incomplete ones.

    Args:
        message_id: The id of the message. For a resumed run, the id of the message that it continues.
        can_reset: Whether the client supports ``reset-step``, which retracts a failed response. Otherwise a data part
            reports the retraction.
        continues: Whether the client has the message as far as the paused run has made it, so that the pending calls
            are not sent again.
        replay: For a message of several runs that is sent again from its start: ``past`` for a run that another one
            continues, ``last`` for the last one. The client runs only the calls that the last run waits for.

    Example:
        >>> from rxworker.events import Record, TextDelta
        >>> encoder = UiMessageEncoder("message-1")
        >>> record = Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [part["type"] for part in encoder.feed(record)]
        ['start', 'start-step', 'text-start', 'text-delta']
        >>> [part["type"] for part in encoder.close("the watcher left")]
        ['text-end', 'finish-step', 'abort', 'error']
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
        self._message_id = message_id
        self._can_reset = can_reset
        self._continues = continues
        self._is_past = replay == "past"
        # Whether the client runs the calls that the run has offered to it, so that they are not offered again.
        self._was_offered = continues and replay is None
        self._calls = CallParts()
        self._nested = NestedRuns()
        self._inside: set[str] = set()  # calls inside that were shown for a decision
        self._in_step = False
        self._signatures: dict[str, str] = {}
        self._sources = 0
        self._shared: Json = None

    def catch_up(self, state: RunState, run_id: str) -> list[Wire]:
        """The parts of the current response. The client already has the earlier messages."""
        self._was_offered = True  # what is offered waits for the client now
        return super().catch_up(state, run_id)

    def _encode(self, change: changes.Change) -> Iterable[Wire]:
        if common.scope_of(change).id and not isinstance(change, changes.Note | changes.Retract):
            parts = self._nested.feed(change)
            if isinstance(change, changes.CallResult) and inside(change.id) in self._inside:
                self._inside.remove(inside(change.id))
                return (*parts, *self._calls.result(replace(change, id=inside(change.id))))
            return parts
        return HANDLERS[type(change)](self, change)

    # The message

    def _begin(self, change: changes.ViewBegin) -> Iterator[Wire]:
        """The message begins, or continues with pending calls."""
        yield tagged("start", messageId=self._message_id)
        for pending in change.pending:
            name, call = pending.id, pending.call
            if pending.is_held or (pending.is_offered and not self._was_offered):
                parts = self._calls.show(name, call)
            else:
                parts = self._calls.available(name, call.name, call.input)
            if self._continues:
                list(parts)  # the client has it; a second time would have it run its tools again
            else:
                yield from parts
        for pending in change.inside:
            self._inside.add(inside(pending.id))
            shown = list(self._calls.show(inside(pending.id), pending.call))
            yield from shown if not self._continues else ()

    def _open_step(self, _: changes.StepOpen) -> Iterator[Wire]:
        self._in_step = True
        self._calls.has_results = False
        yield {"type": "start-step"}

    def _close_step(self, _: changes.StepClose) -> Iterator[Wire]:
        self._in_step = False
        yield {"type": "finish-step"}

    def _finish(self, change: changes.ViewFinish) -> Iterator[Wire]:
        """The run has finished.

        Its last step has no results of calls: a client would send the message again, as if it had run them itself.
        """
        if self._calls.has_results:
            yield {"type": "start-step"}
            data = {"stopReason": change.stop_reason}
            yield data_part("data-finish", data, "finish")  # shows the step
            yield {"type": "finish-step"}
        yield _finish(_FINISH.get(None if change.stop_reason is None else change.stop_reason.kind, "other"))

    def _pause(self, change: changes.ViewPause) -> Iterator[Wire]:
        """The run is paused. The calls that it offers to the client were sent before."""
        if change.hook == CLIENT_TOOL:
            yield _finish("tool-calls")
            return
        has_request = False
        ids = distinct([pending.name for pending in change.pending])
        # A client with nothing left to approve would resume the run by itself.
        waits = change.hook in (NESTED, UNTIL) and not any(each.needs_decision for each in change.pending)
        for pending, call_id in zip(change.pending, ids, strict=True):
            name = common.interrupt_id(change.run_id, call_id)
            # A call inside is shown beside those of the run, and the client never runs it.
            shown = inside(pending.id) if pending.path else pending.id
            yield from self._calls.update(shown, pending.call, is_held=pending.is_held or bool(pending.path))
            if waits:
                continue
            if pending.needs_decision:
                has_request = True
                yield _approval(name, shown, reason=pending.reason or None)
            else:
                # The client replies when no call of the step waits, so these are approved automatically.
                yield _approval(name, shown, isAutomatic=True)
                yield {"type": "tool-approval-response", "approvalId": name, "approved": True}
        data: dict[str, object] = {"run": change.run_id, "hook": change.hook, "reason": change.reason}
        if asked := {each.id: each.question for each in change.pending if each.question}:
            data["questions"] = asked
        yield data_part("data-pause", data, "pause")
        yield _finish("tool-calls" if has_request else "stop")

    def _abort(self, change: changes.ViewAbort) -> Iterator[Wire]:
        if change.cause == "cancel":
            yield {"type": "abort", "reason": change.reason}
            return
        yield {"type": "error", "errorText": change.reason or change.cause}
        yield _finish("error")

    def _cut(self, change: changes.ViewCut) -> Iterator[Wire]:
        yield {"type": "abort", "reason": change.reason}
        yield {"type": "error", "errorText": change.reason}

    def _retract(self, change: changes.Retract) -> Iterator[Wire]:
        if self._can_reset and self._in_step and not change.scope.id:
            yield {"type": "reset-step"}
            return
        yield data_part("data-retract", {"reason": change.reason, "ids": change.blocks, "toolCallIds": change.calls})

    # Blocks

    def _open(self, change: changes.BlockOpen) -> Iterator[Wire]:
        block = change.block
        if block.block_type is events.BlockType.THINKING:
            yield {"type": "reasoning-start", "id": block.id}
        elif block.is_call:
            yield from self._calls.open(change)
        else:
            about = {"rxworker": {"refusal": True}} if block.block_type is events.BlockType.REFUSAL else None
            yield tagged("text-start", id=block.id, providerMetadata=about)

    def _grow(self, change: changes.BlockGrow) -> Iterator[Wire]:
        block = change.block
        if block.block_type is events.BlockType.THINKING:
            yield {"type": "reasoning-delta", "id": block.id, "delta": change.text}
        elif block.is_call:
            yield from self._calls.grow(change)
        else:
            yield {"type": "text-delta", "id": block.id, "delta": change.text}

    def _extra(self, change: changes.BlockExtra) -> Iterator[Wire]:
        """A block has a signature, which is sent at its end, or a citation."""
        event = change.event
        if isinstance(event, events.SignatureDelta):
            self._signatures[change.block.id] = event.signature
            return
        source = source_part(event.citation, f"{change.block.id}.source.{self._sources + 1}")
        if source is not None:
            self._sources += 1
            yield dict(source)
        else:
            yield data_part("data-citation", {"id": change.block.id, "citation": event.citation})

    def _close(self, change: changes.BlockClose) -> Iterator[Wire]:
        block = change.block
        if block.is_call:
            yield from self._calls.close(change)
            return
        signature = self._signatures.pop(block.id, None)
        metadata = None if signature is None else {"rxworker": {"signature": signature}}
        kind = "reasoning-end" if block.block_type is events.BlockType.THINKING else "text-end"
        yield tagged(kind, id=block.id, providerMetadata=metadata)

    # Calls

    def _start_call(self, change: changes.CallStart) -> Iterator[Wire]:
        return self._calls.update(change.id, change.call, is_held=change.is_held)

    def _offer_call(self, change: changes.CallOffer) -> Iterator[Wire]:
        """The run waits for the client to run a call; a later run has its result already, if this one is past."""
        return self._calls.update(change.id, change.call, is_held=self._is_past)

    def _end_call(self, change: changes.CallResult) -> Iterator[Wire]:
        return self._calls.result(change)

    # Other events

    def _note(self, change: changes.Note) -> Iterator[Wire]:
        """The client keeps those that matter later; the others are transient.

        The shared state is sent whole, since a client replaces a part by its id.
        """
        record = change.record
        event = record.event
        data_type = f"data-{common.type_name(event).replace('_', '-')}"
        inside = f"{'/'.join(record.path)}.{record.turn}.{record.seq}" if record.path else None
        match event:
            case events.SharedStateChange() if not record.path:
                self._shared = apply_change(self._shared, event)
                yield data_part("data-state", self._shared, "state")
            case events.Usage():
                name = "/".join(record.path) or "run"
                yield data_part("data-usage", event, f"{name}.{record.turn}.{record.attempt}")
            case events.MessageAdd():
                if texts := [message.text for message in event.messages if message.text]:
                    yield data_part("data-message", {"source": event.source, "texts": texts})
            case events.BackgroundStart(background=call) if call.begun is not None and not record.path:
                asked = [
                    {"id": each.name, "call": each.call, "reason": each.reason, "question": each.question}
                    for each in common.asked_by(record.run_id, call).pending
                ]
                yield data_part("data-waiting", {"run": record.run_id, "calls": asked}, f"waiting.{call.id}")
            case events.Custom(name=name, data=data):
                yield data_part(f"data-{name}", data)
            case events.HookMessage() | events.HookVerdict() | events.LimitReached() | events.Error():
                yield data_part(data_type, event, inside)
            case _:
                yield data_part(data_type, event, inside, transient=True)


def _finish(reason: str) -> Wire:
    return {"type": "finish", "finishReason": reason}


def _approval(name: str, call_id: str, **more: object) -> Wire:
    return tagged("tool-approval-request", approvalId=name, toolCallId=call_id, **more)


def _whole(_: UiMessageEncoder, change: changes.BlockWhole) -> Iterator[Wire]:
    block = change.block
    yield data_part("data-block", {"kind": change.kind or block.block_type.value, "echo": change.echo}, block.id)


def _call_progress(_: UiMessageEncoder, change: changes.CallProgress) -> Iterator[Wire]:
    yield data_part("data-progress", {"toolCallId": change.id, "progress": change.progress}, change.id)


HANDLERS: dict[type[object], Callable[[UiMessageEncoder, Any], Iterator[Wire]]] = {
    changes.ViewBegin: UiMessageEncoder._begin,
    changes.ViewFinish: UiMessageEncoder._finish,
    changes.ViewPause: UiMessageEncoder._pause,
    changes.ViewAbort: UiMessageEncoder._abort,
    changes.ViewCut: UiMessageEncoder._cut,
    changes.StepOpen: UiMessageEncoder._open_step,
    changes.StepClose: UiMessageEncoder._close_step,
    changes.Retract: UiMessageEncoder._retract,
    changes.BlockOpen: UiMessageEncoder._open,
    changes.BlockGrow: UiMessageEncoder._grow,
    changes.BlockExtra: UiMessageEncoder._extra,
    changes.BlockClose: UiMessageEncoder._close,
    changes.BlockWhole: _whole,
    changes.CallStart: UiMessageEncoder._start_call,
    changes.CallOffer: UiMessageEncoder._offer_call,
    changes.CallProgress: _call_progress,
    changes.CallResult: UiMessageEncoder._end_call,
    changes.Note: UiMessageEncoder._note,
}
"""The parts of each change."""

_FINISH: dict[StopKind | None, str] = {
    StopKind.END_TURN: "stop",
    StopKind.STOP_SEQUENCE: "stop",
    StopKind.MAX_TOKENS: "length",
    StopKind.TOOL_USE: "stop",  # a hook has finished the run: no call of it waits
    StopKind.REFUSAL: "content-filter",
    StopKind.CONTENT_FILTER: "content-filter",
}

HEADERS: Mapping[str, str] = MappingProxyType({**SSE_HEADERS, "X-Vercel-AI-UI-Message-Stream": "v1"})
"""The headers of a response."""


async def ui_message_stream(
    batches: common.Batches,
    message_id: str | None = None,
    *,
    can_reset: bool = True,
    continues: bool = False,
    before: Sequence[common.Batches] = (),
) -> AsyncGenerator[bytes, None]:
    """The bytes of the response, one chunk for each batch of records, and `DONE` at the end.

    The response needs the headers `HEADERS`.

    Everything that is open is closed at the end, also where the run fails, or its watcher is detached. A client that
    comes back is sent all of the message again, from its first record.

    Args:
        batches: The records, for example ``watch.batches()``.
        message_id: The id of the message; for a resumed run, the id of the message that it continues. A client that
            reconnects recognises the message by it.
        can_reset: Whether the client supports ``reset-step``.
        continues: Whether the client has the message as far as the paused run has made it.
        before: The records of the runs that it continues, in order, for a client that reconnects, since all of them are
            one message.
    """
    for place, source in enumerate((*before, batches)):
        is_first, is_last = place == 0, place == len(before)  # a message of several runs has one start and one end
        encoder = UiMessageEncoder(
            message_id,
            can_reset=can_reset,
            continues=continues or not is_first,
            replay=("last" if is_last else "past") if before else None,
        )
        async with aclosing(common.pump(source, encoder.feed, encoder.close)) as pieces:
            async for parts in pieces:
                sent = [p for p in parts if (is_first or p["type"] != "start") and (is_last or p["type"] != "finish")]
                yield b"".join(map(common.data_line, sent))
    yield common.DONE
