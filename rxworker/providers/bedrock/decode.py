"""Messages of Converse's stream to events.

A text has no start of its own: the first delta opens the block. The usage comes after the stop reason, so a response
ends with its metadata, or at the end of the bytes if a stop reason came. If neither came, the response is truncated. An
exception is a message of another type, also after a whole response; it ends the response.

The JSON of Converse's events.

The type of an event is a header of its message. The Structs name what the decoder reads; every field has a default,
since one member that does not fit must not cost the members beside it. Decoded JSON has no cycles, so the garbage
collector need not watch these Structs.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from rxworker import events
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.framing.event_stream import EventStreamMessage
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import UNREADABLE, as_object, objects_in, read_repaired, word
from rxworker.messages.usage import Usage
from rxworker.providers.batch_decoder import Events
from rxworker.providers.block_factory import CUT, BlockFactory
from rxworker.providers.failure import Failure, classify, read_failure
from rxworker.providers.finish_reasons import keeps_calls, read_stop
from rxworker.providers.malformed import Heads, read_loosely
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


class WireBlockDelta(Struct, frozen=True, gc=False, rename="camel"):
    """``contentBlockDelta``."""

    delta: WireDelta = field(default_factory=WireDelta)
    content_block_index: int = 0


class WireBlockStart(Struct, frozen=True, gc=False, rename="camel"):
    """``contentBlockStart``: the kind of block and its first members, kept as they came."""

    start: JsonObject = field(default_factory=dict[str, Json])
    content_block_index: int = 0


class WireBlockStop(Struct, frozen=True, gc=False, rename="camel"):
    """``contentBlockStop``."""

    content_block_index: int = 0


class WireMessageStart(Struct, frozen=True, gc=False):
    """``messageStart``."""

    role: str | None = None


class WireMessageStop(Struct, frozen=True, gc=False, rename="camel"):
    """``messageStop``.

    Why the message ends, and what the model's own answer had in the members that the request named.
    """

    stop_reason: str | None = None
    additional_model_response_fields: Json = None


class WireMetadata(Struct, frozen=True, gc=False, rename="camel"):
    """``metadata``, which comes after the stop: the usage, and what guardrails and routers did."""

    usage: JsonObject | None = None
    trace: Json = None
    metrics: Json = None
    service_tier: Json = None
    performance_config: Json = None


WIRE: dict[str, type[Struct]] = {
    "contentBlockDelta": WireBlockDelta,
    "contentBlockStart": WireBlockStart,
    "contentBlockStop": WireBlockStop,
    "messageStart": WireMessageStart,
    "messageStop": WireMessageStop,
    "metadata": WireMetadata,
}
"""The Struct of each type of event."""

DECODERS: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for name, kind in WIRE.items()}


TOOL_USE, TEXT, THINKING = events.BlockType.TOOL_USE, events.BlockType.TEXT, events.BlockType.THINKING
SERVER_CALL, SERVER_RESULT = events.BlockType.SERVER_TOOL_USE, events.BlockType.SERVER_TOOL_RESULT
HEADS = {
    kind: frozenset(("p", *(field.encode_name for field in structs.fields(WIRE[kind]))))  # p is padding
    for kind in ("messageStart", "messageStop", "metadata")
}
"""The members that are read or of no use, of the messages that hold more than content."""
BAD_JSON = Failure("the service sent JSON that cannot be read", "bad_json", "server")


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
    member = start[kind] if kind else None
    first: JsonObject = member if isinstance(member, dict) else {}
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


class BedrockDecoder:
    r"""Messages to events, for one response.

    >>> text = EventStreamMessage({":event-type": "contentBlockDelta"}, b'{"delta": {"text": "Hi"}}')
    >>> BedrockDecoder().feed(text)[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    def __init__(self) -> None:
        self.blocks = BlockFactory()
        self._open: dict[int, OpenBlock] = {}  # by the index of the wire
        self._started = self._called = self._malformed = self._over = False
        self._stop: WireMessageStop | None = None
        self._heads = Heads()

    def feed(self, message: EventStreamMessage, /) -> Events:
        """Take the next message; return what happened."""
        if self._over:
            return ()
        kind = message.headers.get(":event-type", "")
        decoder = DECODERS.get(kind)
        if decoder is None:
            return self._take_other(kind, message)
        try:
            event = decoder.decode(message.payload)
        except UNREADABLE:
            return self._take_loosely(kind, message.payload)
        emitted = HANDLERS[kind](self, event)
        if kind in HEADS and (new := self._heads.new_in(message.payload, kind, HEADS[kind])):
            before_end = len(emitted) - self._over
            emitted = [*emitted[:before_end], *new, *emitted[before_end:]]
        return emitted

    def finish(self) -> Events:
        """The bytes ended. Before the stop reason, that is an error."""
        if self._over:
            return ()
        return self._fail(CUT) if self._stop is None else self._end()

    # metadata of a message

    def _start_message(self, _: WireMessageStart) -> Events:
        if self._started:
            return ()
        self._started = True
        return [events.Status(events.ResponseStatus.STARTED)]

    def _stop_message(self, event: WireMessageStop) -> Events:
        emitted: list[events.ResponseEvent] = []
        for place in [*self._open]:
            emitted += self._close_late(place, event.stop_reason)
        self._stop = event
        if event.additional_model_response_fields:
            emitted.append(events.Opaque("additionalModelResponseFields", event.additional_model_response_fields))
        return emitted

    def _take_metadata(self, event: WireMetadata) -> Events:
        emitted: list[events.ResponseEvent] = []
        if event.usage:
            emitted.append(read_usage(event.usage))
        rest: JsonObject = msgspec.to_builtins(event)
        rest = {name: value for name, value in rest.items() if value and name != "usage"}
        if rest.keys() - {"metrics"}:
            emitted.append(events.Opaque("metadata", rest))
        return [*emitted, *self._end()] if self._stop is not None else emitted

    def _end(self) -> Events:
        self._over = True
        return [events.Status(events.ResponseStatus.COMPLETED, stop_reason=self._reason())]

    def _reason(self) -> StopReason | None:
        raw = self._stop.stop_reason if self._stop else None
        detail = "context" if raw is not None and raw.startswith("model_context") else None
        return read_stop(raw, self._called, self._malformed, detail)

    # the life of a block

    def _start_block(self, event: WireBlockStart) -> Events:
        place, emitted = event.content_block_index, list(self._begin())
        if (before := self._open.pop(place, None)) is not None:
            emitted.append(self.blocks.abort(before.index, "another block took its place"))
        kind, metadata, block = read_start(event.start)
        start = self.blocks.start(kind, metadata, block.echo(), wish=place)
        block.index = start.index
        self._open[place] = block
        self._malformed = self._malformed or (kind is events.BlockType.OPAQUE and metadata == OpaqueMetadata("toolUse"))
        return [*emitted, start]

    def _take_delta(self, event: WireBlockDelta) -> Events:
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
        return [events.Opaque("contentBlockDelta", msgspec.to_builtins(event))]

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

    def _begin(self) -> Events:
        """The start of a response whose first message was left out."""
        return self._start_message(WireMessageStart())

    def _stop_block(self, event: WireBlockStop) -> Events:
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

    def _take_loosely(self, kind: str, payload: bytes) -> Events:
        raw = read_repaired(payload)
        if raw is None:
            return self._fail(BAD_JSON)  # whole and with a right checksum, so the service wrote it
        if not isinstance(raw, dict):
            return [events.Opaque(kind, raw)]
        event, rest = read_loosely(raw, WIRE[kind])
        # The Struct of a delta forbids other members, so that a new kind of delta is reported.
        emitted = [events.Opaque(kind, rest)] if rest else []
        is_empty = isinstance(event, WireBlockDelta) and event.delta == WireDelta()
        return emitted if is_empty else [*emitted, *HANDLERS[kind](self, event)]

    def _fail(self, failure: Failure) -> Events:
        self._over = True
        return self.blocks.fail(failure, self._reason())


def _add_input(block: OpenBlock, text: str) -> Events:
    if not text or block.block_type not in (TOOL_USE, SERVER_CALL):
        return ()
    if block.texts is not None:
        block.texts.append(text)
    return [events.InputJsonDelta(block.index, text)]


HANDLERS: dict[str, Callable[[BedrockDecoder, Any], Events]] = {
    "contentBlockDelta": BedrockDecoder._take_delta,
    "contentBlockStart": BedrockDecoder._start_block,
    "contentBlockStop": BedrockDecoder._stop_block,
    "messageStart": BedrockDecoder._start_message,
    "messageStop": BedrockDecoder._stop_message,
    "metadata": BedrockDecoder._take_metadata,
}
