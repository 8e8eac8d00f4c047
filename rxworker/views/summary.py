"""A response in one value, for the command line, for logs and for tests."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from rxworker.events import BlockType, Error, ResponseEvent, ToolUseMetadata
from rxworker.events.arguments import assemble_arguments
from rxworker.events.meta import TRUNCATED
from rxworker.messages import Json, StopReason
from rxworker.messages.content import wire_id
from rxworker.messages.lenient_json import read_repaired
from rxworker.messages.usage import Usage
from rxworker.state import BlockState
from rxworker.state.block import joined
from rxworker.state.response import fold_response

INVALID = "__invalid_json__"


class CalledTool(Struct, frozen=True):
    """A tool call as it arrived.

    Attributes:
        id: Its id as the provider sent it; ``None`` if it sent none.
        name: The tool's name.
        arguments: The JSON text, whole or not.
        aborted: Whether it was cut off.
        is_free_text: Whether the arguments are plain text, not JSON.
    """

    id: str | None
    name: str
    arguments: str
    aborted: bool = False
    is_free_text: bool = False

    @property
    def input(self) -> Json:
        """The arguments; ``{}`` for none and for ``null``, ``{"__invalid_json__": text}`` for text that is not JSON."""
        if self.is_free_text:
            return self.arguments
        if self.arguments.strip() in ("", "null"):  # how servers write that there are none
            return {}
        decoded = read_repaired(self.arguments.encode())
        return {INVALID: self.arguments} if decoded is None else decoded


class Summary(Struct, frozen=True):
    """A response in one value. Of several choices, the first.

    Attributes:
        text: The visible text.
        thinking: All thinking.
        refusal: The text of a refusal.
        tool_calls: The calls that a client must run, also those that were cut off.
        server_tool_calls: The calls that the provider ran itself.
        stop_reason: Why it ended.
        usage: The last count of its tokens.
        error: The error that ended it; ``truncated`` stands for that of a truncated stream.
        truncated: Whether the stream ended before the response did.
        response_id: The provider's name for it.
        model: The model that answered.
    """

    text: str = ""
    thinking: str = ""
    refusal: str = ""
    tool_calls: tuple[CalledTool, ...] = ()
    server_tool_calls: tuple[CalledTool, ...] = ()
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    error: Error | None = None
    truncated: bool = False
    response_id: str | None = None
    model: str | None = None


def summarise(events: Iterable[ResponseEvent]) -> Summary:
    """Fold the events of one response, by the steps of `ResponseState`.

    >>> from rxworker.events import BlockStart, TextDelta
    >>> summarise([BlockStart(0, BlockType.TEXT), TextDelta(0, "Hello")]).text
    'Hello'
    """
    state = fold_response(events)
    blocks = [block for block in state.blocks if block.choice == 0]
    error = state.error
    cut = error is not None and error.code == TRUNCATED
    return Summary(
        text=_text(blocks, BlockType.TEXT),
        thinking=_text(blocks, BlockType.THINKING),
        refusal=_text(blocks, BlockType.REFUSAL),
        tool_calls=_calls(blocks, BlockType.TOOL_USE),
        server_tool_calls=_calls(blocks, BlockType.SERVER_TOOL_USE),
        stop_reason=state.stop_reason,
        usage=state.usage,
        error=None if cut else error,
        truncated=cut,
        response_id=state.response_id,
        model=state.model,
    )


def _text(blocks: Iterable[BlockState], block_type: BlockType) -> str:
    return "".join(joined(block.text) for block in blocks if block.block_type is block_type)


def _calls(blocks: Iterable[BlockState], block_type: BlockType) -> tuple[CalledTool, ...]:
    return tuple(
        CalledTool(
            wire_id(block.metadata.id),
            block.metadata.name,
            _arguments(block),
            block.phase == "aborted",
            block.metadata.is_free_text,
        )
        for block in blocks
        if block.block_type is block_type and isinstance(block.metadata, ToolUseMetadata)
    )


def _arguments(block: BlockState) -> str:
    if block.values:
        return msgspec.json.encode(assemble_arguments(block.values)).decode()
    return joined(block.text)
