"""The forms of questions: a restricted JSON Schema, and whether a content fits it. Pure.

A form is an object without nesting, whose properties are texts, numbers, booleans and choices. What this module does
not know is refused: before the form is shown, and not after a person has filled it in.

Source: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation (Requested Schema).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import date, datetime
from typing import TypeGuard
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from rxworker.messages.json import Json, JsonObject

ABOUT = frozenset({"title", "description", "default"})
KEYWORDS: dict[str, frozenset[str]] = {
    "string": frozenset({"minLength", "maxLength", "format", "enum", "enumNames", "oneOf"}),
    "number": frozenset({"minimum", "maximum"}),
    "integer": frozenset({"minimum", "maximum"}),
    "boolean": frozenset(),
    "array": frozenset({"minItems", "maxItems", "items"}),
}
"""The members that a property of each type may have besides those of `ABOUT`."""
MEMBERS = frozenset({"$schema", "type", "properties", "required", "title", "description", "additionalProperties"})
ITEMS = frozenset({"type", "title", "description", "enum", "anyOf", "oneOf"})
CHOICE = frozenset({"const", "title", "description"})


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_size(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_texts(value: Json) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_choices(value: Json) -> bool:
    return isinstance(value, list) and all(map(_is_choice, value))


def _is_choice(value: Json) -> bool:
    if not isinstance(value, dict) or not {"const"} <= value.keys() <= CHOICE:
        return False
    return all(map(_is_text, value.values()))


def _is_default(value: Json) -> bool:
    return value is None or isinstance(value, str | bool) or _is_number(value) or _are_texts(value)


def _are_items(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() <= ITEMS and all(map(_is_fit, value.items()))


def _is_fit(member: tuple[str, Json]) -> bool:
    """Whether the value of a member is of its kind."""
    name, value = member
    check = VALUES.get(name)
    return check is None or check(value)


VALUES: dict[str, Callable[[Json], bool]] = {
    **dict.fromkeys(("title", "description"), _is_text),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_size),
    **dict.fromkeys(("enum", "enumNames"), _are_texts),
    **dict.fromkeys(("oneOf", "anyOf"), _are_choices),
    "items": _are_items,
    "default": _is_default,
}
"""What the members of a property may be.

Nothing in it is deeper than a choice, so that a form can be shown and stored whatever its server is.
"""


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
    "the property 'a' is neither a text, a number, a boolean nor a choice"
    """
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return "it is not an object with properties"
    if unknown := sorted(schema.keys() - MEMBERS):
        return f"its member {unknown[0]!r} is not known"
    if not _are_texts(required) or not properties.keys() >= set(required):
        return "a required property is none of its properties"
    if not all(_is_text(schema.get(name, "")) for name in ("title", "description")):
        return "its title or its description is not a string"
    for name, each in properties.items():
        if not isinstance(each, dict) or str(each.get("type")) not in KEYWORDS:
            return f"the property {name!r} is neither a text, a number, a boolean nor a choice"
        kind = str(each["type"])
        if unknown := sorted(each.keys() - ABOUT - KEYWORDS[kind] - {"type"}):
            return f"the member {unknown[0]!r} of the property {name!r} is not known"
        if unfit := [member for member in sorted(each) if not _is_fit((member, each[member]))]:
            return f"the member {unfit[0]!r} of the property {name!r} is not understood"
        if str(each.get("format", "email")) not in FORMATS:
            return f"the format of the property {name!r} is not known"
        of = items if isinstance(items := each.get("items"), dict) else each
        if (kind == "array" or {"enum", "oneOf"} & each.keys()) and not choices_of(of):
            return f"the property {name!r} is a choice without choices"
    return ""


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
