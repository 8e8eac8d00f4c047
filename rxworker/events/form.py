"""The forms of questions: a restricted JSON Schema, and whether a content fits it. Pure.

A form is an object without nesting, whose properties are texts, numbers, booleans and choices. What this module does
not know is refused: before the form is shown, and not after a person has filled it in.

Source: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation (Requested Schema).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
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
        if (kind == "array" or {"enum", "oneOf"} & each.keys()) and not _choices(each):
            return f"the property {name!r} is a choice without choices"
    return ""


class _Form(Struct, frozen=True):
    properties: dict[str, JsonObject]
    required: list[str] = []


def form_problem(schema: JsonObject, content: Json) -> str:
    """Why a content does not fit a form that `check_form` accepts; empty if it does.

    >>> form_problem({"properties": {"age": {"type": "integer", "minimum": 18}}}, {"age": 9})
    'input.age is below 18'
    """
    form = msgspec.convert(schema, _Form)
    if not isinstance(content, dict):
        return "input is not an object"
    for name in form.required:
        if name not in content:
            return f"input.{name} is missing"
    for name, value in content.items():
        if name not in form.properties:
            return f"input.{name}: the form has no such property; it has: {', '.join(form.properties)}"
        if problem := _problem(form.properties[name], value):
            return f"input.{name} {problem}"
    return ""


KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "is not text"),
    "number": ((int, float), "is not a number"),
    "integer": ((int,), "is not a whole number"),
    "boolean": ((bool,), "is not a boolean"),
    "array": ((list, tuple), "is not a list"),
}
LIMITS: dict[str, tuple[str, bool]] = {
    "minimum": ("is below {}", True),
    "maximum": ("is above {}", False),
    "minLength": ("has fewer than {} characters", True),
    "maxLength": ("has more than {} characters", False),
    "minItems": ("has fewer than {} items", True),
    "maxItems": ("has more than {} items", False),
}


def _problem(schema: JsonObject, value: Json) -> str:
    types, wrong = KINDS[str(schema["type"])]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return wrong
    if isinstance(value, float) and not math.isfinite(value):
        return wrong  # it has no JSON form
    size = len(value) if isinstance(value, str | list | tuple) else value
    for keyword, (text, is_least) in LIMITS.items():
        limit = schema.get(keyword)
        if not (isinstance(limit, int | float) and isinstance(size, int | float)):
            continue
        if size < limit if is_least else size > limit:
            return text.format(limit)
    if choices := _choices(schema):
        several = value if isinstance(value, list | tuple) else [value]
        if any(each not in choices for each in several):
            return f"is not among: {', '.join(map(str, choices))}"
    if isinstance(value, str) and (form := schema.get("format")) is not None:
        try:
            fits = FORMATS[str(form)](value)
        except ValueError:
            fits = False
        return "" if fits else f"is not a valid {form}"
    return ""


def _choices(schema: Mapping[str, Json]) -> list[Json]:
    """The values of a choice; none if it is not one."""
    items = schema.get("items")
    of = items if isinstance(items, dict) else schema
    if isinstance(values := of.get("enum"), list):
        return values
    titled = of.get("oneOf") or of.get("anyOf")
    if not isinstance(titled, list):
        return []
    return [each["const"] for each in titled if isinstance(each, dict) and "const" in each]
