"""What the encoders of all providers need to know of content blocks."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from rxworker.errors import LocalProtocolError
from rxworker.messages import Conversation, Document, Image, JsonObject, Message, ToolCall
from rxworker.providers.arguments import parse_arguments


def arguments(call: ToolCall) -> JsonObject:
    """The arguments of a call as an object, whatever the model wrote.

    Text that is no JSON object is wrapped, so that the request stays valid and the model sees what it wrote.

    >>> arguments(ToolCall("1", "look", "")), arguments(ToolCall("1", "look", "{oh"))
    ({}, {'input': '{oh'})
    """
    return read_arguments(call.input) if isinstance(call.input, str) else call.input


def read_arguments(text: str) -> JsonObject:
    """The arguments that the text says, as an object, whatever it says."""
    decoded = parse_arguments(text)
    return {"input": decoded} if isinstance(decoded, str) else decoded


def split_system(conversation: Conversation) -> tuple[str, Sequence[Message]]:
    """What the application says before anybody else, and the messages after it."""
    messages = conversation.messages
    if not messages or messages[0].role != "system":
        return conversation.system or "", messages
    texts = [conversation.system] if conversation.system else []
    first = 0
    while first < len(messages) and messages[first].role == "system":
        texts.append(messages[first].text)
        first += 1
    return "\n\n".join(text for text in texts if text), messages[first:]


def data_url(block: Image | Document) -> str:
    """The address of a picture or document, with its bytes inside where it has no other.

    >>> data_url(Image(data="AAAA"))
    'data:image/png;base64,AAAA'
    """
    if block.url:
        return block.url
    return f"data:{block.media_type};base64,{_data(block)}"


def plain_text(document: Document) -> str:
    """The text of a document whose bytes are text.

    Raises:
        LocalProtocolError: The bytes are no base64.
    """
    try:
        return base64.b64decode(_data(document), validate=True).decode("utf-8", "replace")
    except binascii.Error as error:
        raise LocalProtocolError("the data of a document is not base64") from error


def _data(block: Image | Document) -> str:
    if not block.data:
        raise LocalProtocolError(f"a block of {block.media_type} has neither data nor a url")
    return block.data


__all__ = [
    "arguments",
    "data_url",
    "plain_text",
    "read_arguments",
    "split_system",
]
