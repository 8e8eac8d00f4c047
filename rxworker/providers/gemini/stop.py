"""Why a candidate ends, or why there is none."""

from __future__ import annotations

from rxworker.messages import Json, JsonObject, StopKind, StopReason

# What stands for no reason at all: the first value of Google's enumerations.
UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
UNBLOCKED = ("BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")
STOPS = {
    "STOP": StopKind.END_TURN,
    "MAX_TOKENS": StopKind.MAX_TOKENS,
    "SAFETY": StopKind.CONTENT_FILTER,
    "RECITATION": StopKind.CONTENT_FILTER,
    "BLOCKLIST": StopKind.CONTENT_FILTER,
    "PROHIBITED_CONTENT": StopKind.CONTENT_FILTER,
    "SPII": StopKind.CONTENT_FILTER,
    "LANGUAGE": StopKind.CONTENT_FILTER,
    "IMAGE_SAFETY": StopKind.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": StopKind.CONTENT_FILTER,
    "IMAGE_RECITATION": StopKind.CONTENT_FILTER,
    "MODEL_ARMOR": StopKind.CONTENT_FILTER,
    "ESCALATION": StopKind.CONTENT_FILTER,
    "MALFORMED_FUNCTION_CALL": StopKind.MALFORMED,
    "UNEXPECTED_TOOL_CALL": StopKind.MALFORMED,
    "TOO_MANY_TOOL_CALLS": StopKind.MALFORMED,
    "MISSING_THOUGHT_SIGNATURE": StopKind.MALFORMED,
    "MALFORMED_RESPONSE": StopKind.MALFORMED,
}


def read_stop(raw: str | None, *, called: bool, detail: str | None = None) -> StopReason | None:
    """The normal form.

    Args:
        raw: The finish reason; Gemini has no word of its own for calls.
        called: Whether a call was completed.
        detail: The finish message.

    >>> read_stop("STOP", called=True).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    >>> read_stop("SOMETHING_NEW", called=True).kind
    <StopKind.OTHER: 'Other'>
    """
    if raw is None:
        return None
    kind = STOPS.get(raw, StopKind.OTHER)
    if kind is StopKind.END_TURN and called:
        kind = StopKind.TOOL_USE
    return StopReason(kind, raw, detail)


def keeps_calls(raw: str | None) -> bool:
    """Whether the calls that came with a finish reason are whole; ``None``: it has not come."""
    return raw is None or STOPS.get(raw) is StopKind.END_TURN


def read_block(feedback: Json) -> StopReason | None:
    """Why a prompt was refused, so that there is no candidate; ``None`` where it was not.

    Such a response has no finish reason, so there is no raw word; the reason of the block is the detail.

    >>> read_block({"blockReason": "SAFETY"})
    StopReason(kind=<StopKind.CONTENT_FILTER: 'ContentFilter'>, raw=None, detail='SAFETY')
    """
    reason = _text(feedback, "blockReason")
    if reason is None or reason in UNBLOCKED:
        return None
    message = _text(feedback, "blockReasonMessage")
    detail = f"{reason}: {message}" if message else reason
    return StopReason(StopKind.CONTENT_FILTER, None, detail)


def _text(holder: Json, field: str) -> str | None:
    holding: JsonObject = holder if isinstance(holder, dict) else {}
    value = holding.get(field)
    return value if isinstance(value, str) and value else None


__all__ = ["STOPS", "UNSPECIFIED", "keeps_calls", "read_block", "read_stop"]
