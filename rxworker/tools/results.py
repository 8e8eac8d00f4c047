"""What a tool returned, as the model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from rxworker.errors import ExecutionFailedError, describe
from rxworker.messages import Audio, Document, Image, ResultContent, Text, ToolResult
from rxworker.tools.custom_types import to_json_value

BLOCKS = (Text, Image, Document, Audio)


def to_content(value: object, tool: str) -> ResultContent:
    """The content of a tool result.

    Text stays as it is, ``None`` becomes empty text, and bytes, a path or a date become their text. Content blocks stay
    blocks, alone or in a list, where texts may stand between them. Everything else becomes JSON, in which ``NaN`` and the
    infinities are texts.

    Args:
        value: What the tool returned.
        tool: The tool's name, for the error.

    Raises:
        ExecutionFailedError: The value has no JSON form.

    >>> to_content({"celsius": 21}, "weather")
    '{"celsius":21}'
    >>> to_content(["see:", Image(url="https://example.org/map.png")], "map")[0]
    Text(text='see:', citations=(), echo=None)
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, BLOCKS):
        return (value,)
    if isinstance(value, list | tuple) and _holds_blocks(cast("Sequence[object]", value)):
        items = cast("Sequence[str | Text | Image | Document | Audio]", value)
        return tuple(Text(item) if isinstance(item, str) else item for item in items)
    return _to_text(cast("object", value), tool)


def to_result(value: object, tool: str) -> ResultContent | ToolResult:
    """What a tool returned, ready to be sent: its content, or the `ToolResult` that it made itself.

    Raises:
        ExecutionFailedError: It has no JSON form.
    """
    if isinstance(value, ToolResult):
        return msgspec.structs.replace(value, content=to_content(value.content, tool))
    return to_content(value, tool)


def _holds_blocks(items: Sequence[object]) -> bool:
    return any(isinstance(item, BLOCKS) for item in items) and all(
        isinstance(item, (str, *BLOCKS)) for item in items
    )


def _to_text(value: object, tool: str) -> str:
    try:
        plain = to_json_value(value)
        return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    # Too big an integer and a lone surrogate are ValueErrors, a list that holds itself is a RecursionError.
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ExecutionFailedError(
            f"the tool returned a {type(value).__qualname__}, which has no JSON form: {error}",
            tool=tool,
        ) from error


def clean(content: ResultContent) -> ResultContent:
    """The content with a question mark for each lone surrogate, such as in odd file names: no request can carry one."""
    if isinstance(content, str):
        return content.encode("utf-8", "replace").decode()
    return tuple(
        msgspec.structs.replace(part, text=part.text.encode("utf-8", "replace").decode())
        if isinstance(part, Text)
        else part
        for part in content
    )


__all__ = ["clean", "describe", "to_content", "to_result"]
