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
    if news.keys() >= raw.keys() and None not in news.values():
        return news
    return raw | {key: value for key, value in news.items() if value is not None}


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


__all__ = ["count", "merge_usage", "read_usage"]
