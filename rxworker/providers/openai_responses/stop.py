"""Why a response ends: the protocol says only whether it was completed, and what cut it."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages import Json, StopKind, StopReason
from rxworker.messages.stop import TOOL_USE
from rxworker.providers.finish_reasons import CUT, known_kind
from rxworker.providers.openai_responses.wire import WireResponse

COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"
CANCELLED = "cancelled"
STATUSES = (COMPLETED, INCOMPLETE, FAILED, CANCELLED)

END_TURN = StopKind.END_TURN


class Outcome(Struct, frozen=True):
    """What of a response's items matters for the reason why it ended.

    Attributes:
        called: Whether a call of a client's tool was completed.
        malformed: Whether there is a call that names no tool.
        refused: Whether there is a refusal.
        waiting: The types of items that wait for a client, but are no calls of its tools.
    """

    called: bool = False
    malformed: bool = False
    refused: bool = False
    waiting: tuple[str, ...] = ()


def status_of(response: WireResponse, event: str) -> str:
    """How it ended: what the response says, else the last word of the event.

    >>> status_of(WireResponse(), "response.incomplete")
    'incomplete'
    """
    return response.status if response.status in STATUSES else event.rpartition(".")[2]


def read_stop(response: WireResponse, status: str, outcome: Outcome) -> StopReason:
    """The normal form.

    Args:
        response: What was sent.
        status: How it ended.
        outcome: What its items were.

    >>> read_stop(WireResponse(), "completed", Outcome(called=True)).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    if response.incomplete_details:
        reason = _reason(response.incomplete_details)
        kind = known_kind(reason) if reason else None
        # A reason that is not known says nothing against a response that is complete.
        if reason and (kind in CUT or status != COMPLETED):
            return StopReason(kind if kind in CUT else StopKind.OTHER, reason)
    if status != COMPLETED:
        return StopReason(StopKind.OTHER, status)
    if outcome.called:
        return StopReason(TOOL_USE, status)
    if outcome.malformed:
        return StopReason(StopKind.MALFORMED, status)
    if outcome.refused:
        return StopReason(StopKind.REFUSAL, status)
    detail = f"waits for the client: {', '.join(outcome.waiting)}" if outcome.waiting else None
    return StopReason(END_TURN, status, detail)


def _reason(details: Json) -> str | None:
    reason = details.get("reason") if isinstance(details, dict) else None
    return reason if isinstance(reason, str) else None


__all__ = ["CANCELLED", "COMPLETED", "FAILED", "INCOMPLETE", "Outcome", "read_stop", "status_of"]
