"""How many tokens a message takes, roughly. Pure.

No provider documents its count, and each counts in its own way. This is an estimate and nothing more: a token for four
bytes of UTF-8, something for each message, fixed numbers for pictures and documents, and a number by its bytes for
audio. For plain English it is mostly within a fifth of the truth; leave room. A text in another script has more bytes a
letter, and is counted as more, as it is by the providers.
"""

from __future__ import annotations

import msgspec

from rxworker.messages.content import (
    Audio,
    Content,
    Document,
    Image,
    Refusal,
    ServerToolCall,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.messages.message import Message

BYTES_PER_TOKEN = 4
MESSAGE_TOKENS = 4
IMAGE_TOKENS = 1_500
DOCUMENT_TOKENS = 3_000
# Gemini counts 32 tokens a second (https://ai.google.dev/gemini-api/docs/audio); a compressed second has about 16,000
# bytes.
BYTES_PER_AUDIO_TOKEN = 500


def estimate(message: Message) -> int:
    """How many tokens a message takes, about. An estimate: use the provider's count if it must be exact.

    >>> estimate(Message.user("Hello, world"))
    7
    """
    return MESSAGE_TOKENS + sum(map(_tokens, message.content))


def _tokens(block: Content) -> int:
    match block:
        case Text() | Refusal():
            return _of_text(block.text)
        case Thinking():
            return _of_text(block.text) or _of_text(block.signature or "") or _of_json(block.echo)
        case ToolCall():
            return MESSAGE_TOKENS + _of_text(block.name) + _of_json(block.input)
        case ToolResult(content=str(text)):
            return MESSAGE_TOKENS + _of_text(text)
        case ToolResult(content=parts):
            return MESSAGE_TOKENS + sum(_tokens(part) for part in parts if not isinstance(part, str))
        case Image():
            return IMAGE_TOKENS
        case Document():
            return _of_document(block)
        case Audio():
            return -(-len(block.data or "") * 3 // 4 // BYTES_PER_AUDIO_TOKEN)
        case ServerToolCall():
            return _of_json(block.echo) or _of_json(block.input)
        case _:
            return _of_json(getattr(block, "echo", None))


def _of_text(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def _of_json(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return _of_text(value)
    try:
        return -(-len(msgspec.json.encode(value)) // BYTES_PER_TOKEN)
    except (UnicodeError, TypeError, OverflowError):
        return _of_text(repr(value))


def _of_document(block: Document) -> int:
    if not block.data or not block.media_type.startswith("text/"):
        return DOCUMENT_TOKENS
    return -(-len(block.data) * 3 // 4 // BYTES_PER_TOKEN)  # base64 has four letters for three bytes
