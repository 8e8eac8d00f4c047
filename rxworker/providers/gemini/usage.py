"""How Gemini counts tokens: cached input is part of the prompt, thoughts and what tools read stand beside the rest."""

from __future__ import annotations

from rxworker.messages import Counts, Json, JsonObject, Usage

PROMPT = "promptTokenCount"
TOOL_PROMPT = "toolUsePromptTokenCount"
CANDIDATES = "candidatesTokenCount"
THOUGHTS = "thoughtsTokenCount"
CACHED = "cachedContentTokenCount"


def merge_usage(raw: JsonObject, news: JsonObject) -> JsonObject:
    """The numbers so far with the news over them; what is absent or null in the news stays."""
    return raw | {key: value for key, value in news.items() if value is not None}


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}).total_tokens
    10
    """
    get = raw.get
    thoughts = _int(get(THOUGHTS))
    return Usage(
        input_tokens=_sum(_int(get(PROMPT)), _int(get(TOOL_PROMPT))),
        output_tokens=_sum(_int(get(CANDIDATES)), thoughts),
        cache_read_tokens=_int(get(CACHED)),
        reasoning_tokens=thoughts,
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


__all__ = ["count", "merge_usage", "read_usage"]
