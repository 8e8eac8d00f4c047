"""How a message of Anthropic ends: its stop reason and its usage.

Cached input is counted beside the input, and later numbers replace earlier ones.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from msgspec.structs import replace

from rxworker.messages import JsonObject, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.anthropic.wire import WireStop
from rxworker.providers.finish_reasons import stop_kind
from rxworker.providers.usage import numbers_in, total


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


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    After a compaction the top level counts the last pass only; the tokens read and written are the sum of the passes.
    Passes of another model, such as an adviser, are not this model's tokens and are left out. Each has the prices of
    its own length.

    >>> read_usage({"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 3}).input_tokens
    12
    """
    fresh, output, cached, created, thinking, hour = numbers(raw)
    if passes := _passes(raw) if "iterations" in raw else ():
        if len(passes) > 1:
            together = reduce(add, map(read_usage, passes))
            return replace(together, reasoning_tokens=thinking, raw=raw)
        fresh, output, cached, created, _, hour = numbers(passes[0])
    whole = total(fresh, cached, created)
    return Usage(whole, output, cached, created, thinking, raw, cache_creation_1h_tokens=hour or None)


def numbers(raw: JsonObject) -> list[int | None]:
    """The numbers as Anthropic counts them.

    Read, written, found in the cache and put there, those of the thinking, and those put into the cache for an hour.
    Its input is what no cache held.
    """
    return numbers_in(
        raw,
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens_details.thinking_tokens",
        "cache_creation.ephemeral_1h_input_tokens",
    )


def _passes(raw: JsonObject) -> list[JsonObject]:
    iterations = raw.get("iterations")
    if not isinstance(iterations, list):
        return []
    return [one for one in iterations if isinstance(one, dict) and "model" not in one]
