"""How Chat Completions counts tokens: cached input is part of the input, reasoning part of the output."""

from __future__ import annotations

from rxworker.messages import Counts, JsonObject, Usage


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    xAI alone counts reasoning beside the output; its total gives it away.

    >>> read_usage({"prompt_tokens": 5, "completion_tokens": 2}).total_tokens
    7
    """
    read, output, cached, created, reasoning = _numbers(raw)
    if output is not None and reasoning:
        apart = (read or 0) + output + reasoning
        output = output + reasoning if raw.get("total_tokens") == apart else output
    return Usage(read, output, cached, created, reasoning, raw)


def count(usage: Usage) -> Counts:
    """The four numbers as they were sent."""
    return Counts(*_numbers(usage.raw or {})[:4])


def _numbers(raw: JsonObject) -> list[int | None]:
    """Of the input and the output, of what of the input was read from a cache and written to it, and of the reasoning."""
    details = _details(raw, "prompt_tokens_details")
    told = (
        raw.get("prompt_tokens"),
        raw.get("completion_tokens"),
        details.get("cached_tokens"),
        details.get("cache_write_tokens"),
        _details(raw, "completion_tokens_details").get("reasoning_tokens"),
        raw.get("cached_tokens"),  # BatchDecoder, Moonshot
        raw.get("prompt_cache_hit_tokens"),  # DeepSeek
    )
    # A bool is an int, too, but no number.
    numbers = [number if type(number) is int else None for number in told]
    *numbers, elsewhere, hit = numbers
    if numbers[2] is None:
        numbers[2] = hit if elsewhere is None else elsewhere
    return numbers


def _details(raw: JsonObject, name: str) -> JsonObject:
    details = raw.get(name)
    return details if isinstance(details, dict) else {}


__all__ = ["count", "read_usage"]
