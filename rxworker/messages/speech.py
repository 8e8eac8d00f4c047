"""Whether a message has content for a provider: none, thinking only, or more. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.messages import content
from rxworker.messages.message import Message

# What only an answer of a model can have.
OF_AN_ANSWER: frozenset[type[object]] = frozenset(
    {content.Thinking, content.ToolCall, content.ServerToolCall, content.ServerToolResult}
)


def is_blank(message: Message) -> bool:
    """Whether it has no content at all: no blocks, or only blank text and cache points.

    >>> is_blank(Message.user(" ")), is_blank(Message.user("hi"))
    (True, False)
    """
    return not any(map(_says, message.content))


def is_thought(message: Message) -> bool:
    """Whether it is an assistant's message of thoughts alone: of a response that was cut before it spoke."""
    said = [block for block in message.content if _says(block)]
    return message.role == "assistant" and all(isinstance(block, content.Thinking) for block in said)


def user_speaks(message: Message) -> bool:
    """Whether it is the user who speaks, in words or pictures that every provider is sent."""
    return message.role == "user" and any(map(_is_heard, message.content))


def has_source(block: object) -> bool:
    """Whether a picture or a document has bytes or an address; other blocks need none."""
    return not isinstance(block, content.Image | content.Document) or bool(block.data or block.url)


def dangling_thoughts(messages: Sequence[Message]) -> set[int]:
    """The indices of messages that are thinking only, and that the same role does not continue.

    A thought is sent back with what it led to. By itself it is refused.
    """
    places: set[int] = set()
    goes_on = False
    for place in reversed(range(len(messages))):
        message = messages[place]
        if is_blank(message):
            continue
        if is_thought(message) and not goes_on:
            places.add(place)
            continue
        goes_on = message.role == "assistant"
    return places


def _says(block: content.Content) -> bool:
    match block:
        case content.CachePoint():
            return False
        case content.Text(text=text, citations=citations, echo=echo):
            return bool(text.strip() or citations or echo)
        case content.Refusal(text=text, echo=echo):
            return bool(text.strip() or echo)
        case _:
            return True


def _is_heard(block: content.Content) -> bool:
    match block:
        case content.Text(text=text):
            return bool(text.strip())
        case content.Image() | content.Document() | content.ToolResult():
            return True
        case _:
            return False


def is_stray(block: content.Content, role: str) -> bool:
    """Whether a block is in a message of the wrong role.

    Calls, thinking and the work of the provider's tools belong to the assistant; results do not.

    >>> from rxworker.messages import ToolCall
    >>> is_stray(ToolCall("1", "look", {}), "user")
    True
    """
    if role == "assistant":
        return isinstance(block, content.ToolResult)
    return type(block) in OF_AN_ANSWER or (role == "system" and isinstance(block, content.ToolResult))
