"""Frames of the Messages stream to events.

Blocks come one after another, but they are kept by their index, so that they may also overlap. A ``message_start`` in
the middle comes from a proxy that tried again: it retracts what the response emitted before it. A response ends at
``message_stop`` or at an error; what comes later is ignored. Bytes that end before are a truncated response, unless a
stop reason has come: some servers leave out the last message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker import events
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.events.kinds import FEW, Deltas, TextDeltas, gather
from rxworker.framing.sse import SseFrame, datas_of
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import as_array, read_repaired, word
from rxworker.providers.anthropic import wire
from rxworker.providers.anthropic.container import CONTAINER, OWN_CALLS
from rxworker.providers.batch_decoder import Events, Part
from rxworker.providers.block_factory import CUT
from rxworker.providers.failure import error_failure
from rxworker.providers.finish_reasons import NORMAL, known_kind, read_stop
from rxworker.providers.malformed import BROKEN, UNREADABLE, LenientDecoder
from rxworker.providers.takes import made_id

TEXT_TYPES = {"text": events.BlockType.TEXT, "thinking": events.BlockType.THINKING}
TOOL_USE = events.BlockType.TOOL_USE
OWN = frozenset({"type", "id", "name", "input"})  # in the next request anyway
NAMELESS = OpaqueMetadata("tool_use")  # a call that names no tool, and so cannot run


Opening: TypeAlias = tuple[events.BlockType, BlockMetadata | None, JsonObject | None]
"""How a block begins: what it holds; which tool, result or unknown kind.

And what the next request must repeat, as far as it is known.
"""


class OpenBlock(Struct):
    """A block that has started, with what its deltas add to its echo.

    Attributes:
        index: Its number among the blocks of the response.
        block_type: The type of its content.
        began_whole: Whether it is a call whose start had its arguments.
        is_nameless: Whether it is a call that names no tool, and so cannot run.
        pieces: Texts for the echo, by their fields, in pieces.
        kept: Members that go into the echo unchanged.
    """

    index: int
    block_type: events.BlockType
    began_whole: bool = False
    is_nameless: bool = False
    pieces: dict[str, list[str]] | None = None
    kept: JsonObject | None = None

    def keep(self, field: str, piece: str) -> None:
        """Add to a text that the echo will hold."""
        if self.pieces is None:
            self.pieces = {}
        self.pieces.setdefault(field, []).append(piece)

    def echo(self) -> JsonObject | None:
        """The echo that the deltas have added; ``None`` if there is none."""
        if self.pieces is None:
            return self.kept or None
        joined = {field: "".join(pieces) for field, pieces in self.pieces.items()}
        given: JsonObject = {"input": parsed(joined["input"])} if "input" in joined else {}
        return {**(self.kept or {}), **joined, **given}


def read_block(block: JsonObject) -> Opening:
    """The block type, the metadata and the echo of a ``content_block``.

    >>> read_block({"type": "text", "text": ""})
    (<BlockType.TEXT: 'text'>, None, None)
    """
    sort = block.get("type")
    if sort == "tool_use":
        echo: JsonObject | None = None
        if not OWN.issuperset(block):
            echo = {key: value for key, value in block.items() if key not in OWN}
        name = word(block.get("name"))
        if not name:
            return events.BlockType.OPAQUE, NAMELESS, None
        return TOOL_USE, events.ToolUseMetadata(word(block.get("id")), name), echo
    kind = word(sort)
    if kind in TEXT_TYPES:
        return TEXT_TYPES[kind], None, None
    if kind == "redacted_thinking":
        return events.BlockType.THINKING, None, block
    if kind in OWN_CALLS:
        tool = events.ToolUseMetadata(word(block.get("id")), word(block.get("name")))
        return events.BlockType.SERVER_TOOL_USE, tool, block
    if kind.endswith("_tool_result"):
        metadata = ToolResultMetadata(word(block.get("tool_use_id")), kind)
        return events.BlockType.SERVER_TOOL_RESULT, metadata, block
    return events.BlockType.OPAQUE, OpaqueMetadata(kind), block


def parsed(text: str) -> Json:
    """The arguments of a server's tool; nothing at all stands for no arguments."""
    decoded = read_repaired(text.encode() or b"{}")
    if decoded is None:
        return {} if text.strip() == "null" else text
    return decoded


