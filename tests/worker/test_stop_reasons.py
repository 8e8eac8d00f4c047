"""Which stop reasons let the whole calls of a response run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, tool
from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    InputJsonDelta,
    ResponseEvent,
    ResponseStatus,
    Status,
    ToolUseMetadata,
)
from rxworker.messages import StopKind, StopReason
from rxworker.providers import Request
from rxworker.testing import ScriptedModel, call, say
from rxworker.testing.conformance import lint
from rxworker.turn.context import ResponseOperator

AGAINST = {StopKind.MAX_TOKENS, StopKind.REFUSAL, StopKind.CONTENT_FILTER, StopKind.MALFORMED, StopKind.INCOMPLETE}
KINDS: list[StopKind | None] = [None, *StopKind]


def events_of(kind: StopKind | None, *, on_block: bool) -> list[ResponseEvent]:
    """A response with one call, and its stop reason where a protocol may have it."""
    reason = None if kind is None else StopReason(kind)
    call = ToolUseMetadata("call_1", "pay")
    return [
        Status(ResponseStatus.STARTED),
        BlockStart(0, BlockType.TOOL_USE, metadata=call),
        InputJsonDelta(0, '{"euros": 3}'),
        BlockStop(0, BlockType.TOOL_USE, reason if on_block else None, metadata=call),
        Status(ResponseStatus.COMPLETED, stop_reason=None if on_block else reason),
    ]


class OwnModel:
    """A model of one's own: it emits events."""

    name = "own"
    model = "own"

    def __init__(self, events: Sequence[ResponseEvent]) -> None:
        self._events = events

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        is_first = request.conversation.messages[-1].role == "user" and not any(
            message.role == "assistant" for message in request.conversation.messages
        )
        if is_first:
            return reactivex.from_iterable(self._events)
        return ScriptedModel([say("Done.")]).stream(request)


def own_model(kind: StopKind | None) -> tuple[OwnModel, tuple[ResponseOperator, ...]]:
    return OwnModel(events_of(kind, on_block=False)), ()


def own_model_with_the_reason_on_the_block(kind: StopKind | None) -> tuple[OwnModel, tuple[ResponseOperator, ...]]:
    return OwnModel(events_of(kind, on_block=True)), ()


def operator(kind: StopKind | None) -> tuple[ScriptedModel, tuple[ResponseOperator, ...]]:
    """An operator that changes the reason of the first response."""
    count = 0

    def change(event: ResponseEvent) -> ResponseEvent:
        nonlocal count
        if isinstance(event, Status) and event.status is ResponseStatus.COMPLETED:
            count += 1
            if count == 1:
                return replace(event, stop_reason=None if kind is None else StopReason(kind))
        return event

    model = ScriptedModel([call("pay", euros=3), *[say("Done.")] * 3])
    return model, (ops.map(change),)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [own_model, own_model_with_the_reason_on_the_block, operator])
async def test_whole_calls_run_unless_the_stop_reason_is_against_it(
    make: Callable[..., tuple[OwnModel | ScriptedModel, tuple[ResponseOperator, ...]]], kind: StopKind | None
) -> None:
    paid: list[int] = []

    @tool
    def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    model, operators = make(kind)
    run = Worker(model, tools=[pay], operators=operators).run("Pay.")
    result = await run
    runs = kind not in AGAINST
    assert paid == ([3] if runs else [])
    results = [r for m in result.conversation.messages for r in m.tool_results]
    assert [each.is_error for each in results] == [not runs]
    assert StopReason(kind or StopKind.TOOL_USE).runs_tools is runs


@pytest.mark.parametrize("on_block", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_linter_reports_whole_calls_that_run_with_another_stop_reason(
    kind: StopKind | None, on_block: bool
) -> None:
    complaints = lint(events_of(kind, on_block=on_block))
    if kind is None or kind in AGAINST or kind in (StopKind.TOOL_USE, StopKind.PAUSE_TURN):
        assert complaints == []
    else:
        (complaint,) = complaints
        assert ("run" in complaint, "ToolUse" in complaint) == (True, True)
        assert kind.value in complaint
