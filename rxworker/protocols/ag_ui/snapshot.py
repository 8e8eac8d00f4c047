"""A conversation as the messages of AG-UI."""

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
    ToolCall,
    ToolResult,
)
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.ag_ui.wire import WireMessage, call_object
from rxworker.protocols.common.history import CallIds


def messages_of(conversation: Conversation, prefix: str) -> tuple[WireMessage, ...]:
    """The messages of a snapshot.

    Args:
        conversation: What was said.
        prefix: What the names of the messages begin with.

    >>> said = Conversation((Message.user("hi"), Message.assistant("hello")))
    >>> [(message.role, message.content) for message in messages_of(said, "run-1")]
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
            yield WireMessage(
                f"{name}.{place}", "reasoning", block.text, encrypted_value=block.signature
            )
    said = [block.text for block in message.content if isinstance(block, Text | Refusal)]
    calls = tuple(_call(call, ids) for call in message.tool_calls)
    if said or calls:
        yield WireMessage(name, "assistant", "".join(said) or None, tool_calls=calls)


def _call(call: ToolCall, ids: CallIds) -> JsonObject:
    arguments = call.input if isinstance(call.input, str) else encode_lenient(call.input).decode()
    return call_object(ids.of_call(call.id), call.name, arguments)


def _part(block: object) -> JsonObject | None:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image() | Document():
            source = source_of(block)
            kind = "image" if isinstance(block, Image) else "document"
            return None if source is None else {"type": kind, "source": source}
        case _:
            return None


def source_of(block: Image | Document) -> JsonObject | None:
    """Where the bytes of a picture or a document are; ``None`` where only its provider knows.

    >>> source_of(Image(url="https://example.com/cat.png"))
    {'type': 'url', 'value': 'https://example.com/cat.png', 'mimeType': 'image/png'}
    """
    if block.data is not None:
        return {"type": "data", "value": block.data, "mimeType": block.media_type}
    if block.url is not None:
        return {"type": "url", "value": block.url, "mimeType": block.media_type}
    return None


def result_text(result: ToolResult) -> str:
    """The text of a result, with a word for each picture or document in it.

    >>> result_text(ToolResult("call_1", (Text("Look: "), Image(url="https://example.com"))))
    'Look: (image/png)'
    """
    if isinstance(result.content, str):
        return result.content
    return "".join(
        part.text if isinstance(part, Text) else f"({part.media_type})" for part in result.content
    )


def result_content(result: ToolResult) -> str | list[JsonObject]:
    """A result as parts, where it holds more than text.

    >>> result_content(ToolResult("call_1", "sunny"))
    'sunny'
    """
    if isinstance(result.content, str) or all(isinstance(p, Text) for p in result.content):
        return result.text
    return [made for part in result.content if (made := _part(part)) is not None]


__all__ = ["messages_of", "result_content", "result_text", "source_of"]
