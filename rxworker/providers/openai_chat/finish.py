"""How a choice ends: its finish reason and its usage. Cached input is part of the input, reasoning part of the output."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.finish_reasons import CUT, NORMAL, known_kind, stop_kind
from rxworker.providers.usage import numbers_in

STOP_SEQUENCE = StopKind.STOP_SEQUENCE


class Reason(Struct, frozen=True):
    """The fields with which a server reports the end of a choice.

    Attributes:
        raw: The finish reason; some servers never send one.
        matched: The stop sequence, with vLLM.
        native: The finish reason of the provider behind OpenRouter.
    """

    raw: str | None = None
    matched: Json = None
    native: Json = None


class Calls(Struct, frozen=True):
    """The calls of a choice, as far as they matter for its stop reason.

    Attributes:
        named: Whether there is a call that names its tool.
        nameless: Whether there is one that does not.
        whole: Whether the arguments of all are whole JSON.
    """

    named: bool = False
    nameless: bool = False
    whole: bool = True


NO_CALLS = Calls()


def read_stop(
    reason: Reason, calls: Calls = NO_CALLS, *, refused: bool = False
) -> StopReason | None:
    """The normal form.

    OpenRouter reports ``tool_calls`` also for calls that were cut; the native reason then names the limit, and counts.

    Args:
        reason: The reason as received.
        calls: The calls of the choice.
        refused: Whether it holds a refusal.

    >>> read_stop(Reason("stop"), Calls(named=True)).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    >>> read_stop(Reason("tool_calls", native="max_output_tokens"), Calls(named=True)).kind
    <StopKind.MAX_TOKENS: 'MaxTokens'>
    """
    raw = reason.raw
    if raw is None:
        return StopReason(StopKind.TOOL_USE) if calls.named else None
    known = known_kind(raw)
    native = reason.native if isinstance(reason.native, str) else ""
    cut = known_kind(native)
    if cut in CUT and (known is None or known in NORMAL):
        return StopReason(cut, raw, native)
    # Unless the server reports that the calls are complete, they must look complete.
    called = calls.named and (known in NORMAL or calls.whole)
    if known is STOP_SEQUENCE and called:
        return StopReason(StopKind.TOOL_USE, raw)
    kind = stop_kind(raw, called=called, malformed=calls.nameless)
    if kind is StopKind.END_TURN:
        if refused:
            kind = StopKind.REFUSAL
        elif isinstance(reason.matched, str):
            return StopReason(STOP_SEQUENCE, raw, reason.matched)
    return StopReason(kind, raw)


def says_calls_are_whole(raw: str | None) -> bool:
    """Whether a finish reason reports it; ``None``: the server never sends one."""
    return raw is None or known_kind(raw) in NORMAL


def runs_calls(stop: StopReason | None) -> bool:
    """Whether the tool calls of a choice that ended so are whole; ``None``: the server never sends a reason."""
    return stop is None or stop.kind in NORMAL


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    xAI alone counts reasoning beside the output; its total gives it away.

    >>> read_usage({"prompt_tokens": 5, "completion_tokens": 2}).total_tokens
    7
    """
    read, output, cached, created, reasoning = numbers(raw)
    if output is not None and reasoning:
        apart = (read or 0) + output + reasoning
        output = output + reasoning if raw.get("total_tokens") == apart else output
    return Usage(read, output, cached, created, reasoning, raw)


def numbers(raw: JsonObject) -> list[int | None]:
    """The tokens of the input and the output, of the input read from a cache and written to it, and of the reasoning, as they were sent."""
    *counted, elsewhere, hit = numbers_in(
        raw,
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details.cached_tokens",
        "prompt_tokens_details.cache_write_tokens",
        "completion_tokens_details.reasoning_tokens",
        "cached_tokens",  # Together, Moonshot
        "prompt_cache_hit_tokens",  # DeepSeek
    )
    if counted[2] is None:
        counted[2] = hit if elsewhere is None else elsewhere
    return counted
