"""How a choice ends: its finish reason and its usage.

Cached input is part of the input, reasoning part of the output.
"""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages import JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.finish_reasons import CUT, NORMAL, known_kind, stop_kind
from rxworker.providers.openai_chat.wire import WireChoice
from rxworker.providers.usage import numbers_in

STOP_SEQUENCE = StopKind.STOP_SEQUENCE


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


def read_stop(reason: WireChoice, calls: Calls, *, refused: bool = False) -> StopReason | None:
    """The normal form.

    OpenRouter reports ``tool_calls`` also for calls that were cut; the native reason then names the limit, and counts.

    Args:
        reason: The piece of the choice that has the reason.
        calls: The calls of the choice.
        refused: Whether it holds a refusal.

    >>> read_stop(WireChoice(finish_reason="stop"), Calls(named=True)).kind
    <StopKind.TOOL_USE: 'ToolUse'>
    >>> cut = WireChoice(finish_reason="tool_calls", native_finish_reason="max_output_tokens")
    >>> read_stop(cut, Calls(named=True)).kind
    <StopKind.MAX_TOKENS: 'MaxTokens'>
    """
    raw = reason.finish_reason
    if raw is None:
        return StopReason(StopKind.TOOL_USE) if calls.named else None
    known = known_kind(raw)
    native = reason.native_finish_reason
    cut = known_kind(native) if isinstance(native, str) else None
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
        elif isinstance(reason.stop_reason, str):
            return StopReason(STOP_SEQUENCE, raw, reason.stop_reason)
    return StopReason(kind, raw)


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
    """The tokens as they were sent: input and output, those read from a cache and written to it, and reasoning."""
    *counted, elsewhere, hit, created = numbers_in(
        raw,
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details.cached_tokens",
        "prompt_tokens_details.cache_write_tokens",
        "completion_tokens_details.reasoning_tokens",
        "cached_tokens",  # Together, Moonshot
        "prompt_cache_hit_tokens",  # DeepSeek
        "prompt_tokens_details.cache_creation_input_tokens",  # DashScope
    )
    if counted[2] is None:
        counted[2] = hit if elsewhere is None else elsewhere
    if counted[3] is None:
        counted[3] = created
    return counted
