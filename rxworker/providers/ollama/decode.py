"""Lines of Ollama's stream to events.

The wire has neither blocks nor a first event: the first line starts the response, and adjacent text or thinking becomes one block. A tool call is complete in its line. The line
that is ``done`` ends the response; it may contain text itself. If the bytes end before it, or within a line, the response is truncated. Proxies may put several JSON
objects or a byte order mark on a line; both are accepted.

An error is a line with ``error`` in it, with the status 200 if the response had begun. It ends the response.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from rxworker.events import (
    BlockType,
    InputJsonDelta,
    Opaque,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.framing.sse_frame import SseFrame
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import read_json
from rxworker.providers.ids import made_id
from rxworker.providers.malformed import BROKEN, UNREADABLE, LenientDecoder, read_loosely
from rxworker.providers.ollama.finish import read_failure, read_stop, read_usage
from rxworker.providers.ollama.wire import WireLine, WireMessage, decode_line


class WholeCall(Struct, frozen=True):
    """A call.

    Attributes:
        id: Its id; older servers send none.
        name: The tool's name.
        arguments: As JSON text; empty for none.
        echo: The fields that the next request repeats: all but those of a `rxworker.messages.ToolCall`.
    """

    id: str | None
    name: str
    arguments: str
    echo: JsonObject | None


def read_call(raw: JsonObject) -> WholeCall | None:
    """The call; ``None`` for what names no tool.

    >>> read_call({"function": {"name": "look", "arguments": {"at": "sky"}}}).arguments
    '{"at":"sky"}'
    """
    function = raw.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        return None
    wire_id = raw.get("id")
    inner: JsonObject = {k: v for k, v in function.items() if k not in ("name", "arguments")}
    echo: JsonObject = {k: v for k, v in raw.items() if k not in ("id", "type", "function")}
    if inner:
        echo["function"] = inner
    given = wire_id if isinstance(wire_id, str) and wire_id else None
    return WholeCall(given, name, _text(function.get("arguments")), echo or None)


def _text(arguments: Json) -> str:
    if isinstance(arguments, str):  # compatible servers send the text
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


_SCAN = json.JSONDecoder().raw_decode
_BOM = "\ufeff"


def split_objects(line: bytes) -> list[bytes]:
    r"""The objects on a line, and the rest of it where that is not an object.

    >>> split_objects(b'\xef\xbb\xbf{"a": 1} {"b": 2}{"c')
    [b'{"a": 1}', b'{"b": 2}', b'{"c']
    """
    text = line.decode("utf-8", "replace").strip().removeprefix(_BOM).strip()
    parts: list[str] = []
    at = 0
    while at < len(text):
        end = _end_of_object(text, at)
        parts.append(text[at:end])
        at = end
        while at < len(text) and text[at].isspace():
            at += 1
    return [part.encode() for part in parts]


def _end_of_object(text: str, at: int) -> int:
    """Where the object that begins here ends; the end of the line where none does."""
    if text[at] != "{":
        return len(text)
    try:
        return _SCAN(text, at)[1]
    except (ValueError, RecursionError):
        return len(text)


Events: TypeAlias = Sequence[ResponseEvent]

LINE = "line"
DELTAS = {BlockType.TEXT: TextDelta, BlockType.THINKING: ThinkingDelta}


class OllamaDecoder(LenientDecoder):
    """Lines to events, for one response.

    Args:
        new_id: Makes an id for a tool call that came without one.

    >>> OllamaDecoder().feed(b'{"model": "m", "message": {"content": "Hi"}, "done": false}')[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ("content", "thinking")

    def __init__(self, new_id: Callable[[], str] = made_id) -> None:
        super().__init__(new_id)
        self._text: int | None = None  # the open block, if text is what is open
        self._thinking: int | None = None  # the same of thinking; at most one of them is open
        self._started = False
        self._called = self._malformed = False

    def feed(self, line: bytes, /) -> Events:
        """Take the next line; return what happened."""
        if self._over:
            return ()
        if self._is_careful:
            if self._broken:
                raw = read_json(line)
                return self._fail(read_failure(raw) if _tells_error(raw) else BROKEN)
            line = self._joiner.joined(line)
        try:
            wire = decode_line(line)
        except msgspec.ValidationError:
            return self._take_loose(SseFrame(line, LINE))
        except UNREADABLE:
            return self._take_garbage(SseFrame(line, LINE))
        return self._take_quickly(wire) or list(self._take(wire, line))

    def _take_quickly(self, wire: WireLine) -> Events:
        """More of a text that is open, and nothing else: nearly every line. Nothing: not such a line."""
        message = wire.message
        if (
            message is None
            or self._text is None
            or not message.content
            or wire.done
            or message.thinking
            or message.tool_calls
            or message.images
            or wire.logprobs
            or wire.error
        ):
            return ()
        return [TextDelta(self._text, message.content)]

    def _take(self, wire: WireLine, line: bytes) -> Iterator[ResponseEvent]:
        if wire.error:
            yield from self._fail(read_failure(read_json(line)))
            return
        yield from self._start(wire)
        if wire.message is not None:
            yield from self._take_message(wire.message)
        if wire.logprobs:
            yield Opaque("logprobs", wire.logprobs)
        if wire.done:
            yield from self._end(wire)

    def _start(self, wire: WireLine) -> Iterator[ResponseEvent]:
        if not self._started:
            self._started = True
            yield Status(ResponseStatus.STARTED, None, wire.model or None)

    def _take_message(self, message: WireMessage) -> Iterator[ResponseEvent]:
        if message.thinking:
            yield from self._say(BlockType.THINKING, message.thinking)
        if message.content:
            yield from self._say(BlockType.TEXT, message.content)
        for raw in message.tool_calls or ():
            yield from self._call(raw)
        if message.images:
            yield Opaque("images", message.images)

    def _say(self, kind: BlockType, text: str) -> Iterator[ResponseEvent]:
        index = self._text if kind is BlockType.TEXT else self._thinking
        if index is None:
            yield from self._close_prose()
            start = self._blocks.start(kind)
            index = start.index
            if kind is BlockType.TEXT:
                self._text = index
            else:
                self._thinking = index
            yield start
        yield DELTAS[kind](index, text)

    def _call(self, raw: JsonObject) -> Iterator[ResponseEvent]:
        call = read_call(raw)
        if call is None:
            self._malformed = True
            yield Opaque("tool_call", raw)
            return
        yield from self._close_prose()
        self._called = True
        metadata = ToolUseMetadata(call.id or self._new_id(), call.name)
        start = self._blocks.start(BlockType.TOOL_USE, metadata, call.echo)
        yield start
        if call.arguments:
            yield InputJsonDelta(start.index, call.arguments)
        yield self._blocks.stop(start.index)

    def _close_prose(self) -> Iterator[ResponseEvent]:
        index = self._text if self._text is not None else self._thinking
        self._text = self._thinking = None
        if index is not None:
            yield self._blocks.stop(index)

    # how it ends

    def _end(self, wire: WireLine) -> Iterator[ResponseEvent]:
        self._over = True
        yield from self._close_prose()
        usage = read_usage(wire)
        if usage is not None:
            yield usage
        stop = read_stop(wire.done_reason, called=self._called, malformed=self._malformed)
        yield Status(ResponseStatus.COMPLETED, stop_reason=stop)

    # what does not fit

    def _take_loose(self, frame: SseFrame) -> Events:
        raw = read_json(frame.data)
        if raw is None:
            return self._take_garbage(frame)
        if _tells_error(raw):
            return self._fail(read_failure(raw))
        if not isinstance(raw, dict):
            return [Opaque(LINE, raw)]
        wire, rest = read_loosely(raw, WireLine)
        events = [*self._start(wire)]
        if rest:
            events.append(Opaque(LINE, rest))
        return [*events, *self._take(wire, frame.data)]

    def _take_garbage(self, frame: SseFrame) -> Events:
        parts = split_objects(frame.data)
        if parts != [frame.data]:
            self._is_careful = True
            return [event for part in parts for event in self.feed(part)]
        return super()._take_garbage(frame)


def _tells_error(raw: Json) -> bool:
    return isinstance(raw, dict) and bool(raw.get("error"))
