"""How an answer of Bedrock ends: its usage, whose cached input is counted beside the input, and its errors."""

from __future__ import annotations

from collections.abc import Mapping

from rxworker.messages import Json, JsonObject
from rxworker.messages.usage import Usage
from rxworker.providers.failure import Failure, classify, read_failure
from rxworker.providers.usage import numbers_in, total


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"inputTokens": 2, "cacheReadInputTokens": 10, "outputTokens": 3}).input_tokens
    12
    """
    fresh, output, cached, created = numbers(raw)
    details = raw.get("cacheDetails")
    listed = details if isinstance(details, list) else []
    hours = [one for one in listed if isinstance(one, dict) and one.get("ttl") == "1h"]
    hour = total(*(numbers_in(one, "inputTokens")[0] for one in hours))
    whole = total(fresh, cached, created)
    return Usage(whole, output, cached, created, raw=raw, cache_creation_1h_tokens=hour or None)


def numbers(raw: JsonObject) -> list[int | None]:
    """The four numbers as Bedrock counts them: read, written, found in the cache and put there.

    Its input is what no cache held.
    """
    return numbers_in(raw, "inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")


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
