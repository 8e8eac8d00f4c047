"""One item of a response, from its start to its end, as blocks.

An item is a message, a thought, a call, or one of the provider's own doings. Each text of a message or of a thought is
a block of its own, which ends when the next text begins or the item ends; any other item is one block. The start of a
block says in its echo what item it belongs to, the stop of the item's last block has the whole item, which is what the
next request must repeat: `rxworker.providers.openai_responses.echo` puts it back together.

The whole texts that come at the end are compared with what was streamed. A server that streams nothing is made up for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from rxworker.events import (
    BlockMetadata,
    BlockType,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    OpaqueMetadata,
    RefusalDelta,
    ResponseEvent,
    TextDelta,
    ThinkingDelta,
    ToolResultMetadata,
    ToolUseMetadata,
)
from rxworker.messages import JsonObject
from rxworker.providers.blocks import OpenBlocks
from rxworker.providers.openai_responses.kinds import (
    CALLS,
    CONTENT,
    CUSTOM_CALL,
    MESSAGE,
    REASONING,
    SUMMARY,
    WHOLE,
    Place,
    block_type_of,
    input_of,
    parts_of,
    place_of,
    waits_for_client,
    word,
)

# What an encoder finds in the echo of a block.
ITEM = "item"
PLACE = "output_index"

PROSE = {
    BlockType.TEXT: TextDelta,
    BlockType.THINKING: ThinkingDelta,
    BlockType.REFUSAL: RefusalDelta,
}


class Part:
    """A text within an item: the block it goes into, and what has come of it."""

    __slots__ = ("cited", "index", "pieces")

    def __init__(self) -> None:
        self.index = 0
        self.pieces: list[str] = []
        self.cited = 0


class Item:
    """What has come of an item.

    Args:
        key: Its number within the response.
        wire: The item as it was added, or as much as is known of it.
        blocks: Where blocks are opened, shared by all items.
        new_id: Makes an id for a call that came without one.

    Attributes:
        key: Its number within the response.
        kind: Its type.
        text: The text that is open, and where it lies.
        ended: Whether it has ended.
        called: Whether it is a whole call of one of the client's tools.
        refused: Whether it holds a refusal.
    """

    def __init__(
        self, key: int, wire: JsonObject, blocks: OpenBlocks, new_id: Callable[[], str]
    ) -> None:
        self.key = key
        self.kind = word(wire.get("type"))
        self.text: tuple[Place, Part] | None = None
        self.ended = False
        self.called = False
        self.refused = False
        self._wire = wire
        self._blocks = blocks
        self._new_id = new_id
        self._parts: dict[Place, Part] = {}
        self._open: int | None = None  # the index of the block that is open
        self._waiting: list[str] = []  # the input of a call whose name has not come

    @property
    def is_prose(self) -> bool:
        """Whether it has texts of its own."""
        return self.kind in (MESSAGE, REASONING)

    @property
    def waits_for_client(self) -> bool:
        """Whether the client must answer it, though it is no call of one of its tools."""
        return waits_for_client(self._wire)

    def start(self) -> Iterator[ResponseEvent]:
        """It was added. A message has no block before its first text, a call none before its name."""
        if self.kind != MESSAGE and (self.kind not in CALLS or self._wire.get("name")):
            yield from self._start_block(block_type_of(self._wire))

    def learn(self, wire: JsonObject) -> Iterator[ResponseEvent]:
        """It was added, after something of it had come already; or it was added twice."""
        self._wire = self._wire | wire
        if self._open is None:
            yield from self.start()

    def add(self, place: Place, block_type: BlockType, text: str) -> Iterator[ResponseEvent]:
        """More of a text."""
        if not text:
            return
        if self.is_prose:
            block_type = BlockType.THINKING if self.kind == REASONING else block_type
            part = yield from self._turn_to(place, block_type)
            part.pieces.append(text)
            yield PROSE[block_type](part.index, text)
            return
        self._part(place).pieces.append(text)
        if self._open is None:
            self._waiting.append(text)
        else:
            yield self._input(self._open, text)

    def complete(self, place: Place, block_type: BlockType, text: str) -> Iterator[ResponseEvent]:
        """The whole of a text: adds what is missing at its end."""
        told = "".join(self._parts[place].pieces) if place in self._parts else ""
        if len(text) > len(told) and text.startswith(told):
            yield from self.add(place, block_type, text[len(told) :])

    def cite(self, place: Place, annotation: JsonObject) -> Iterator[ResponseEvent]:
        """One more source of a text."""
        part = yield from self._turn_to(place, BlockType.TEXT)
        part.cited += 1
        yield CitationDelta(part.index, annotation)

    def stop(self, wire: JsonObject | None, *, whole: bool, reason: str) -> Iterator[ResponseEvent]:
        """It ended, or the response did.

        Args:
            wire: The item as it is at its end, where that was sent.
            whole: Whether the response allows that it is whole.
            reason: Why it is not, for people.
        """
        self.ended = True
        if wire is not None:
            self._wire = self._wire | wire
            yield from self._fill(wire)
        elif self.kind in CALLS and not self._parts:  # all that came of it is how it began
            yield from self.complete(WHOLE, BlockType.TOOL_USE, input_of(self._wire))
        if self._open is None:  # it has nothing to say, but is sent back all the same
            yield from self._start_block(block_type_of(self._wire))
        if self._open is None:
            return
        if self._is_whole(wire, whole):
            yield self._blocks.stop(self._open, echo=None if wire is None else {ITEM: wire})
            self.called = self.kind in CALLS
        else:
            yield self._blocks.abort(self._open, reason)
        self._open = self.text = None

    def _is_whole(self, wire: JsonObject | None, whole: bool) -> bool:
        """Half a text can stand, half a call or half a thought cannot."""
        if self.kind in CALLS:
            return whole and self._wire.get("status") != "incomplete"
        return whole or wire is not None or self.kind == MESSAGE

    # what was not streamed

    def _fill(self, wire: JsonObject) -> Iterator[ResponseEvent]:
        if self.kind == MESSAGE:
            yield from self._fill_message(wire)
        elif self.kind == REASONING:
            yield from self._fill_reasoning(wire)
        else:
            if self._open is None:
                yield from self._start_block(block_type_of(self._wire))
            if self.kind in CALLS:
                yield from self.complete(WHOLE, BlockType.TOOL_USE, input_of(wire))
            elif not self._parts and block_type_of(self._wire) is BlockType.SERVER_TOOL_USE:
                asked = input_of(wire)
                if asked and self._open is not None:
                    yield InputJsonDelta(self._open, asked)

    def _fill_message(self, wire: JsonObject) -> Iterator[ResponseEvent]:
        # Some servers begin to count their parts at 1, so what was streamed is matched by its order.
        streamed = sorted(place for place in self._parts if place[0] == CONTENT)
        for number, (block_type, text, part) in enumerate(parts_of(wire, CONTENT)):
            place = place_of(CONTENT, number, block_type)
            place = streamed[number] if number < len(streamed) else place
            yield from self.complete(place, block_type, text)
            annotations = part.get("annotations")
            if place in self._parts and isinstance(annotations, list):
                for annotation in annotations[self._parts[place].cited :]:
                    if isinstance(annotation, dict):
                        yield from self.cite(place, annotation)

    def _fill_reasoning(self, wire: JsonObject) -> Iterator[ResponseEvent]:
        if self._parts:  # a server that streams one of the lists says the same in the other
            return
        field = SUMMARY if parts_of(wire, SUMMARY) else CONTENT
        for number, (_, text, _) in enumerate(parts_of(wire, field)):
            yield from self.add(
                place_of(field, number, BlockType.THINKING), BlockType.THINKING, text
            )

    # its blocks

    def _turn_to(self, place: Place, block_type: BlockType) -> Generator[ResponseEvent, None, Part]:
        """The part at a place, open."""
        if self.text is not None and self.text[0] == place:
            return self.text[1]
        if self.text is not None and self._open is not None:
            yield self._blocks.stop(self._open)
            self._open = None
        if self._open is None:
            yield from self._start_block(block_type)
        part = self._part(place)
        part.index = self._open or 0
        self.text = place, part
        return part

    def _part(self, place: Place) -> Part:
        part = self._parts.get(place)
        if part is None:
            part = self._parts[place] = Part()
        return part

    def _start_block(self, block_type: BlockType) -> Iterator[ResponseEvent]:
        echo: JsonObject = {"type": self.kind, PLACE: self.key}
        self.refused = self.refused or block_type is BlockType.REFUSAL
        start = self._blocks.start(block_type, self._metadata(block_type), echo)
        self._open = start.index
        yield start
        if self._waiting:
            yield self._input(start.index, "".join(self._waiting))
            self._waiting = []

    def _metadata(self, block_type: BlockType) -> BlockMetadata | None:
        wire = self._wire
        if block_type in (BlockType.TEXT, BlockType.THINKING, BlockType.REFUSAL):
            return None
        if block_type is BlockType.OPAQUE:
            return OpaqueMetadata(self.kind)
        if block_type is BlockType.SERVER_TOOL_RESULT:
            return ToolResultMetadata(word(wire.get("call_id")), self.kind)
        call_id = word(wire.get("call_id")) or word(wire.get("id"))
        name = word(wire.get("name")) or ("" if self.kind in CALLS else self.kind)
        return ToolUseMetadata(call_id or self._new_id(), name, self.kind == CUSTOM_CALL)

    def _input(self, index: int, text: str) -> ResponseEvent:
        if self.kind == "code_interpreter_call":
            return InputValueDelta(index, "$.code", text, append=True)
        return InputJsonDelta(index, text)


__all__ = ["ITEM", "PLACE", "Item"]
