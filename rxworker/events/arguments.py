"""The arguments of a tool call, from the pieces in which they arrive. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from rxworker.errors import InvalidArgumentError
from rxworker.events import InputJsonDelta, InputValueDelta
from rxworker.messages import Json, JsonObject, ToolMeta
from rxworker.messages.lenient_json import read_repaired

MAX_DEPTH = 100
"""The maximum number of arrays and objects within one another in arguments.

Many read them with recursion, and a model may write any number of brackets.
"""
_TOO_DEEP = f"more than {MAX_DEPTH} arrays and objects within one another"
_NO_FORM = ", which has no JSON form"
_UNCHANGED = (str, int, type(None))
_SEGMENT = re.compile(r"""\.?([^.\[\]]+)|\[(\d{1,18})\]|\[(?:'((?:[^'\\]|\\.)*)'|("(?:[^"\\]|\\.)*"))\]""", re.DOTALL)
_ESCAPED_QUOTE = re.compile(r"\\(['\\])")


REFUSED = "(These arguments were held back by a check.)"
"""The end of arguments that a check has refused, in place of the rest. They are never those of a call.

It is stored: do not change it.
"""


def parse_arguments(text: str) -> JsonObject | str:
    """The object in the text, or the text itself if it is not an object, or is nested more deeply than `MAX_DEPTH`.

    No text means no arguments, and so does ``null``. Those that a check has refused are the text, too.

    >>> parse_arguments('{"city": "Oslo"}')
    {'city': 'Oslo'}
    >>> parse_arguments(" "), parse_arguments("null")
    ({}, {})
    >>> parse_arguments('{"city": "Os')
    '{"city": "Os'
    """
    if text.strip() in ("", "null"):
        return {}
    if text.endswith(REFUSED):
        return text
    try:
        value = read_repaired(text.encode())
    except UnicodeError:  # half of a surrogate pair
        return text
    # Most texts have too few brackets for it.
    is_too_deep = text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(value)
    return value if isinstance(value, dict) and not is_too_deep else text


def _is_too_deep(value: Json) -> bool:
    found = changed_by_json(value)
    return found is not None and found[1] == _TOO_DEEP


def whole_arguments(
    deltas: Iterable[InputJsonDelta | InputValueDelta], *, is_free_text: bool = False
) -> JsonObject | str:
    """The arguments of a call, from all of its deltas; the text, if it is free text, or not an object.

    >>> whole_arguments([InputJsonDelta(0, '{"city": '), InputJsonDelta(0, '"Oslo"}')])
    {'city': 'Oslo'}
    """
    texts: list[str] = []
    values: list[InputValueDelta] = []
    for delta in deltas:
        if isinstance(delta, InputValueDelta):
            values.append(delta)
        else:
            texts.append(delta.text)
    text = "".join(texts)
    if values and not text.endswith(REFUSED):
        return assemble_arguments(values)
    return text if is_free_text else parse_arguments(text)


def decode_arguments(given: object, meta: ToolMeta) -> JsonObject | str:
    r"""The arguments that hooks and the tool receive, of what a model, a person or a hook has given.

    Nothing else turns text into the arguments of a call, and it does so before the first hook runs. So the hooks and
    the tool have one object, and there is no second reading that could find something else in the same text. An object
    is returned as it is. Of two members with one name the last counts, as in every other JSON reader, U+FFFD replaces
    half a character, and no text means no arguments, as does ``null``.

    Args:
        given: An object, or a text.
        meta: The tool. If it takes free text, a text stays what it is.

    Raises:
        InvalidArgumentError: It is a text that is not a JSON object, or contains something that JSON would change.

    >>> tool = ToolMeta("look", "", {"type": "object"})
    >>> decode_arguments('{"city": "O\\u0073lo"}', tool)
    {'city': 'Oslo'}
    >>> decode_arguments("Oslo", tool)
    Traceback (most recent call last):
    rxworker.errors.InvalidArgumentError: invalid arguments at $: this is not a JSON object but the text 'Oslo'
    More: rxworker docs tools#when-it-fails
    """
    known: Any = given  # a cast would be a call for each value, here and below
    if isinstance(given, dict):
        found = changed_by_json(known)
        if found is None:
            return known
        path, what = found
        raise _invalid(f"this is {what}", meta, path)
    if not isinstance(given, str):
        raise _invalid(f"this is not a JSON object but of type {type(given).__name__}", meta)
    if given.endswith(REFUSED):
        raise _invalid("they were refused by a check, and the tool has not run", meta)
    if meta.format is not None:
        return given
    decoded = parse_arguments(given)
    if isinstance(decoded, str):
        value = read_repaired(given.encode("utf-8", "replace"))
        if isinstance(value, dict) and _is_too_deep(value):
            raise _invalid(f"this is {_TOO_DEEP}", meta)
        raise _invalid(f"this is not a JSON object but the text {given!r:.60}", meta)
    return decoded


def copy_arguments(given: JsonObject | str) -> JsonObject | str:
    """A copy of arguments, which a hook may change.

    Those that are too deep to be copied are returned as they are: no call runs with them.
    """
    try:
        return given if isinstance(given, str) else {name: _copied(value) for name, value in given.items()}
    except RecursionError:
        return given


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        copied = map(_copied, value)
        return [*copied] if isinstance(value, list) else (*copied,)
    return value


