"""How a UI Message Stream is told of blocks."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import BlockType, SignatureDelta
from rxworker.messages import JsonObject
from rxworker.protocols.ui_messages import wire
from rxworker.protocols.ui_messages.calls import CallParts
from rxworker.protocols.ui_messages.wire import Data, UiMessagePart
from rxworker.views import BlockClose, BlockExtra, BlockGrow, BlockOpen, BlockWhole


class BlockParts:
    """The parts of the blocks of a run.

    Args:
        calls: Takes the blocks that are calls.

    >>> from rxworker.views import Scope, ShownBlock
    >>> text = ShownBlock(Scope(), "text-1", "response-1", BlockType.TEXT)
    >>> [part.delta for part in BlockParts(CallParts()).grow(BlockGrow(text, "hi"))]
    ['hi']
    """

    def __init__(self, calls: CallParts) -> None:
        self._calls = calls
        self._signatures: dict[str, str] = {}
        self._sources = 0

    def open(self, change: BlockOpen) -> Iterator[UiMessagePart]:
        """A block begins."""
        block = change.block
        if block.block_type is BlockType.THINKING:
            yield wire.ReasoningStart(block.id)
        elif block.is_call:
            yield from self._calls.open(change)
        else:
            is_refusal = block.block_type is BlockType.REFUSAL
            yield wire.TextStart(block.id, {"rxworker": {"refusal": True}} if is_refusal else None)

    def grow(self, change: BlockGrow) -> Iterator[UiMessagePart]:
        """A block has more text."""
        block = change.block
        if block.block_type is BlockType.THINKING:
            yield wire.ReasoningDelta(block.id, change.text)
        elif block.is_call:
            yield from self._calls.grow(change)
        else:
            yield wire.TextDeltaPart(block.id, change.text)

    def extra(self, change: BlockExtra) -> Iterator[UiMessagePart]:
        """A block has a signature, which is told at its end, or a citation."""
        event = change.event
        if isinstance(event, SignatureDelta):
            self._signatures[change.block.id] = event.signature
            return
        url, title = event.citation.get("url"), event.citation.get("title")
        if isinstance(url, str):
            self._sources += 1
            name = f"{change.block.id}.source.{self._sources}"
            yield wire.SourceUrl(name, url, title if isinstance(title, str) else None)
        else:
            yield Data("data-citation", {"id": change.block.id, "citation": event.citation})

    def close(self, change: BlockClose) -> Iterator[UiMessagePart]:
        """A block ends."""
        block = change.block
        if block.is_call:
            yield from self._calls.close(change)
            return
        signature = self._signatures.pop(block.id, None)
        sealed: JsonObject | None = None
        if signature is not None:
            sealed = {"rxworker": {"signature": signature}}
        is_thinking = block.block_type is BlockType.THINKING
        yield wire.ReasoningEnd(block.id, sealed) if is_thinking else wire.TextEnd(block.id, sealed)

    def whole(self, change: BlockWhole) -> Iterator[UiMessagePart]:
        """A block has come in one piece."""
        block = change.block
        data = {"kind": change.kind or block.block_type.value, "echo": change.echo}
        yield Data("data-block", data, block.id)


__all__ = ["BlockParts"]
