"""Lines of Ollama's stream to events.

The wire has neither blocks nor a first event: the first line starts the response, and adjacent text or thinking becomes
one block. A tool call is complete in its line. The line that is ``done`` ends the response; it may contain text itself.
If the bytes end before it, or within a line, the response is truncated. Proxies may put several JSON objects or a byte
order mark on a line; both are accepted.

An error is a line with ``error`` in it, a sentence without a code, with the status 200 if the response had begun. It
ends the response.

A line holds one of the Structs, and nothing else: a field that is not named there, or holds something else, makes the
line one for `rxworker.providers.batch_decoder`, which reports it. Decoded JSON has no cycles, so the garbage collector
need not watch these Structs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker import events
from rxworker.framing.sse import SseFrame
from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.lenient_json import json_text, read_json
from rxworker.messages.usage import Usage
from rxworker.providers.batch_decoder import Events
from rxworker.providers.failure import Failure, error_failure
from rxworker.providers.finish_reasons import read_stop
from rxworker.providers.malformed import BROKEN, UNREADABLE, LenientDecoder, read_loosely, stream_failure
from rxworker.providers.takes import made_id
from rxworker.providers.usage import numbers_in


def read_usage(line: WireLine) -> Usage | None:
    """The usage that a line reports; ``None`` if it reports none.

    >>> read_usage(WireLine(done=True, eval_count=2)).raw
    {'eval_count': 2}
    """
    raw: JsonObject = {name: number for name in NUMBERS if (number := getattr(line, name)) is not None}
    return Usage(line.prompt_eval_count, line.eval_count, raw=raw) if raw else None


def numbers(raw: JsonObject) -> list[int | None]:
    """The numbers as they were sent. Ollama does not report caches."""
    return numbers_in(raw, "prompt_eval_count", "eval_count")


class WireMessage(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The next part of the answer.

    Attributes:
        thinking: The thinking of the model. Older models write it into the content, between tags, where it stays.
        tool_calls: Whole calls, kept as they came.
        images: Pictures; old servers send ``null``.
    """

    role: str | None = None
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[JsonObject] | None = None
    images: Json = None


