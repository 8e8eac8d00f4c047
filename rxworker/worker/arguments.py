"""The arguments of a worker and the input of a run, checked where they are given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages import Content, Message, Text
from rxworker.providers import Provider
from rxworker.providers.base import hidden
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
        raise ConfigurationError(f"{name} is {hidden(value)!r}; give it like this: {example}")
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


def expect_operators(operators: Iterable[A]) -> tuple[A, ...]:
    """The operators, if they can be applied.

    Raises:
        ConfigurationError: One cannot.
    """
    several = expect_several("operators", operators, "operators=[my_operator]")
    for operator in several:
        if not callable(operator):
            raise ConfigurationError(f"{operator!r} is no operator: operators=[ops.filter(...)]")
    return several


def expect_parallel(parallel: int) -> int:
    """How many tools run at once, if any can.

    Raises:
        ConfigurationError: None can.
    """
    if expect("parallel", parallel, int, "parallel=8") < 1:
        raise ConfigurationError(f"parallel={parallel}: at least one tool must be able to run")
    return parallel


def check_no_loop(call: str, instead: str) -> None:
    """Refuse to wait where that would hold the event loop.

    Raises:
        LocalProtocolError: An event loop runs here.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise LocalProtocolError(f"worker.{call}() cannot wait where an event loop runs: use {instead}")


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


Input: TypeAlias = str | Message | Sequence[Message | Content | str]


def to_messages(given: Input) -> tuple[Message, ...]:
    """The messages that an input stands for.

    Raises:
        ConfigurationError: It is none of what it may be, or holds what cannot be sent.

    >>> [message.text for message in to_messages("hi")]
    ['hi']
    """
    messages = (Message("user", (Text(given),)),) if isinstance(given, str) else _read(given)
    says_something = False
    try:
        for message in messages:
            for block in message.content:
                if not isinstance(block, Text):
                    says_something = True
                elif block.text.strip():
                    says_something = True
                    block.text.encode()  # here: in the conversation it would spoil every later run
    except UnicodeEncodeError as error:
        text = "the input holds half of a surrogate pair, which is no text and cannot be sent"
        raise ConfigurationError(f"{text}: {error}") from error
    if not says_something:
        raise ConfigurationError("the input is empty: no provider answers that; say something")
    return messages


def _read(given: Input) -> tuple[Message, ...]:
    if isinstance(given, Message):
        return (given,)
    parts: list[object] = list(given) if isinstance(given, list | tuple) else []
    if parts and all(isinstance(part, Message) for part in parts):
        return tuple(part for part in parts if isinstance(part, Message))
    if parts and all(isinstance(part, str | Content) for part in parts):
        return (Message.user(*(part for part in parts if isinstance(part, str | Content))),)
    message = (
        f"the input of a run is a text, a message, or a list of messages or content, not {given!r}"
    )
    raise ConfigurationError(message)
