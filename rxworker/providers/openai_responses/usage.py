"""How the Responses protocol counts tokens: cached input is part of the input, reasoning part of the output."""

from __future__ import annotations

from rxworker.messages import Counts, Json, JsonObject, Usage


def read_usage(raw: JsonObject) -> Usage:
    """The normal form, which is how it counts itself.

    >>> read_usage({"input_tokens": 5, "output_tokens": 2}).total_tokens
    7
    """
    counts = _counts(raw)
    return Usage(
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
        cache_read_tokens=counts.cache_read,
        cache_creation_tokens=counts.cache_creation,
        reasoning_tokens=_int(_details(raw, "output_tokens_details").get("reasoning_tokens")),
        raw=raw,
    )


def count(usage: Usage) -> Counts:
    """The four numbers as they were sent."""
    return _counts(usage.raw or {})


def _counts(raw: JsonObject) -> Counts:
    details = _details(raw, "input_tokens_details")
    return Counts(
        _int(raw.get("input_tokens")),
        _int(raw.get("output_tokens")),
        _int(details.get("cached_tokens")),
        _int(details.get("cache_write_tokens")),
    )


def _details(raw: JsonObject, name: str) -> JsonObject:
    details = raw.get(name)
    return details if isinstance(details, dict) else {}


def _int(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


__all__ = ["count", "read_usage"]
