"""What MCP servers send as what rxworker knows: content as blocks, prompts as messages, names as every provider accepts them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rxworker.messages import Audio, Document, Image, Message, ResultContent, Text

if TYPE_CHECKING:
    from mcp.types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        PromptMessage,
        TextResourceContents,
    )

Block: TypeAlias = Text | Image | Document | Audio

MOST = 64


def legal_names(names: Iterable[str]) -> list[str]:
    """Names of the letters that all providers take, at most 64 of them, and no two the same.

    >>> legal_names(["read file", "read.file", "x" * 70])[:2]
    ['read_file', 'read_file_2']
    """
    made: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:MOST] or "tool"
        legal, number = plain, 1
        while legal in made:
            number += 1
            legal = f"{plain[: MOST - len(str(number)) - 1]}_{number}"
        made[legal] = None
    return list(made)


def content_of(result: CallToolResult, *, audio: bool = False) -> ResultContent:
    """The result as the model reads it: a text where it is nothing else, otherwise blocks.

    A result that has a value and no content is the value as JSON.

    Args:
        result: The result.
        audio: Whether sounds are kept. Providers that do not accept them refuse the request.
    """
    blocks = tuple([_block(part, audio=audio) for part in result.content])
    if not blocks and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    if all(isinstance(block, Text) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, Text))
    return blocks


def text_of(result: CallToolResult) -> str:
    """The text of a result that reports an error."""
    content = content_of(result)
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, Text))


def message_of(part: PromptMessage) -> Message:
    """A message of a prompt."""
    return Message(part.role, (_block(part.content, audio=True),))


def block_of(part: TextResourceContents | BlobResourceContents, *, audio: bool = True) -> Block:
    """The contents of a resource: a text, an image, a PDF document or a sound; for any other type, a note that it is there."""
    text = getattr(part, "text", None)
    if isinstance(text, str):
        return Text(text)
    media_type, data = part.mime_type or "", str(getattr(part, "blob", ""))
    if media_type.startswith("image/"):
        return Image(media_type, data)
    if media_type == "application/pdf":
        return Document(media_type, data, title=part.uri)
    if media_type.startswith("audio/") and audio:
        return Audio(media_type, data)
    kind = media_type or "of an unknown type"
    return Text(f"[a file, {kind}, at {part.uri}, which cannot be shown]")


def _block(part: ContentBlock, *, audio: bool) -> Block:
    match part.type:
        case "text":
            return Text(part.text)
        case "image":
            return Image(part.mime_type, part.data)
        case "audio" if audio:
            return Audio(part.mime_type, part.data)
        case "audio":
            return Text(f"[a sound, {part.mime_type}, which cannot be shown]")
        case "resource_link":
            about = f": {part.description}" if part.description else ""
            return Text(f"[{part.title or part.name}]({part.uri}){about}")
        case "resource":
            return block_of(part.resource, audio=audio)
