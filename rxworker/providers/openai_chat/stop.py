"""Why a choice ends."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages import Json, StopKind, StopReason
from rxworker.providers.finish_reasons import CUT, NORMAL, known_kind, stop_kind

STOP_SEQUENCE = StopKind.STOP_SEQUENCE


class Reason(Struct, frozen=True):
    """What a server sends about the end of a choice.

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
        reason: What was sent.
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
    # Unless the server says that the calls are whole, they have to look like it.
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
    """Whether a finish reason says so; ``None``: the server never sends one."""
    return raw is None or known_kind(raw) in NORMAL


def runs_calls(stop: StopReason | None) -> bool:
    """Whether the tool calls of a choice that ended so are whole; ``None``: the server never sends a reason."""
    return stop is None or stop.kind in NORMAL


__all__ = ["Calls", "Reason", "read_stop", "runs_calls", "says_calls_are_whole"]
