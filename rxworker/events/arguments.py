"""The arguments of a tool call, from the pieces in which they arrive. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

import msgspec

from rxworker.events import InputValueDelta
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import read_mended

MAX_DEPTH = 100
_decode = msgspec.json.Decoder().decode
_SEGMENT = re.compile(
    r"""\.?([^.\[\]]+)|\[(\d{1,18})\]|\[(?:'((?:[^'\\]|\\.)*)'|("(?:[^"\\]|\\.)*"))\]""", re.DOTALL
)
_ESCAPED_QUOTE = re.compile(r"\\(['\\])")


def parse_arguments(text: str) -> JsonObject | str:
    """The object in the text, or the text itself if it is no object. No text means no arguments, and so does ``null``.

    >>> parse_arguments('{"city": "Oslo"}')
    {'city': 'Oslo'}
    >>> parse_arguments(" "), parse_arguments("null")
    ({}, {})
    >>> parse_arguments('{"city": "Os')
    '{"city": "Os'
    """
    try:
        value: Json = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = _mended(text) if text.strip() else {}
        return value if isinstance(value, dict) else text
    if value is None:
        return {}
    return value if isinstance(value, dict) else text


def _mended(text: str) -> Json:
    try:
        return read_mended(text.encode())
    except UnicodeError:
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
    root: _Node = {}
    for path, value in values.items():
        _put(root, path, "".join(pieces[path]) if path in pieces else value)
    whole = _plain(root)
    return whole if isinstance(whole, dict) else {}


class _Leaf:
    __slots__ = ("value",)

    def __init__(self, value: Json) -> None:
        self.value = value


# Lists are kept by position until all is there, so that a far position costs no memory.
_Node = dict[str | int, "_Leaf | _Node"]


def _unquoted(name: str) -> str:
    """The name in double quotes: as JSON writes it, or as it stands where it is none."""
    value = read_mended(name.encode("utf-8", "replace"))
    return value if isinstance(value, str) else name[1:-1]


def _put(root: _Node, path: tuple[str | int, ...], value: Json) -> None:
    if not path:
        if isinstance(value, dict):
            root.update({name: _Leaf(member) for name, member in value.items()})
        return
    node = root
    for segment in path[:-1]:
        inner = node.get(segment)
        if not isinstance(inner, dict):
            inner = node[segment] = {}
        node = inner
    node[path[-1]] = _Leaf(value)


def _plain(node: _Node | _Leaf) -> Json:
    if isinstance(node, _Leaf):
        return node.value
    if node and all(isinstance(segment, int) for segment in node):
        return [_plain(node[position]) for position in sorted(cast("dict[int, _Node]", node))]
    return {str(segment): _plain(inner) for segment, inner in node.items()}
