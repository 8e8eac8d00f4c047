"""Tool calls and their results, in one line each."""

from __future__ import annotations

import msgspec

from rxworker.messages import Json, JsonObject, ToolCall, ToolResult, Usage
from rxworker.ui.clean import one_line

MOST = 100


def describe_call(call: ToolCall, most: int = MOST) -> str:
    """A call as one would write it.

    >>> describe_call(ToolCall("1", "forecast", {"city": "Kyoto", "days": 2}))
    'forecast(city="Kyoto", days=2)'
    """
    return one_line(f"{call.name}({describe_arguments(call.input)})", most)


def describe_arguments(arguments: JsonObject | str, most: int | None = None) -> str:
    """Arguments as one would write them in a call.

    >>> describe_arguments({"city": "Kyoto", "days": 2})
    'city="Kyoto", days=2'
    """
    if isinstance(arguments, str):
        return one_line(arguments, most)
    given = ", ".join(f"{name}={_json(value)}" for name, value in arguments.items())
    return one_line(given, most)


def describe_result(result: ToolResult, most: int = MOST) -> str:
    """What a call came to.

    >>> describe_result(ToolResult("1", "rain", name="forecast"))
    'forecast: rain'
    """
    told = result.text if result.text or isinstance(result.content, str) else "(no text)"
    failed = "failed: " if result.is_error else ""
    name = f"{result.name}: " if result.name else ""
    return one_line(f"{name}{failed}{told}", most)


def describe_json(value: Json, most: int = MOST) -> str:
    """A value of a tool's, in one line.

    >>> describe_json("two of four"), describe_json({"done": 2})
    ('two of four', '{"done":2}')
    """
    return one_line(value if isinstance(value, str) else _json(value), most)


def describe_usage(usage: Usage) -> str:
    """The tokens of a run; empty where nobody told.

    >>> describe_usage(Usage(input_tokens=1200, output_tokens=34, cache_read_tokens=1000))
    '1,200 tokens in (1,000 cached), 34 out'
    """
    if usage.input_tokens is None and usage.output_tokens is None:
        return ""
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens or 0:,} tokens in{cached}, {usage.output_tokens or 0:,} out"


def plural(number: int, noun: str) -> str:
    """A number and its noun.

    >>> plural(1, "turn"), plural(2, "turn")
    ('1 turn', '2 turns')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")


__all__ = [
    "describe_arguments",
    "describe_call",
    "describe_json",
    "describe_result",
    "describe_usage",
    "plural",
]
