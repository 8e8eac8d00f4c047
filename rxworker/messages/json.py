"""JSON values, and JSON that cannot be changed: dicts and lists still, but every edit raises. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeGuard

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | tuple[Json, ...] | dict[str, Json] | None"
    """Any value that JSON text decodes to."""
else:
    # msgspec resolves the annotations of a Struct when it first decodes one, and has no recursive aliases.
    Json = Any

JsonObject: TypeAlias = dict[str, Json]
"""A JSON object."""


def is_list(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Whether something unknown is a list or a tuple."""
    return isinstance(value, list | tuple)


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether something unknown is a dict, which is taken for a JSON object."""
    return isinstance(value, dict)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError(
        "this JSON is shared and cannot be changed: edit a copy made with copy.deepcopy, and build a new object with it"
    )


class FrozenObject(dict[str, Json]):
    """A JSON object whose edits raise. A deep copy of it is a plain dict."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __copy__(self) -> JsonObject:
        return dict(self)

    def __reduce__(self) -> tuple[type[JsonObject], tuple[JsonObject]]:
        # Used by pickle and by copy.deepcopy.
        return dict, (dict(self),)


class FrozenArray(list[Json]):
    """A JSON array whose edits raise. A deep copy of it is a plain list."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __copy__(self) -> list[Json]:
        return list(self)

    def __reduce__(self) -> tuple[type[list[Json]], tuple[list[Json]]]:
        return list, (list(self),)


def freeze(schema: JsonObject) -> JsonObject:
    """A copy of a JSON object that cannot be changed at any depth; itself if it is one already.

    An object that contains itself is returned as it is, because it has no JSON form.

    >>> freeze({"type": "object"})
    {'type': 'object'}
    """
    if type(schema) is FrozenObject:
        return schema
    try:
        frozen = _frozen(schema)  # what a user gives in its place is refused where it is read
        return frozen if isinstance(frozen, dict) else schema
    except RecursionError:
        return schema


def _frozen(value: Json) -> Json:
    if isinstance(value, FrozenObject | FrozenArray):
        return value
    if isinstance(value, dict):
        return FrozenObject({name: _frozen(member) for name, member in value.items()})
    if isinstance(value, list):
        return FrozenArray(map(_frozen, value))
    if type(value) is tuple:
        return tuple(map(_frozen, value))
    return value
