"""Frames of the Chat Completions stream to events.

The wire has neither a first nor a last event: the first chunk starts the response, and ``[DONE]`` ends it. The usage may
come after the finish reason, so the response is completed at ``[DONE]``, or at the end of the bytes where a server sends
none. Bytes that end before any finish reason are a truncated response.

Errors come in several shapes, and are looked for before anything else. One that shares a chunk with choices may be
followed by the usage, which is waited for; any other ends the response at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from rxworker.events import Opaque, ResponseEvent, ResponseStatus, Status, TextDelta
from rxworker.framing import STRAY, SseFrame
from rxworker.messages import JsonObject, StopReason
from rxworker.providers.blocks import CUT, OpenBlocks
from rxworker.providers.failure import Failure, read_failure
from rxworker.providers.garbage import garbage_failure, read_json, stream_failure, unreadable
from rxworker.providers.ids import made_id
from rxworker.providers.loose import read_loosely
from rxworker.providers.openai_chat.choice import Choice
from rxworker.providers.openai_chat.usage import read_usage
from rxworker.providers.openai_chat.wire import WireChunk, decode_chunk
from rxworker.providers.surrogates import Halves

Events: TypeAlias = Sequence[ResponseEvent]

DONE = b"[DONE]"
# Whose texts go on in the next chunk.
GROWING = (
    "content",
    "text",
    "thinking",
    "reasoning",
    "reasoning_content",
    "summary",
    "refusal",
    "arguments",
)


class OpenAIChatDecoder:
    """`SseFrame` to events, for one response.

    Args:
        new_id: Makes an id for a tool call that came without one.

    >>> decoder = OpenAIChatDecoder()
    >>> decoder.feed(SseFrame(b'{"id": "1", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}'))[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    def __init__(self, new_id: Callable[[], str] = made_id) -> None:
        self._new_id = new_id
        self._blocks = OpenBlocks()
        self._choices: dict[int, Choice] = {}
        self._usage: JsonObject | None = None
        self._started = False
        self._early: list[ResponseEvent] = []  # what came before the response had a name
        self._failure: Failure | None = None  # waits for the usage
        self._careful = False  # something could not be read as it stood
        self._broken: Failure | None = None
        self._halves = Halves(*GROWING)
        self._over = False

    def feed(self, frame: SseFrame, /) -> Events:
        """Take the next frame; return what happened."""
        if self._over:
            return ()
        if frame.data == DONE:
            return list(self._end())
        if self._careful:
            if self._broken:
                return self._fail(self._broken)
            frame = replace(frame, data=self._halves.joined(frame.data))
        if frame.event == "error":
            return self._take_odd(frame)
        try:
            chunk = decode_chunk(frame.data)
        except msgspec.ValidationError:
            return self._take_loose(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._take_garbage(frame)
        return self._take_quickly(chunk) or list(self._take(chunk, frame))

    def finish(self) -> Events:
        """The bytes ended."""
        if self._over:
            return ()
        if self._failure or self._completed():
            return list(self._end())
        return self._fail(CUT)

    def _take_quickly(self, chunk: WireChunk) -> Events:
        """More of a text that is open, and nothing else: nearly every chunk. Nothing: not such a chunk."""
        choices = chunk.choices
        if choices is None or len(choices) != 1 or chunk.usage is not None or self._failure:
            return ()
        wire = choices[0]
        delta = wire.delta
        choice = self._choices.get(wire.index)
        if (
            choice is None
            or delta is None
            or choice.text is None
            or type(delta.content) is not str
            or not delta.content
            or wire.finish_reason
            or wire.usage is not None
            or chunk.error is not None
            or chunk.x_groq is not None
            or delta.tool_calls is not None
            or delta.function_call is not None
            or delta.refusal
            or delta.reasoning
            or delta.reasoning_content
            or delta.reasoning_details
            or delta.annotations
            or delta.audio is not None
            or delta.images is not None
            or delta.executed_tools is not None
        ):
            return ()
        return [TextDelta(choice.text, delta.content, choice.index)]

    def _take(self, chunk: WireChunk, frame: SseFrame) -> Iterator[ResponseEvent]:
        failure = _failure(chunk, frame)
        choices = chunk.choices or []
        if failure is None or choices:
            yield from self._start(chunk)
        if self._failure is None and failure is None:
            for wire in choices:
                yield from self._choice(wire.index).take(wire)
            if not choices and not _has_usage(chunk):
                yield from self._keep(Opaque("chunk", read_json(frame.data)))
        yield from self._take_usage(chunk)
        if failure is not None and self._failure is None:
            self._failure = failure
            yield from self._blocks.abort_all(failure.message)
        if self._failure and (not choices or self._usage is not None):
            yield from self._end()

    def _start(self, chunk: WireChunk) -> Iterator[ResponseEvent]:
        # Azure sends a chunk without a name and without choices before the first real one.
        if self._started or not (chunk.id or chunk.choices):
            return
        self._started = True
        yield Status(ResponseStatus.STARTED, _name(chunk.id), _name(chunk.model))
        yield from self._early
        self._early = []

    def _keep(self, event: ResponseEvent) -> Events:
        if self._started:
            return [event]
        self._early.append(event)
        return ()

    def _choice(self, index: int) -> Choice:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = Choice(index, self._blocks, self._new_id)
        return choice

    def _take_usage(self, chunk: WireChunk) -> Iterator[ResponseEvent]:
        raw = chunk.usage or (chunk.x_groq.usage if chunk.x_groq else None)
        raw = raw or next((c.usage for c in chunk.choices or () if c.usage), None)
        if not raw or raw == self._usage:
            return
        self._usage = raw
        event = read_usage(raw)
        yield from self._keep(event)

    # how it ends

    def _completed(self) -> bool:
        return bool(self._choices) and all(choice.ended for choice in self._choices.values())

    def _stop(self) -> StopReason | None:
        first = self._choices.get(0) or next(iter(self._choices.values()), None)
        return first.stop if first else None

    def _end(self) -> Iterator[ResponseEvent]:
        if self._failure:
            yield from self._fail(self._failure)
            return
        self._over = True
        if not self._started:
            yield Status(ResponseStatus.STARTED)
            yield from self._early
        for choice in self._choices.values():
            yield from choice.end(None)
        yield Status(ResponseStatus.COMPLETED, stop_reason=self._stop())

    def _fail(self, failure: Failure) -> Events:
        self._over = True
        return [*self._early, *self._blocks.fail(failure, self._stop())]

    # what does not fit

    def _take_loose(self, frame: SseFrame) -> Events:
        """JSON that does not fit: what does of it is taken, and the rest is told."""
        raw = read_json(frame.data)
        if raw is None:
            return self._take_garbage(frame)
        failure = stream_failure(frame.event, raw)
        if failure:
            return self._fail(failure)
        if not isinstance(raw, dict):
            return self._keep(Opaque("chunk", raw))
        chunk, rest = read_loosely(raw, WireChunk)
        if not (chunk.choices or chunk.x_groq or _has_usage(chunk)):
            return self._keep(Opaque("chunk", raw))
        events = list(self._start(chunk))
        if rest:
            events += self._keep(Opaque("chunk", rest))
        return [*events, *self._take(chunk, frame)]

    def _take_odd(self, frame: SseFrame) -> Events:
        failure = garbage_failure(frame) or stream_failure("error", read_json(frame.data))
        return self._fail(failure or Failure("the provider gave no reason", "error"))

    def _take_garbage(self, frame: SseFrame) -> Events:
        self._careful = True
        mended = self._halves.mended(frame.data)
        if mended is not None:
            return self._take_loose(replace(frame, data=mended))
        failure = garbage_failure(frame)
        if failure:
            return self._fail(failure)
        if frame.event == STRAY or not unreadable(frame.data):
            return self._keep(Opaque(frame.event, frame.data.decode("utf-8", "replace")))
        # Half a frame at the very end is a truncated stream; anywhere else it is the provider's fault.
        self._broken = Failure("the provider sent JSON that cannot be read", "bad_json", "server")
        return ()


def _failure(chunk: WireChunk, frame: SseFrame) -> Failure | None:
    error = chunk.error or (chunk.x_groq.error if chunk.x_groq else None)
    if not error and not chunk.choices:
        raw = read_json(frame.data)
        if isinstance(raw, dict) and raw.get("object") == "error":  # with nothing around it
            error = raw
    if not error:
        return None
    # A bare text has its code beside it.
    told = read_failure({"error": error} if isinstance(error, dict) else read_json(frame.data))
    return told or Failure("the provider gave no reason", "error")


def _name(value: object) -> str | None:
    return str(value) if value else None


def _has_usage(chunk: WireChunk) -> bool:
    return bool(chunk.usage or (chunk.x_groq and chunk.x_groq.usage))


__all__ = ["OpenAIChatDecoder"]