def text_parameter(meta: ToolMeta) -> str | None:
    """The parameter that takes the free text of a tool; ``None`` for a tool whose schema has not just one string.

    >>> text_parameter(ToolMeta("run", "", {"type": "object", "properties": {"code": {"type": "string"}}}))
    'code'
    """
    properties = meta.input_schema.get("properties")
    if not isinstance(properties, dict) or len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    return name if isinstance(schema, dict) and schema.get("type") == "string" else None


def arguments_object(given: JsonObject | str, meta: ToolMeta) -> JsonObject:
    """The object that the tool receives of decoded arguments: free text is its only member.

    >>> schema = {"type": "object", "properties": {"code": {"type": "string"}}}
    >>> arguments_object("print(1)", ToolMeta("run", "", schema, format="text"))
    {'code': 'print(1)'}
    """
    return {text_parameter(meta) or "input": given} if isinstance(given, str) else given


def _invalid(why: str, meta: ToolMeta, path: str = "$") -> InvalidArgumentError:
    return InvalidArgumentError(f"invalid arguments at {path}: {why}", tool=meta.name, path=path)


def changed_by_json(value: object, path: str = "$", depth: int = 0) -> tuple[str, str] | None:
    """Where a value is that JSON text does not give back, and what it is.

    An object of the program, ``NaN``, a name that is not a string.

    A value that is nested more deeply than `MAX_DEPTH`, such as one that holds itself, is one of these.

    >>> changed_by_json({"mean": [0, float("nan")]})
    ('$.mean[1]', 'nan, which has no JSON form')
    """
    inner: Any = value
    if isinstance(value, _UNCHANGED):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else (path, f"{value!r}{_NO_FORM}")
    is_object = isinstance(value, dict)
    if not is_object and not isinstance(value, list | tuple):
        return path, f"of type {type(value).__name__}{_NO_FORM}"
    if depth == MAX_DEPTH:
        return "$", _TOO_DEEP
    for name, member in inner.items() if is_object else enumerate(inner):
        if is_object and not isinstance(name, str):
            return path, f"an object with the name {name!r:.40}{_NO_FORM}"
        if not isinstance(member, _UNCHANGED):
            found = changed_by_json(member, f"{path}.{name}" if is_object else f"{path}[{name}]", depth + 1)
            if found is not None:
                return found
    return None


def parse_path(path: str) -> tuple[str | int, ...]:
    """The names and positions in a JSON path.

    >>> parse_path("$.items[0].name")
    ('items', 0, 'name')
    >>> parse_path("$['first name']")
    ('first name',)
    """
    segments: list[str | int] = []
    for match in _SEGMENT.finditer(path.removeprefix("$")):
        name, position, quoted, double = match.groups()
        if double:
            segments.append(_unquoted(double))
        elif quoted:
            segments.append(_ESCAPED_QUOTE.sub(r"\1", quoted))
        else:
            segments.append(int(position) if position else (name or ""))
    return tuple(segments[:MAX_DEPTH])


def member_path(name: str) -> str:
    r"""The path of a member of the arguments, whatever its name.

    >>> parse_path(member_path("it's \"it\""))
    ('it\'s "it"',)
    """
    return f"$[{msgspec.json.encode(name).decode()}]"


def assemble_arguments(deltas: Iterable[InputValueDelta]) -> JsonObject:
    """The object whose values came one by one, by path. Texts that append are joined once.

    >>> assemble_arguments([
    ...     InputValueDelta(0, "$.city", "Os"),
    ...     InputValueDelta(0, "$.city", "lo", append=True),
    ...     InputValueDelta(0, "$.days[0]", 1),
    ... ])
    {'city': 'Oslo', 'days': [1]}
    """
    values: dict[tuple[str | int, ...], Json] = {}
    pieces: dict[tuple[str | int, ...], list[str]] = {}
    for delta in deltas:
        path = parse_path(delta.path)
        if not isinstance(delta.value, str):
            pieces.pop(path, None)
            values[path] = delta.value
        elif delta.append and path in pieces:
            pieces[path].append(delta.value)
        else:
            pieces[path] = [delta.value]
            values.setdefault(path, "")
    root = _Node()
    for path, value in values.items():
        _put(root, path, "".join(pieces[path]) if path in pieces else value)
    whole = _plain(root)
    return whole if isinstance(whole, dict) else {}


class _Node(dict[str | int, "_Node | Json"]):
    """An object or a list that still grows.

    A list is kept by position until all is there, so that a far position costs no memory.
    """


def _unquoted(name: str) -> str:
    """The name in double quotes: as JSON writes it, or, if that cannot be read, without its quotes."""
    value = read_repaired(name.encode("utf-8", "replace"))
    return value if isinstance(value, str) else name[1:-1]


def _put(root: _Node, path: tuple[str | int, ...], value: Json) -> None:
    if not path:
        if isinstance(value, dict):
            root.update(value)
        return
    node = root
    for segment in path[:-1]:
        inner = node.get(segment)
        if not isinstance(inner, _Node):
            node[segment] = inner = _Node()
        node = inner
    node[path[-1]] = value


def _plain(value: _Node | Json) -> Json:
    if not isinstance(value, _Node):
        return value
    if value and all(isinstance(segment, int) for segment in value):
        return [_plain(value[position]) for position in sorted(cast("dict[int, Json]", value))]
    return {str(segment): _plain(inner) for segment, inner in value.items()}
