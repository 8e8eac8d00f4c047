"""The defaults of nested fields, which msgspec leaves out of a schema where a factory makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import NODEFAULT
from msgspec.inspect import DataclassType, Field, NamedTupleType, StructType, Type, type_info

from rxworker.tools.custom_types import to_json_value

OBJECTS = (StructType, DataclassType, NamedTupleType)


def factory_defaults(annotation: Any) -> Iterator[tuple[type, str, Any]]:
    """The fields within a type whose default is a list or another container: class, field and default.

    Defaults of other sorts that a factory makes, such as the time of day, would be wrong tomorrow.

    >>> class Place(msgspec.Struct):
    ...     tags: list[str] = msgspec.field(default_factory=lambda: ["home"])
    >>> [(name, default) for _, name, default in factory_defaults(list[Place])]
    [('tags', ['home'])]
    """
    for found in object_types(annotation):
        for field in found.fields:
            if field.default_factory is NODEFAULT:
                continue
            default = _made_by(field)
            if isinstance(default, list | dict):
                yield cast("type", found.cls), field.encode_name, default


def _made_by(field: Field) -> object:
    try:
        return msgspec.json.decode(msgspec.json.encode(to_json_value(field.default_factory())))
    except Exception:
        return None  # a factory that needs something that is not there yet, or makes what has no JSON form


def object_types(annotation: Any) -> Iterator[StructType | DataclassType | NamedTupleType]:
    """Every type with fields within a type, once, in whatever way they refer to each other."""
    seen: set[int] = set()
    waiting: list[object] = [type_info(annotation)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(cast("tuple[object, ...]", item))
        elif isinstance(item, Type | Field) and id(item) not in seen:
            seen.add(id(item))
            waiting.extend(getattr(item, name) for name in item.__struct_fields__)
            if isinstance(item, OBJECTS):
                yield item


__all__ = ["factory_defaults", "object_types"]
