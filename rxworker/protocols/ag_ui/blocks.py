"""How AG-UI is told of blocks, and of the runs inside a run that they are part of."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import BlockType, SignatureDelta
from rxworker.protocols.ag_ui.wire import (
    AgUiEvent,
    Custom,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    ours,
)
from rxworker.views import (
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    ScopeClose,
    ScopeOpen,
    ShownBlock,
)


class BlockEvents:
    """The events of blocks, in the run itself and in the runs inside it.

    >>> from rxworker.views import Scope
    >>> block = ShownBlock(Scope(), "text-1", "response-1", BlockType.TEXT)
    >>> [type(event).__name__ for event in BlockEvents().open(BlockOpen(block))]
    ['TextMessageStart']
    """

    def __init__(self) -> None:
        # By scope: the response that is being told, and the message that its calls are part of.
        self._parents: dict[str, tuple[str, str]] = {}

    def open_scope(self, change: ScopeOpen) -> Iterator[AgUiEvent]:
        """A run inside begins."""
        scope = change.scope
        name = scope.name or "run"
        yield SubagentStarted(scope.id, name, scope.parent or None, scope.call_id or None)

    def close_scope(self, change: ScopeClose) -> Iterator[AgUiEvent]:
        """A run inside has ended."""
        self._parents.pop(change.scope.id, None)
        if change.error is None:
            yield SubagentFinished(change.scope.id)
        else:
            yield SubagentError(change.scope.id, change.error, change.cause or None)

    def open(self, change: BlockOpen) -> Iterator[AgUiEvent]:
        """A block begins."""
        block = change.block
        inside = block.scope.id or None
        if block.block_type is BlockType.THINKING:
            yield ReasoningStart(_span(block), inside)
            yield ReasoningMessageStart(block.id, "reasoning", inside)
        elif block.is_call:
            yield ToolCallStart(
                block.id, block.tool, self._parent_of(block, block.response), inside
            )
        else:
            self._parent_of(block, block.id)  # the calls behind a text are part of its message
            is_refusal = block.block_type is BlockType.REFUSAL
            metadata = ours({"refusal": True}) if is_refusal else None
            yield TextMessageStart(block.id, "assistant", inside, metadata)

    def _parent_of(self, block: ShownBlock, first: str) -> str:
        """The message that the calls of the block's response are part of: the first one, if there is none yet."""
        response, parent = self._parents.get(block.scope.id, ("", ""))
        if response != block.response:
            parent = first
            self._parents[block.scope.id] = (block.response, parent)
        return parent

    def grow(self, change: BlockGrow) -> Iterator[AgUiEvent]:
        """A block has more text."""
        block = change.block
        inside = block.scope.id or None
        if block.block_type is BlockType.THINKING:
            yield ReasoningMessageContent(block.id, change.text, inside)
        elif block.is_call:
            yield ToolCallArgs(block.id, change.text, inside)
        else:
            yield TextMessageContent(block.id, change.text, inside)

    def extra(self, change: BlockExtra) -> Iterator[AgUiEvent]:
        """A block has a signature or a citation."""
        block, event = change.block, change.event
        inside = block.scope.id or None
        if isinstance(event, SignatureDelta):
            yield ReasoningEncryptedValue("message", block.id, event.signature, inside)
        else:
            value = {"messageId": block.id, "citation": event.citation}
            yield Custom("rxworker.citation", value, inside)

    def close(self, change: BlockClose) -> Iterator[AgUiEvent]:
        """A block ends."""
        block = change.block
        inside = block.scope.id or None
        if block.block_type is BlockType.THINKING:
            yield ReasoningMessageEnd(block.id, inside)
            yield ReasoningEnd(_span(block), inside)
        elif block.is_call:
            yield ToolCallEnd(block.id, inside)
        else:
            metadata = None if change.aborted is None else ours({"aborted": change.aborted})
            yield TextMessageEnd(block.id, inside, metadata)

    def whole(self, change: BlockWhole) -> Iterator[AgUiEvent]:
        """A block has come in one piece."""
        block = change.block
        value = {"type": block.block_type.value, "kind": change.kind, "echo": change.echo}
        yield Custom("rxworker.block", value, block.scope.id or None)


def _span(block: ShownBlock) -> str:
    return f"{block.id}.span"


__all__ = ["BlockEvents"]
