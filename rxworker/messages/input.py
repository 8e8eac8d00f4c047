"""The input of a run, and what is sent to it: texts, messages and content, read as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rxworker.errors import ConfigurationError
from rxworker.messages.content import Content, Text
from rxworker.messages.message import Message

Input: TypeAlias = str | Message | Sequence[Message | Content | str]
"""The input of a run: a text, a message, a list of messages, or the content of one message."""


def to_messages(given: Input) -> tuple[Message, ...]:
    """The messages of an input.

    Raises:
        ConfigurationError: The input has the wrong type, is empty, or contains a value that cannot be sent.

    >>> [message.text for message in to_messages("hi")]
    ['hi']
    """
    messages = read_input(given)
    has_content = False
    try:
        for message in messages:
            for block in message.content:
                if not isinstance(block, Text):
                    has_content = True
                elif block.text.strip():
                    has_content = True
                    block.text.encode()  # checked here: in the conversation it would make every later run fail
    except UnicodeEncodeError as error:
        text = "the input contains half of a surrogate pair, which cannot be sent"
        raise ConfigurationError(f"{text}: {error}") from error
    if not has_content:
        raise ConfigurationError("the input is empty: no provider answers that; give a text")
    return messages


def read_input(given: Input | Sequence[Input]) -> tuple[Message, ...]:
    """The messages of an input, without a look at their content.

    Raises:
        ConfigurationError: The input has the wrong type.
    """
    if isinstance(given, str):
        return (Message("user", (Text(given),)),)
    if isinstance(given, Message):
        return (given,)
    parts: list[object] = list(given) if isinstance(given, list | tuple) else []
    if parts and all(isinstance(part, Message) for part in parts):
        return tuple(part for part in parts if isinstance(part, Message))
    if parts and all(isinstance(part, str | Content) for part in parts):
        return (Message.user(*(part for part in parts if isinstance(part, str | Content))),)
    message = f"the input of a run is a text, a message, or a list of messages or content, not {given!r}"
    raise ConfigurationError(message)
