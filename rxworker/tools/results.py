"""The result of a call as the model reads it: the return value of the tool or its error, limited in size.

A result is part of every request that follows, so its text is limited, in characters. A picture or a document that is
sent with its data is never cut: it is kept whole, or replaced by a text. All of them together may have `MEDIA_FACTOR`
times as many characters of base64, since a model reads them as far fewer tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeGuard, cast

import msgspec

from rxworker.errors import ExecutionFailedError, InvalidArgumentError, ToolError, ToolTimeoutError
from rxworker.messages import Audio, Document, Image, Text, ToolResult
from rxworker.messages.content import RESULT_BLOCKS, ResultBlock, ResultContent
from rxworker.messages.custom_types import to_json_value
from rxworker.messages.json import is_list
from rxworker.tools.cancellation import is_destroyed


def to_content(value: object, tool: str) -> ResultContent:
    """The content of a tool result.

    Text stays as it is, ``None`` becomes empty text, and bytes, a path or a date become their text. Content blocks stay
    blocks, alone or in a list, where texts may stand between them. Everything else becomes JSON, in which ``NaN`` and
    the infinities are texts.

    Args:
        value: The return value of the tool.
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
    if isinstance(value, RESULT_BLOCKS):
        return (value,)
    if is_list(value) and _holds_blocks(value):
        return tuple(Text(item) if isinstance(item, str) else item for item in value)
    return _to_text(value, tool)


def to_result(value: object, tool: str) -> ResultContent | ToolResult:
    """The return value of a tool, ready to be sent: its content, or the `ToolResult` that it made itself.

    Raises:
        ExecutionFailedError: It has no JSON form.
    """
    if isinstance(value, ToolResult):
        return msgspec.structs.replace(value, content=to_content(value.content, tool))
    return to_content(value, tool)


def _holds_blocks(items: Sequence[object]) -> TypeGuard[Sequence[str | ResultBlock]]:
    return any(isinstance(item, RESULT_BLOCKS) for item in items) and all(
        isinstance(item, (str, *RESULT_BLOCKS)) for item in items
    )


def _to_text(value: object, tool: str) -> str:
    try:
        plain = to_json_value(value)
        return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    # Too big an integer and a lone surrogate are ValueErrors, a list that holds itself is a RecursionError.
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ExecutionFailedError(
            f"the tool returned a {type(value).__qualname__}, which has no JSON form: {error}", tool=tool
        ) from error


def clean(content: ResultContent) -> ResultContent:
    """The content with a question mark for each lone surrogate, such as in odd file names: no request can carry one."""
    return change_texts(content, lambda text: text.encode("utf-8", "replace").decode())


def change_texts(content: ResultContent, change: Callable[[str], str]) -> ResultContent:
    """The content with other texts."""
    if isinstance(content, str):
        return change(content)
    return tuple(
        msgspec.structs.replace(part, text=change(part.text)) if isinstance(part, Text) else part for part in content
    )


MEDIA_FACTOR = 100
# What the JSON of a block takes besides its text.
BLOCK = 30
HINT = "To read them, call the tool again for a smaller part."


def truncate(content: ResultContent, limit: int | None) -> ResultContent:
    r"""The content with at most so many characters of text, and a note in each place where something was left out.

    Args:
        content: The return value of a tool.
        limit: Characters; ``None`` keeps everything.

    >>> truncate("0123456789", 4)
    '012\n[6 of 10 characters were left out here. To read them, call the tool again for a smaller part.]\n9'
    """
    if limit is None:
        return content
    if isinstance(content, str):
        return content if len(content) <= limit else _cut(content, limit)
    return _truncate_blocks(content, limit)


def _cut(text: str, limit: int) -> str:
    """The beginning and the end of a text, since an error often stands at the end."""
    tail = limit // 4
    note = f"[{len(text) - limit:,} of {len(text):,} characters were left out here. {HINT}]"
    return f"{text[: limit - tail]}\n{note}\n{text[len(text) - tail :]}"


def _truncate_blocks(content: tuple[ResultBlock, ...], limit: int) -> tuple[ResultBlock, ...]:
    kept: list[ResultBlock] = []
    room, media_room = limit, limit * MEDIA_FACTOR
    for place, block in enumerate(content):
        if room <= 0:
            note = f"[{len(content) - place:,} more blocks were left out here. {HINT}]"
            return (*kept, Text(note))
        text, media = _sizes(block)
        if text > room or media > media_room:
            shorter = _shorter(block, room)
            # A note in place of a picture takes no room from the text.
            text, media = _sizes(shorter) if isinstance(block, Text) else (0, 0)
            block = shorter
        kept.append(block)
        room -= max(text, BLOCK)
        media_room -= media
    return tuple(kept)


def _shorter(block: ResultBlock, room: int) -> Text:
    """A block that does not fit as one that does.

    A text without what else it carries, or a text in place of a picture.
    """
    if isinstance(block, Text):
        return Text(block.text if len(block.text) <= room else _cut(block.text, room))
    size = len(_data(block)) * 3 // 4
    about = f"{block.media_type} of {size:,} bytes"
    return Text(f"[{about} was left out: it is too large for the result of a tool]")


def _sizes(block: ResultBlock) -> tuple[int, int]:
    """How many characters of text a block takes, and how many of base64."""
    if isinstance(block, Text):
        besides = (block.citations, block.echo) if block.citations or block.echo else None
        return len(block.text) + (len(msgspec.json.encode(besides)) if besides else 0), 0
    size = len(_data(block))
    return (size * 3 // 4, 0) if block.media_type.startswith("text/") else (0, size)


def _data(block: Image | Document | Audio) -> str:
    """The data that is sent in the request itself, and not fetched by the provider."""
    url = "" if isinstance(block, Audio) else block.url or ""
    return block.data or (url if url.startswith("data:") else "")


ErrorFormatter: TypeAlias = Callable[[ToolError], str | Awaitable[str]]
"""Makes the text that the model reads of an error.

The error knows the tool; what the tool raised is its ``__cause__``.
"""


def format_error(error: ToolError) -> str:
    """The default text of an error for the model.

    >>> format_error(ToolTimeoutError("look gave no result within 5 seconds", tool="look"))
    'The call was given up: look gave no result within 5 seconds.'
    """
    if isinstance(error, InvalidArgumentError):
        return f"The call was not run, {error.message}. Correct the arguments and call again."
    if isinstance(error, ToolTimeoutError):
        return f"The call was given up: {error.message}."
    return f"The tool failed: {error.message}"


def must_pass(error: BaseException, task: asyncio.Task[object] | None) -> bool:
    """Whether an exception that left a tool is not the tool's failure.

    An interrupt, or the end of the coroutine that runs it.

    ``SystemExit`` is a failure: text of the model that reaches ``argparse`` must not end the program.

    Args:
        error: The exception of the tool.
        task: The task in which the tool ran.
    """
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return any(must_pass(member, task) for member in members)
    return isinstance(error, KeyboardInterrupt) or is_destroyed(error, task)
