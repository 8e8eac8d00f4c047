"""One item of a response, from its start to its end, as blocks.

An item is a message or a thought (`TextItem`), a call (`CallItem`), or an action of the provider, which is one block
too. The start of a block has in its echo the item that it belongs to; the stop of the item's last block has the whole
item, which the next request must repeat: `rxworker.providers.openai_responses.provider` puts it together again.

The whole texts that come at the end are compared with what was streamed. A server that streams nothing is made up for.

What happens is added to the events that the caller is gathering: most frames make one event or none, and to hand them
up through a generator at each floor would cost more than to make them.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rxworker.events import (
    BlockType,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    Opaque,
    RefusalDelta,
    ResponseEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.messages import JsonObject
from rxworker.messages.lenient_json import json_text, word
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.takes import made_id

MESSAGE = "message"
REASONING = "reasoning"
FUNCTION_CALL = "function_call"
CUSTOM_CALL = "custom_tool_call"
# Calls of tools that the client declared.
CALLS = (FUNCTION_CALL, CUSTOM_CALL)

# Looking up a member of an Enum costs as much as creating a small object.
TEXT = BlockType.TEXT
THINKING = BlockType.THINKING
REFUSAL = BlockType.REFUSAL
TOOL_USE = BlockType.TOOL_USE

# Where a text of an item lies: in which list, at which position, and what it becomes.
Position: TypeAlias = tuple[str, int, BlockType]
CONTENT = "content"
SUMMARY = "summary"
WHOLE: Position = ("", 0, TOOL_USE)

# What an item becomes; for a message, its first part.
BLOCK_TYPES = {MESSAGE: TEXT, REASONING: THINKING, FUNCTION_CALL: TOOL_USE, CUSTOM_CALL: TOOL_USE}

# The provider's own calls, and the field with the request.
SERVER_CALLS = {
    "web_search_call": "action",
    "file_search_call": "queries",
    "code_interpreter_call": "code",
    "image_generation_call": "revised_prompt",
    "mcp_call": "arguments",
    "tool_search_call": "arguments",
}
# Where the request is, in all calls.
INPUTS = {FUNCTION_CALL: "arguments", CUSTOM_CALL: "input", **SERVER_CALLS}
# Calls that no tool of the worker can answer, but that the client must answer; a hosted one is followed by its output.
CLIENT_CALLS = (
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_approval_request",
    "tool_search_call",
)


class Text(Struct, frozen=True):
    """A text that is streamed: whose it is, and where it lies.

    Attributes:
        item: The type of the item.
        field: The list it is in; empty if the item has just this one text.
        block_type: The type of the block that it becomes.
        done: The field of the ``.done`` event that holds all of it.
    """

    item: str
    field: str
    block_type: BlockType
    done: str = "text"


# What is streamed, by the event without its last word. Some servers have names of their own for thoughts.
_STREAMED = {
    "response.output_text": Text(MESSAGE, CONTENT, TEXT),
    "response.refusal": Text(MESSAGE, CONTENT, REFUSAL, "refusal"),
    "response.reasoning_text": Text(REASONING, CONTENT, THINKING),
    "response.reasoning": Text(REASONING, CONTENT, THINKING),
    "response.reasoning_summary_text": Text(REASONING, SUMMARY, THINKING),
    "response.reasoning_summary": Text(REASONING, SUMMARY, THINKING),
    "response.function_call_arguments": Text(FUNCTION_CALL, "", TOOL_USE, "arguments"),
    "response.custom_tool_call_input": Text(CUSTOM_CALL, "", TOOL_USE, "input"),
    "response.mcp_call_arguments": Text("mcp_call", "", BlockType.SERVER_TOOL_USE, "arguments"),
    "response.code_interpreter_call_code": Text("code_interpreter_call", "", BlockType.SERVER_TOOL_USE, "code"),
}
# The events of texts: more of one, and all of it.
TEXT_DELTAS = {f"{stem}.delta": text for stem, text in _STREAMED.items()}
WHOLES = {f"{stem}.done": text for stem, text in _STREAMED.items()}
# The parts of items, by their types; their texts are in the fields that the ``.done`` events have, too.
PARTS = {
    "output_text": Text(MESSAGE, CONTENT, TEXT),
    "text": Text(MESSAGE, CONTENT, TEXT),
    "refusal": Text(MESSAGE, CONTENT, REFUSAL, "refusal"),
    "reasoning_text": Text(REASONING, CONTENT, THINKING),
    "summary_text": Text(REASONING, SUMMARY, THINKING),
}


def block_type_of(item: JsonObject) -> BlockType:
    """The type of an item's block; for a message, that of its first part.

    >>> block_type_of({"type": "web_search_call"}), block_type_of({"type": "shell_call"})
    (<BlockType.SERVER_TOOL_USE: 'server_tool_use'>, <BlockType.OPAQUE: 'opaque'>)
    """
    kind = word(item.get("type"))
    if (known := BLOCK_TYPES.get(kind)) is not None:
        return known
    if kind in SERVER_CALLS and not waits_for_client(item):
        return BlockType.SERVER_TOOL_USE
    return BlockType.SERVER_TOOL_RESULT if kind.endswith("_output") else BlockType.OPAQUE


def waits_for_client(item: JsonObject) -> bool:
    """Whether the client must answer it, though it is not a call of one of its tools."""
    kind = item.get("type")
    return item.get("execution") == "client" if kind == "tool_search_call" else kind in CLIENT_CALLS


def parts_of(item: JsonObject, field: str) -> list[tuple[BlockType, str, JsonObject]]:
    """The texts in one of an item's lists, with their parts."""
    listed = item.get(field)
    found: list[tuple[BlockType, str, JsonObject]] = []
    for part in listed if isinstance(listed, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(kind, str) and kind in PARTS:
            text = PARTS[kind]
            found.append((text.block_type, word(part.get(text.done)), part))
    return found


def input_of(item: JsonObject) -> str:
    """The input of a call as text: JSON, or the text for a tool of free text."""
    kind = item.get("type")
    field = INPUTS.get(kind, "") if isinstance(kind, str) else ""
    value = item.get(field)
    if value is None or value == "":
        return ""
    if isinstance(value, str):
        return value if field in ("arguments", "input") else json_text({field: value})
    return json_text(value if isinstance(value, dict) else {field: value})


# What an encoder finds in the echo of a block.
ITEM = "item"
PLACE = "output_index"


class Item(Struct, eq=False):
    """The state of an item that is one block.

    Attributes:
        key: Its number within the response.
        kind: Its type.
        wire: The item as it was added, or as much as is known of it.
        blocks: Opens blocks; shared by all items.
        ended: Whether it has ended.
        called: Whether it is a whole call of one of the client's tools.
        malformed: Whether it is a call that names no tool.
        refused: Whether it holds a refusal.
        pieces: Of its input.
        open: The index of the block that is open.
    """

    key: int
    kind: str
    wire: JsonObject
    blocks: BlockFactory
    ended: bool = False
    called: bool = False
    malformed: bool = False
    refused: bool = False
    pieces: list[str] = []
    open: int | None = None

    def takes(self, text: Text) -> bool:
        """Whether a text of this sort can go into it, as long as it has not ended."""
        return self.kind == text.item

    def start(self, events: list[ResponseEvent]) -> None:
        """Start the item."""
        self._start_whole(events)

    def learn(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        """Add the start of an item of which parts have already arrived, or a second start."""
        self.wire = self.wire | wire
        if self.open is None:
            self.start(events)

    def add(self, _: Position, text: str, events: list[ResponseEvent], /) -> list[str] | None:
        """Add more text at a position. Return its pieces so far if each of them is emitted as a delta of one text."""
        self.pieces.append(text)
        if self.open is None:
            return None
        if self.kind == "code_interpreter_call":
            events.append(InputValueDelta(self.open, "$.code", text, append=True))
            return None
        events.append(InputJsonDelta(self.open, text))
        return self.pieces

    def complete(self, position: Position, text: str, events: list[ResponseEvent]) -> None:
        """Take the complete text of a position, and add its missing end."""
        if rest := missing(text, self.pieces):
            self.add(position, rest, events)

    def stop(self, wire: JsonObject | None, events: list[ResponseEvent], *, whole: bool, reason: str) -> None:
        """End the item, at its own end or at that of the response.

        Args:
            wire: The complete item, if it was sent.
            events: The list that the events are added to.
            whole: Whether the response allows the item to be complete.
            reason: The reason for an incomplete item, shown to users.
        """
        self.ended = True
        if wire is not None:
            self.wire = self.wire | wire
            self._fill(wire, events)
        index = self.open
        if index is None:  # it has no text, but must be sent back
            index = self._start_whole(events)
        # Half of a text is valid, half of a thought is not.
        if whole or wire is not None or self.kind == MESSAGE:
            events.append(self.blocks.stop(index, echo=None if wire is None else {ITEM: wire}))
        else:
            events.append(self.blocks.abort(index, reason))

    def _fill(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        """Emit the parts of the complete item that were not streamed."""
        index = self._start_whole(events) if self.open is None else self.open
        if not self.pieces and block_type_of(self.wire) is BlockType.SERVER_TOOL_USE and (given := input_of(wire)):
            events.append(InputJsonDelta(index, given))

    def _start_whole(self, events: list[ResponseEvent]) -> int:
        """Start the one block of the item."""
        block_type = block_type_of(self.wire)
        return self._start_block(block_type, self._metadata(block_type), events)

    def _start_block(self, block_type: BlockType, metadata: BlockMetadata | None, events: list[ResponseEvent]) -> int:
        start = self.blocks.start(block_type, metadata, {"type": self.kind, PLACE: self.key})
        self.open = start.index
        events.append(start)
        return start.index

    def _metadata(self, block_type: BlockType, /) -> BlockMetadata | None:
        wire = self.wire
        if block_type is BlockType.OPAQUE:
            return OpaqueMetadata(self.kind)
        if block_type is BlockType.SERVER_TOOL_RESULT:
            return ToolResultMetadata(word(wire.get("call_id")), self.kind)
        return ToolUseMetadata(self._call_id(), word(wire.get("name")) or self.kind)

    def _call_id(self) -> str:
        wire = self.wire
        return word(wire.get("call_id")) or word(wire.get("id")) or made_id()


class CallItem(Item, eq=False):
    """The state of a call of one of the client's tools; see `Item`. It has no block before its name."""

    def start(self, events: list[ResponseEvent]) -> None:
        """Start the item."""
        if word(self.wire.get("name")):
            self._start_whole(events)

    def stop(self, wire: JsonObject | None, events: list[ResponseEvent], *, whole: bool, reason: str) -> None:
        """It ended, or the response did; see `Item`. Half a call cannot stand."""
        self.ended = True
        index = self.open
        if index is None:
            self.wire = self.wire | (wire or {})
            if not word(self.wire.get("name")):
                self.malformed = True
                events.append(Opaque(self.kind, self.wire))
                return
            index = self._start_whole(events)
        last = self.wire if wire is None else wire
        if wire is not None or not self.pieces:  # all that came of it may be how it began
            is_told = last.get("type") == FUNCTION_CALL and self.pieces == [last.get("arguments")]
            if not is_told and (rest := missing(input_of(last), self.pieces)):
                self.add(WHOLE, rest, events)
        if whole and last.get("status") != "incomplete":
            self.called = True
            events.append(self.blocks.stop(index, echo=None if wire is None else {ITEM: wire}))
        else:
            events.append(self.blocks.abort(index, reason))

    def _start_whole(self, events: list[ResponseEvent]) -> int:
        wire = self.wire
        call_id, name = wire.get("call_id"), wire.get("name")
        if not call_id or type(call_id) is not str:
            call_id = self._call_id()
        if type(name) is not str:
            name = ""
        index = self._start_block(TOOL_USE, ToolUseMetadata(call_id, name, self.kind == CUSTOM_CALL), events)
        if self.pieces:  # the name has come only now
            events.append(InputJsonDelta(index, "".join(self.pieces)))
        return index


def missing(text: str, pieces: list[str]) -> str:
    """The end of a complete text that has not arrived; empty if the text so far is another one.

    The pieces become one, since several events contain the whole of a text, one after the other.

    >>> missing("Hello", ["He", "l"]), missing("Hello", ["Hey"])
    ('lo', '')
    """
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    sent = pieces[0] if pieces else ""
    return text[len(sent) :] if text.startswith(sent) else ""


DELTAS = {TEXT: TextDelta, THINKING: ThinkingDelta, REFUSAL: RefusalDelta}


class Part(Struct, eq=False):
    """A text within an item.

    Where it lies, what it is, the block it goes into, its pieces so far, and how often it was cited.
    """

    position: Position
    block_type: BlockType
    index: int = 0
    pieces: list[str] = []
    cited: int = 0


class TextItem(Item, eq=False):
    """The state of an item that has texts of its own; see `Item`.

    Attributes:
        parts: Its texts, by their positions.
        part: The text that is open.
    """

    parts: dict[Position, Part] = {}
    part: Part | None = None

    def takes(self, text: Text) -> bool:
        """Whether a text of this sort can go into it: any that stands in a list."""
        return text.field != ""

    def start(self, events: list[ResponseEvent]) -> None:
        """It was added. A message has no block before its first text."""
        if self.kind != MESSAGE:
            self._start_block(THINKING, None, events)

    def add(self, position: Position, text: str, events: list[ResponseEvent], /) -> list[str]:
        """More of the text at a position; returns its pieces so far."""
        part = self._turn_to(position, events)
        part.pieces.append(text)
        events.append(DELTAS[part.block_type](part.index, text))
        return part.pieces

    def complete(self, position: Position, text: str, events: list[ResponseEvent]) -> None:
        """Take the complete text of a position, and add its missing end."""
        part = self.parts.get(position)
        rest = text if part is None else missing(text, part.pieces)
        if rest:
            self.add(position, rest, events)

    def cite(self, position: Position, annotation: JsonObject, events: list[ResponseEvent]) -> None:
        """One more source of a text."""
        part = self._turn_to(position, events)
        part.cited += 1
        events.append(CitationDelta(part.index, annotation))

    def _fill(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        if self.kind == MESSAGE:
            self._fill_message(wire, events)
        elif not self.parts:  # a server that streams one of the lists sends the same in the other
            field = SUMMARY if parts_of(wire, SUMMARY) else CONTENT
            for number, (_, text, _) in enumerate(parts_of(wire, field)):
                self.complete((field, number, THINKING), text, events)

    def _fill_message(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        # Some servers begin to count their parts at 1, so what was streamed is matched by its order.
        streamed = [position for position in self.parts if position[0] == CONTENT]
        if len(streamed) > 1:
            streamed.sort(key=_order)
        for number, (block_type, text, part) in enumerate(parts_of(wire, CONTENT)):
            is_streamed = number < len(streamed)
            position = streamed[number] if is_streamed else (CONTENT, number, block_type)
            self.complete(position, text, events)
            annotations = part.get("annotations")
            if annotations and position in self.parts and isinstance(annotations, list):
                for annotation in annotations[self.parts[position].cited :]:
                    if isinstance(annotation, dict):
                        self.cite(position, annotation, events)

    def _turn_to(self, position: Position, events: list[ResponseEvent]) -> Part:
        """The part at a position, open."""
        if self.part is not None:
            if self.part.position == position:
                return self.part
            if self.open is not None:
                events.append(self.blocks.stop(self.open))
                self.open = None
        part = self.parts.get(position)
        if part is None:
            block_type = position[2] if self.kind == MESSAGE else THINKING
            part = self.parts[position] = Part(position, block_type)
            self.refused = self.refused or block_type is REFUSAL
        index = self.open
        part.index = self._start_block(part.block_type, None, events) if index is None else index
        self.part = part
        return part

    def _metadata(self, _: BlockType, /) -> None:
        """A text has no metadata."""


def _order(position: Position) -> tuple[int, str]:
    return position[1], position[2].value
