"""Why an answer of Ollama's ends."""

from __future__ import annotations

from rxworker.messages import StopKind, StopReason
from rxworker.providers.finish_reasons import stop_kind


def read_stop(raw: str | None, *, called: bool, malformed: bool = False) -> StopReason | None:
    """The normal form.

    Args:
        raw: The reason; old servers do not say one.
        called: Whether a tool was called, of which Ollama has no word of its own.
        malformed: Whether there was a call that names no tool.

    >>> read_stop("stop", called=True).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    if raw is None:
        return StopReason(StopKind.TOOL_USE) if called else None
    return StopReason(stop_kind(raw, called=called, malformed=malformed), raw)


__all__ = ["read_stop"]
