"""Why a message of Anthropic's ends."""

from __future__ import annotations

from rxworker.messages import StopReason
from rxworker.providers.anthropic.wire import WireStop
from rxworker.providers.finish_reasons import stop_kind


def read_stop(wire: WireStop, called: bool, malformed: bool = False) -> StopReason | None:
    """The normal form. A message that ends for the sake of a call which never came is malformed.

    Args:
        wire: What was sent.
        called: Whether a call of a client's tool was completed.
        malformed: Whether there was a call that names no tool.

    >>> read_stop(WireStop("end_turn"), called=True).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    raw = wire.stop_reason
    if raw is None:
        return None
    kind = stop_kind(raw, called=called, malformed=malformed)
    detail = wire.stop_sequence if isinstance(wire.stop_sequence, str) else None
    if raw == "model_context_window_exceeded":
        detail = "context"
    if isinstance(wire.stop_details, dict):
        explanation = wire.stop_details.get("explanation") or wire.stop_details.get("category")
        detail = explanation if isinstance(explanation, str) else detail
    return StopReason(kind, raw, detail)


__all__ = ["read_stop"]
