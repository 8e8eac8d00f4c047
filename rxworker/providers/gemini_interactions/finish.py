"""How an interaction ends, and its usage: cached input is part of the prompt.

Thoughts, and what tools read, are counted beside the rest.
"""

from __future__ import annotations

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.failure import Failure, read_failure
from rxworker.providers.malformed import NO_REASON
from rxworker.providers.usage import numbers_in, total

FAILED, CANCELLED = "failed", "cancelled"
CONTINUES = "requires_continuation"
# An interaction is ``incomplete`` where it reached its most tokens: https://ai.google.dev/gemini-api/docs/thinking
STOPS = {
    "completed": StopKind.END_TURN,
    "requires_action": StopKind.TOOL_USE,
    "incomplete": StopKind.MAX_TOKENS,
    "budget_exceeded": StopKind.MAX_TOKENS,
    CONTINUES: StopKind.PAUSE_TURN,
}
ENDS = (*STOPS, FAILED, CANCELLED)
WHOLE = ("completed", "requires_action")
"""The statuses with which what is still open is whole."""


def read_stop(status: str, *, called: bool, malformed: bool) -> StopReason:
    """The normal form.

    Args:
        status: The last status.
        called: Whether a call of a client's tool was completed.
        malformed: Whether there was a call that names no tool.

    >>> read_stop("requires_action", called=True, malformed=False).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    kind = STOPS.get(status, StopKind.OTHER)
    if kind not in (StopKind.END_TURN, StopKind.TOOL_USE, StopKind.OTHER):
        return StopReason(kind, status)
    if called:
        return StopReason(StopKind.TOOL_USE, status)
    if malformed:
        return StopReason(StopKind.MALFORMED, status)
    if kind is StopKind.TOOL_USE:
        return StopReason(StopKind.OTHER, status, "waits for the client")
    return StopReason(kind, status)


def ended_failure(status: str, errors: Json) -> Failure:
    """The failure of an interaction that failed or was cancelled, by the first of its errors."""
    if status == CANCELLED:
        return Failure("the interaction was cancelled", CANCELLED, CANCELLED)
    return read_failure(errors) or Failure(NO_REASON, status)


NUMBERS = ("total_input_tokens", "total_output_tokens", "total_cached_tokens")
APART = ("total_tool_use_tokens", "total_thought_tokens")


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"total_input_tokens": 5, "total_output_tokens": 2, "total_thought_tokens": 3}).total_tokens
    10
    """
    prompt, written, cached, beside, reasoning = numbers_in(raw, *NUMBERS, *APART)
    return Usage(total(prompt, beside), total(written, reasoning), cached, None, reasoning, raw)


def numbers(raw: JsonObject) -> list[int | None]:
    """The numbers as they were sent: the output is without thoughts."""
    return numbers_in(raw, *NUMBERS)
