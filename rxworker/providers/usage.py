"""The numbers of a usage, wherever a protocol puts them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from rxworker.messages import JsonObject

_NUMBERS = frozenset({int, type(None)})


def numbers_in(raw: JsonObject, *paths: str) -> list[int | None]:
    """The numbers at some paths, of one name or two; ``None`` for what is not there, and for what is not a number.

    >>> numbers_in({"a": 1, "b": {"c": True, "d": "2"}}, "a", "b.c", "b.d", "e.f")
    [1, None, 2, None]
    """
    found: list[Any] = []
    for name, member in _places(paths):
        value = raw.get(name)
        found.append(value if not member else value.get(member) if isinstance(value, dict) else None)
    return found if _NUMBERS.issuperset(map(type, found)) else [*map(_number, found)]


def _number(value: object) -> int | None:
    """A number of tokens. Some servers send a text, or a fraction, which counts as a whole token."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, float):
        return math.ceil(value) if math.isfinite(value) else None
    return value if type(value) is int else None  # a bool is an int, too, not a number


@lru_cache(maxsize=64)  # a provider has one or two
def _places(paths: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each path in two: the name, and that of a member, empty for none."""
    return [(name, member) for name, _, member in (path.partition(".") for path in paths)]


def total(*numbers: int | None) -> int | None:
    """The sum of the numbers that were sent; ``None`` if none was.

    >>> total(1, None, 2), total(None)
    (3, None)
    """
    return None if numbers.count(None) == len(numbers) else sum(filter(None, numbers))


def merge_usage(raw: JsonObject, update: JsonObject) -> JsonObject:
    """The numbers so far, updated; what is absent or null in the update stays.

    >>> merge_usage({"a": 1, "b": 2}, {"a": 3, "b": None, "c": 4})
    {'a': 3, 'b': 2, 'c': 4}
    """
    if None in update.values():
        update = {key: value for key, value in update.items() if value is not None}
    return raw | update
