"""One item of a response, from its start to its end, as blocks.

An item is a message, a thought, a call, or one of the provider's own doings. Messages and thoughts are `Prose`, see
`rxworker.providers.openai_responses.prose`; a call is a `Call`; any other item is one block, too. The start of a block says in its echo what item
it belongs to, the stop of the item's last block has the whole item, which is what the next request must repeat:
`rxworker.providers.openai_responses.echo` puts it back together.

The whole texts that come at the end are compared with what was streamed. A server that streams nothing is made up for.

What happens is added to the events that the caller is gathering: most frames make one event or none, and to hand them up
through a generator at each floor would cost more than to make them.
"""

from __future__ import annotations

from collections.abc import Callable

from rxworker.events import (
    BlockMetadata,
    BlockType,
    InputJsonDelta,
    InputValueDelta,
    Opaque,
    OpaqueMetadata,
    ResponseEvent,
    ToolResultMetadata,
    ToolUseMetadata,
)
from rxworker.messages import Json, JsonObject
from rxworker.providers.blocks import OpenBlocks
from rxworker.providers.openai_responses.kinds import (
    CUSTOM_CALL,
    FUNCTION_CALL,
    MESSAGE,
    TOOL_USE,
    WHOLE,
    Place,
    Text,
    block_type_of,
    input_of,
    waits_for_client,
    word,
)

CODE_CALL = "code_interpreter_call"

# What an encoder finds in the echo of a block.
ITEM = "item"
PLACE = "output_index"


