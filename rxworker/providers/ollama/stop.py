"""Why an answer of Ollama's ends."""

from __future__ import annotations

from rxworker.messages import StopKind, StopReason

# ``load`` and ``unload`` answer requests without messages, which ask for no text but for the model itself.
STOPS = {
    "stop": StopKind.END_TURN,
    "length": StopKind.MAX_TOKENS,
    "tool_calls": StopKind.TOOL_USE,
    "load": StopKind.END_TURN,
    "unload": StopKind.OTHER,
}


def read_stop(raw: str | None, *, called: bool) -> StopReason | None:
    """The normal form.

    Args:
        raw: The reason; old servers do not say one.
        called: Whether a tool was called, of which Ollama has no word of its own.

    >>> read_stop("stop", called=True).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    if raw is None:
        return StopReason(StopKind.TOOL_USE) if called else None
    kind = STOPS.get(raw, StopKind.OTHER)
    if raw == "stop" and called:
        kind = StopKind.TOOL_USE
    return StopReason(kind, raw)


__all__ = ["STOPS", "read_stop"]
