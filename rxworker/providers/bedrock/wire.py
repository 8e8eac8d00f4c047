"""The JSON of Converse's events.

The type of an event is a header of its message. The Structs name what the decoder reads; every field has a default,
since one member that does not fit must not cost the members beside it. Decoded JSON has no cycles, so the garbage
collector need not watch these Structs.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from rxworker.messages import Json, JsonObject


class WireInput(Struct, frozen=True, gc=False):
    """More of a tool's arguments."""

    input: str = ""


class WireReasoning(Struct, frozen=True, gc=False, rename="camel"):
    """More thinking: text, its seal, or thinking that is sealed as a whole, in base64."""

    text: str = ""
    signature: str | None = None
    redacted_content: str | None = None


class WireDelta(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Something to add to a block: one of these."""

    text: str | None = None
    tool_use: WireInput | None = None
    reasoning_content: WireReasoning | None = None
    tool_result: list[JsonObject] | None = None
    citation: JsonObject | None = None
    image: JsonObject | None = None


class WireBlockDelta(Struct, frozen=True, gc=False, rename="camel"):
    """``contentBlockDelta``."""

    delta: WireDelta = field(default_factory=WireDelta)
    content_block_index: int = 0


class WireBlockStart(Struct, frozen=True, gc=False, rename="camel"):
    """``contentBlockStart``: the kind of block and its first members, kept as they came."""

    start: JsonObject = field(default_factory=dict[str, Json])
    content_block_index: int = 0


class WireBlockStop(Struct, frozen=True, gc=False, rename="camel"):
    """``contentBlockStop``."""

    content_block_index: int = 0


class WireMessageStart(Struct, frozen=True, gc=False):
    """``messageStart``."""

    role: str | None = None


class WireMessageStop(Struct, frozen=True, gc=False, rename="camel"):
    """``messageStop``.

    Why the message ends, and what the model's own answer had in the members that the request named.
    """

    stop_reason: str | None = None
    additional_model_response_fields: Json = None


class WireMetadata(Struct, frozen=True, gc=False, rename="camel"):
    """``metadata``, which comes after the stop: the usage, and what guardrails and routers did."""

    usage: JsonObject | None = None
    trace: Json = None
    metrics: Json = None
    service_tier: Json = None
    performance_config: Json = None


WIRE: dict[str, type[Struct]] = {
    "contentBlockDelta": WireBlockDelta,
    "contentBlockStart": WireBlockStart,
    "contentBlockStop": WireBlockStop,
    "messageStart": WireMessageStart,
    "messageStop": WireMessageStop,
    "metadata": WireMetadata,
}
"""The Struct of each type of event."""

DECODERS: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for name, kind in WIRE.items()}
