"""Messages and results as AG-UI sends them."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.messages import (
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    Refusal,
    Text,
    Thinking,
    ToolResult,
)
from rxworker.protocols.ag_ui.wire import WireMessage
from rxworker.protocols.common import CallIds, arguments_of


def messages_of(conversation: Conversation, prefix: str) -> tuple[WireMessage, ...]:
    """The messages of a snapshot.

    Args:
        conversation: The conversation.
        prefix: The prefix of the message ids.

    >>> conversation = Conversation((Message.user("hi"), Message.assistant("hello")))
    >>> [(message.role, message.content) for message in messages_of(conversation, "run-1")]
    [('user', 'hi'), ('assistant', 'hello')]
    """
    ids = CallIds()
    made: list[WireMessage] = []
    if conversation.system is not None:
        made.append(WireMessage(f"{prefix}.system", "system", conversation.system))
    for place, message in enumerate(conversation.messages):
        made.extend(_messages(message, f"{prefix}.m{place}", ids))
    return tuple(made)


def _messages(message: Message, name: str, ids: CallIds) -> Iterator[WireMessage]:
    if message.role == "assistant":
        yield from _assistant(message, name, ids)
        return
    for place, result in enumerate(message.tool_results):
        shown = ids.of_result(result.tool_use_id)
        text = result_text(result)
        error = text if result.is_error else None
        yield WireMessage(f"{name}.{place}.result", "tool", text, tool_call_id=shown, error=error)
    parts = [part for block in message.content if (part := _part(block)) is not None]
    if all(part["type"] == "text" for part in parts):
        if message.text:
            yield WireMessage(name, message.role, message.text)
    else:
        yield WireMessage(name, message.role, parts)


def _assistant(message: Message, name: str, ids: CallIds) -> Iterator[WireMessage]:
    for place, block in enumerate(message.content):
        if isinstance(block, Thinking):
            yield WireMessage(f"{name}.{place}", "reasoning", block.text, encrypted_value=block.signature)
    texts = [block.text for block in message.content if isinstance(block, Text | Refusal)]
    calls: tuple[JsonObject, ...] = tuple(
        {
            "id": ids.of_call(call.id),
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_of(call.input)},
        }
        for call in message.tool_calls
    )
    if texts or calls:
        yield WireMessage(name, "assistant", "".join(texts) or None, tool_calls=calls)


def _part(block: object) -> JsonObject | None:
    """A text, an image or a document as a part; ``None`` for anything else, and for files that only a provider has."""
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if not isinstance(block, Image | Document) or (block.data is None and block.url is None):
        return None
    source: JsonObject = {
        "type": "url" if block.data is None else "data",
        "value": block.url if block.data is None else block.data,
        "mimeType": block.media_type,
    }
    return {"type": "image" if isinstance(block, Image) else "document", "source": source}


def result_text(result: ToolResult) -> str:
    """The text of a result, with the media type of each image or document in it.

    >>> result_text(ToolResult("call_1", (Text("Look: "), Image(url="https://example.com"))))
    'Look: (image/png)'
    """
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text if isinstance(part, Text) else f"({part.media_type})" for part in result.content)


def result_content(result: ToolResult) -> str | list[JsonObject]:
    """The content of a result: text, or parts if it contains more than text.

    >>> result_content(ToolResult("call_1", "sunny"))
    'sunny'
    """
    if isinstance(result.content, str) or all(isinstance(p, Text) for p in result.content):
        return result.text
    return [made for part in result.content if (made := _part(part)) is not None]
