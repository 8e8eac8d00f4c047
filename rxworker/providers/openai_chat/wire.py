"""The JSON of the Chat Completions stream, with the fields that compatible servers add, and how a choice ends.

Decoded JSON has no cycles, so the garbage collector need not watch these Structs. Cached input is part of the input,
reasoning part of the output.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.providers.finish_reasons import CUT, NORMAL, known_kind, stop_kind
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
    if isinstance(native, str) and (cut := known_kind(native)) in CUT and (known is None or known in NORMAL):
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


class WireFunction(Struct, frozen=True, gc=False):
    """Which function, and a piece of its arguments; some servers send these as an object.

    Whatever the arguments are, they are kept: a call must not run without them.
    """

    name: str | None = None
    arguments: Json = None


class WireCustom(Struct, frozen=True, gc=False):
    """Which tool with free text, and a piece of the text."""

    name: str | None = None
    input: Json = None


class WireToolCall(Struct, frozen=True, gc=False):
    """A piece of a tool call.

    Attributes:
        index: Which call; some servers leave it out, or start at 1, or send 0 for all.
        id: With the first piece; some servers repeat it, or repeat it empty.
        custom: The tool, where it is one with free text.
        extra_content: Content that Google's compatible server requires back with the call. Gateways have other names
            for it, which are the next three.
    """

    index: int | None = None
    id: str | None = None
    function: WireFunction | None = None
    custom: WireCustom | None = None
    extra_content: JsonObject | None = None
    thought_signature: Json = None
    thoughtSignature: Json = None  # noqa: N815 - the name on the wire
    provider_specific_fields: Json = None

    def sealed(self) -> JsonObject:
        """What the server requires back."""
        return {name: value for name in SEALS if (value := getattr(self, name)) is not None}


SEALS = ("extra_content", "thought_signature", "thoughtSignature", "provider_specific_fields")
"""The members of a call that are sent back as they came."""


class WireDelta(Struct, frozen=True, gc=False):
    """The next part of a choice.

    Attributes:
        content: Text, or with Mistral a list of parts, some of which may be plain text.
        reasoning_content: Thinking, as DeepSeek, xAI and others call it.
        reasoning: Thinking, as OpenRouter, Groq and Ollama call it.
        reasoning_details: The same again, in parts that OpenRouter wants back.
        function_call: A tool call of the first kind, long out of date.
    """

    content: str | list[JsonObject | str] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[JsonObject] | None = None
    tool_calls: list[WireToolCall] | None = None
    function_call: WireFunction | None = None
    annotations: list[JsonObject] | None = None
    audio: Json = None
    images: Json = None
    executed_tools: Json = None


class WireChoice(Struct, frozen=True, gc=False):
    """One of the answers, piece by piece.

    Attributes:
        stop_reason: The text that matched, with vLLM.
        native_finish_reason: The finish reason of the provider behind OpenRouter.
        usage: Moonshot counts here.
        message: The whole choice, from a server that does not stream.
    """

    index: int = 0
    delta: WireDelta | None = None
    finish_reason: str | None = None
    stop_reason: Json = None
    native_finish_reason: Json = None
    usage: JsonObject | None = None
    content_filter_offsets: Json = None
    message: WireDelta | None = None


class WireGroq(Struct, frozen=True, gc=False):
    """The fields that Groq adds: the usage, and an error."""

    usage: JsonObject | None = None
    error: Json = None


class WireChunk(Struct, frozen=True, gc=False):
    """One frame of the stream. Its names are read from the first one alone."""

    choices: list[WireChoice] | None = None
    usage: JsonObject | None = None
    error: Json = None
    x_groq: WireGroq | None = None


Position: TypeAlias = tuple[int, int | None, bool]
"""The number of a choice, that of one of its calls, or ``None`` for its text, and whether an object may begin there."""


def growth_of(chunk: WireChunk) -> tuple[Position | None, str]:
    """The text that a chunk adds, and where, if it does nothing else, as most do; otherwise no place."""
    choices = chunk.choices
    if choices is None or len(choices) != 1 or chunk.usage or chunk.error or chunk.x_groq:
        return NO_GROWTH
    choice = choices[0]
    delta = choice.delta
    if delta is None or choice.finish_reason or choice.usage or delta.reasoning_content is not None:
        return NO_GROWTH
    if delta.reasoning or delta.reasoning_details or delta.refusal or delta.function_call:
        return NO_GROWTH
    if delta.annotations or delta.audio or delta.images or delta.executed_tools:
        return NO_GROWTH
    if choice.message is not None and choice.message.tool_calls:
        return NO_GROWTH
    text: Json = delta.content  # pyright: ignore[reportAssignmentType] - a list of parts is not a text
    number: int | None = None
    if delta.tool_calls:
        piece = delta.tool_calls[0]
        number, function = piece.index, piece.function
        is_alone = len(delta.tool_calls) == 1 and not text
        if not is_alone or number is None or piece.id:
            return NO_GROWTH
        if piece.extra_content or piece.thought_signature or piece.thoughtSignature or piece.provider_specific_fields:
            return NO_GROWTH
        if function is None or function.name:
            return NO_GROWTH
        text = function.arguments
    return ((choice.index, number, text[0] == "{"), text) if type(text) is str and text else NO_GROWTH


NO_GROWTH: tuple[None, str] = (None, "")
decode_chunk = msgspec.json.Decoder(WireChunk).decode
