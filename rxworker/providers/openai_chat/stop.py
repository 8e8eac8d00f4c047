"""Why a choice ends."""

from __future__ import annotations

from rxworker.messages import Json, StopKind, StopReason

END_TURN, OTHER = StopKind.END_TURN, StopKind.OTHER
STOPS = {
    "stop": END_TURN,
    "end_turn": END_TURN,
    "length": StopKind.MAX_TOKENS,
    "max_tokens": StopKind.MAX_TOKENS,
    "model_length": StopKind.MAX_TOKENS,
    "tool_calls": StopKind.TOOL_USE,
    "tool_use": StopKind.TOOL_USE,
    "function_call": StopKind.TOOL_USE,
    "content_filter": StopKind.CONTENT_FILTER,
    "malformed_function_call": StopKind.MALFORMED,
    "error": StopKind.MALFORMED,
}
NORMAL = (END_TURN, StopKind.TOOL_USE)


def read_stop(raw: str | None, *, calls: bool, refused: bool, matched: Json) -> StopReason | None:
    """The normal form.

    Args:
        raw: The finish reason; some servers never send one.
        calls: Whether the choice called a tool.
        refused: Whether it holds a refusal.
        matched: The stop sequence, where the server tells it.

    >>> read_stop("stop", calls=True, refused=False, matched=None).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    if raw is None:
        return StopReason(StopKind.TOOL_USE) if calls else None
    kind = STOPS.get(raw.lower(), OTHER)
    if kind is END_TURN:
        if calls:
            kind = StopKind.TOOL_USE
        elif refused:
            kind = StopKind.REFUSAL
        elif isinstance(matched, str):
            return StopReason(StopKind.STOP_SEQUENCE, raw, matched)
    return StopReason(kind, raw)


def keeps_calls(stop: StopReason | None) -> bool:
    """Whether the tool calls of a choice that ended so are whole; ``None``: the server never says why."""
    return stop is None or stop.kind in NORMAL


__all__ = ["END_TURN", "NORMAL", "STOPS", "keeps_calls", "read_stop"]
