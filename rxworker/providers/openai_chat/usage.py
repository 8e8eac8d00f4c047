"""How Chat Completions counts tokens: cached input is part of the input, reasoning part of the output."""

from __future__ import annotations

from rxworker.messages import Counts, Json, JsonObject, Usage


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    xAI alone counts reasoning beside the output; its total gives it away.

    >>> read_usage({"prompt_tokens": 5, "completion_tokens": 2}).total_tokens
    7
    """
    read, output, cached, created = _numbers(raw)
    reasoning = _int(_details(raw, "completion_tokens_details").get("reasoning_tokens"))
    if output is not None and reasoning:
        apart = (read or 0) + output + reasoning
        output = output + reasoning if raw.get("total_tokens") == apart else output
    return Usage(read, output, cached, created, reasoning, raw)


def count(usage: Usage) -> Counts:
    """The four numbers as they were sent."""
    return Counts(*_numbers(usage.raw or {}))


def _numbers(raw: JsonObject) -> tuple[int | None, int | None, int | None, int | None]:
    details = _details(raw, "prompt_tokens_details")
    cached = _int(details.get("cached_tokens"))
    if cached is None:
        cached = _int(raw.get("cached_tokens"))  # Together, Moonshot
    if cached is None:
        cached = _int(raw.get("prompt_cache_hit_tokens"))  # DeepSeek
    return (
        _int(raw.get("prompt_tokens")),
        _int(raw.get("completion_tokens")),
        cached,
        _int(details.get("cache_write_tokens")),
    )


def _details(raw: JsonObject, name: str) -> JsonObject:
    details = raw.get(name)
    return details if isinstance(details, dict) else {}


def _int(value: Json) -> int | None:
    return value if type(value) is int else None  # a bool is an int, too, but no number


__all__ = ["count", "read_usage"]
