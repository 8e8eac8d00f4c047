"""The state that tools and hooks share with user interfaces: JSON that changes by one operation of JSON Patch. Pure.

A place in it is a JSON Pointer (RFC 6901): ``/steps/0/title``, ``/steps/-`` after the last step, and an empty one for
the whole. The operations are three of JSON Patch (RFC 6902): ``add``, ``replace`` and ``remove``.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from rxworker.errors import LocalProtocolError
from rxworker.events import SharedStateChange
from rxworker.events.arguments import MAX_DEPTH, changed_by_json
from rxworker.messages import Json

MAX_SHARED_STATE = 262_144
"""The maximum number of bytes of a value that is shared, as JSON.

Each run begins with the whole state in its records.
"""

Operation: TypeAlias = Literal["add", "replace", "remove"]


def checked_json(value: object) -> Json:
    """A copy of a value that is to be shared, as JSON.

    Raises:
        LocalProtocolError: It has no JSON form, is longer than `MAX_SHARED_STATE`, or nested more deeply than
            `rxworker.events.arguments.MAX_DEPTH`: clients read it with a recursive decoder.

    >>> checked_json({"steps": ("plan", "write")})
    {'steps': ['plan', 'write']}
    """
    try:
        data = msgspec.json.encode(value)
        if len(data) > MAX_SHARED_STATE:
            raise LocalProtocolError(
                f"the shared state has {len(data)} bytes as JSON: at most {MAX_SHARED_STATE} are shared"
            )
        copy: Json = msgspec.json.decode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(f"a value of type {type(value).__qualname__} cannot be shared: {error}") from error
    if changed_by_json(copy) is not None:
        raise LocalProtocolError(f"the shared state has more than {MAX_DEPTH} arrays and objects within one another")
    return copy


def apply_change(state: Json, change: SharedStateChange) -> Json:
    """The shared state after a change; the state before it stays as it was. A change that does not fit changes nothing.

    >>> apply_change({"steps": ["plan"]}, SharedStateChange("add", "/steps/-", "write"))
    {'steps': ['plan', 'write']}
    """
    try:
        return _applied(state, _keys(change.path), change.op, change.value)[0]
    except LookupError:
        return state


def change_to(state: Json, path: str, value: Json, *, removes: bool = False) -> tuple[Json, SharedStateChange]:
    """The shared state with another value at a place, and the change.

    Args:
        state: The state before. It stays as it was.
        path: The place; all that is around it must exist.
        value: The value.
        removes: Whether to remove what is there, instead.

    Raises:
        LocalProtocolError: There is no such place.

    >>> change_to({"steps": []}, "/steps/-", "plan")
    ({'steps': ['plan']}, SharedStateChange(op='add', path='/steps/-', value='plan'))
    """
    try:
        after, op = _applied(state, _keys(path), "remove" if removes else None, value)
    except LookupError as error:
        raise LocalProtocolError(f"the shared state has no place {path!r}: {error.args[0]}") from None
    return after, SharedStateChange(op, path, None if removes else value)


def _keys(path: str) -> list[str]:
    """The keys of a JSON Pointer."""
    if path and not path.startswith("/"):
        raise LookupError("a path begins with a slash")
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def _applied(node: Json, keys: list[str], op: Operation | None, value: Json) -> tuple[Json, Operation]:
    """The node with a change in it, and the operation: without one, that which sets the value."""
    if not keys:
        return (None if op == "remove" else value), "replace"
    key, rest = keys[0], keys[1:]
    inside: Any  # a copy of the object or array
    at: Any  # the place in it
    if isinstance(node, dict) or node is None:
        inside, at = dict(node or {}), key
        is_there = key in inside
        if not is_there and (rest or op == "remove"):
            raise LookupError(f"there is no {key!r}")
    elif isinstance(node, list):
        inside = list(node)
        at = len(inside) if key == "-" else _index(key)
        is_there = at < len(inside)
        if not is_there and (rest or op not in (None, "add") or at > len(inside)):
            raise LookupError(f"there are {len(inside)} items")
    else:
        raise LookupError(f"{key!r} is below a value that is neither an object nor an array")
    if rest:
        inside[at], made = _applied(inside[at], rest, op, value)
        return inside, made
    made = op or ("replace" if is_there else "add")
    if made == "remove":
        del inside[at]
    elif made == "add" and isinstance(node, list):
        inside.insert(at, value)
    else:
        inside[at] = value
    return inside, made


def _index(key: str) -> int:
    if not (key.isascii() and key.isdecimal()) or (key[0] == "0" and key != "0"):
        raise LookupError(f"{key!r} is not an index of an array")
    return int(key[:12])
