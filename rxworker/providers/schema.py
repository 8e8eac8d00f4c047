"""JSON schemas as the providers want them for answers."""

from __future__ import annotations

import re
from typing import cast

from rxworker.messages import Json, JsonObject


def closed(schema: JsonObject) -> JsonObject:
    """The schema with its objects closed to members it does not name, as providers demand that hold a model to it.

    >>> closed({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}})["additionalProperties"]
    False
    """
    return cast("JsonObject", _closed(schema))


def is_strict(schema: Json) -> bool:
    """Whether a model can be held to the schema: all members of all objects are required, and none is free.

    >>> is_strict({"type": "object", "properties": {"a": {}}, "required": []})
    False
    """
    if isinstance(schema, list | tuple):
        return all(is_strict(part) for part in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        names = cast("JsonObject", schema.get("properties") or {})
        required = cast("list[str]", schema.get("required") or [])
        if set(names) != set(required) or not names or schema.get("additionalProperties"):
            return False
    return all(is_strict(part) for part in schema.values())


def safe_name(name: str) -> str:
    """A name of the letters that providers allow, at most 64 of them.

    >>> safe_name("list[int]")
    'list_int_'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "output"


def _closed(schema: Json) -> Json:
    if isinstance(schema, list | tuple):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: JsonObject = {name: _closed(part) for name, part in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        made.setdefault("additionalProperties", False)
    return made


__all__ = ["closed", "is_strict", "safe_name"]
