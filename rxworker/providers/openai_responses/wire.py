"""The JSON of the Responses stream.

All events share one Struct: their fields have the same names everywhere, and their types are looked up in tables. Items
and parts stay plain objects, since they are kept as they came. What the server should not get wrong, but might, is
``Json`` and checked where it is read, so that no content is lost for it.

To read a frame costs the more, the more fields are looked for in it. So the usual types have Structs of their own, and
those of deltas, which most frames are, have no more fields than they need. Their reader sees events like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import fields

from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import read_repaired
from rxworker.providers.openai_responses.kinds import DELTAS, WHOLES


class WireResponse(Struct, frozen=True, gc=False):
    """The response as a whole, which the first and the last events carry."""

    id: Json = None
    status: Json = None
    error: Json = None
    incomplete_details: Json = None
    model: Json = None
    output: Json = None  # perhaps with items that are not read yet, see `read_items`
    usage: Json = None


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


_LAST = "response.completed"
ALL = WireEvent.__struct_fields__[1:]
# In the order in which they are mostly sent.
OF_DELTAS = ("item_id", "output_index", "content_index", "summary_index", "delta", "name")
USUAL = {
    **dict.fromkeys(DELTAS, OF_DELTAS),
    **dict.fromkeys(WHOLES, ALL),
    "response.created": ALL,
    "response.in_progress": ALL,
    "response.output_item.added": ALL,
    "response.output_item.done": ALL,
    "response.content_part.added": ALL,
    "response.content_part.done": ALL,
    "response.reasoning_summary_part.added": ALL,
    "response.reasoning_summary_part.done": ALL,
    _LAST: ALL,
}


# The last event repeats the items, which have usually been received before: they are decoded only when they are needed.
_Last: Any = msgspec.defstruct(
    "WireResponse",
    [("output", list[Raw] | None, None)],
    bases=(WireResponse,),
    frozen=True,
    gc=False,
)


def read_items(output: Json) -> list[Json]:
    """The items that a response repeats.

    Raises:
        msgspec.DecodeError: One of them cannot be read, or another of `UNREADABLE`.
    """
    listed: list[Any] = output if isinstance(output, list) else []
    return [_read_item(bytes(item)) if isinstance(item, Raw) else item for item in listed]


def _read_item(data: bytes) -> Json:
    item = read_repaired(data)
    return (
        msgspec.json.decode(data) if item is None else item
    )  # an invalid item raises with the reason


def _of_type(kind: str, names: tuple[str, ...]) -> Any:
    """A `WireEvent` of one type, with some of the fields. The other fields are attributes of its class."""
    known = {field.name: field for field in fields(WireEvent)}
    types = {name: field.type for name, field in known.items()}
    if kind == _LAST:
        types["response"] = _Last | None
    own = [(name, types[name], None) for name in names]
    rest = {name: field.default for name, field in known.items() if name not in names}
    namespace = rest | {"type": kind}
    return msgspec.defstruct(
        "WireEvent", own, tag_field="type", tag=kind, namespace=namespace, frozen=True, gc=False
    )


_USUAL: Any = Union[tuple(_of_type(kind, names) for kind, names in USUAL.items())]  # noqa: UP007
decode_usual: Callable[[bytes], WireEvent] = msgspec.json.Decoder(_USUAL).decode
_decode_any = msgspec.json.Decoder(WireEvent).decode


def decode_event(data: bytes) -> WireEvent:
    """A frame, whatever its type.

    Raises:
        msgspec.ValidationError: It is JSON, but does not fit.
    """
    try:
        return decode_usual(data)
    except msgspec.ValidationError:
        return _decode_any(data)