# Which blocks a delta may open, when no start has come for it.
IMPLICIT: dict[type, events.BlockType] = {
    wire.WireTextDelta: events.BlockType.TEXT,
    wire.WireCitationDelta: events.BlockType.TEXT,
    wire.WireThinkingDelta: events.BlockType.THINKING,
    wire.WireSignatureDelta: events.BlockType.THINKING,
}


# The texts in a start of a text or of thinking.
FIRST = {"text": events.TextDelta, "thinking": events.ThinkingDelta, "signature": events.SignatureDelta}


def first_deltas(opened: OpenBlock, block: JsonObject) -> Events:
    """What a start already holds, as the deltas that would have brought it.

    >>> first_deltas(OpenBlock(0, events.BlockType.TEXT), {"type": "text", "text": "Hi"})
    [TextDelta(index=0, text='Hi', choice=0)]
    """
    index, kind = opened.index, opened.block_type
    if opened.began_whole and kind in (TOOL_USE, events.BlockType.SERVER_TOOL_USE):
        return [events.InputJsonDelta(index, msgspec.json.encode(block["input"]).decode())]
    emitted: list[events.ResponseEvent] = []
    if kind in TEXT_TYPES.values():
        for name in filter(block.get, FIRST):
            emitted.append(FIRST[name](index, word(block[name])))
    if kind is events.BlockType.TEXT and isinstance(citations := block.get("citations"), list):
        emitted += [events.CitationDelta(index, one) for one in citations if isinstance(one, dict)]
    return emitted


def _add_signature(block: OpenBlock, delta: wire.WireSignatureDelta) -> Events:
    return [events.SignatureDelta(block.index, delta.signature)]


def _add_citation(block: OpenBlock, delta: wire.WireCitationDelta) -> Events:
    return [events.CitationDelta(block.index, delta.citation)]


def _add_server_input(block: OpenBlock, delta: wire.WireInputDelta) -> Events:
    if block.began_whole:
        return ()
    if delta.text:
        block.keep("input", delta.text)
    return [events.InputJsonDelta(block.index, delta.text)]


def _keep_members(block: OpenBlock, delta: wire.WireCompactionDelta | wire.WireSignatureDelta) -> Events:
    given: JsonObject = msgspec.to_builtins(delta)
    block.kept = (block.kept or {}) | {k: v for k, v in given.items() if k != "type" and v is not None}
    return ()


def _keep_piece(block: OpenBlock, delta: wire.WireTextDelta | wire.WireThinkingDelta | wire.WireInputDelta) -> Events:
    block.keep(KEPT[type(delta)], delta.text)
    return ()


KEPT: dict[type, str] = {wire.WireTextDelta: "text", wire.WireThinkingDelta: "thinking", wire.WireInputDelta: "input"}
"""The fields of a block of an unknown kind that grow by deltas."""

# What a delta becomes that does nothing but add to the text of its block.
PLAIN: dict[tuple[events.BlockType, type], Callable[[int, str], TextDeltas]] = {
    (events.BlockType.TEXT, wire.WireTextDelta): events.TextDelta,
    (events.BlockType.THINKING, wire.WireThinkingDelta): events.ThinkingDelta,
    (events.BlockType.TOOL_USE, wire.WireInputDelta): events.InputJsonDelta,
}

# What any other delta does, by the block it is for. What is not in the tables travels on as `Opaque`.
ADDERS: dict[tuple[events.BlockType, type], Callable[[OpenBlock, Any], Events]] = {
    (events.BlockType.TEXT, wire.WireCitationDelta): _add_citation,
    (events.BlockType.THINKING, wire.WireSignatureDelta): _add_signature,
    (events.BlockType.SERVER_TOOL_USE, wire.WireInputDelta): _add_server_input,
    (events.BlockType.OPAQUE, wire.WireCompactionDelta): _keep_members,
    (events.BlockType.OPAQUE, wire.WireSignatureDelta): _keep_members,
    **{(events.BlockType.OPAQUE, kind): _keep_piece for kind in KEPT},
}


