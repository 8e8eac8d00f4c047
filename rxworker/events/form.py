"""The forms of questions: a restricted JSON Schema, and whether a content fits it. Pure.

A form is an object without nesting, whose properties are texts, numbers, booleans and choices. What this module does
not know is refused: before the form is shown, and not after a person has filled it in.

Source: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation (Requested Schema).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import date, datetime
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, ValidationError, field

from rxworker.messages.json import Json, JsonObject

Size = Annotated[int, Meta(ge=0)]
Number = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Texts = Annotated[list[str], Meta(min_length=1)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", tag_field="type"):
    """What each part of a form may have.

    Nothing in it is deeper than a choice, so that a form can be shown and stored whatever its server is.
    """

    title: str = ""
    description: str = ""


class _Choice(_Part, frozen=True, tag=False, kw_only=True):
    const: str


Choices = Annotated[list[_Choice], Meta(min_length=1)]


class _Property(_Part, frozen=True):
    default: str | bool | Number | list[str] | None = None


class _Text(_Property, frozen=True, tag="string"):
    min_length: Size = 0
    max_length: Size = 0
    format: Literal["email", "uri", "date", "date-time"] = "email"
    enum: Texts = []
    enum_names: list[str] = []
    one_of: Choices = []


class _Number(_Property, frozen=True, tag="number"):
    minimum: Number = 0
    maximum: Number = 0


class _Integer(_Number, frozen=True, tag="integer"):
    pass


class _Boolean(_Property, frozen=True, tag="boolean"):
    pass


class _Items(_Part, frozen=True, tag="string"):
    enum: Texts = []
    any_of: Choices = []
    one_of: Choices = []

    def __post_init__(self) -> None:
        if not (self.enum or self.any_of or self.one_of):
            raise ValueError("no choices")


class _Array(_Property, frozen=True, tag="array", kw_only=True):
    min_items: Size = 0
    max_items: Size = 0
    items: _Items


class _Schema(_Part, frozen=True, tag=False, kw_only=True):
    type: Literal["object"]
    properties: JsonObject
    required: list[str] = []
    additional_properties: Json = None
    dialect: Json = field(default=None, name="$schema")


def _is_uri(text: str) -> bool:
    return bool(urlsplit(text).scheme) and not re.search(r"\s", text)


def _is_date(text: str) -> bool:
    return len(text) == 10 and bool(date.fromisoformat(text))


def _is_moment(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None and "T" in text.upper()


FORMATS: dict[str, Callable[[str], object]] = {
    "email": re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
    "uri": _is_uri,
    "date": _is_date,
    "date-time": _is_moment,
}


def check_form(schema: JsonObject) -> str:
    """Why a schema describes no form; empty if it does.

    >>> check_form({"type": "object", "properties": {"name": {"type": "string"}}})
    ''
    >>> check_form({"type": "object", "properties": {"a": {"type": "object"}}})
    "the property 'a' is neither a text, a number, a boolean nor a choice: Invalid value 'object' - at `$.type`"
    """
    try:
        form = msgspec.convert(schema, _Schema)
    except (ValidationError, UnicodeError) as error:  # half a character
        return f"it is not an object with properties: {error}"
    for name, part in form.properties.items():
        try:
            msgspec.convert(part, _Text | _Number | _Integer | _Boolean | _Array)
        except (ValidationError, UnicodeError) as error:
            return f"the property {name!r} is neither a text, a number, a boolean nor a choice: {error}"
    missing = [name for name in form.required if name not in form.properties]
    return f"the required property {missing[0]!r} is none of its properties" if missing else ""


class _Form(Struct, frozen=True):
    properties: dict[str, JsonObject]


def form_problem(schema: JsonObject, content: Json) -> str:
    """Why a content does not fit a form that `check_form` accepts; empty if it does.

    >>> form_problem({"properties": {"age": {"type": "integer", "minimum": 18}}}, {"age": 9})
    'input.age is below 18'
    """
    known = msgspec.convert(schema, _Form).properties
    if not isinstance(content, dict):
        return "input is not an object"
    if problem := problem_of(content, schema):
        return below("input", problem)
    for name, value in content.items():
        if name not in known:
            return f"input.{name}: the form has no such property; it has: {', '.join(known)}"
        form = known[name].get("format")
        if isinstance(value, str) and form is not None and not _is_of_format(value, str(form)):
            return f"input.{name} is not a valid {form}"
    return ""


def _is_of_format(text: str, form: str) -> bool:
    try:
        return bool(FORMATS[form](text))
    except ValueError:
        return False


KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "a boolean (true or false)"),
    "array": ((list, tuple), "a list in JSON"),
    "object": ((dict,), "an object in JSON"),
    "null": ((type(None),), "null"),
}
"""The types of JSON schemas, and what people call them."""
LIMITS: dict[str, tuple[str, bool]] = {
    "minimum": ("is below {}", True),
    "maximum": ("is above {}", False),
    "minLength": ("has fewer than {} characters", True),
    "maxLength": ("has more than {} characters", False),
    "minItems": ("has fewer than {} items", True),
    "maxItems": ("has more than {} items", False),
}


def problem_of(value: Json, schema: JsonObject) -> str:
    """Why a value does not fit a JSON schema; empty if it does. What is not understood of the schema is not checked.

    >>> problem_of({"days": ["x"]}, {"properties": {"days": {"items": {"type": "integer"}}}})
    '.days[0] is not a whole number'
    """
    return next(_problems(value, schema), "")


def _problems(value: Json, schema: JsonObject) -> Iterator[str]:
    kinds = kinds_of(schema)
    if kinds and not any(_is_kind(value, kind) for kind in kinds):
        yield f"is not {name_of_kinds(kinds)}"
    choices = choices_of(schema)
    if choices and value not in choices:
        yield f"is not among: {', '.join(map(str, choices))}"
    tried = [problem_of(value, each) for each in _branches(schema) if isinstance(each, dict)]
    if tried and all(tried):
        yield tried[0]
    size = len(value) if isinstance(value, str | list | tuple) else value
    for word, (text, is_least) in LIMITS.items():
        limit = schema.get(word)
        is_of_value = ("imum" in word) == isinstance(value, int | float)
        if not (is_of_value and isinstance(limit, int | float) and isinstance(size, int | float)):
            continue
        if size < limit if is_least else size > limit:
            yield text.format(limit)
    items, parts, required = (schema.get(name) for name in ("items", "properties", "required"))
    if isinstance(value, list | tuple) and isinstance(items, dict):
        found = (problem_of(each, items) for each in value)
        yield from (below(f"[{at}]", problem) for at, problem in enumerate(found) if problem)
    if isinstance(value, dict):
        needed = required if isinstance(required, list) else []
        yield from (f".{name} is missing" for name in needed if name not in value)
        known = parts if isinstance(parts, dict) else {}
        for name, each in value.items():
            part = known.get(name)
            if isinstance(part, dict) and (problem := problem_of(each, part)):
                yield below(f".{name}", problem)


def below(place: str, problem: str) -> str:
    """A problem of a part of a value, as one of the value.

    >>> below("input", ".age is missing"), below("age", "is not a number")
    ('input.age is missing', 'age is not a number')
    """
    return f"{place}{problem}" if problem.startswith((".", "[")) else f"{place} {problem}"


def kinds_of(schema: Mapping[str, Json]) -> set[str]:
    """The types that a schema allows; empty for any."""
    if isinstance(kind := schema.get("type"), str | list):
        return {str(each) for each in ([kind] if isinstance(kind, str) else kind)} & KINDS.keys()
    branches = [kinds_of(each) if isinstance(each, dict) else set[str]() for each in _branches(schema)]
    return set[str]().union(*branches) if all(branches) else set()


def name_of_kinds(kinds: Container[str]) -> str:
    """What people call these types.

    >>> name_of_kinds({"null", "integer"})
    'a whole number or null'
    """
    return " or ".join(name for kind, (_, name) in KINDS.items() if kind in kinds)


def _branches(schema: Mapping[str, Json]) -> list[Json]:
    found = schema.get("anyOf") or schema.get("oneOf")
    return found if isinstance(found, list) else []


def choices_of(schema: Mapping[str, Json]) -> list[Json]:
    """The values of a choice; none if it is not one."""
    if "const" in schema:
        return [schema["const"]]
    if isinstance(values := schema.get("enum"), list):
        return values
    titled = [each["const"] for each in _branches(schema) if isinstance(each, dict) and "const" in each]
    return titled if len(titled) == len(_branches(schema)) else []


def _is_kind(value: Json, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float):
        return math.isfinite(value) and (kind == "number" or (kind == "integer" and value.is_integer()))
    return isinstance(value, KINDS[kind][0])
