"""Schemas that were not made by us: whether providers can take them, and making them so that they can."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject
from rxworker.messages.json import is_object

DEFINITIONS = ("$defs", "definitions")

# Parts of a schema: more than people write, and few enough to be sent with each request.
MAX_LARGE = 5_000


def check_schema(schema: JsonObject, where: str) -> None:
    """Refuse a schema of arguments that a provider could not take.

    Args:
        schema: The schema of a tool's arguments.
        where: The owner of the schema, for the error.

    Raises:
        ConfigurationError: It is not an object's, it refers to other places with ``$ref``, or it is not JSON.
    """
    reason = _complaint(schema)
    if reason is not None:
        raise ConfigurationError(f"{where}: its input schema {reason}")


def _complaint(schema: object) -> str | None:
    if not is_object(schema):
        return f"is {type(schema).__qualname__}, which is not a JSON schema"
    try:
        msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError) as error:
        return f"has no JSON form: {error}"
    kind = schema.get("type", "object" if not schema else None)
    if kind != "object":
        return f"has the type {kind!r}: the arguments of a call are an object, so it begins with type 'object'"
    if any("$ref" in part for part in _parts(schema)):
        return "refers to another place with $ref, which some providers do not take: put in what it refers to"
    return None


def inlined(schema: JsonObject) -> JsonObject:
    """The schema with its references within itself replaced by what they refer to.

    Where one leads back to itself, or to nowhere, anything is allowed: what it refers to cannot be written down
    without a reference, and the receiver of the arguments validates them.

    >>> inlined({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}})
    {'type': 'object', 'properties': {'a': {'type': 'string'}}}
    """
    return _Inliner(schema).of(schema, ())


class _Inliner:
    """Writes a schema out. What is written out may be far longer than what was sent, so it counts."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MAX_LARGE

    def of(self, part: JsonObject, trail: tuple[str, ...]) -> JsonObject:
        """A part of the schema without references. ``trail`` names those that lead to it."""
        self._left -= 1
        made: JsonObject = {}
        ref = part.get("$ref")
        if isinstance(ref, str) and ref not in trail and self._left > 0:
            made.update(self.of(_at(self._root, ref), (*trail, ref)))
        for key, value in part.items():
            # The definitions are not referenced any more.
            if part is self._root and key in DEFINITIONS:
                continue
            if key != "$ref" or not isinstance(value, str):
                made[key] = self._value(value, trail)
        return made

    def _value(self, value: Json, trail: tuple[str, ...]) -> Json:
        if isinstance(value, dict):
            return self.of(value, trail)
        if isinstance(value, list):
            return [self._value(item, trail) for item in value]
        return value


def _at(root: JsonObject, ref: str) -> JsonObject:
    """The target of a reference within the schema; a schema that allows anything if there is none."""
    if not ref.startswith("#"):
        return {}
    found: Json = root
    for name in ref.removeprefix("#").split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _parts(schema: JsonObject) -> Iterator[JsonObject]:
    """Every object in it that is a schema, and not data such as a default."""
    waiting: list[Json] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            yield part
            waiting.extend(v for k, v in part.items() if k not in ("default", "const", "enum", "examples"))
