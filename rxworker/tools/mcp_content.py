"""What MCP servers send, in our words: names that every provider takes, and results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rxworker.messages import Document, Image, ResultContent, Text

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

Block: TypeAlias = Text | Image | Document

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


def content_of(result: CallToolResult) -> ResultContent:
    """The result as the model reads it: a text where it is nothing else, otherwise blocks.

    A result that has a value and no content is the value as JSON.
    """
    blocks = tuple(_block(part) for part in result.content)
    if not blocks and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    if all(isinstance(block, Text) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, Text))
    return blocks


def text_of(result: CallToolResult) -> str:
    """The text of a result that says what went wrong."""
    content = content_of(result)
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _block(part: ContentBlock) -> Block:
    match part.type:
        case "text":
            return Text(part.text)
        case "image":
            return Image(part.mime_type, part.data)
        case "audio":
            return Text(f"[a sound, {part.mime_type}, which cannot be shown]")
        case "resource_link":
            about = f": {part.description}" if part.description else ""
            return Text(f"[{part.title or part.name}]({part.uri}){about}")
        case "resource":
            resource = part.resource
            text = getattr(resource, "text", None)
            if isinstance(text, str):
                return Text(text)
            return _file(resource.mime_type or "", getattr(resource, "blob", ""), resource.uri)


def _file(media_type: str, data: str, uri: str) -> Block:
    if media_type.startswith("image/"):
        return Image(media_type, data)
    if media_type == "application/pdf":
        return Document(media_type, data, title=uri)
    return Text(f"[a file, {media_type or 'of an unknown sort'}, at {uri}, which cannot be shown]")


__all__ = ["content_of", "legal_names", "text_of"]
