"""The answer of a run as a value.

Of a type of the program, or, in a process that does not know the type, as the JSON of its stored schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject, OutputFormat
from rxworker.tools.json_decoder import JsonDecoder
from rxworker.tools.schema import HINT, schema_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FENCE = "```"
TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class Output(Generic[T_co]):
    """The type of an answer.

    Providers require an object at the root. Any other type is wrapped in an object, as its only member.

    Args:
        type_: A Struct, a dataclass, a TypedDict, a pydantic model, or any other type that the arguments of a tool may
            have.

    Attributes:
        format: What is requested, and stored with the run.

    Raises:
        ConfigurationError: The type has no JSON schema.

    >>> output = Output(list[int])
    >>> output.decode('{"value": [1, 2]}')
    [1, 2]
    """

    def __init__(self, type_: type[T_co]) -> None:
        name: str = getattr(type_, "__name__", "output")
        try:
            schema = schema_of(type_)
            self._decoder: JsonDecoder[T_co] | _SchemaDecoder = JsonDecoder(type_)
        except (TypeError, ValueError) as error:
            message = f"{type_!r} cannot be the output of a run: {error}; {HINT}"
            raise ConfigurationError(message) from error
        self._is_wrapped = schema.get("type") != "object"
        self.format = OutputFormat(_wrapped(schema) if self._is_wrapped else schema, name)

    @classmethod
    def from_format(cls, form: OutputFormat) -> Output[Any]:
        """The output of a stored run in a process that does not know its type: the value is JSON.

        The types, the members and the items are checked, but not all that a type may require, such as a pattern.

        >>> Output.from_format(Output(list[int]).format).decode('{"value": [1, 2]}')
        [1, 2]
        """
        output: Output[Any] = cls.__new__(cls)
        properties = form.schema.get("properties")
        inner = properties.get("value") if isinstance(properties, dict) else None
        output._is_wrapped = isinstance(inner, dict) and form.schema == _wrapped(inner)
        output._decoder = _SchemaDecoder(
            inner if output._is_wrapped else form.schema, "$.value" if output._is_wrapped else "$"
        )
        output.format = form
        return output

    def decode(self, text: str) -> T_co:
        """Decode the text.

        Raises:
            msgspec.DecodeError: It is not JSON, or does not fit the type; the message names the path.
        """
        text = _bare(text)
        if not self._is_wrapped:
            return self._decoder.decode(text)
        whole = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        if "value" not in whole:
            raise msgspec.ValidationError("Object missing required field `value`")
        return self._decoder.decode(bytes(whole["value"]))

    def read(self, text: str) -> JsonObject:
        """Return the JSON of a text that is valid, as ``format.schema`` describes it.

        >>> Output(list[int]).read('{"value": [1, 2]}')
        {'value': [1, 2]}
        """
        return msgspec.json.decode(_bare(text))

    def complaint(self, text: str) -> str | None:
        """The error in the text, for the model to correct; ``None`` if the text is valid."""
        try:
            self.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return (
                f"The answer does not fit the requested format: {error}. "
                "Answer again with the whole corrected JSON and nothing else."
            )
        return None


def output_of(type_: type[T] | None) -> Output[T] | None:
    """The type of an answer, if one is requested."""
    return None if type_ is None else Output(type_)


def _wrapped(schema: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {"value": schema}, "required": ["value"], "additionalProperties": False}


def _bare(text: str) -> str:
    """The text without the fence that some models put around JSON."""
    text = text.strip()
    if not (text.startswith(FENCE) and text.endswith(FENCE) and "\n" in text):
        return text
    return text[text.index("\n") : -len(FENCE)].strip()


class _SchemaDecoder:
    """Decodes JSON, and checks it against a schema, as far as `schema_of` makes one."""

    def __init__(self, schema: Json, path: str) -> None:
        self._schema = schema
        self._path = path

    def decode(self, data: str | bytes) -> Any:
        """The JSON.

        Raises:
            msgspec.DecodeError: It is not JSON, or does not fit the schema; the message names the path.
        """
        value = msgspec.json.decode(data)
        found = _misfit(value, self._schema, self._path)
        if found is not None:
            raise msgspec.ValidationError(found)
        return value


def _misfit(value: Json, schema: Json, path: str) -> str | None:
    """The first place where a value does not fit a schema; ``None`` if it fits.

    What is not known of the schema is fulfilled.
    """
    if not isinstance(schema, dict):
        return None
    for several in ("anyOf", "oneOf"):
        options = schema.get(several)
        if isinstance(options, list) and options:
            found = [_misfit(value, each, path) for each in options]
            if None not in found:
                return found[0]
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return f"invalid value {value!r} - at `{path}`"
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []
    if names and not any(_is_of(value, name) for name in names):
        expected = " or ".join(f"`{name}`" for name in names)
        return f"expected {expected}, got `{_name_of(value)}` - at `{path}`"
    if isinstance(value, dict):
        return _misfit_of_object(value, schema, path)
    if isinstance(value, list):
        found = (_misfit(each, schema.get("items"), f"{path}[{at}]") for at, each in enumerate(value))
        return next((each for each in found if each is not None), None)
    return None


def _misfit_of_object(value: JsonObject, schema: JsonObject, path: str) -> str | None:
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in value:
            return f"missing required field `{name}` - at `{path}`"
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    known = properties if isinstance(properties, dict) else {}
    for name, each in value.items():
        if name in known:
            found = _misfit(each, known[name], f"{path}.{name}")
        else:
            found = (
                f"unknown field `{name}` - at `{path}`" if others is False else _misfit(each, others, f"{path}.{name}")
            )
        if found is not None:
            return found
    return None


def _is_of(value: Json, name: Json) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return not isinstance(name, str) or name not in TYPES or isinstance(value, TYPES[name])


def _name_of(value: Json) -> str:
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else type(value).__name__
