"""Why a message of Anthropic's ends."""

from __future__ import annotations

from rxworker.messages import StopKind, StopReason
from rxworker.messages.stop import TOOL_USE
from rxworker.providers.anthropic.wire import WireStop

END_TURN = StopKind.END_TURN
OTHER = StopKind.OTHER
STOPS = {
    "end_turn": END_TURN,
    "max_tokens": StopKind.MAX_TOKENS,
    "model_context_window_exceeded": StopKind.MAX_TOKENS,
    "stop_sequence": StopKind.STOP_SEQUENCE,
    "tool_use": TOOL_USE,
    "pause_turn": StopKind.PAUSE_TURN,
    "compaction": StopKind.PAUSE_TURN,
    "refusal": StopKind.REFUSAL,
}


def read_stop(wire: WireStop, called: bool) -> StopReason | None:
    """The normal form. A message that ends for the sake of a call which never came is malformed.

    Args:
        wire: What was sent.
        called: Whether a call of a client's tool was completed.

    >>> read_stop(WireStop("end_turn"), called=True).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    raw = wire.stop_reason
    if raw is None:
        return None
    kind = STOPS.get(raw, OTHER)
    if kind is END_TURN and called:
        kind = TOOL_USE
    elif kind is TOOL_USE and not called:
        kind = StopKind.MALFORMED
    detail = wire.stop_sequence if isinstance(wire.stop_sequence, str) else None
    if raw == "model_context_window_exceeded":
        detail = "context"
    if isinstance(wire.stop_details, dict):
        explanation = wire.stop_details.get("explanation") or wire.stop_details.get("category")
        detail = explanation if isinstance(explanation, str) else detail
    return StopReason(kind, raw, detail)


__all__ = ["STOPS", "read_stop"]
