"""One block from its first event to its last. Every method returns the changes that follow.

A block whose start was not seen is shown where that does no harm: a text without its first part is a text, while half of a
call's arguments are no arguments. Such a call is shown when it is run, or waits, with all of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rxworker.events import (
    BlockAbort,
    BlockEvent,
    BlockMetadata,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    OpaqueMetadata,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolResultMetadata,
    ToolUseMetadata,
)
from rxworker.events.arguments import assemble_arguments
from rxworker.messages import JsonObject, ToolResult
from rxworker.protocols.common.call_book import CallBook
from rxworker.protocols.common.changes import (
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    Change,
    Shown,
)
from rxworker.protocols.common.lines import to_json
from rxworker.protocols.common.response import Response

TEXTS = frozenset({BlockType.TEXT, BlockType.REFUSAL, BlockType.THINKING})
CALLS = frozenset({BlockType.TOOL_USE, BlockType.SERVER_TOOL_USE})
WHOLES = frozenset({BlockType.IMAGE, BlockType.OPAQUE})


class OpenBlock:
    """A block that is open.

    Args:
        start: Its start.
        response: What it is part of.
        calls: Where tool calls are kept.

    Attributes:
        kind: What it holds.
        shown: As it is shown; ``None`` while it cannot be.
    """

    __slots__ = (
        "_calls",
        "_echo",
        "_index",
        "_is_hidden",
        "_metadata",
        "_response",
        "_values",
        "_waiting",
        "kind",
        "shown",
    )

    def __init__(self, start: BlockStart, response: Response, calls: CallBook) -> None:
        self.kind = start.block_type
        self.shown: Shown | None = None
        self._index = start.index
        self._response = response
        self._calls = calls
        self._is_hidden = start.choice != 0  # another choice is no part of the conversation
        self._metadata: BlockMetadata | None = None
        self._echo: JsonObject | None = None
        self._waiting: list[str] = []
        self._values: list[InputValueDelta] = []

    def is_shown_call(self, native: str) -> bool:
        """Whether it is the call of this id, and is shown."""
        which = self._metadata
        return self.shown is not None and isinstance(which, ToolUseMetadata) and which.id == native

    def answers(self, event: BlockEvent) -> str | None:
        """The id of the call that this event brings the result of."""
        if self._is_hidden or not isinstance(event, BlockStop):
            return None
        which = event.metadata or self._metadata
        return which.tool_use_id if isinstance(which, ToolResultMetadata) else None

    def feed(self, event: BlockEvent) -> Iterator[Change]:
        """An event of the block."""
        handler = _HANDLERS.get(type(event))
        if handler is not None and not self._is_hidden:
            yield from handler(self, event)

    def end(self, aborted: str | None) -> Iterator[Change]:
        """It ends. ``aborted`` says why it is not whole."""
        if not self._is_hidden:
            yield from self._ended(aborted)

    def show(self) -> Iterator[Change]:
        """Show the block, if it can be, and what has waited for it."""
        if self.shown is not None or self._is_hidden:
            return
        if self.kind in TEXTS:
            self.shown = Shown(
                self._response.scope,
                self._response.name_text(self._index),
                self._response.name,
                self.kind,
            )
        elif self.kind in CALLS and isinstance(self._metadata, ToolUseMetadata):
            self.shown = self._calls.show(
                self._metadata.id,
                self._metadata.name,
                self._response.name,
                is_provided=self.kind is BlockType.SERVER_TOOL_USE,
                is_free_text=self._metadata.is_free_text,
            )
            self._response.asked.append(self.shown.id)
        else:
            return
        yield BlockOpen(self.shown)
        if self._waiting:
            yield BlockGrow(self.shown, "".join(self._waiting))
            self._waiting.clear()

    def _learn(self, event: BlockStart | BlockStop) -> None:
        self._metadata = event.metadata or self._metadata
        if event.echo is not None:
            self._echo = event.echo if self._echo is None else {**self._echo, **event.echo}

    def _started(self, event: BlockStart) -> Iterator[Change]:
        self._learn(event)
        yield from self.show()

    def _grew(
        self, event: TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta
    ) -> Iterator[Change]:
        if not event.text or self.kind not in _TAKES[type(event)]:
            return
        if self.shown is not None:
            yield BlockGrow(self.shown, event.text)
        elif self._response.is_all_seen:
            self._waiting.append(event.text)

    def _valued(self, event: InputValueDelta) -> Iterator[Change]:
        if self.kind in CALLS:
            self._values.append(event)
        yield from ()

    def _extra(self, event: SignatureDelta | CitationDelta) -> Iterator[Change]:
        if self.shown is not None and self.kind in TEXTS:
            yield BlockExtra(self.shown, event)

    def _stopped(self, event: BlockStop) -> Iterator[Change]:
        self._learn(event)
        if self.kind in TEXTS or self._response.is_all_seen:
            yield from self.show()
        yield from self._ended(None)

    def _aborted(self, event: BlockAbort) -> Iterator[Change]:
        yield from self._ended(event.reason or "it was cut")

    def _ended(self, aborted: str | None) -> Iterator[Change]:
        shown = self.shown
        if shown is None:
            if aborted is None:
                yield from self._whole()
            return
        if self._values:
            yield BlockGrow(shown, to_json(assemble_arguments(self._values)).decode())
        yield BlockClose(shown, aborted)
        if aborted is not None and self.kind in CALLS:
            yield from self._calls.give_up(shown.id, aborted)

    def _whole(self) -> Iterator[Change]:
        """A block that is told in one piece: a result, a picture, or what we do not know."""
        metadata = self._metadata
        if isinstance(metadata, ToolResultMetadata):
            echo = "" if self._echo is None else to_json(self._echo).decode()
            content = "".join(self._waiting) or echo
            result = ToolResult(metadata.tool_use_id, content, name=metadata.name)
            yield from self._calls.answer(result)
        elif self.kind in WHOLES:
            kind = metadata.kind if isinstance(metadata, OpaqueMetadata) else ""
            name = f"{self._response.name}.{self._index}"
            yield BlockWhole(
                Shown(self._response.scope, name, self._response.name, self.kind), kind, self._echo
            )


_TAKES: dict[type[object], frozenset[BlockType]] = {
    TextDelta: frozenset({BlockType.TEXT, BlockType.TOOL_RESULT}),
    ThinkingDelta: frozenset({BlockType.THINKING}),
    RefusalDelta: frozenset({BlockType.REFUSAL}),
    InputJsonDelta: CALLS,
}
_HANDLERS: dict[type[object], Callable[[OpenBlock, Any], Iterator[Change]]] = {
    BlockStart: OpenBlock._started,
    TextDelta: OpenBlock._grew,
    ThinkingDelta: OpenBlock._grew,
    RefusalDelta: OpenBlock._grew,
    InputJsonDelta: OpenBlock._grew,
    InputValueDelta: OpenBlock._valued,
    SignatureDelta: OpenBlock._extra,
    CitationDelta: OpenBlock._extra,
    BlockStop: OpenBlock._stopped,
    BlockAbort: OpenBlock._aborted,
}

__all__ = ["OpenBlock"]
