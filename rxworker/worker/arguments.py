"""What a worker is given is checked where it is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from rxworker.errors import ConfigurationError
from rxworker.providers import Provider
from rxworker.transport import Client, Model

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


def as_model(model: Provider | Model) -> Model:
    """A model as it is, a provider over HTTP.

    Raises:
        ConfigurationError: It is neither.
    """
    if isinstance(model, type):
        message = f"{model.__name__} is a class: give a model, for example {model.__name__}('name')"
        raise ConfigurationError(message)
    if hasattr(model, "stream"):
        return model  # pyright: ignore[reportReturnType] - a Model, by its one method
    if hasattr(model, "request") and hasattr(model, "decoder"):
        return Client(model)  # pyright: ignore[reportArgumentType] - a Provider, by its methods
    message = f"{model!r} is neither a provider, for example Anthropic('claude-sonnet-4-6'), nor a model with stream()"
    raise ConfigurationError(message)


__all__ = ["as_model", "expect", "expect_several"]
