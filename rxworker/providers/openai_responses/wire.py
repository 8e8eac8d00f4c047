"""The JSON of the Responses stream.

All events share one Struct: their fields have the same names everywhere, and their types are looked up in tables. Items
and parts stay plain objects, since they are kept as they came. What the server should not get wrong, but might, is
``Json`` and checked where it is read, so that no content is lost for it.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from rxworker.messages import Json, JsonObject


class WireResponse(Struct, frozen=True, gc=False):
    """The response as a whole, which the first and the last events carry."""

    id: Json = None
    status: Json = None
    error: Json = None
    incomplete_details: Json = None
    model: Json = None
    output: Json = None
    usage: Json = None


# https://developers.openai.com/api/reference/resources/responses, and the types of the official package
_REPEATED = (
    "background billing completed_at conversation created_at instructions max_output_tokens max_tool_calls metadata "
    "object parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options "
    "prompt_cache_retention reasoning safety_identifier service_tier store temperature text tool_choice tools "
    "top_logprobs top_p truncation user frequency_penalty presence_penalty output_text"
)
RESPONSE = frozenset((*WireResponse.__struct_fields__, *_REPEATED.split()))
"""The members of a response that are read, or that repeat the request."""


class WireEvent(Struct, frozen=True, gc=False):
    """One frame of the stream.

    Attributes:
        type: The type of the event; empty where only the frame's name has it.
        item_id: Which item; some servers change it with every event, others send nothing else.
        output_index: Which item, again. The one name that stays the same for an item's whole life.
        delta: More text.
        text: The whole text, with ``.done``; likewise ``refusal``, ``arguments``, ``input`` and ``code``.
    """

    type: str = ""
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: Json = None
    input: str | None = None
    code: Json = None
    name: str | None = None
    part: JsonObject | None = None
    item: JsonObject | None = None
    annotation: JsonObject | None = None
    response: WireResponse | None = None
    error: Json = None


decode_event = msgspec.json.Decoder(WireEvent).decode