class WireLine(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One line.

    Attributes:
        done: Whether it is the last.
        done_reason: Why; old servers do not send it.
        error: The error, on a line of its own.
        prompt_eval_count: Tokens read; left out by old servers when the prompt was in their cache.
        eval_count: Tokens written.
        remote_model: The name of the model that answers, if the server forwards the request.
    """

    model: str | None = None
    created_at: str | None = None
    message: WireMessage | None = None
    done: bool = False
    done_reason: str | None = None
    error: Json = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    logprobs: Json = None
    remote_model: str | None = None
    remote_host: str | None = None


NUMBERS = [name for name in WireLine.__struct_fields__ if name.endswith(("_count", "_duration"))]
decode_line = msgspec.json.Decoder(WireLine).decode


_SCAN = json.JSONDecoder().raw_decode


def split_objects(line: bytes) -> list[bytes]:
    r"""The objects on a line, and the rest of it where that is not an object.

    >>> split_objects(b'\xef\xbb\xbf{"a": 1} {"b": 2}{"c')
    [b'{"a": 1}', b'{"b": 2}', b'{"c']
    """
    text = line.decode("utf-8", "replace").strip().removeprefix("\ufeff").strip()  # without a byte order mark
    parts, at = list[str](), 0
    while text[at : at + 1] == "{":
        try:
            end = _SCAN(text, at)[1]
        except (ValueError, RecursionError):
            break
        parts.append(text[at:end])
        at = next((place for place in range(end, len(text)) if not text[place].isspace()), len(text))
    return [part.encode() for part in (*parts, text[at:]) if part]


LINE = "line"
TEXT = events.BlockType.TEXT
DELTAS = {TEXT: events.TextDelta, events.BlockType.THINKING: events.ThinkingDelta}


class OllamaDecoder(LenientDecoder):
    """Lines to events, for one response.

    >>> OllamaDecoder().feed(b'{"model": "m", "message": {"content": "Hi"}, "done": false}')[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ("content", "thinking")

    def __init__(self) -> None:
        super().__init__()
        self._open: int | None = None  # the block of text or thinking that is open
        self._kind = TEXT  # of this block
        self._started = False
        self._called = self._malformed = False

    def feed(self, line: bytes, /) -> Events:
        """Take the next line; return what happened."""
        if self._over:
            return ()
        if self._is_careful:
            if self._broken:
                return self._fail(stream_failure(LINE, read_json(line)) or BROKEN)
            line = self._joiner.joined(line)
        try:
            wire = decode_line(line)
        except UNREADABLE as error:
            return self._take_unread(SseFrame(line, LINE), error)
        return self._take_quickly(wire) or list(self._take(wire, line))

    def _take_quickly(self, wire: WireLine) -> Events:
        """More of a text that is open, and nothing else: nearly every line. Nothing: not such a line."""
        message = wire.message
        if (
            message is None
            or self._open is None
            or self._kind is not TEXT
            or not message.content
            or wire.done
            or message.thinking
            or message.tool_calls
            or message.images
            or wire.logprobs
            or wire.error
        ):
            return ()
        return [events.TextDelta(self._open, message.content)]

    def _take(self, wire: WireLine, line: bytes) -> Iterator[events.ResponseEvent]:
        if wire.error:
            yield from self._fail(error_failure(read_json(line)))
            return
        yield from self._start(wire)
        if wire.message is not None:
            yield from self._take_message(wire.message)
        if wire.logprobs:
            yield events.Opaque("logprobs", wire.logprobs)
        if wire.done:
            yield from self._end(wire)

    def _start(self, wire: WireLine) -> Iterator[events.ResponseEvent]:
        if not self._started:
            self._started = self._has_begun = True
            yield events.Status(events.ResponseStatus.STARTED, None, wire.model or None)

    def _take_message(self, message: WireMessage) -> Iterator[events.ResponseEvent]:
        if message.thinking:
            yield from self._say(events.BlockType.THINKING, message.thinking)
        if message.content:
            yield from self._say(TEXT, message.content)
        for raw in message.tool_calls or ():
            yield from self._call(raw)
        if message.images:
            yield events.Opaque("images", message.images)

    def _say(self, kind: events.BlockType, text: str) -> Iterator[events.ResponseEvent]:
        if self._open is None or self._kind is not kind:
            yield from self._close_prose()
            start = self.blocks.start(kind)
            self._open, self._kind = start.index, kind
            yield start
        yield DELTAS[kind](self._open, text)

    def _call(self, raw: JsonObject) -> Iterator[events.ResponseEvent]:
        function = raw.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str) or not name:
            self._malformed = True
            yield events.Opaque("tool_call", raw)
            return
        yield from self._close_prose()
        self._called = True
        wire_id, arguments = raw.get("id"), json_text(function.get("arguments"))
        given = wire_id if isinstance(wire_id, str) and wire_id else made_id()
        # The next request repeats all fields but those of a `rxworker.messages.ToolCall`.
        inner: JsonObject = {k: v for k, v in function.items() if k not in ("name", "arguments")}
        echo: JsonObject = {k: v for k, v in raw.items() if k not in ("id", "type", "function")}
        if inner:
            echo["function"] = inner
        start = self.blocks.start(events.BlockType.TOOL_USE, events.ToolUseMetadata(given, name), echo or None)
        yield start
        if arguments:
            yield events.InputJsonDelta(start.index, arguments)
        yield self.blocks.stop(start.index)

    def _close_prose(self) -> Iterator[events.ResponseEvent]:
        if self._open is not None:
            yield self.blocks.stop(self._open)
            self._open = None

    # how it ends

    def _end(self, wire: WireLine) -> Iterator[events.ResponseEvent]:
        self._over = True
        yield from self._close_prose()
        if (usage := read_usage(wire)) is not None:
            yield usage
        stop = read_stop(wire.done_reason, self._called, self._malformed)
        if stop is None and self._called:
            stop = StopReason(StopKind.TOOL_USE)  # old servers send no reason
        yield events.Status(events.ResponseStatus.COMPLETED, stop_reason=stop)

    # what does not fit

    def _fail(self, failure: Failure, stop: StopReason | None = None) -> Events:
        # What nothing is known of is the server's, since the request had been accepted.
        return super()._fail(replace(failure, kind="server") if failure.kind == "unknown" else failure, stop)

    def _take_raw(self, raw: Json, frame: SseFrame) -> Events:
        if not isinstance(raw, dict):
            return [events.Opaque(LINE, raw)]
        wire, rest = read_loosely(raw, WireLine)
        emitted = [*self._start(wire)]
        if rest:
            emitted.append(events.Opaque(LINE, rest))
        return [*emitted, *self._take(wire, frame.data)]

    def _take_garbage(self, frame: SseFrame) -> Events:
        parts = split_objects(frame.data)
        if parts != [frame.data]:
            self._is_careful = True
            return [event for part in parts for event in self.feed(part)]
        return super()._take_garbage(frame)
