"""The blocks of one scope: the changes that an event of a block makes.

Theory of operation. A block is kept from its first event to its last, by its index. Its id is made of the run, the turn, the attempt and the
index, so that it is the same for every watcher. A block whose start was missed is shown where that does no harm: a text without its
beginning is still a text, while half of a call's arguments are no arguments. Such a call is shown with all of its arguments when it starts to run
or waits. All methods that return an iterator yield the changes that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rxworker.events import (
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.events.arguments import assemble_arguments
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.events.kinds import start_of
from rxworker.messages import JsonObject, ToolResult
from rxworker.messages.lenient_json import encode_lenient
from rxworker.state.block import HOLDS
from rxworker.state.open_blocks import OpenBlocks
from rxworker.views.call_tracker import CallTracker
from rxworker.views.changes import (
    ArgumentValue,
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    Change,
    Retract,
    Scope,
    ShownBlock,
)


class ShownResponse:
    """One response of a scope, and the ids of its blocks.

    Args:
        scope: The scope of the response.
        prefix: The beginning of its name.
        turn: The turn's number.
        attempt: The attempt's number.
        again: Distinguishes it from an earlier response of the same attempt.

    Attributes:
        scope: The scope of the response.
        turn: The turn's number.
        attempt: The attempt's number.
        again: Distinguishes it from an earlier response of the same attempt.
        is_all_seen: Whether the watcher received all of its events.
        has_started: Whether its start was received.
        text_ids: The ids of the text blocks that were shown.
        call_ids: The ids of the calls that were shown.

    >>> response = ShownResponse(Scope(), "run-1", turn=2, attempt=1)
    >>> response.name, response.name_text(0), response.name_text(0)
    ('run-1.2.1', 'run-1.2.1.0', 'run-1.2.1.0~2')
    """

    def __init__(
        self, scope: Scope, prefix: str, *, turn: int = 0, attempt: int = 0, again: int = 0
    ) -> None:
        self.scope = scope
        self._prefix = prefix
        self.turn = turn
        self.attempt = attempt
        self.again = again
        self.is_all_seen = False
        self.has_started = False
        self.text_ids: list[str] = []
        self.call_ids: list[str] = []
        self._used: Counter[int] = Counter()

    @property
    def name(self) -> str:
        """Its name, the same for every watcher."""
        name = f"{self._prefix}.{self.turn}.{self.attempt}"
        return f"{name}.{self.again}" if self.again else name

    def name_text(self, index: int) -> str:
        """Return the id of a new text block at this index."""
        self._used[index] += 1
        again = self._used[index]
        name = f"{self.name}.{index}" + (f"~{again}" if again > 1 else "")
        self.text_ids.append(name)
        return name


TEXTS = frozenset({BlockType.TEXT, BlockType.REFUSAL, BlockType.THINKING})
CALLS = frozenset({BlockType.TOOL_USE, BlockType.SERVER_TOOL_USE})
WHOLES = frozenset({BlockType.IMAGE, BlockType.OPAQUE})


class OpenBlock:
    """An open block.

    Args:
        start: Its first event, as a start.
        response: The response that it is part of.
        calls: The calls of the scope.
        is_detailed: Whether further choices and single values of arguments are shown.

    Attributes:
        kind: The type of the block.
        shown: The block as it is shown; ``None`` before that.
    """

    __slots__ = (
        "_calls",
        "_choice",
        "_echo",
        "_index",
        "_is_detailed",
        "_is_hidden",
        "_metadata",
        "_response",
        "_values",
        "_waiting",
        "kind",
        "shown",
    )

    def __init__(
        self,
        start: BlockStart,
        response: ShownResponse,
        calls: CallTracker,
        *,
        is_detailed: bool = False,
    ) -> None:
        self.kind = start.block_type
        self.shown: ShownBlock | None = None
        self._index = start.index
        self._response = response
        self._calls = calls
        self._choice = start.choice  # only the first choice is part of the conversation
        self._is_hidden = start.choice != 0 and not is_detailed
        self._is_detailed = is_detailed
        self._metadata: BlockMetadata | None = None
        self._echo: JsonObject | None = None
        self._waiting: list[str] = []
        self._values: list[InputValueDelta] = []

    def is_shown_call(self, native: str) -> bool:
        """Whether it is the call of this id, and was shown."""
        shown = self.shown
        return shown is not None and shown.call_id == native and not self._choice

    def answers(self, event: BlockEvent) -> str | None:
        """The id of the call whose result ends with this event, if it is one."""
        if self._choice or not isinstance(event, BlockStop):
            return None
        which = event.metadata or self._metadata
        return which.tool_use_id if isinstance(which, ToolResultMetadata) else None

    def feed(self, event: BlockEvent) -> Iterator[Change]:
        """Take an event of the block."""
        handler = _HANDLERS.get(type(event))
        if handler is not None and not self._is_hidden:
            yield from handler(self, event)

    def end(self, aborted: str | None) -> Iterator[Change]:
        """End the block; ``aborted`` is the reason if it is not whole."""
        if not self._is_hidden:
            yield from self._ended(aborted)

    def show(self) -> Iterator[Change]:
        """Open the block for people, if it can be shown, with the text that arrived before."""
        if self.shown is not None or self._is_hidden:
            return
        if self.kind in TEXTS:
            self.shown = ShownBlock(
                self._response.scope,
                self._response.name_text(self._index),
                self._response.name,
                self.kind,
                choice=self._choice,
            )
        elif self.kind in CALLS and self._choice and isinstance(self._metadata, ToolUseMetadata):
            # A call of another choice never runs, so it waits for no result.
            which = self._metadata
            self.shown = ShownBlock(
                self._response.scope,
                self._response.name_text(self._index),
                self._response.name,
                self.kind,
                which.name,
                which.is_free_text,
                self._choice,
                which.id,
            )
        elif self.kind in CALLS and isinstance(self._metadata, ToolUseMetadata):
            self.shown = self._calls.show(
                self._metadata.id,
                self._metadata.name,
                self._response.name,
                is_provided=self.kind is BlockType.SERVER_TOOL_USE,
                is_free_text=self._metadata.is_free_text,
            )
            self._response.call_ids.append(self.shown.id)
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
        if not event.text or self.kind not in HOLDS[type(event)]:
            return
        if self.shown is not None:
            yield BlockGrow(self.shown, event.text)
        elif self._response.is_all_seen:
            self._waiting.append(event.text)

    def _valued(self, event: InputValueDelta) -> Iterator[Change]:
        if self.kind not in CALLS:
            return
        self._values.append(event)
        if self._is_detailed and self.shown is not None:
            yield ArgumentValue(self.shown, event)

    def _extra(self, event: SignatureDelta | CitationDelta) -> Iterator[Change]:
        if self.shown is not None and self.kind in TEXTS:
            yield BlockExtra(self.shown, event)

    def _stopped(self, event: BlockStop) -> Iterator[Change]:
        self._learn(event)
        if self.shown is None and self.kind in CALLS and event.block_type in CALLS:
            self.kind = event.block_type  # deltas without a start do not name who runs the call
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
            yield BlockGrow(shown, encode_lenient(assemble_arguments(self._values)).decode())
        yield BlockClose(shown, aborted)
        if aborted is not None and self.kind in CALLS:
            yield from self._calls.give_up(shown.id, aborted)

    def _whole(self) -> Iterator[Change]:
        """The change for a block that is shown in one piece: a result, a picture, or a block of an unknown type."""
        metadata = self._metadata
        if isinstance(metadata, ToolResultMetadata):
            if self._choice:
                return
            echo = "" if self._echo is None else encode_lenient(self._echo).decode()
            content = "".join(self._waiting) or echo
            result = ToolResult(metadata.tool_use_id, content, name=metadata.name)
            yield from self._calls.answer(result)
        elif self.kind in WHOLES:
            kind = metadata.kind if isinstance(metadata, OpaqueMetadata) else ""
            name = f"{self._response.name}.{self._index}"
            yield BlockWhole(
                ShownBlock(self._response.scope, name, self._response.name, self.kind),
                kind,
                self._echo,
            )


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


RETRACTED = "This call was retracted: the response that made it failed."


class BlockTracker:
    """The open blocks of one scope.

    Args:
        scope: The scope.
        prefix: The beginning of the ids of its blocks.
        calls: The calls of the scope.
        is_detailed: Whether further choices and single values of arguments are shown.
    """

    def __init__(
        self, scope: Scope, prefix: str, calls: CallTracker, *, is_detailed: bool = False
    ) -> None:
        self._scope = scope
        self._is_detailed = is_detailed
        self._prefix = prefix
        self._calls = calls
        self._adopts = False
        self._open: OpenBlocks[OpenBlock] = OpenBlocks()
        self._response = ShownResponse(scope, prefix)

    @property
    def response(self) -> str:
        """The name of the response that is being received."""
        return self._response.name

    def enter(self, turn: int, attempt: int, *, is_start: bool) -> Iterator[Change]:
        """An event of this attempt follows: end the blocks that another attempt left open."""
        response = self._response
        if self._adopts and not is_start:
            # The blocks of `catch_up` are part of this attempt, whatever its number.
            response.turn, response.attempt = turn, attempt
        self._adopts = False
        if (response.turn, response.attempt) != (turn, attempt):
            yield from self.end("the response ended before it was whole")
            self._begin(turn, attempt, is_all_seen=is_start)

    def catch_up(self, seq: int, *, has_started: bool) -> None:
        """Begin a response in its middle: the events up to this record follow as a replay."""
        self._begin(0, 0, seq, is_all_seen=True)
        self._response.has_started = has_started
        self._adopts = True

    def start(self) -> Iterator[Change]:
        """The response starts: a second start retracts the first, while blocks before the first start are kept, as in `ResponseState`."""
        response = self._response
        if response.has_started or not response.is_all_seen:
            yield from self.retract("the response began anew")
        self._response.has_started = True

    def retract(self, reason: str) -> Iterator[Change]:
        """Retract all blocks of the response."""
        yield from self.end(reason)
        void = self._response
        if not void.text_ids and not void.call_ids:
            return
        yield from self._calls.give_up_all(RETRACTED)
        yield Retract(self._scope, reason, tuple(void.text_ids), tuple(void.call_ids))
        self._begin(void.turn, void.attempt, void.again + 1, is_all_seen=void.is_all_seen)

    def note_gap(self) -> None:
        """Remember that deltas are missing."""
        self._response.is_all_seen = False

    def feed(self, event: BlockEvent) -> Iterator[Change]:
        """Take an event of a block."""
        index = event.index
        for ended, reason in self._open.end_before(event):
            yield from ended.end(reason)
        block = self._open.get(index)
        if block is None:
            block = self._open_block(event)
            if not isinstance(event, BlockStart | BlockStop | BlockAbort):
                yield from block.show()
        answered = block.answers(event)
        if answered is not None:
            yield from self.end_call(answered)
            if (
                index not in self._open
            ):  # the call whose result this is, still open at the same index
                block = self._open_block(event)
        yield from block.feed(event)
        if isinstance(event, BlockStop | BlockAbort):
            self._open.pop(index, None)

    def end_call(self, native: str) -> Iterator[Change]:
        """Close the block of a call that runs or has its result, also where no stop was received."""
        for index, block in list(self._open.items()):
            if block.is_shown_call(native):
                del self._open[index]
                yield from block.end(None)

    def end(self, reason: str) -> Iterator[Change]:
        """Abort all open blocks."""
        for block, _ in self._open.end_all(reason):
            yield from block.end(reason)

    def _begin(self, turn: int, attempt: int, again: int = 0, *, is_all_seen: bool) -> None:
        self._response = ShownResponse(
            self._scope, self._prefix, turn=turn, attempt=attempt, again=again
        )
        self._response.is_all_seen = is_all_seen

    def _open_block(self, event: BlockEvent) -> OpenBlock:
        block = self._open[event.index] = OpenBlock(
            start_of(event), self._response, self._calls, is_detailed=self._is_detailed
        )
        return block
