"""JSON that does not fit its Struct: what fits of it is taken, and the rest is told.

One odd member must not cost what stands beside it, so a Struct is read field by field, and a list member by member, down
to where it does not fit. Every field of such a Struct has a default.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from rxworker.messages import Json, JsonObject

S = TypeVar("S", bound=Struct)


class _Nothing:
    """What has been read of a value of which nothing could be read."""


NOTHING = _Nothing()
UNIONS = (Union, UnionType)


def read_loosely(raw: JsonObject, kind: type[S]) -> tuple[S, JsonObject]:
    """What of the object fits the Struct, and what does not. Numbers may come as text.

    What says nothing, such as ``null``, is no loss. A name that the Struct does not know counts as one that does not fit
    only if the Struct forbids such names.

    >>> class Message(Struct):
    ...     text: str = ""
    ...     calls: list[dict[str, str]] = []
    >>> read_loosely({"text": "Hi", "calls": [3, {"name": "look"}]}, Message)
    (Message(text='Hi', calls=[{'name': 'look'}]), {'calls': [3]})
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    strict = kind.__struct_config__.forbid_unknown_fields
    fitting: dict[str, Any] = {}
    rest: JsonObject = {}
    for name, value in raw.items():
        field = fields.get(name)
        if field is not None:
            taken, left = _read(value, field.type)
            if taken is not NOTHING:
                fitting[field.name] = taken
            if left:
                rest[name] = left
        elif strict and value:
            rest[name] = value
    return kind(**fitting), rest


def _read(value: Json, kind: Any) -> tuple[Any, Json]:
    """What of the value fits the type, and what does not."""
    try:
        return msgspec.convert(value, kind, strict=False), None
    except msgspec.ValidationError:
        pass
    for one in get_args(kind) if get_origin(kind) in UNIONS else (kind,):
        if isinstance(value, dict) and isinstance(one, type) and issubclass(one, Struct):
            return read_loosely(value, one)
        if isinstance(value, list) and get_origin(one) is list:
            return _read_list(value, get_args(one)[0])
    return NOTHING, value


def _read_list(values: list[Json], kind: Any) -> tuple[list[Any], list[Json]]:
    read = [_read(value, kind) for value in values]
    taken = [one for one, _ in read if one is not NOTHING]
    return taken, [left for _, left in read if left]


__all__ = ["read_loosely"]
