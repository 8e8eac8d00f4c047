"""How a message of Anthropic ends: its stop reason and its usage. Cached input is counted beside the input, and later numbers replace earlier ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rxworker.messages import Counts, Json, JsonObject, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.anthropic.wire import WireStop
from rxworker.providers.finish_reasons import stop_kind


def read_stop(wire: WireStop, called: bool, malformed: bool = False) -> StopReason | None:
    """The normal form. A message that ends for the sake of a call which never came is malformed.

    Args:
        wire: The message as received.
        called: Whether a call of a client's tool was completed.
        malformed: Whether there was a call that names no tool.

    >>> read_stop(WireStop("end_turn"), called=True).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    """
    raw = wire.stop_reason
    if raw is None:
        return None
    kind = stop_kind(raw, called=called, malformed=malformed)
    detail = wire.stop_sequence if isinstance(wire.stop_sequence, str) else None
    if raw == "model_context_window_exceeded":
        detail = "context"
    if isinstance(wire.stop_details, dict):
        explanation = wire.stop_details.get("explanation") or wire.stop_details.get("category")
        detail = explanation if isinstance(explanation, str) else detail
    return StopReason(kind, raw, detail)


# As they are counted: what is read, written, found in the cache and put there.
NUMBERS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
SENT = frozenset({int, type(None)})


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    After a compaction the top level counts the last pass only; the tokens read and written are the sum of the passes.
    Passes of another model, such as an adviser, are not this model's tokens and are left out.

    >>> read_usage({"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 3}).input_tokens
    12
    """
    numbers: Iterable[int | None] = _numbers(raw)
    if "iterations" in raw and (passes := _passes(raw)):
        numbers = map(_sum, zip(*map(_numbers, passes), strict=True))
    fresh, output, cached, created = numbers
    read = fresh
    if fresh is None or cached or created:
        read = _sum((fresh, cached, created))
    details = raw.get("output_tokens_details")
    thinking = _int(details.get("thinking_tokens")) if isinstance(details, dict) else None
    return Usage(read, output, cached, created, thinking, raw)


def count(usage: Usage) -> Counts:
    """The four numbers as Anthropic counts them: its input is what no cache held."""
    return Counts(*_numbers(usage.raw or {}))


def _numbers(raw: JsonObject) -> list[int | None]:
    sent: list[Any] = [*map(raw.get, NUMBERS)]
    return sent if SENT.issuperset(map(type, sent)) else [*map(_int, sent)]


def _passes(raw: JsonObject) -> list[JsonObject]:
    iterations = raw.get("iterations")
    if not isinstance(iterations, list):
        return []
    return [one for one in iterations if isinstance(one, dict) and "model" not in one]


def _int(value: Json) -> int | None:
    return value if type(value) is int else None  # a bool is an int, too, but no number


def _sum(values: Iterable[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None
