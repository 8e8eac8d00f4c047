"""Why a candidate ends, or why there is none."""

from __future__ import annotations

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.providers.finish_reasons import stop_kind

# What stands for no reason at all: the first value of Google's enumerations.
UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
UNBLOCKED = ("BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")


def read_stop(
    raw: str | None, *, called: bool, malformed: bool = False, detail: str | None = None
) -> StopReason | None:
    """The normal form.

    Args:
        raw: The finish reason; Gemini has no word of its own for calls.
        called: Whether a call was completed.
        malformed: Whether there was a call that names no tool.
        detail: The finish message.

    >>> read_stop("STOP", called=True).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    if raw is None:
        return None
    return StopReason(stop_kind(raw, called=called, malformed=malformed), raw, detail)


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


__all__ = ["UNSPECIFIED", "read_block", "read_stop"]
