"""The JSON of the generateContent stream.

Every frame is a whole response with the parts that are new. A part is kept as it came: its kind is the name of one of
its fields, and most kinds must be sent back unchanged.

Decoded JSON has no cycles, so the garbage collector need not watch these Structs.

How a candidate ends, and its usage: cached input is part of the prompt.

Thoughts, and what tools read, are counted beside the rest.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.lenient_json import word
from rxworker.messages.usage import Usage
from rxworker.providers.finish_reasons import stop_kind
from rxworker.providers.usage import numbers_in, total

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
    reason = text_of(feedback, "blockReason")
    if not reason or reason in UNBLOCKED:
        return None
    message = text_of(feedback, "blockReasonMessage")
    detail = f"{reason}: {message}" if message else reason
    return StopReason(StopKind.CONTENT_FILTER, None, detail)


def text_of(holder: Json, field: str) -> str:
    """The text in a field; empty if there is none."""
    return word(holder.get(field)) if isinstance(holder, dict) else ""


NUMBERS = ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount")
APART = ("toolUsePromptTokenCount", "thoughtsTokenCount")


def merge_usage(raw: JsonObject, update: JsonObject) -> JsonObject:
    """The numbers so far, updated; what is absent or null in the update stays.

    >>> merge_usage({"a": 1, "b": 2}, {"a": 3, "b": None, "c": 4})
    {'a': 3, 'b': 2, 'c': 4}
    """
    if None in update.values():
        update = {key: value for key, value in update.items() if value is not None}
    return raw | update


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}).total_tokens
    10
    """
    prompt, candidates, cached, beside, reasoning = numbers_in(raw, *NUMBERS, *APART)
    return Usage(total(prompt, beside), total(candidates, reasoning), cached, None, reasoning, raw)


def numbers(raw: JsonObject) -> list[int | None]:
    """The numbers as they were sent: the output is without thoughts."""
    return numbers_in(raw, *NUMBERS)


class WireContent(Struct, frozen=True, gc=False):
    """The new parts of a candidate."""

    parts: list[Json] | None = None


class WireCandidate(Struct, frozen=True, gc=False, rename="camel"):
    """One of the answers, piece by piece.

    Attributes:
        content: The new parts; often absent in the last piece.
        index: Which candidate; absent for the only one.
        finish_reason: Why it ended. Older servers send ``STOP`` with every piece, so the last one holds.
        finish_message: Details about the finish reason.
        safety_ratings: The ratings of a safety filter.
        citation_metadata: The sources that its text repeats.
        grounding_metadata: The results of a Google search.
        url_context_metadata: Which pages were read.
    """

    content: WireContent | None = None
    index: int | None = None
    finish_reason: Json = None
    finish_message: Json = None
    safety_ratings: Json = None
    citation_metadata: Json = None
    grounding_metadata: Json = None
    url_context_metadata: Json = None


class WireChunk(Struct, frozen=True, gc=False, rename="camel"):
    """One frame of the stream. No content is worth losing for a name that is not a text, so few types are demanded.

    Attributes:
        candidates: The answers.
        prompt_feedback: Whether the prompt itself was refused.
        usage_metadata: The tokens so far, not decoded: every frame has them, and few are emitted.
        model_version: The model that answers.
        response_id: The name of the response.
        error: The error, in place of all other members.
    """

    candidates: list[WireCandidate] | None = None
    prompt_feedback: Json = None
    usage_metadata: Raw = Raw(b"")
    model_version: Json = None
    response_id: Json = None
    error: Json = None


decode_chunk = msgspec.json.Decoder(WireChunk).decode
