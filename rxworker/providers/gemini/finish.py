"""How a candidate ends, and its usage: cached input is part of the prompt; thoughts, and what tools read, are counted beside the rest."""

from __future__ import annotations

from rxworker.messages import Counts, Json, JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
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


PROMPT = "promptTokenCount"
TOOL_PROMPT = "toolUsePromptTokenCount"
CANDIDATES = "candidatesTokenCount"
THOUGHTS = "thoughtsTokenCount"
CACHED = "cachedContentTokenCount"


def merge_usage(raw: JsonObject, update: JsonObject) -> JsonObject:
    """The numbers so far, updated; what is absent or null in the update stays.

    >>> merge_usage({"a": 1, "b": 2}, {"a": 3, "b": None, "c": 4})
    {'a': 3, 'b': 2, 'c': 4}
    """
    return raw | {key: value for key, value in update.items() if value is not None}


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}).total_tokens
    10
    """
    get = raw.get
    prompt, candidates, thoughts = get(PROMPT), get(CANDIDATES), get(THOUGHTS)
    if thoughts is None and type(prompt) is int and type(candidates) is int:  # as nearly always
        beside, cached = _int(get(TOOL_PROMPT)), _int(get(CACHED))
        return Usage(prompt + (beside or 0), candidates, cached, raw=raw)
    reasoning = _int(thoughts)
    return Usage(
        input_tokens=_sum(_int(prompt), _int(get(TOOL_PROMPT))),
        output_tokens=_sum(_int(candidates), reasoning),
        cache_read_tokens=_int(get(CACHED)),
        reasoning_tokens=reasoning,
        raw=raw,
    )


def count(usage: Usage) -> Counts:
    """The four numbers as they were sent: the output is without thoughts."""
    raw = usage.raw or {}
    return Counts(_int(raw.get(PROMPT)), _int(raw.get(CANDIDATES)), _int(raw.get(CACHED)))


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def _int(value: Json) -> int | None:
    return value if type(value) is int else None
