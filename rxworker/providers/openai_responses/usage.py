"""How the Responses protocol counts tokens: cached input is part of the input, reasoning part of the output."""

from __future__ import annotations

from typing import Any

from rxworker.messages import Counts, JsonObject, Usage

NONE: JsonObject = {}
SENT = frozenset({int, type(None)})


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
    read, written = raw.get("input_tokens_details"), raw.get("output_tokens_details")
    if not isinstance(read, dict):
        read = NONE
    if not isinstance(written, dict):
        written = NONE
    sent: list[Any] = [
        raw.get("input_tokens"),
        raw.get("output_tokens"),
        read.get("cached_tokens"),
        read.get("cache_write_tokens"),
        written.get("reasoning_tokens"),
    ]
    if SENT.issuperset(map(type, sent)):
        return sent
    # A bool is an int, too, but no number.
    return [number if type(number) is int else None for number in sent]


__all__ = ["count", "read_usage"]