class Item:
    """What has come of an item that is one block.

    Args:
        key: Its number within the response.
        kind: Its type.
        wire: The item as it was added, or as much as is known of it.
        blocks: Where blocks are opened, shared by all items.
        new_id: Makes an id for a call that came without one.

    Attributes:
        key: Its number within the response.
        kind: Its type.
        names: Under which an event may speak of it, and whatever else the server put there.
        ended: Whether it has ended.
        called: Whether it is a whole call of one of the client's tools.
        malformed: Whether it is a call that names no tool.
        refused: Whether it holds a refusal.
    """

    __slots__ = (
        "_blocks",
        "_new_id",
        "_open",
        "_pieces",
        "_wire",
        "called",
        "ended",
        "key",
        "kind",
        "malformed",
        "names",
        "refused",
    )

    def __init__(
        self,
        key: int,
        kind: str,
        wire: JsonObject,
        blocks: OpenBlocks,
        new_id: Callable[[], str],
    ) -> None:
        self.key = key
        self.kind = kind
        self.names: tuple[Json, ...] = wire.get("id"), wire.get("call_id")
        self.ended = False
        self.called = False
        self.malformed = False
        self.refused = False
        self._wire = wire
        self._blocks = blocks
        self._new_id = new_id
        self._pieces: list[str] = []  # of its input
        self._open: int | None = None  # the index of the block that is open

    @property
    def waits_for_client(self) -> bool:
        """Whether the client must answer it, though it is no call of one of its tools."""
        return waits_for_client(self._wire)

    def takes(self, text: Text) -> bool:
        """Whether a text of this sort can go into it, as long as it has not ended."""
        return self.kind == text.item

    def start(self, events: list[ResponseEvent]) -> None:
        """It was added."""
        self._start_whole(events)

    def learn(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        """It was added, after something of it had come already; or it was added twice."""
        self._wire = self._wire | wire
        if self._open is None:
            self.start(events)

    def add(self, _: Place, text: str, events: list[ResponseEvent], /) -> list[str] | None:
        """More of the text at a place; returns what has come of it, if all that comes makes deltas that add to one text."""
        self._pieces.append(text)
        if self._open is None:
            return None
        if self.kind == CODE_CALL:
            events.append(InputValueDelta(self._open, "$.code", text, append=True))
            return None
        events.append(InputJsonDelta(self._open, text))
        return self._pieces

    def complete(self, place: Place, text: str, events: list[ResponseEvent]) -> None:
        """The whole of the text at a place: adds what is missing at its end."""
        rest = missing(text, self._pieces)
        if rest:
            self.add(place, rest, events)

    def stop(
        self, wire: JsonObject | None, events: list[ResponseEvent], *, whole: bool, reason: str
    ) -> None:
        """It ended, or the response did.

        Args:
            wire: The item as it is at its end, where that was sent.
            events: Where to put what happened.
            whole: Whether the response allows that it is whole.
            reason: Why it is not, for people.
        """
        self.ended = True
        if wire is not None:
            self._wire = self._wire | wire
            self._fill(wire, events)
        index = self._open
        if index is None:  # it has nothing to say, but is sent back all the same
            index = self._start_whole(events)
        # Half a text can stand, half a thought cannot.
        if whole or wire is not None or self.kind == MESSAGE:
            events.append(self._blocks.stop(index, echo=None if wire is None else {ITEM: wire}))
        else:
            events.append(self._blocks.abort(index, reason))

    def _fill(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        """What was not streamed."""
        index = self._start_whole(events) if self._open is None else self._open
        if not self._pieces and block_type_of(self._wire) is BlockType.SERVER_TOOL_USE:
            asked = input_of(wire)
            if asked:
                events.append(InputJsonDelta(index, asked))

    def _start_whole(self, events: list[ResponseEvent]) -> int:
        """Begin the block that is all of it."""
        block_type = block_type_of(self._wire)
        return self._start_block(block_type, self._metadata(block_type), events)

    def _start_block(
        self, block_type: BlockType, metadata: BlockMetadata | None, events: list[ResponseEvent]
    ) -> int:
        echo: JsonObject = {"type": self.kind, PLACE: self.key}
        start = self._blocks.start(block_type, metadata, echo)
        self._open = start.index
        events.append(start)
        return start.index

    def _metadata(self, block_type: BlockType, /) -> BlockMetadata | None:
        wire = self._wire
        if block_type is BlockType.OPAQUE:
            return OpaqueMetadata(self.kind)
        if block_type is BlockType.SERVER_TOOL_RESULT:
            return ToolResultMetadata(word(wire.get("call_id")), self.kind)
        return ToolUseMetadata(self._call_id(), word(wire.get("name")) or self.kind)

    def _call_id(self) -> str:
        wire = self._wire
        return word(wire.get("call_id")) or word(wire.get("id")) or self._new_id()


class Call(Item):
    """What has come of a call of one of the client's tools; see `Item`. It has no block before its name."""

    __slots__ = ()

    def start(self, events: list[ResponseEvent]) -> None:
        """It was added."""
        if word(self._wire.get("name")):
            self._start_whole(events)

    def stop(
        self, wire: JsonObject | None, events: list[ResponseEvent], *, whole: bool, reason: str
    ) -> None:
        """It ended, or the response did; see `Item`. Half a call cannot stand."""
        self.ended = True
        index = self._open
        if index is None:
            self._wire = self._wire | (wire or {})
            if not word(self._wire.get("name")):
                self.malformed = True
                events.append(Opaque(self.kind, self._wire))
                return
            index = self._start_whole(events)
        last = self._wire if wire is None else wire
        if wire is not None or not self._pieces:  # all that came of it may be how it began
            self._fill(last, events)
        if whole and last.get("status") != "incomplete":
            self.called = True
            events.append(self._blocks.stop(index, echo=None if wire is None else {ITEM: wire}))
        else:
            events.append(self._blocks.abort(index, reason))

    def _fill(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        is_told = wire.get("type") == FUNCTION_CALL and self._pieces == [wire.get("arguments")]
        rest = "" if is_told else missing(input_of(wire), self._pieces)
        if rest:
            self.add(WHOLE, rest, events)

    def _start_whole(self, events: list[ResponseEvent]) -> int:
        wire = self._wire
        call_id, name = wire.get("call_id"), wire.get("name")
        if not call_id or type(call_id) is not str:
            call_id = self._call_id()
        if type(name) is not str:
            name = ""
        metadata = ToolUseMetadata(call_id, name, self.kind == CUSTOM_CALL)
        index = self._start_block(TOOL_USE, metadata, events)
        if self._pieces:  # the name has come only now
            events.append(InputJsonDelta(index, "".join(self._pieces)))
        return index


def missing(text: str, pieces: list[str]) -> str:
    """What of a whole text has not come; nothing if another text has.

    The pieces become one, since several events say the whole of a text, one after the other.

    >>> missing("Hello", ["He", "l"]), missing("Hello", ["Hey"])
    ('lo', '')
    """
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    told = pieces[0] if pieces else ""
    return text[len(told) :] if text.startswith(told) else ""
