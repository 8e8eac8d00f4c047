"""Changing the messages that a conversation keeps, in such a way that a provider still accepts it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, cast

from rxworker.errors import LocalProtocolError
from rxworker.messages import (
    Conversation,
    Message,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    Thinking,
    validate,
)

Change: TypeAlias = Callable[[Message], Message | None]
"""Returns the message, another one in its place, or ``None`` to take it out."""

# A provider checks what it has made itself: a changed one is refused, and with it every later request.
SEALED = (Thinking, ServerToolCall, ServerToolResult, OpaqueBlock)


def rewrite(conversation: Conversation, change: Change) -> Conversation:
    """The conversation with its messages changed.

    Raises:
        LocalProtocolError: A provider would refuse the result; the message has the reason.
        TypeError: The change returned something other than a message or ``None``.

    >>> told = Conversation((Message.user("my password is hunter2"),))
    >>> rewrite(told, lambda message: Message.user(message.text.replace("hunter2", "***"))).messages[0].text
    'my password is ***'
    """
    messages = changed(conversation.messages, change)
    rewritten = conversation.with_messages(messages)
    complaints = [] if validate(conversation) else validate(rewritten)
    if complaints:
        raise _refused("; ".join(complaints))
    return rewritten


def changed(messages: Sequence[Message], change: Change) -> list[Message]:
    """The messages, each changed, without those that are taken out.

    Raises:
        LocalProtocolError: A message has another role, or holds other blocks that a provider has made.
        TypeError: The change returned something other than a message or ``None``.
    """
    kept: list[Message] = []
    for place, message in enumerate(messages):
        left = cast("object", change(message))
        if left is None:
            continue
        if not isinstance(left, Message):
            raise TypeError(f"message {place} became {left!r}, which is not a Message; write Message.user('...')")
        for complaint in _complaints(message, left):
            raise _refused(f"message {place}: {complaint}")
        kept.append(left)
    return kept


def _complaints(message: Message, left: Message) -> Iterator[str]:
    if left.role != message.role:
        yield f"its role {message.role} became {left.role}"
    if _names(left) != _names(message):
        yield "its tool calls became others; change their input, or take out the message and the one with the results"
    for block in left.content:
        if isinstance(block, SEALED) and block not in message.content:
            kind = cast("type[object]", type(block)).__name__
            yield f"a {kind} was changed, which its provider has sealed; take it out instead"


def _names(message: Message) -> list[tuple[str, str]]:
    return [(call.id, call.name) for call in message.tool_calls]


def _refused(why: str) -> LocalProtocolError:
    return LocalProtocolError(f"the conversation cannot be rewritten so: {why}")
