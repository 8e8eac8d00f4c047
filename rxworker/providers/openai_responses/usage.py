"""How the Responses protocol counts tokens: cached input is part of the input, reasoning part of the output."""

from __future__ import annotations

from rxworker.messages import Counts, JsonObject, Usage


def read_usage(raw: JsonObject) -> Usage:
    """The normal form, which is how it counts itself.

    >>> read_usage({"input_tokens": 5, "output_tokens": 2}).total_tokens
    7
    """
    return Usage(*_numbers(raw), raw=raw)


def count(usage: Usage) -> Counts:
    """The four numbers as they were sent."""
    return Counts(*_numbers(usage.raw or {})[:4])


def _numbers(raw: JsonObject) -> list[int | None]:
    """Of the input and the output, of what of the input was read from a cache and written to it, and of the reasoning."""
    details = _details(raw, "input_tokens_details")
    told = (
        raw.get("input_tokens"),
        raw.get("output_tokens"),
        details.get("cached_tokens"),
        details.get("cache_write_tokens"),
        _details(raw, "output_tokens_details").get("reasoning_tokens"),
    )
    # A bool is an int, too, but no number.
    return [number if type(number) is int else None for number in told]


def _details(raw: JsonObject, name: str) -> JsonObject:
    details = raw.get(name)
    return details if isinstance(details, dict) else {}


__all__ = ["count", "read_usage"]
