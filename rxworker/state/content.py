"""The content block that a block's state makes. Pure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rxworker.events import BlockType, ToolUseMetadata
from rxworker.events.arguments import REFUSED, assemble_arguments, parse_arguments
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.messages import Json, JsonObject, content
from rxworker.state.block import BlockState, joined


def content_of(state: BlockState) -> content.Content | None:
    """The content block that it makes; ``None`` where there is nothing worth keeping.

    Of a block that is not whole, open or aborted, only what can stand by itself is kept: its text or refusal, if there
    is any. Half a thought has no seal, half a call no arguments. The input of a tool call whose text is not a JSON
    object is the text.

    >>> from rxworker.events import BlockStop, TextDelta
    >>> from rxworker.state.block import step_block
    >>> state = step_block(step_block(None, TextDelta(0, "hel")), TextDelta(0, "lo"))
    >>> content_of(step_block(state, BlockStop(0, BlockType.TEXT)))
    Text(text='hello', citations=(), echo=None)
    """
    make = _CONTENT.get(state.block_type)
    if make is None or (state.phase != "stopped" and state.block_type not in _KEPT_IN_PART):
        return None
    return make(state)


def _text_content(state: BlockState) -> content.Content | None:
    text, citations, echo = joined(state.text), tuple(state.citations.to_list()), _echo(state)
    has_sources = bool(citations) and state.phase == "stopped"
    return content.Text(text, citations, echo) if text or echo or has_sources else None


def _thinking_content(state: BlockState) -> content.Content | None:
    text = joined(state.text)
    if not text and state.signature is None and state.echo is None:
        return None
    return content.Thinking(text, state.signature, state.echo)


def _refusal_content(state: BlockState) -> content.Content | None:
    text, echo = joined(state.text), _echo(state)
    return content.Refusal(text, echo) if text or echo else None


def _echo(state: BlockState) -> JsonObject | None:
    """What is echoed of a block, if it is whole."""
    return state.echo if state.phase == "stopped" else None


def _arguments(state: BlockState) -> JsonObject | str:
    text = joined(state.text)
    if state.values.count and not text.endswith(REFUSED):
        return assemble_arguments(state.values)
    metadata = state.metadata
    if type(metadata) is ToolUseMetadata and metadata.is_free_text:
        return text
    return parse_arguments(text)


def _tool_call(state: BlockState) -> content.Content:
    return content.ToolCall(*call_name(state.metadata), _arguments(state), state.echo)


def _server_tool_call(state: BlockState) -> content.Content:
    value: Json = _arguments(state) if state.text or state.values else None
    if isinstance(value, str):
        value = _any_json(value)
    return content.ServerToolCall(*call_name(state.metadata), value, state.echo)


def _server_tool_result(state: BlockState) -> content.Content:
    return content.ServerToolResult(*_result(state.metadata), state.echo)


def _result_of(state: BlockState) -> content.Content:
    tool_use_id, name = _result(state.metadata)
    return content.ToolResult(tool_use_id, joined(state.text), name=name)


def _image(state: BlockState) -> content.Content:
    return content.Image(echo=state.echo)


def _opaque(state: BlockState) -> content.Content:
    metadata = state.metadata
    kind = metadata.kind if isinstance(metadata, OpaqueMetadata) else ""
    return content.OpaqueBlock(kind, state.echo)


def _any_json(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def call_name(metadata: BlockMetadata | None) -> tuple[str, str]:
    """The id and name of a call; empty where its start was never seen."""
    return (metadata.id, metadata.name) if type(metadata) is ToolUseMetadata else ("", "")


def _result(metadata: BlockMetadata | None) -> tuple[str, str]:
    is_result = isinstance(metadata, ToolResultMetadata)
    return (metadata.tool_use_id, metadata.name) if is_result else ("", "")


_KEPT_IN_PART = frozenset({BlockType.TEXT, BlockType.REFUSAL})
_CONTENT: dict[BlockType, Callable[[BlockState], content.Content | None]] = {
    BlockType.TEXT: _text_content,
    BlockType.THINKING: _thinking_content,
    BlockType.REFUSAL: _refusal_content,
    BlockType.TOOL_USE: _tool_call,
    BlockType.TOOL_RESULT: _result_of,
    BlockType.SERVER_TOOL_USE: _server_tool_call,
    BlockType.SERVER_TOOL_RESULT: _server_tool_result,
    BlockType.IMAGE: _image,
    BlockType.OPAQUE: _opaque,
}
