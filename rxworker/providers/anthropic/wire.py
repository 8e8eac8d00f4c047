"""The JSON of the Messages stream, and how a message ends: its stop reason and its usage.

The Structs name what the decoder reads. A message whose ``type`` is not among them does not fit the union; the decoder
then takes it as plain JSON, and it travels on as `Opaque`. Decoded JSON has no cycles, so the garbage collector need
not watch these Structs. Cached input is counted beside the input, and later numbers replace earlier ones.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from rxworker.messages import Json, JsonObject
from rxworker.messages.usage import Usage
from rxworker.providers.usage import numbers_in, total


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


class WireTextDelta(Struct, frozen=True, tag_field="type", tag="text_delta", gc=False):
    """More text."""

    text: str


class WireThinkingDelta(Struct, frozen=True, tag_field="type", tag="thinking_delta", gc=False):
    """More thinking."""

    text: str = field(name="thinking")


class WireInputDelta(Struct, frozen=True, tag_field="type", tag="input_json_delta", gc=False):
    """More of a tool's arguments."""

    text: str = field(name="partial_json")


class WireSignatureDelta(Struct, frozen=True, tag_field="type", tag="signature_delta", gc=False):
    """The seal on a thinking block."""

    signature: str


class WireCitationDelta(Struct, frozen=True, tag_field="type", tag="citations_delta", gc=False):
    """One more source."""

    citation: JsonObject


class WireCompactionDelta(Struct, frozen=True, tag_field="type", tag="compaction_delta", gc=False):
    """The compacted form of an older part of the conversation."""

    content: Json = None
    encrypted_content: Json = None


WireDelta: TypeAlias = (
    WireTextDelta | WireThinkingDelta | WireInputDelta | WireSignatureDelta | WireCitationDelta | WireCompactionDelta
)


class WireBlockDelta(Struct, frozen=True, tag_field="type", tag="content_block_delta", gc=False):
    """Something to add to a block; some servers leave out to which."""

    delta: WireDelta
    index: int | None = None


class WireBlockStart(Struct, frozen=True, tag_field="type", tag="content_block_start", gc=False):
    """A block begins; it is kept as it came, since some blocks are whole from the start."""

    content_block: JsonObject
    index: int | None = None


class WireBlockStop(Struct, frozen=True, tag_field="type", tag="content_block_stop", gc=False):
    """A block ends."""

    index: int | None = None


class WireMessage(Struct, frozen=True, gc=False):
    """The head of a message."""

    id: Json = None
    model: Json = None
    usage: JsonObject | None = None
    container: Json = None


class WireMessageStart(Struct, frozen=True, tag_field="type", tag="message_start", gc=False):
    """A message begins."""

    message: WireMessage


class WireStop(Struct, frozen=True, gc=False):
    """Why a message ends."""

    stop_reason: str | None = None
    stop_sequence: Json = None
    stop_details: Json = None
    container: Json = None  # where the code ran, known at the end


class WireMessageDelta(Struct, frozen=True, tag_field="type", tag="message_delta", gc=False):
    """The stop reason and the usage of a message, near its end."""

    delta: WireStop | None = None
    usage: JsonObject | None = None


class WireMessageStop(Struct, frozen=True, tag_field="type", tag="message_stop", gc=False):
    """A message has ended."""


class WirePing(Struct, frozen=True, tag_field="type", tag="ping", gc=False):
    """A keep-alive."""


class WireError(Struct, frozen=True, tag_field="type", tag="error", gc=False):
    """The message failed."""

    error: Json = None
    request_id: str | None = None


WireEvent: TypeAlias = (
    WireBlockDelta
    | WireBlockStart
    | WireBlockStop
    | WireMessageStart
    | WireMessageDelta
    | WireMessageStop
    | WirePing
    | WireError
)

decode_event = msgspec.json.Decoder(WireEvent).decode
