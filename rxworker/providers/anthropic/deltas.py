"""What a delta of the Messages stream does to its block: becomes an event, or is kept for the echo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from rxworker.events import (
    BlockType,
    CitationDelta,
    InputJsonDelta,
    ResponseEvent,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from rxworker.events.deltas import TextDeltas
from rxworker.messages import JsonObject
from rxworker.providers.anthropic.block import OpenBlock, text_of
from rxworker.providers.anthropic.wire import (
    WireCitationDelta,
    WireCompactionDelta,
    WireInputDelta,
    WireSignatureDelta,
    WireTextDelta,
    WireThinkingDelta,
)

Events: TypeAlias = Sequence[ResponseEvent]

# Which blocks a delta may open, when no start has come for it.
IMPLICIT: dict[type, BlockType] = {
    WireTextDelta: BlockType.TEXT,
    WireCitationDelta: BlockType.TEXT,
    WireThinkingDelta: BlockType.THINKING,
    WireSignatureDelta: BlockType.THINKING,
}


def _first_text(index: int, block: JsonObject) -> Events:
    events: list[ResponseEvent] = []
    if block.get("text"):
        events.append(TextDelta(index, text_of(block["text"])))
    if isinstance(citations := block.get("citations"), list):
        events += [CitationDelta(index, one) for one in citations if isinstance(one, dict)]
    return events


def _first_thinking(index: int, block: JsonObject) -> Events:
    events: list[ResponseEvent] = []
    if block.get("thinking"):
        events.append(ThinkingDelta(index, text_of(block["thinking"])))
    if block.get("signature"):
        events.append(SignatureDelta(index, text_of(block["signature"])))
    return events


def _first_input(index: int, block: JsonObject) -> Events:
    if not block.get("input"):
        return ()
    return [InputJsonDelta(index, msgspec.json.encode(block["input"]).decode())]


def _add_text(block: OpenBlock, delta: WireTextDelta) -> Events:
    return [TextDelta(block.index, delta.text)]


def _add_thinking(block: OpenBlock, delta: WireThinkingDelta) -> Events:
    return [ThinkingDelta(block.index, delta.text)]


def _add_signature(block: OpenBlock, delta: WireSignatureDelta) -> Events:
    return [SignatureDelta(block.index, delta.signature)]


def _add_citation(block: OpenBlock, delta: WireCitationDelta) -> Events:
    return [CitationDelta(block.index, delta.citation)]


def _add_input(block: OpenBlock, delta: WireInputDelta) -> Events:
    if block.began_whole:  # some proxies send the arguments with the start, and then again
        return ()
    return [InputJsonDelta(block.index, delta.text)]


def _add_server_input(block: OpenBlock, delta: WireInputDelta) -> Events:
    if block.began_whole:
        return ()
    if delta.text:
        block.keep("input", delta.text)
    return [InputJsonDelta(block.index, delta.text)]


def _keep_compaction(block: OpenBlock, delta: WireCompactionDelta) -> Events:
    given: JsonObject = msgspec.to_builtins(delta)
    block.keep_all({k: v for k, v in given.items() if k != "type" and v is not None})
    return ()


def _keep_text(block: OpenBlock, delta: WireTextDelta) -> Events:
    block.keep("text", delta.text)
    return ()


def _keep_thinking(block: OpenBlock, delta: WireThinkingDelta) -> Events:
    block.keep("thinking", delta.text)
    return ()


def _keep_input(block: OpenBlock, delta: WireInputDelta) -> Events:
    block.keep("input", delta.text)
    return ()


def _keep_signature(block: OpenBlock, delta: WireSignatureDelta) -> Events:
    block.keep_all({"signature": delta.signature})
    return ()


# What a start already holds, as the deltas that would have brought it.
FIRST: dict[BlockType, Callable[[int, JsonObject], Events]] = {
    BlockType.TEXT: _first_text,
    BlockType.THINKING: _first_thinking,
    BlockType.TOOL_USE: _first_input,
    BlockType.SERVER_TOOL_USE: _first_input,
}

# What a delta becomes that does nothing but add to the text of its block.
PLAIN: dict[tuple[BlockType, type], Callable[[int, str], TextDeltas]] = {
    (BlockType.TEXT, WireTextDelta): TextDelta,
    (BlockType.THINKING, WireThinkingDelta): ThinkingDelta,
    (BlockType.TOOL_USE, WireInputDelta): InputJsonDelta,
}

# What a delta does, by the block it is for. What is not in the table travels on as `Opaque`.
ADDERS: dict[tuple[BlockType, type], Callable[[OpenBlock, Any], Events]] = {
    (BlockType.TEXT, WireTextDelta): _add_text,
    (BlockType.TEXT, WireCitationDelta): _add_citation,
    (BlockType.THINKING, WireThinkingDelta): _add_thinking,
    (BlockType.THINKING, WireSignatureDelta): _add_signature,
    (BlockType.TOOL_USE, WireInputDelta): _add_input,
    (BlockType.SERVER_TOOL_USE, WireInputDelta): _add_server_input,
    (BlockType.OPAQUE, WireCompactionDelta): _keep_compaction,
    (BlockType.OPAQUE, WireTextDelta): _keep_text,
    (BlockType.OPAQUE, WireThinkingDelta): _keep_thinking,
    (BlockType.OPAQUE, WireInputDelta): _keep_input,
    (BlockType.OPAQUE, WireSignatureDelta): _keep_signature,
}

__all__ = ["ADDERS", "FIRST", "IMPLICIT", "PLAIN"]
