"""Messages of Converse's stream to events.

A text has no start of its own: the first delta opens the block. The usage comes after the stop reason, so a response
ends with its metadata, or at the end of the bytes if a stop reason came. If neither came, the response is truncated. An
exception is a message of another type, also after a whole response; it ends the response.

The type of an event is a header of its message. The Structs name what the decoder reads; every field has a default,
since one member that does not fit must not cost the members beside it. Decoded JSON has no cycles, so the garbage
collector need not watch these Structs.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct, structs

from rxworker import events
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.framing.event_stream import EventStreamMessage
from rxworker.framing.sse import SseFrame
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import UNREADABLE, as_object, objects_in, read_repaired, word
from rxworker.messages.usage import Usage
from rxworker.providers.batch_decoder import Events
from rxworker.providers.failure import Failure, classify, read_failure
from rxworker.providers.finish_reasons import keeps_calls, read_stop
from rxworker.providers.malformed import BROKEN, LenientDecoder, read_loosely
from rxworker.providers.takes import made_id
from rxworker.providers.usage import numbers_in, total


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"inputTokens": 2, "cacheReadInputTokens": 10, "outputTokens": 3}).input_tokens
    12
    """
    fresh, output, cached, created = numbers(raw)
    details = objects_in(raw.get("cacheDetails"))
    hour = total(*[numbers_in(one, "inputTokens")[0] for one in details if one.get("ttl") == "1h"])
    return Usage(total(fresh, cached, created), output, cached, created, raw=raw, cache_creation_1h_tokens=hour or None)


def numbers(raw: JsonObject) -> list[int | None]:
    """The four numbers as Bedrock counts them: read, written, found in the cache and put there.

    Its input is what no cache held.
    """
    return numbers_in(raw, "inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")


def stream_failure(headers: Mapping[str, str], raw: Json) -> Failure:
    """The failure that a message of the types ``exception`` and ``error`` reports.

    >>> stream_failure({":exception-type": "throttlingException"}, {"message": "Too many requests"}).kind
    'rate_limit'
    """
    code = headers.get(":exception-type") or headers.get(":error-code") or "error"
    read = read_failure(raw)
    message = read.message if read else headers.get(":error-message", "the service gave no reason")
    original = word(as_object(raw).get("originalMessage"))
    if original and original != message:
        message = f"{message}: {original}"
    return Failure(message, code, classify([code], None, message))


class WireInput(Struct, frozen=True, gc=False):
    """More of a tool's arguments."""

    input: str = ""


class WireReasoning(Struct, frozen=True, gc=False, rename="camel"):
    """More thinking: text, its seal, or thinking that is sealed as a whole, in base64."""

    text: str = ""
    signature: str | None = None
    redacted_content: str | None = None


