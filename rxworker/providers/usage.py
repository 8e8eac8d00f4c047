"""The numbers of a usage, wherever a protocol puts them."""

from __future__ import annotations

from rxworker.messages import JsonObject


def numbers_in(raw: JsonObject, *paths: str) -> list[int | None]:
    """The numbers at some paths, of one name or two; ``None`` for what is not there, and for what is not a number.

    >>> numbers_in({"a": 1, "b": {"c": True, "d": 2}}, "a", "b.c", "b.d", "e.f")
    [1, None, 2, None]
    """
    found: list[int | None] = []
    for path in paths:
        name, _, member = path.partition(".")
        value = raw.get(name)
        if member:
            value = value.get(member) if isinstance(value, dict) else None
        found.append(value if type(value) is int else None)  # a bool is an int, too, not a number
    return found


def total(*numbers: int | None) -> int | None:
    """The sum of the numbers that were sent; ``None`` if none was.

    >>> total(1, None, 2), total(None)
    (3, None)
    """
    whole: int | None = None
    for number in numbers:
        if number is not None:
            whole = number + (whole or 0)
    return whole
