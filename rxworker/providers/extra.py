"""The settings of a request in its body, and what an application puts there with ``Options.extra``. Pure.

The rules of ``extra``, at every depth:

- An object is merged with an object key by key; the application's values replace ours.
- An object of another ``type`` replaces ours as a whole, since the members of one type mean nothing in another.
- A JSON schema is one value: it replaces ours as a whole.
- ``None`` removes a field that rxworker sets.
- Tools are added to those of the request. One with the same name is merged with it, so that no name is sent twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import as_array
from rxworker.providers.base import Options
from rxworker.providers.encode_cache import Body

SCHEMAS = frozenset({"schema", "input_schema", "parameters", "parametersJsonSchema", "responseJsonSchema"})
NAMESPACE = "namespace"

# OpenAI's words for a choice of tools.
MODES = {"auto": "auto", "none": "none", "any": "required"}
# The effort for a budget in tokens: the budget is less than the first number.
EFFORTS = ((1, "none"), (4_096, "low"), (16_384, "medium"))


def effort(thinking: int | str) -> str:
    """The effort that OpenAI's protocols have for an amount of thinking.

    >>> effort("low"), effort(1_024), effort(100_000)
    ('low', 'low', 'high')
    """
    if isinstance(thinking, str):
        return thinking
    return next((word for most, word in EFFORTS if thinking < most), "high")


def settings_as(options: Options, **names: str) -> JsonObject:
    """The settings that are set, under the names that a protocol has for them.

    >>> settings_as(Options(max_tokens=5), max_tokens="maxOutputTokens", temperature="temperature")
    {'maxOutputTokens': 5}
    """
    set_under: JsonObject = {}
    for setting, name in names.items():
        value = getattr(options, setting)
        if value is not None and value != ():
            set_under[name] = value
    return set_under


def with_extra(body: Body, extra: JsonObject, whole: Collection[str] = ()) -> Body:
    """The body with the fields of the application over ours.

    Args:
        body: Our fields.
        extra: The application's fields.
        whole: Fields of the body that are one value and are not merged.

    >>> with_extra({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4}, "d": None, "e": 5})
    {'a': {'b': 4, 'c': 2}, 'e': 5}
    """
    merged: Body = dict(body)
    for key, theirs in extra.items():
        ours = body.get(key)
        if key == "tools" and isinstance(ours, list) and isinstance(theirs, list | tuple):
            merged[key] = merged_tools(ours, theirs)
        elif key in whole and theirs is not None:
            merged[key] = theirs
        else:
            _put(merged, key, theirs)
    return merged


def merged(ours: JsonObject, theirs: JsonObject) -> JsonObject:
    """Two objects as one; see the rules above.

    >>> merged({"type": "enabled", "budget_tokens": 2000}, {"type": "disabled"})
    {'type': 'disabled'}
    """
    if "type" in ours and theirs.get("type", ours["type"]) != ours["type"]:
        return theirs
    made = dict(ours)
    for key, value in theirs.items():
        _put(made, key, value)
    return made


def merged_tools(ours: list[Json], theirs: Collection[Json]) -> list[Json]:
    """Our tools and the application's, each name once.

    A tool that stands in a namespace of the application's (OpenAI) is sent there alone.
    """
    made: list[Json] = [*ours]
    for tool in theirs:
        if isinstance(tool, dict) and isinstance(tool.get("functionDeclarations"), list):
            made += _declarations(made, tool)
        elif isinstance(tool, dict) and tool.get("type") == NAMESPACE:
            members: Json = [_taken(made, member) for member in as_array(tool.get("tools"))]
            made.append({**tool, "tools": members})
        else:
            place = _place(made, tool)
            if place is None:
                made.append(tool)
            else:
                made[place] = _over(made[place], tool)
    return made


def name_of(tool: Json) -> str | None:
    """The name of a tool, wherever its protocol puts it.

    >>> name_of({"type": "function", "function": {"name": "look"}}), name_of({"type": "web_search"})
    ('look', None)
    """
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    name = (function if isinstance(function, dict) else tool).get("name")
    return name if isinstance(name, str) else None


def _put(body: dict[str, Any], key: str, theirs: Json) -> None:
    ours: Json = body.get(key)
    if theirs is None and ours is not None:
        del body[key]
    elif key not in SCHEMAS and isinstance(ours, dict) and isinstance(theirs, dict):
        body[key] = merged(ours, theirs)
    else:
        body[key] = theirs


def _over(ours: Json, theirs: Json) -> Json:
    return merged(ours, theirs) if isinstance(ours, dict) and isinstance(theirs, dict) else theirs


def _place(tools: list[Json], tool: Json) -> int | None:
    name = name_of(tool)
    if name is None:
        return None
    return next((place for place, one in enumerate(tools) if name_of(one) == name), None)


def _taken(tools: list[Json], tool: Json) -> Json:
    """The tool merged with that of its name, which is taken out of the others."""
    place = _place(tools, tool)
    return tool if place is None else _over(tools.pop(place), tool)


def _declarations(tools: list[Json], tool: JsonObject) -> list[Json]:
    """Gemini's lists of functions: those of our names are merged into our lists, which change; the rest of the tool."""
    theirs: Sequence[Json] = as_array(tool["functionDeclarations"])
    for at, one in enumerate(tools):
        if isinstance(one, dict) and isinstance(one.get("functionDeclarations"), list):
            functions = [*as_array(one["functionDeclarations"])]
            for function in theirs:
                place = _place(functions, function)
                if place is not None:
                    functions[place] = _over(functions[place], function)
            tools[at] = {**one, "functionDeclarations": functions}
            theirs = [function for function in theirs if _place(functions, function) is None]
    rest: JsonObject = {**tool, "functionDeclarations": [*theirs]}
    if not theirs:
        del rest["functionDeclarations"]
    return [rest] if rest else []
