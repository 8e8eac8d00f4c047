"""Content blocks, for the encoders of all providers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from msgspec.json import encode as to_json

from rxworker.errors import LocalProtocolError
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Audio, Conversation, Document, Image, Json, JsonObject, Message, OpaqueBlock, ToolCall
from rxworker.messages.speech import OF_AN_ANSWER

FAILED = "The tool failed and gave no reason."
"""The result of a call that failed and has no text."""


def arguments(call: ToolCall) -> JsonObject:
    """The arguments of a call as an object, whatever the model wrote.

    Text that is not a JSON object is wrapped, so that the request stays valid and the model sees what it wrote.

    >>> arguments(ToolCall("1", "look", "")), arguments(ToolCall("1", "look", "{oh"))
    ({}, {'input': '{oh'})
    """
    return read_arguments(call.input) if isinstance(call.input, str) else call.input


def read_arguments(text: str) -> JsonObject:
    """The arguments in the text, as an object, whatever they are."""
    decoded = parse_arguments(text)
    return {"input": decoded} if isinstance(decoded, str) else decoded


def split_system(conversation: Conversation) -> tuple[str, Sequence[Message]]:
    """The system messages at the beginning, and the messages after them."""
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
    return block.url or f"data:{block.media_type};base64,{_data(block)}"


def flat(parts: list[JsonObject]) -> Json:
    """The parts of a user's message; one text alone goes as it is, which every compatible server understands.

    >>> flat([{"type": "text", "text": "Hi"}])
    'Hi'
    """
    is_text = len(parts) == 1 and parts[0].keys() == {"type", "text"}
    return parts[0]["text"] if is_text else [*parts]


def titled_text(document: Document) -> str:
    r"""The text of a document whose bytes are text, after its title.

    >>> titled_text(Document("text/plain", "aGk="))
    'document:\nhi'
    """
    return f"{document.title or 'document'}:\n{plain_text(document)}"


def plain_text(document: Document) -> str:
    """The text of a document whose bytes are text.

    Raises:
        LocalProtocolError: The bytes are not base64.
    """
    try:
        return base64.b64decode(_data(document), validate=True).decode("utf-8", "replace")
    except binascii.Error as error:
        raise LocalProtocolError("the data of a document is not base64") from error


def check_media(block: Image | Document | Audio) -> None:
    """Refuse an image or a document that has no content.

    Raises:
        LocalProtocolError: The block has no data, no url and no file id.
    """
    if block.data:
        return
    if not isinstance(block, Audio) and (block.url or block.file_id):
        return
    kind = type(block).__name__
    if "/" not in block.media_type:
        raise LocalProtocolError(
            f"{kind}({block.media_type!r}) does not have a media type; "
            f"to read a file, use {kind}.from_file({block.media_type!r})"
        )
    if isinstance(block, Audio):
        raise LocalProtocolError("Audio has no data; use Audio.from_file(path), or pass data=")
    raise LocalProtocolError(
        f"{kind} of {block.media_type} has neither data nor a url nor a file id; "
        f"use {kind}.from_file(path), or pass data=, url= or file_id="
    )


def check_role(message: Message) -> None:
    """Refuse a user's message with blocks that only an answer of a model can have.

    Raises:
        LocalProtocolError: The message has thinking, a tool call, or a call or result of the provider's own tools.
    """
    if message.role != "user":
        return
    for block in message.content:
        if type(block) in OF_AN_ANSWER:
            raise LocalProtocolError(
                f"{type(block).__name__} cannot be in a user's message, since only a model produces it; "
                "put it in a message of the assistant, or call rxworker.messages.repair, which leaves it out"
            )


def user_echo(block: OpaqueBlock, key: str = "type") -> JsonObject:
    """The provider's block that an `OpaqueBlock` of a user's message holds.

    Raises:
        LocalProtocolError: The block has no echo, or its echo lacks the key that every block of the protocol has.
    """
    if not block.echo or (key and key not in block.echo):
        needs = f"an echo with {key!r}" if key else "an echo"
        raise LocalProtocolError(
            f"OpaqueBlock({block.kind!r}) of a user's message needs {needs}: "
            "pass the provider's block as echo=, or leave the block out"
        )
    return block.echo


def _data(block: Image | Document) -> str:
    check_media(block)
    if not block.data:
        raise LocalProtocolError(
            f"{type(block).__name__} has a file id only, and this provider needs its bytes: pass data="
        )
    return block.data


def with_schema(system: str | None, schema: JsonObject) -> str:
    r"""The system text with the schema of the answer, for a service that cannot hold the model to it.

    >>> with_schema("Be brief.", {"type": "integer"})
    'Be brief.\n\nAnswer with JSON that conforms to this JSON schema: {"type":"integer"}'
    """
    form = to_json(schema).decode()
    return f"{system or ''}\n\nAnswer with JSON that conforms to this JSON schema: {form}".strip()