class WireDelta(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Something to add to a block: one of these."""

    text: str | None = None
    tool_use: WireInput | None = None
    reasoning_content: WireReasoning | None = None
    tool_result: list[JsonObject] | None = None
    citation: JsonObject | None = None
    image: JsonObject | None = None


NO_DELTA = WireDelta()


class WireEvent(Struct, frozen=True, gc=False, rename="camel"):
    """The payload of any event.

    Attributes:
        start: The kind of block that begins, and its first members, kept as they came.
        delta: What is new of a block.
        content_block_index: The number of the block.
        stop_reason: Why the message ends.
        additional_model_response_fields: What the model's own answer had in the members that the request named.
        usage: The usage, which comes after the stop.
    """

    start: JsonObject = {}
    delta: WireDelta = NO_DELTA
    content_block_index: int = 0
    stop_reason: str | None = None
    additional_model_response_fields: Json = None
    usage: JsonObject | None = None


decode_event = msgspec.json.Decoder(WireEvent).decode


TOOL_USE, TEXT, THINKING = events.BlockType.TOOL_USE, events.BlockType.TEXT, events.BlockType.THINKING
SERVER_CALL, SERVER_RESULT = events.BlockType.SERVER_TOOL_USE, events.BlockType.SERVER_TOOL_RESULT
HEADS = ("messageStart", "messageStop", "metadata")
"""The messages that hold more than content."""
KNOWN = frozenset(("p", "role", "metrics", *(field.encode_name for field in structs.fields(WireEvent))))  # p is padding
"""The members of these that are read or of no use."""


class OpenBlock(Struct):
    """A block that has started.

    Attributes:
        index: Its number among the blocks of the response.
        block_type: The type of its content.
        kind: The name of its member in a content block of the protocol, for the echo.
        first: That member as the start had it.
        texts: The pieces of arguments of a server's call.
        items: The content of a server's result.
        sealed: The bytes of thinking that is sealed as a whole.
    """

    index: int
    block_type: events.BlockType
    kind: str = ""
    first: JsonObject | None = None
    texts: list[str] | None = None
    items: list[Json] | None = None
    sealed: bytes = b""

    def echo(self) -> JsonObject | None:
        """The content block that the next request repeats; ``None`` if it can be made from what the block holds."""
        if self.sealed:
            return {"reasoningContent": {"redactedContent": base64.b64encode(self.sealed).decode()}}
        if self.first is None:
            return None
        more: JsonObject = {}
        if self.texts is not None:
            more["input"] = as_object(read_repaired("".join(self.texts).encode()))
        if self.items is not None:
            more["content"] = self.items
        return {self.kind: {**self.first, **more}}


def read_start(start: JsonObject) -> tuple[events.BlockType, BlockMetadata, OpenBlock]:
    """The block that a ``start`` begins."""
    kind = next(iter(start), "")
    first = as_object(start.get(kind))
    call_id, name = word(first.get("toolUseId")), word(first.get("name"))
    if kind == "toolUse" and first.get("type") == "server_tool_use":
        return (SERVER_CALL, events.ToolUseMetadata(call_id, name), OpenBlock(0, SERVER_CALL, kind, first, []))
    if kind == "toolUse" and name:
        return TOOL_USE, events.ToolUseMetadata(call_id or made_id(), name), OpenBlock(0, TOOL_USE, kind)
    if kind == "toolResult":
        metadata = ToolResultMetadata(call_id, word(first.get("type")))
        return SERVER_RESULT, metadata, OpenBlock(0, SERVER_RESULT, kind, first, None, [])
    opaque = events.BlockType.OPAQUE
    return opaque, OpaqueMetadata(kind or "unknown"), OpenBlock(0, opaque, kind, first)


class BedrockDecoder(LenientDecoder):
    r"""Messages to events, for one response.

    >>> text = EventStreamMessage({":event-type": "contentBlockDelta"}, b'{"delta": {"text": "Hi"}}')
    >>> BedrockDecoder().feed(text)[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ()

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[int, OpenBlock] = {}  # by the index of the wire
        self._called = self._malformed = False
        self._stop: WireEvent | None = None

    def feed(self, message: EventStreamMessage, /) -> Events:
        """Take the next message; return what happened."""
        if self._over:
            return ()
        kind = message.headers.get(":event-type", "")
        handler = HANDLERS.get(kind)
        if handler is None:
            return self._take_other(kind, message)
        try:
            event = decode_event(message.payload)
        except UNREADABLE:
            return self._take_raw(read_repaired(message.payload), SseFrame(message.payload, kind))
        emitted = handler(self, event)
        if kind in HEADS and (new := self._heads.new_in(message.payload, kind, KNOWN)):
            before_end = len(emitted) - self._over
            emitted = [*emitted[:before_end], *new, *emitted[before_end:]]
        return emitted

    def finish(self) -> Events:
        """The bytes ended. Before the stop reason, that is an error."""
        return super().finish() if self._over or self._stop is None else self._end()

    # metadata of a message

    def _begin(self, _: WireEvent | None = None) -> Events:
        """The start of the response, whose first message may be left out."""
        if self._has_begun:
            return ()
        self._has_begun = True
        return [events.Status(events.ResponseStatus.STARTED)]

    def _stop_message(self, event: WireEvent) -> Events:
        emitted: list[events.ResponseEvent] = []
        for place in [*self._open]:
            emitted += self._close_late(place, event.stop_reason)
        self._stop = event
        if event.additional_model_response_fields:
            emitted.append(events.Opaque("additionalModelResponseFields", event.additional_model_response_fields))
        return emitted

    def _take_metadata(self, event: WireEvent) -> Events:
        emitted = [read_usage(event.usage)] if event.usage else []
        return [*emitted, *self._end()] if self._stop is not None else emitted

    def _end(self) -> Events:
        self._over = True
        return [events.Status(events.ResponseStatus.COMPLETED, stop_reason=self._stop_reason())]

    def _stop_reason(self) -> StopReason | None:
        raw = self._stop.stop_reason if self._stop else None
        detail = "context" if raw is not None and raw.startswith("model_context") else None
        return read_stop(raw, self._called, self._malformed, detail)

    # the life of a block

    def _start_block(self, event: WireEvent) -> Events:
        place, emitted = event.content_block_index, list(self._begin())
        if (before := self._open.pop(place, None)) is not None:
            emitted.append(self.blocks.abort(before.index, "another block took its place"))
        kind, metadata, block = read_start(event.start)
        start = self.blocks.start(kind, metadata, block.echo(), wish=place)
        block.index = start.index
        self._open[place] = block
        self._malformed = self._malformed or (kind is events.BlockType.OPAQUE and metadata == OpaqueMetadata("toolUse"))
        return [*emitted, start]

    def _take_delta(self, event: WireEvent) -> Events:
        delta, place = event.delta, event.content_block_index
        block = self._open.get(place)
        if delta.text is not None:
            return self._add_text(place, block, delta.text)
        if delta.reasoning_content is not None:
            return self._add_thinking(place, block, delta.reasoning_content)
        if delta.tool_use is not None and block is not None:
            return _add_input(block, delta.tool_use.input)
        if delta.tool_result is not None and block is not None and block.items is not None:
            block.items += delta.tool_result
            return ()
        if delta.citation is not None:
            emitted, block = self._implied(place, block, TEXT)
            return [*emitted, events.CitationDelta(block.index, delta.citation)]
        if delta.image is not None and block is not None and block.kind == "image":
            block.first = {**(block.first or {}), **delta.image}
            return ()
        return [events.Opaque("contentBlockDelta", msgspec.to_builtins({"delta": delta, "contentBlockIndex": place}))]

    def _add_text(self, place: int, block: OpenBlock | None, text: str) -> Events:
        if not text and block is not None:
            return ()
        emitted, block = self._implied(place, block, TEXT)
        return [*emitted, events.TextDelta(block.index, text)] if text else emitted

    def _add_thinking(self, place: int, block: OpenBlock | None, more: WireReasoning) -> Events:
        emitted, block = self._implied(place, block, THINKING)
        if more.text:
            emitted.append(events.ThinkingDelta(block.index, more.text))
        if more.signature:
            emitted.append(events.SignatureDelta(block.index, more.signature))
        if more.redacted_content:
            try:
                block.sealed += base64.b64decode(more.redacted_content, validate=True)
            except binascii.Error:
                emitted.append(events.Opaque("redactedContent", more.redacted_content))
        return emitted

    def _implied(
        self, place: int, block: OpenBlock | None, kind: events.BlockType
    ) -> tuple[list[events.ResponseEvent], OpenBlock]:
        """The open block of this kind; where another one or none is open, a new one."""
        if block is not None and block.block_type is kind:
            return [], block
        emitted = list(self._begin())
        if block is not None:
            emitted += self._close(place)
        start = self.blocks.start(kind, wish=place)
        block = self._open[place] = OpenBlock(start.index, kind)
        return [*emitted, start], block

    def _stop_block(self, event: WireEvent) -> Events:
        place = event.content_block_index
        if place not in self._open:
            return [*self._begin(), events.Opaque("contentBlockStop", {"contentBlockIndex": place})]
        return self._close(place)

    def _close(self, place: int) -> Events:
        block = self._open.pop(place)
        self._called = self._called or block.block_type is TOOL_USE
        return [self.blocks.stop(block.index, echo=block.echo())]

    def _close_late(self, place: int, raw: str | None) -> Events:
        """Close a block whose stop was left out."""
        block = self._open[place]
        if block.block_type is TOOL_USE and not keeps_calls(raw):
            self._open.pop(place)
            return [self.blocks.abort(block.index, f"the call was cut off: {raw}")]
        return self._close(place)

    # what does not fit

    def _take_other(self, kind: str, message: EventStreamMessage) -> Events:
        raw = read_repaired(message.payload)
        if message.headers.get(":message-type") in ("exception", "error"):
            return self._fail(stream_failure(message.headers, raw))
        return [events.Opaque(kind or "message", raw)]

    def _take_raw(self, raw: Json, frame: SseFrame) -> Events:
        if raw is None:
            return self._fail(BROKEN)  # whole and with a right checksum, so the service wrote it
        if not isinstance(raw, dict):
            return [events.Opaque(frame.event, raw)]
        event, rest = read_loosely(raw, WireEvent)
        # The Struct of a delta forbids other members, so that a new kind of delta is reported.
        emitted = [events.Opaque(frame.event, rest)] if rest else []
        is_empty = frame.event == "contentBlockDelta" and event.delta == NO_DELTA
        return emitted if is_empty else [*emitted, *HANDLERS[frame.event](self, event)]


def _add_input(block: OpenBlock, text: str) -> Events:
    if not text or block.block_type not in (TOOL_USE, SERVER_CALL):
        return ()
    if block.texts is not None:
        block.texts.append(text)
    return [events.InputJsonDelta(block.index, text)]


HANDLERS: dict[str, Callable[[BedrockDecoder, WireEvent], Events]] = {
    "contentBlockDelta": BedrockDecoder._take_delta,
    "contentBlockStart": BedrockDecoder._start_block,
    "contentBlockStop": BedrockDecoder._stop_block,
    "messageStart": BedrockDecoder._begin,
    "messageStop": BedrockDecoder._stop_message,
    "metadata": BedrockDecoder._take_metadata,
}
