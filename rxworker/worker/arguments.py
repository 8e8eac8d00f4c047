"""What a worker is given is checked where it is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from rxworker.errors import ConfigurationError

A = TypeVar("A")


def expect(name: str, value: A, kind: type | tuple[type, ...], example: str) -> A:
    """The value, if it is of the kind.

    Raises:
        ConfigurationError: It is not; the message shows how it is done.

    >>> expect("system", 5, str, "system='Be brief.'")
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: system is 5; give it like this: system='Be brief.'
    """
    if not isinstance(value, kind):
        raise ConfigurationError(f"{name} is {value!r}; give it like this: {example}")
    return value


def expect_several(name: str, values: Iterable[A], example: str) -> tuple[A, ...]:
    """The values, if they are several: one alone is a common slip.

    Raises:
        ConfigurationError: They are not.
    """
    try:
        return tuple(values)
    except TypeError as error:
        message = f"{name} is {values!r}; give several of them: {example}"
        raise ConfigurationError(message) from error


__all__ = ["expect", "expect_several"]
