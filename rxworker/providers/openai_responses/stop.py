"""Why a response ends: the protocol says only whether it was completed, and what cut it."""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.messages import StopKind, StopReason
from rxworker.providers.openai_responses.wire import WireResponse

COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"
CANCELLED = "cancelled"
STATUSES = (COMPLETED, INCOMPLETE, FAILED, CANCELLED)

REASONS = {
    "max_output_tokens": StopKind.MAX_TOKENS,
    "max_tokens": StopKind.MAX_TOKENS,
    "content_filter": StopKind.CONTENT_FILTER,
}


def status_of(response: WireResponse, event: str) -> str:
    """How it ended: what the response says, else the last word of the event.

    >>> status_of(WireResponse(), "response.incomplete")
    'incomplete'
    """
    return response.status if response.status in STATUSES else event.rpartition(".")[2]


def read_stop(
    response: WireResponse, status: str, *, called: bool, refused: bool, waiting: Sequence[str]
) -> StopReason:
    """The normal form.

    Args:
        response: What was sent.
        status: How it ended.
        called: Whether a call of a client's tool was completed.
        refused: Whether it holds a refusal.
        waiting: The items that wait for a client, but are no calls of its tools.

    >>> read_stop(WireResponse(), "completed", called=True, refused=False, waiting=()).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    details = response.incomplete_details
    reason = details.get("reason") if isinstance(details, dict) else None
    if isinstance(reason, str) and reason:
        return StopReason(REASONS.get(reason, StopKind.OTHER), reason)
    if status != COMPLETED:
        return StopReason(StopKind.OTHER, status)
    if called:
        return StopReason(StopKind.TOOL_USE, status)
    if refused:
        return StopReason(StopKind.REFUSAL, status)
    detail = f"waits for the client: {', '.join(waiting)}" if waiting else None
    return StopReason(StopKind.END_TURN, status, detail)


__all__ = ["CANCELLED", "COMPLETED", "FAILED", "INCOMPLETE", "read_stop", "status_of"]
