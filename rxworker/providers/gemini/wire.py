"""The JSON of the generateContent stream.

Every frame is a whole response with the parts that are new. A part is kept as it came: its kind is the name of one of
its fields, and most kinds must be sent back unchanged.

Decoded JSON has no cycles, so the garbage collector need not watch these Structs.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from rxworker.messages import Json


class WireContent(Struct, frozen=True, gc=False):
    """The new parts of a candidate."""

    parts: list[Json] | None = None


class WireCandidate(Struct, frozen=True, gc=False, rename="camel"):
    """One of the answers, piece by piece.

    Attributes:
        content: The new parts; often absent in the last piece.
        index: Which candidate; absent for the only one.
        finish_reason: Why it ended. Older servers send ``STOP`` with every piece, so the last one holds.
        finish_message: Details about the finish reason.
        safety_ratings: The ratings of a safety filter.
        citation_metadata: The sources that its text repeats.
        grounding_metadata: The results of a Google search.
        url_context_metadata: Which pages were read.
    """

    content: WireContent | None = None
    index: int | None = None
    finish_reason: Json = None
    finish_message: Json = None
    safety_ratings: Json = None
    citation_metadata: Json = None
    grounding_metadata: Json = None
    url_context_metadata: Json = None


class WireChunk(Struct, frozen=True, gc=False, rename="camel"):
    """One frame of the stream. No content is worth losing for a name that is not a text, so few types are demanded.

    Attributes:
        candidates: The answers.
        prompt_feedback: Whether the prompt itself was refused.
        usage_metadata: The tokens so far, not decoded: every frame has them, and few are emitted.
        model_version: The model that answers.
        response_id: The name of the response.
        error: The error, in place of all other members.
    """

    candidates: list[WireCandidate] | None = None
    prompt_feedback: Json = None
    usage_metadata: Raw = Raw(b"")
    model_version: Json = None
    response_id: Json = None
    error: Json = None


decode_chunk = msgspec.json.Decoder(WireChunk).decode
