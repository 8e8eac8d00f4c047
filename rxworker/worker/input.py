"""What a run may be given to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rxworker.errors import ConfigurationError
from rxworker.messages import Content, Message, Text

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


__all__ = ["Input", "to_messages"]
