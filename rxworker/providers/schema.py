"""Tools and JSON schemas as the providers accept them: for answers, and for the arguments of strict tools. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject, OutputFormat
from rxworker.messages.content import LONGEST_NAME, NOT_IN_NAMES
from rxworker.messages.lenient_json import as_array, as_object, objects_in

# Where a schema holds other schemas: one, several, several by name. Everything else in it is data.
ONE = ("items", "additionalProperties")
SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "patternProperties", "$defs", "definitions")

# What OpenAI refuses in a strict schema: https://developers.openai.com/api/docs/guides/structured-outputs
_NOT_STRICT = (
    "allOf oneOf not if then else dependentRequired dependentSchemas patternProperties propertyNames prefixItems "
    "contains uniqueItems"
)
NOT_STRICT = tuple(_NOT_STRICT.split())
# What Anthropic cannot hold a model to; its official package moves it into the description, too.
_UNHELD = (
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern minItems maxItems "
    "uniqueItems minProperties maxProperties"
)
UNHELD = tuple(_UNHELD.split())
# The formats of strings that both hold a model to.
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")


def closed(schema: JsonObject) -> JsonObject:
    """The schema with its objects closed to members it does not name, as providers demand that hold a model to it.

    >>> closed({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}})["additionalProperties"]
    False
    """
    return _rewritten(schema, _as_closed)


def answer_schema(output: OutputFormat) -> JsonObject:
    """The required form of an answer as OpenAI wants it, which holds the model to it only if it leaves nothing open.

    >>> schema = {"type": "object", "properties": {"a": {}}, "required": []}
    >>> answer_schema(OutputFormat(schema, "list[int]"))["strict"]
    False
    """
    return {
        "name": NOT_IN_NAMES.sub("_", output.name)[:LONGEST_NAME] or "output",
        "schema": closed(output.schema),
        "strict": not any(_not_strict(part, False) for _, part in _parts(output.schema, "$")),
    }


def strict_arguments(schema: JsonObject, tool: str) -> JsonObject:
    """The schema of a tool's arguments as OpenAI wants it where the model is held to it.

    Objects are closed, and every member is required. Defaults are taken out, since OpenAI refuses them.

    Args:
        schema: The schema of the arguments.
        tool: The tool's name, for the error.

    Raises:
        ConfigurationError: The model cannot be held to it; the error names the place and what to do.

    >>> strict_arguments({"type": "object", "properties": {}}, "now")
    {'type': 'object', 'properties': {}, 'additionalProperties': False, 'required': []}
    """
    return _changed(schema, tool, _not_strict, _as_strict)


def held_arguments(schema: JsonObject, tool: str) -> JsonObject:
    """The schema of a tool's arguments as Anthropic wants it where the model is held to it.

    Objects are closed. Limits that Anthropic cannot hold a model to, such as ``minimum``, move into the description.

    Args:
        schema: The schema of the arguments.
        tool: The tool's name, for the error.

    Raises:
        ConfigurationError: An object in it takes any members; the error names the place and what to do.

    >>> held_arguments({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}, "f")["properties"]
    {'n': {'type': 'integer', 'description': '{minimum: 1}'}}
    """
    return _changed(schema, tool, _is_open, _as_held)


OPEN = "it is an object of any members; name them with a dataclass, a TypedDict or a msgspec.Struct"


def _changed(
    schema: JsonObject,
    tool: str,
    refusal: Callable[[JsonObject, bool], str | None],
    change: Callable[[JsonObject], JsonObject],
) -> JsonObject:
    """The schema of strict arguments with every schema in it changed, if none of them is refused."""
    for path, part in _parts(schema, "$"):
        if (reason := refusal(part, path == "$")) is not None:
            raise ConfigurationError(f"tool {tool!r} cannot be strict: at {path}, {reason}; or leave out strict=True")
    return _rewritten(schema, change)


def _parts(schema: Json, path: str) -> Iterator[tuple[str, JsonObject]]:
    """Every schema within a schema, with its place among the arguments."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in ONE:
        yield from _parts(schema.get(key), f"{path}[]" if key == "items" else f"{path}.*")
    for key in SEVERAL:
        for part in as_array(schema.get(key)):
            yield from _parts(part, path)
    for key in NAMED:
        for name, part in as_object(schema.get(key)).items():
            yield from _parts(part, f"{path}.{name}")


def _is_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    return "properties" in schema or kind == "object" or (isinstance(kind, list) and "object" in kind)


def _is_open(schema: JsonObject, is_root: bool) -> str | None:
    """Why an object with members that it does not name is refused."""
    is_closed = not schema.get("additionalProperties") and (schema.get("properties") or is_root)
    return OPEN if _is_object(schema) and not is_closed else None


def _not_strict(schema: JsonObject, is_root: bool) -> str | None:
    """Why OpenAI would refuse this part of a strict schema."""
    if _is_open(schema, is_root):
        return OPEN
    required = as_array(schema.get("required"))
    for name in as_object(schema.get("properties")):
        if name not in required:
            return (
                f"the member {name!r} may be left out, and OpenAI wants every member to be required; take its default "
                "away, and let its type include None where it may be missing"
            )
    known = next((key for key in NOT_STRICT if key in schema), None)
    return None if known is None else f"OpenAI does not take {known!r}; use another type"


def _rewritten(schema: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """The schema with every schema in it changed."""

    def within(key: str, value: Json) -> Json:
        if key in ONE and isinstance(value, dict):
            return _rewritten(value, change)
        if key in SEVERAL and isinstance(value, list | tuple):
            return [_rewritten(part, change) for part in objects_in(value)]
        if key in NAMED and isinstance(value, dict):
            return {name: _rewritten(as_object(part), change) for name, part in value.items()}
        return value

    return change({key: within(key, value) for key, value in schema.items()})


def _as_closed(schema: JsonObject) -> JsonObject:
    if schema.get("type") == "object" and "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def _as_strict(schema: JsonObject) -> JsonObject:
    if _is_object(schema):
        schema |= {"additionalProperties": False, "required": [*as_object(schema.setdefault("properties", {}))]}
    schema.pop("default", None)
    if schema.get("format") not in FORMATS:
        schema.pop("format", None)
    return schema


def _as_held(schema: JsonObject) -> JsonObject:
    if _is_object(schema):
        schema["additionalProperties"] = False
    limits: Mapping[str, Json] = {
        key: schema.pop(key) for key in (*UNHELD, "format") if key in schema and not _is_held(key, schema[key])
    }
    if limits:
        note = "{" + ", ".join(f"{key}: {value}" for key, value in limits.items()) + "}"
        text = schema.get("description")
        schema["description"] = f"{text}\n\n{note}" if text else note
    return schema


def _is_held(key: str, value: Json) -> bool:
    return (key == "minItems" and value in (0, 1)) or (key == "format" and value in FORMATS)


DIRECT = "direct"
PROGRAMMATIC = "programmatic"
