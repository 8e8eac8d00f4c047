"""JSON schemas from types, and schemas that were not made by us.

msgspec makes the schema of each type, and a pydantic model its own. The result is changed where providers would refuse
it: references are replaced by their definitions, enums and literals get their ``type``, ``const`` becomes ``enum``, and
defaults are kept, also those of nested fields whose factory msgspec leaves out.

Schemas from elsewhere, such as those of an MCP server, are checked, or written out so that providers can take them.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

import msgspec
from msgspec import NODEFAULT, UNSET
from msgspec.inspect import DataclassType, Field, NamedTupleType, StructType, Type, type_info

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject
from rxworker.messages.custom_types import JsonDecoder, OneOf, adapt, is_model, is_path, name_of, to_json_value
from rxworker.messages.json import is_list, is_object
from rxworker.tools.signature import Parameter

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


PREFIX = "#/$defs/"

# A discriminator points into the definitions, which are gone; the tags stand in each alternative.
LEFT_OUT = frozenset({"$ref", "$comment", "discriminator", "const"})

# Where a schema holds other schemas. Everything else in it, such as a default, is data.
ONE = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})

SOME = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})

NAMED = frozenset({"properties", "patternProperties"})

TYPES: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

HINT = (
    "use a type that JSON can carry: str, int, float, bool, bytes, list, tuple, set, dict, Literal, an Enum of texts or"
    " of integers, datetime, UUID, Decimal, pathlib.Path, a dataclass, a TypedDict, a NamedTuple, a msgspec.Struct, a "
    "pydantic model, or object for any JSON"
)


def input_schema(parameters: Sequence[Parameter], texts: Mapping[str, str], tool: str) -> JsonObject:
    """The schema of a tool's arguments: an object without ``$ref``.

    Args:
        parameters: The function's parameters; those that are injected are left out.
        texts: The descriptions of those whose type does not define one.
        tool: The tool's name, for the errors.

    Raises:
        ConfigurationError: A type has no schema, or one that refers to itself.
    """
    seen = [parameter for parameter in parameters if not parameter.injected]
    properties: JsonObject = {p.name: _property(p, texts.get(p.name), tool) for p in seen}
    schema: JsonObject = {"type": "object", "properties": properties}
    if required := [p.name for p in seen if p.required]:
        schema["required"] = list[Json](required)
    schema["additionalProperties"] = False
    return schema


def schema_of(annotation: Any) -> JsonObject:
    """The schema of a type, without ``$ref``.

    Raises:
        TypeError: The type has no schema.
        ValueError: The type refers to itself, or is nested too deeply.

    >>> schema_of(typing.Literal["celsius", "kelvin"])
    {'type': 'string', 'enum': ['celsius', 'kelvin']}
    """
    try:
        adapted = adapt(annotation)
        _check_classes(adapted)
        (schema,), components = msgspec.json.schema_components(
            [adapted], ref_template=PREFIX + "{name}", schema_hook=_custom
        )
        _keep_defaults(adapted, components)
        return _inline(schema, components, ())
    except RecursionError as error:
        raise ValueError(f"the type {name_of(annotation)} is nested too deeply") from error
    except NameError as error:
        raise TypeError(
            f"the type {name_of(annotation)} mentions {error.name!r}, which is not a name of its module; a class within"
            " a function can be found only if annotations are not postponed, so define both at the top of the module"
        ) from error


def _custom(type_: Any) -> JsonObject:
    """The schema of a type that msgspec does not know.

    Raises:
        TypeError: We do not know it either.
    """
    if type_ is object:
        # Any JSON. msgspec refuses an empty schema, and comments are left out below.
        return {"$comment": "any"}
    if is_path(type_):
        return {"type": "string"}
    if is_model(type_):
        try:
            schema: dict[str, Any] = type_.model_json_schema()
        except Exception as error:
            reason = str(error).partition("\n")[0]  # the lines below are an address
            raise TypeError(f"the model {name_of(type_)} has no JSON schema: {reason}") from error
        components = schema.pop("$defs", {})
        return _inline(schema, components, ())
    if isinstance(type_, type) and issubclass(type_, OneOf):
        return {"anyOf": list[Json](map(schema_of, type_.options))}
    # Without a text of its own msgspec speaks of hooks that a tool does not have.
    raise TypeError(f"the type {name_of(type_)} has no JSON schema")


def _check_classes(annotation: Any) -> None:
    """Refuse a class of which msgspec makes something else than it declares, or an error that does not name it."""
    for found in object_types(annotation):
        cls: Any = found.cls
        if hasattr(cls, "__pydantic_validator__"):
            # msgspec fills it in itself.
            raise TypeError(
                f"{name_of(cls)} is a pydantic dataclass, whose validators would not run; make it a pydantic.BaseModel"
            )
        for field in found.fields:
            if field.default is NODEFAULT or field.default is UNSET:
                continue
            try:
                msgspec.to_builtins(field.default, str_keys=True)
            except Exception as error:
                raise TypeError(
                    f"{name_of(cls)}.{field.name} has a default without a JSON form; give it a default_factory"
                ) from error


def _property(parameter: Parameter, text: str | None, tool: str) -> JsonObject:
    where = f"tool {tool!r}, parameter {parameter.name!r}"
    try:
        schema = schema_of(parameter.annotation)
    except ValueError as error:
        raise ConfigurationError(
            f"{where}: {error}, and some providers take no schema that does; limit how deep it goes, or take a dict "
            "and describe in the docstring what is in it"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{where}: {error or repr(error)}; {HINT}") from error
    # Over the description of the class that is its type: this one is about the parameter.
    if text := (_annotated_text(parameter.annotation) or text):
        schema["description"] = text
    if not parameter.required:
        _set_default(schema, parameter.default, parameter.annotation)
    return schema


def _annotated_text(annotation: Any) -> str | None:
    """The text in ``Annotated[int, "how many"]``, or the description of a ``msgspec.Meta`` or ``pydantic.Field``."""
    if typing.get_origin(annotation) is not Annotated:
        return None
    notes = typing.get_args(annotation)[1:]
    texts = [getattr(note, "description", note) for note in notes]
    return next((text for text in reversed(texts) if isinstance(text, str)), None)


def _set_default(schema: JsonObject, default: object, annotation: Any) -> None:
    """Show a default to the model, if it is one that the model could send itself."""
    try:
        encoded = msgspec.json.encode(to_json_value(default))
        JsonDecoder(annotation).decode(encoded)
    except Exception:
        return
    schema["default"] = msgspec.json.decode(encoded)


def _inline(schema: JsonObject, components: Mapping[str, Any], trail: tuple[str, ...]) -> JsonObject:
    """The schema with its references replaced. ``trail`` names the references that lead to it."""
    out: JsonObject = {}
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith(PREFIX):
        name = ref.removeprefix(PREFIX)
        if name in trail:
            raise ValueError(f"the type {name} refers to itself")
        out.update(_inline(components[name], components, (*trail, name)))
    if "enum" in schema and "type" not in schema:
        out["type"] = _type_of(cast("list[Json]", schema["enum"]))
    if "const" in schema:
        out["enum"] = [schema["const"]]
        out.setdefault("type", _type_of([schema["const"]]))
    for key, value in schema.items():
        if key not in LEFT_OUT:
            out[key] = _inline_value(key, value, components, trail)
    return out


def _inline_value(key: str, value: Json, components: Mapping[str, Any], trail: tuple[str, ...]) -> Json:
    if key in ONE and isinstance(value, dict):
        return _inline(value, components, trail)
    if key in SOME and isinstance(value, list):
        return [_inline(cast("JsonObject", part), components, trail) for part in value]
    if key in NAMED and isinstance(value, dict):
        return {k: _inline(cast("JsonObject", v), components, trail) for k, v in value.items()}
    return value


def _type_of(values: Sequence[Json]) -> Json:
    types = list[Json](dict.fromkeys(TYPES[type(value)] for value in values))
    return types[0] if len(types) == 1 else types


def _keep_defaults(annotation: Any, components: dict[str, Any]) -> None:
    """Put back the lists and other containers that are defaults of nested fields, which msgspec leaves out.

    Defaults of other sorts that a factory makes, such as the time of day, would be wrong tomorrow.
    """
    for found in object_types(annotation):
        defaults = {field.encode_name: _made_by(field) for field in found.fields}
        kept: JsonObject = {n: value for n, value in defaults.items() if isinstance(value, list | dict)}
        if not kept:
            continue
        ((schema,), _) = msgspec.json.schema_components([found.cls], ref_template="{name}", schema_hook=_custom)
        properties = components.get(cast("str", schema["$ref"]), {}).get("properties", {})
        for name, default in kept.items():
            properties.get(name, {}).setdefault("default", default)


OBJECTS = (StructType, DataclassType, NamedTupleType)


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
        if is_list(item):
            waiting.extend(item)
        elif isinstance(item, Type | Field) and id(item) not in seen:
            seen.add(id(item))
            waiting.extend(getattr(item, name) for name in item.__struct_fields__)
            if isinstance(item, OBJECTS):
                yield item
