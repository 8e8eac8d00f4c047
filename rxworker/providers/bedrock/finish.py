"""How an answer of Bedrock ends: its usage, whose cached input is counted beside the input, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rxworker.messages import Counts, Json, JsonObject
from rxworker.messages.usage import Usage
from rxworker.providers.failure import Failure, classify, read_failure

NUMBERS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"inputTokens": 2, "cacheReadInputTokens": 10, "outputTokens": 3}).input_tokens
    12
    """
    fresh, output, cached, created = _numbers(raw)
    read = [number for number in (fresh, cached, created) if number is not None]
    return Usage(sum(read) if read else None, output, cached, created, raw=raw)


def count(usage: Usage) -> Counts:
    """The four numbers as Bedrock counts them: its input is what no cache held."""
    return Counts(*_numbers(usage.raw or {}))


def _numbers(raw: JsonObject) -> list[int | None]:
    sent: list[Any] = [*map(raw.get, NUMBERS)]
    return [number if type(number) is int else None for number in sent]


def stream_failure(headers: Mapping[str, str], raw: Json) -> Failure:
    """The failure that a message of the types ``exception`` and ``error`` reports.

    >>> stream_failure({":exception-type": "throttlingException"}, {"message": "Too many requests"}).kind
    'rate_limit'
    """
    code = headers.get(":exception-type") or headers.get(":error-code") or "error"
    read = read_failure(raw)
    message = read.message if read else headers.get(":error-message", "the service gave no reason")
    original = raw.get("originalMessage") if isinstance(raw, dict) else None
    if isinstance(original, str) and original != message:
        message = f"{message}: {original}"
    return Failure(message, code, classify([code], None, message))
