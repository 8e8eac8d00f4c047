"""One step of an interaction, from its start to its end, as blocks.

A step is an output of the model, which holds texts, pictures and other contents (`Output`), a thought (`Thought`), a
call of a client's tool (`Call`), or anything else, such as a call of one of Google's own tools or its result, which is
one block and is kept whole (`Step`). A step that starts may hold content already; its deltas add to it.

The encoder finds in the echo of a block what the next request must repeat beside what the block itself holds: see
`STEP`, `CONTENT` and `JOINS`.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from rxworker import events
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import objects_in, word
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.gemini_interactions.wire import CALL, OUTPUT, THOUGHT
from rxworker.providers.takes import made_id

# In the echo of a block: the members of its step that the block does not have, the content of an output other than a
# text, and a mark for a content of the same output as the block before it.
STEP, CONTENT, JOINS = "step", "content", "joins"

SIGNATURE = "thought_signature"
SUMMARY = "thought_summary"
ANNOTATIONS = "text_annotation_delta"
ARGUMENTS = "arguments_delta"
# The kind of a step of which the start was not sent, by its delta; any other delta has the type of its step.
IMPLIED = {
    **dict.fromkeys(("text", ANNOTATIONS, "image", "audio", "document", "video"), OUTPUT),
    **dict.fromkeys((SIGNATURE, SUMMARY), THOUGHT),
    ARGUMENTS: CALL,
}
CALLS, RESULTS = "_call", "_result"

Events = list[events.ResponseEvent]


class Step(Struct, eq=False):
    """The state of a step that is one block and is kept whole.

    Attributes:
        kind: Its type.
        blocks: Opens blocks; shared by all steps.
        members: Its members, as far as no block has them.
        open: The index of the block that is open.
        called: Whether it is a whole call of a client's tool.
        malformed: Whether it is a call that names no tool.
    """

    kind: str
    blocks: BlockFactory
    members: JsonObject = {}
    open: int | None = None
    called: bool = False
    malformed: bool = False

    def start(self, step: JsonObject, emitted: Events) -> None:
        """Start the step, with what it holds already."""
        self.members = step
        if self.kind.endswith(CALLS):
            name = word(step.get("name")) or self.kind.removesuffix(CALLS)
            metadata = events.ToolUseMetadata(word(step.get("id")) or made_id(), name)
            self._open(emitted, events.BlockType.SERVER_TOOL_USE, metadata)
        elif self.kind.endswith(RESULTS):
            metadata = ToolResultMetadata(word(step.get("call_id")), self.kind.removesuffix(RESULTS))
            self._open(emitted, events.BlockType.SERVER_TOOL_RESULT, metadata)
        else:
            self._open(emitted, events.BlockType.OPAQUE, OpaqueMetadata(self.kind))

    def take(self, delta: JsonObject, emitted: Events) -> None:
        """Take what is new of it: its members, of which lists grow."""
        kind = word(delta.get("type"))
        if kind != self.kind:
            self._take_other(kind, delta, emitted)
            return
        for name, value in delta.items():
            if isinstance(before := self.members.get(name), list) and isinstance(value, list):
                value = [*before, *value]
            if value is not None:
                self.members = {**self.members, name: value}

    def stop(self, emitted: Events) -> None:
        """End the step, which is whole."""
        arguments = self.members.get("arguments")
        if self.open is not None and self.kind.endswith(CALLS) and arguments:
            emitted.append(events.InputJsonDelta(self.open, msgspec.json.encode(arguments).decode()))
        self._close(emitted, {STEP: self.members})

    def abort(self, reason: str, emitted: Events) -> None:
        """End the step, which will not become whole."""
        if self.open is not None:
            emitted.append(self.blocks.abort(self.open, reason))
            self.open = None

    def _take_other(self, kind: str, delta: JsonObject, emitted: Events) -> None:
        """Take a delta of another type than the step's.

        A signature belongs to any step, and what is not known travels on.
        """
        if kind == SIGNATURE:
            self.members = {**self.members, "signature": delta.get("signature")}
        else:
            emitted.append(events.Opaque(kind, delta))

    def _open(self, emitted: Events, block_type: events.BlockType, metadata: BlockMetadata | None = None) -> int:
        start = self.blocks.start(block_type, metadata)
        self.open = start.index
        emitted.append(start)
        return start.index

    def _close(self, emitted: Events, echo: JsonObject | None) -> None:
        if self.open is not None:
            emitted.append(self.blocks.stop(self.open, None, echo))
            self.open = None


def _others(step: JsonObject, *known: str) -> JsonObject:
    """The members of a step that no block has."""
    return {k: v for k, v in step.items() if k not in ("type", *known) and v not in (None, "")}


class Output(Step):
    """The state of an output of the model: texts, and other contents that come whole."""

    _is_joined: bool = False  # it has had a block

    def start(self, step: JsonObject, emitted: Events) -> None:
        """Start the step, with what it holds already."""
        self.members = _others(step, "content")
        for content in objects_in(step.get("content")):
            self.take(content, emitted)

    def take(self, delta: JsonObject, emitted: Events) -> None:
        """Take more of a text, its sources, or another content."""
        kind, text = word(delta.get("type")), delta.get("text")
        if kind == "text" and isinstance(text, str):
            index = self._open(emitted, events.BlockType.TEXT) if self.open is None else self.open
            if text:
                emitted.append(events.TextDelta(index, text))
            self._cite(delta, emitted)
        elif kind == ANNOTATIONS:
            self._cite(delta, emitted)
        elif kind == SIGNATURE:
            self._take_other(kind, delta, emitted)
        else:
            self.stop(emitted)
            block_type = events.BlockType.IMAGE if kind == "image" else events.BlockType.OPAQUE
            self._open(emitted, block_type, None if kind == "image" else OpaqueMetadata(kind))
            self._close(emitted, {CONTENT: delta, **self._marks()})

    def stop(self, emitted: Events) -> None:
        """End the text that is open."""
        if self.open is not None:
            self._close(emitted, self._marks() or None)

    def _marks(self) -> JsonObject:
        """What the encoder needs for the block that ends.

        Whether it joins the one before it, and what else the step has.
        """
        marks: JsonObject = {JOINS: True} if self._is_joined else {}
        if self.members:
            marks[STEP] = self.members
        self._is_joined, self.members = True, {}
        return marks

    def _cite(self, delta: JsonObject, emitted: Events) -> None:
        for source in objects_in(delta.get("annotations")):
            if self.open is None:
                emitted.append(events.Opaque(ANNOTATIONS, source))
            else:
                emitted.append(events.CitationDelta(self.open, source))


class Thought(Step):
    """The state of a thought: its summary, and its signature, without which it cannot be sent back."""

    _parts: list[JsonObject] = []
    _has_pictures: bool = False

    def start(self, step: JsonObject, emitted: Events) -> None:
        """Start the step, with what it holds already."""
        self.members = _others(step, "summary", "signature")
        index = self._open(emitted, events.BlockType.THINKING)
        for part in objects_in(step.get("summary")):
            self._add(part, emitted)
        if signature := word(step.get("signature")):
            emitted.append(events.SignatureDelta(index, signature))

    def take(self, delta: JsonObject, emitted: Events) -> None:
        """Take more of the summary, or the signature."""
        kind = word(delta.get("type"))
        content = delta.get("content")
        if kind == SUMMARY and isinstance(content, dict):
            self._add(content, emitted)
        elif kind != SIGNATURE:
            emitted.append(events.Opaque(kind, delta))
        elif self.open is not None and (signature := word(delta.get("signature"))):
            emitted.append(events.SignatureDelta(self.open, signature))

    def stop(self, emitted: Events) -> None:
        """End the thought."""
        if self._has_pictures:
            self.members = {**self.members, "summary": [*self._parts]}
        self._close(emitted, {STEP: self.members} if self.members else None)

    def _add(self, part: JsonObject, emitted: Events) -> None:
        text = part.get("text")
        self._parts.append(part)
        if isinstance(text, str) and word(part.get("type")) in ("", "text"):
            if text and self.open is not None:
                emitted.append(events.ThinkingDelta(self.open, text))
        else:
            self._has_pictures = True


class Call(Step):
    """The state of a call of a client's tool. Its arguments stream as text, or came whole with its start."""

    _arguments: Json = None

    def start(self, step: JsonObject, emitted: Events) -> None:
        """Start the call."""
        self.members = _others(step, "id", "name", "arguments")
        self._arguments = step.get("arguments")
        name = word(step.get("name"))
        if not name:
            self.malformed = True
            emitted.append(events.Opaque(self.kind, step))
            return
        self._open(emitted, events.BlockType.TOOL_USE, events.ToolUseMetadata(word(step.get("id")) or made_id(), name))

    def take(self, delta: JsonObject, emitted: Events) -> None:
        """Take more of the arguments."""
        kind, text = word(delta.get("type")), delta.get("arguments")
        if kind != ARGUMENTS or self.open is None or not isinstance(text, str):
            self._take_other(kind, delta, emitted)
        elif text:
            self._arguments = None
            emitted.append(events.InputJsonDelta(self.open, text))

    def stop(self, emitted: Events) -> None:
        """End the call, which is whole."""
        if self.open is not None and self._arguments:
            emitted.append(events.InputJsonDelta(self.open, msgspec.json.encode(self._arguments).decode()))
        self.called = self.open is not None
        self._close(emitted, {STEP: self.members} if self.members else None)


# What becomes of a step by its type; any other is a `Step`.
KINDS: dict[str, type[Step]] = {OUTPUT: Output, THOUGHT: Thought, CALL: Call}