# Those of the head of a message, and of what is near its end, that are read or of no use.
DELTA = frozenset(("stop_reason", "stop_sequence", "stop_details", CONTAINER))
MESSAGE = DELTA | {"id", "type", "role", "content", "model", "usage"}
END = frozenset(("type", "delta", "usage"))

STARTED = events.ResponseStatus.STARTED
COMPLETED = events.ResponseStatus.COMPLETED
NO_STOP = wire.WireStop()


class AnthropicDecoder(LenientDecoder):
    """`SseFrame` to events, for one response.

    >>> decoder = AnthropicDecoder()
    >>> decoder.feed(SseFrame(b'{"type": "ping"}'))
    [Ping(timestamp=None)]
    """

    _growing = ("text", "thinking", "partial_json")

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[int, OpenBlock] = {}  # by the wire's index
        self._closed: set[int] = set()
        self._usage: JsonObject = {}
        self._stop = NO_STOP
        self._called = self._malformed = False
        self._echo: JsonObject | None = None

    def feed(self, frame: SseFrame, /) -> Events:
        """Take the next frame; return what happened."""
        if self._over:
            return ()
        if self._is_careful:
            if self._broken:
                return self._fail(BROKEN)
            frame = replace(frame, data=self._joiner.joined(frame.data))
        try:
            event = wire.decode_event(frame.data)
        except UNREADABLE as error:
            return self._take_unread(frame, error)
        return self._take(event, frame.data)

    def feed_many(self, frames: Sequence[SseFrame], /) -> list[Part]:
        """Take several frames; return what happened, in rows; see `Repeats`."""
        datas = datas_of(frames)
        decoded = self._all_of(datas, wire.decode_event)
        if decoded is None:
            return gather(event for frame in frames for event in self.feed(frame))
        made: list[Part] = []
        rest = iter(decoded)
        event: wire.WireEvent | None
        for event in rest:
            while (kind := type(event)) is wire.WireBlockDelta:
                event = self._take_row(event, rest, made)  # pyright: ignore[reportArgumentType] - it is of that kind
            if event is None:
                break
            made += HANDLERS[kind](self, event)
            if kind in HEADS:
                # The event is the last one that was taken.
                made += self._new_members(event, datas[len(decoded) - length_hint(rest) - 1])
            if self._over:
                break
        return made

    def _take_row(
        self, event: wire.WireBlockDelta, rest: Iterator[wire.WireEvent], made: list[Part]
    ) -> wire.WireEvent | None:
        """Take a delta together with those after it that add to the same text. Returns the first other event."""
        delta: Any = event.delta
        kind: type[object] = delta.__class__
        place = event.index
        block = self._open.get(place)  # pyright: ignore[reportArgumentType] - None finds no block
        grow = PLAIN.get((block.block_type, kind)) if block else None
        if block is None or grow is None or block.began_whole:
            made += self._take_delta(event)
            return next(rest, None)
        texts: list[str] = [delta.text]
        following: Any = None
        for following in rest:
            if following.__class__ is not event.__class__ or following.index != place:
                break
            more: Any = following.delta
            if more.__class__ is not kind:
                break
            texts.append(more.text)
        else:
            following = None
        row: Deltas[events.ResponseEvent] = Deltas(grow(block.index, delta.text), texts)
        if len(texts) < FEW:
            made += row
        else:
            made.append(row)
        return following

    def _take(self, event: wire.WireEvent, data: bytes) -> Events:
        taken = HANDLERS[type(event)](self, event)
        return [*taken, *self._new_members(event, data)] if type(event) in HEADS else taken

    def _new_members(self, event: wire.WireEvent, data: bytes) -> Events:
        if type(event) is wire.WireMessageStart:
            return self._heads.new_in(data, "message_start", MESSAGE, "message")
        inner = self._heads.new_in(data, "message_delta", DELTA, "delta")
        return [*inner, *self._heads.new_in(data, "message_delta", END)]

    def finish(self) -> Events:
        """The bytes ended. Before the end of the response, that is an error."""
        is_whole = not (self._over or self._broken or self._stop.stop_reason is None)
        return self._stop_message(wire.WireMessageStop()) if is_whole else super().finish()

    # metadata of a message

    def _start_message(self, event: wire.WireMessageStart) -> Events:
        emitted: list[events.ResponseEvent] = []
        if self._open or self._closed:
            emitted += self.blocks.begin_again("the provider started the message again")
            self._open, self._closed = {}, set()
        self._usage, self._stop = {}, NO_STOP
        self._called = self._malformed = False
        message = event.message
        self._has_begun = True
        name, model = word(message.id), word(message.model)
        self._echo = None if message.container is None else _echo(message.container)
        emitted.append(events.Status(STARTED, name or None, model or None, echo=self._echo))
        emitted += self._take_usage(message.usage)
        return emitted

    def _change_message(self, event: wire.WireMessageDelta) -> Events:
        if event.delta is not None:
            if event.delta.container is not None:
                self._echo = _echo(event.delta.container) or self._echo
            if event.delta.stop_reason is not None:
                self._stop = event.delta
        return self._take_usage(event.usage)

    def _stop_message(self, _: wire.WireMessageStop) -> Events:
        if self._open and self._stop.stop_reason is None:
            return self._fail(CUT)
        self._over = True
        emitted: list[events.ResponseEvent] = []
        for place in [*self._open]:
            emitted += self._close_late(place, self._stop.stop_reason)
        emitted.append(events.Status(COMPLETED, stop_reason=self._stop_reason(), echo=self._echo))
        return emitted

    def _take_usage(self, usage: JsonObject | None) -> Events:
        """The numbers so far, updated; what is absent or null in the update stays."""
        if not usage:
            return []
        if None in usage.values():
            usage = {key: value for key, value in usage.items() if value is not None}
        self._usage = self._usage | usage
        return [wire.read_usage(self._usage)]

    # the life of a block

    def _start_block(self, event: wire.WireBlockStart) -> Events:
        place = self._next() if event.index is None else event.index
        emitted: list[events.ResponseEvent] = []
        if (before := self._open.pop(place, None)) is not None:
            emitted.append(self.blocks.abort(before.index, "another block took its place"))
        block = event.content_block
        kind, metadata, echo = read_block(block)
        if isinstance(metadata, events.ToolUseMetadata) and not metadata.id:
            metadata = events.ToolUseMetadata(made_id(), metadata.name)
        start = self.blocks.start(kind, metadata, echo, wish=place)
        self._open[place] = opened = OpenBlock(start.index, kind, bool(block.get("input")), metadata == NAMELESS)
        emitted.append(start)
        if kind is not TOOL_USE or opened.began_whole:
            emitted += first_deltas(opened, block)
        return emitted

    def _take_delta(self, event: wire.WireBlockDelta) -> Events:
        delta = event.delta
        place = self._last() if event.index is None else event.index
        block = self._open.get(place)
        if block is None:
            opened = IMPLICIT.get(type(delta))
            if opened is None or place in self._closed:
                return [events.Opaque("content_block_delta", msgspec.to_builtins(event))]
            start = self.blocks.start(opened, wish=place)
            block = self._open[place] = OpenBlock(start.index, opened)
            return [start, *_add(block, delta)]
        return _add(block, delta)

    def _stop_block(self, event: wire.WireBlockStop) -> Events:
        place = self._last() if event.index is None else event.index
        block = self._open.pop(place, None)
        if block is None:
            return [events.Opaque("content_block_stop", {"index": event.index})]
        self._closed.add(place)
        self._called = self._called or block.block_type is TOOL_USE
        if block.is_nameless:
            self._malformed = True
            return [self.blocks.abort(block.index, "the call names no tool")]
        return [self.blocks.stop(block.index, echo=block.echo() if block.pieces or block.kept else None)]

    def _last(self) -> int:
        """The block of a message without an index: the last one that is open, else a new one."""
        return next(reversed(self._open)) if self._open else self._next()

    def _next(self) -> int:
        return max((*self._open, *self._closed), default=-1) + 1

    def _close_late(self, place: int, raw: str | None) -> Events:
        """Close a block whose stop was left out, as happens when the length limit cuts a call."""
        block = self._open[place]
        # A call that was never closed is whole only if the response is known to have ended for its sake.
        if block.block_type is TOOL_USE and known_kind(raw or "") not in NORMAL:
            return [self.blocks.abort(block.index, f"the call was cut off: {raw}")]
        return self._stop_block(wire.WireBlockStop(place))

    # what went wrong

    def _take_failed(self, event: wire.WireError) -> Events:
        return self._fail(error_failure({"error": event.error, "request_id": event.request_id}))

    def _take_raw(self, raw: Json, frame: SseFrame) -> Events:
        """JSON that does not fit: numbers as text, half a character, or something new."""
        if not isinstance(raw, dict):
            return [events.Opaque(frame.event, raw)]
        if raw.get("type") == "message" and isinstance(raw.get("content"), list):
            return [event for one in whole_frames(raw) for event in self.feed(one)]
        named = raw if raw.get("type") else {**raw, "type": frame.event}
        try:
            event = msgspec.convert(named, wire.WireEvent, strict=False)
        except msgspec.ValidationError:
            return [events.Opaque(word(raw.get("type")) or frame.event, raw)]
        return self._take(event, frame.data)

    def _stop_reason(self) -> StopReason | None:
        stop, raw = self._stop, self._stop.stop_reason
        detail = stop.stop_sequence if isinstance(stop.stop_sequence, str) else None
        if raw == "model_context_window_exceeded":
            detail = "context"
        if isinstance(stop.stop_details, dict):
            explanation = stop.stop_details.get("explanation") or stop.stop_details.get("category")
            detail = explanation if isinstance(explanation, str) else detail
        return read_stop(raw, self._called, self._malformed, detail)


def _ping(_: AnthropicDecoder, __: wire.WirePing) -> Events:
    return [events.Ping()]


def _add(block: OpenBlock, delta: Any) -> Events:
    place = block.block_type, delta.__class__
    if place in PLAIN:
        # Some proxies send the arguments with the start, and then again.
        return () if block.began_whole else [PLAIN[place](block.index, delta.text)]
    adder = ADDERS.get(place)
    return adder(block, delta) if adder else [events.Opaque("content_block_delta", msgspec.to_builtins(delta))]


def whole_frames(message: JsonObject) -> Iterator[SseFrame]:
    """The stream of a message that came whole, from a server that does not stream."""
    frames: list[JsonObject] = [{"type": "message_start", "message": {**message, "content": []}}]
    for index, block in enumerate(as_array(message["content"])):
        frames.append({"type": "content_block_start", "index": index, "content_block": block})
        frames.append({"type": "content_block_stop", "index": index})
    frames.append({"type": "message_delta", "delta": {name: message[name] for name in DELTA if name in message}})
    frames.append({"type": "message_stop"})
    return (SseFrame(msgspec.json.encode(frame)) for frame in frames)


HEADS = frozenset((wire.WireMessageStart, wire.WireMessageDelta))
"""The messages of the wire that hold more than content."""


def _echo(container: Json) -> JsonObject | None:
    """The container in which code ran, for the next request; ``None`` if there is none."""
    return {CONTAINER: container} if isinstance(container, dict) and container.get("id") else None


# The protocol: what a message of the wire does to the response. What a delta does to a block is in `ADDERS`.
HANDLERS: dict[type, Callable[[AnthropicDecoder, Any], Events]] = {
    wire.WireBlockDelta: AnthropicDecoder._take_delta,
    wire.WireMessageStart: AnthropicDecoder._start_message,
    wire.WireMessageDelta: AnthropicDecoder._change_message,
    wire.WireMessageStop: AnthropicDecoder._stop_message,
    wire.WireBlockStart: AnthropicDecoder._start_block,
    wire.WireBlockStop: AnthropicDecoder._stop_block,
    wire.WirePing: _ping,
    wire.WireError: AnthropicDecoder._take_failed,
}
