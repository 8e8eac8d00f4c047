"""Frames of the generateContent stream to events.

The wire has neither a first nor a last event: the first frame starts the response, and the end of the bytes ends it.
The response is complete if each candidate has a finish reason, or if there is a reason why the prompt was refused.
Otherwise it was cut.

An error arrives as a frame, or as bare JSON over several lines without ``data:`` in front. Bare JSON may also be the
whole response as one JSON array, if the request did not require a stream of events; it is read at the end.

Google's servers repeat the usage in each frame. While a text grows, every `PIECES_PER_USAGE`-th piece is followed by a
`Usage`; any other frame, and the end of the response, emits the newest one. Of the usages of pieces of one text the
newest alone is decoded: its totals include the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from rxworker.events import (
    Opaque,
    ResponseEvent,
    ResponseStatus,
    Status,
)
from rxworker.events.deltas import gather
from rxworker.framing.decoder import MAX_FRAME
from rxworker.framing.sse import STRAY
from rxworker.framing.sse_frame import SseFrame, datas_of, has_event
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import read_json, read_repaired
from rxworker.providers.batch_decoder import Part
from rxworker.providers.failure import Failure, read_failure
from rxworker.providers.gemini.choice import Choice
from rxworker.providers.gemini.finish import merge_usage, read_block, read_usage
from rxworker.providers.gemini.wire import WireChunk, decode_chunk
from rxworker.providers.ids import made_id
from rxworker.providers.malformed import (
    BROKEN,
    NO_REASON,
    UNREADABLE,
    LenientDecoder,
    garbage_failure,
    read_loosely,
    stream_failure,
)

Events: TypeAlias = Sequence[ResponseEvent]

PIECES_PER_USAGE = 16
"""A `Usage` between any two pieces of text would double the events of a response, and separate the pieces."""

HEAD = frozenset(("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime")) | {
    "error"
}
"""The members of a chunk that are read or of no use."""

DONE = b"[DONE]"
TOO_LARGE = Failure(
    f"the provider sent more than {MAX_FRAME} bytes without the frames of a stream",
    "too_large",
    "server",
)


class GeminiDecoder(LenientDecoder):
    """`SseFrame` to events, for one response.

    Args:
        new_id: Makes an id for a tool call that came without one, as nearly all do.

    >>> decoder = GeminiDecoder()
    >>> decoder.feed(SseFrame(b'{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}'))[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ("text", "stringValue")

    def __init__(self, new_id: Callable[[], str] = made_id) -> None:
        super().__init__(new_id)
        self._choices: dict[int, Choice] = {}
        self._usage: JsonObject = {}
        self._emitted_usage: JsonObject = {}
        self._news: list[Raw] = []  # that came with pieces of text, not decoded yet
        self._blocked: StopReason | None = None
        self._started = False
        self._bare: list[bytes] = []  # JSON without ``data:`` that is not whole yet
        self._bare_size = 0

    def feed(self, frame: SseFrame, /) -> Events:
        """Take the next frame; return what happened."""
        if self._over:
            return ()
        if frame.event == STRAY:
            return list(self._take_bare(frame.data))
        if self._is_careful:
            if self._broken or self._bare:
                return self._fail(BROKEN)
            frame = replace(frame, data=self._joiner.joined(frame.data))
        if frame.event == "error":
            failure = garbage_failure(frame) or stream_failure("error", read_json(frame.data))
            return self._fail(failure or Failure(NO_REASON, "error"))
        try:
            chunk = decode_chunk(frame.data)
        except msgspec.ValidationError:
            return self._take_loose(frame)
        except UNREADABLE:
            return self._take_garbage(frame)
        return self._continue(chunk) or list(self._take(chunk, frame.data))

    def feed_many(self, frames: Sequence[SseFrame], /) -> list[Part]:
        """Take several frames; return what happened, with deltas that add to the same text as one thing."""
        datas = datas_of(frames)
        chunks = self._all_of(datas, decode_chunk)
        if chunks is None or has_event(frames, STRAY) or has_event(frames, "error"):
            return gather(event for frame in frames for event in self.feed(frame))
        made: list[ResponseEvent] = []
        for chunk, data in zip(chunks, datas, strict=True):
            if self._over:
                break
            made += self._continue(chunk) or self._take(chunk, data)
        return gather(made)

    def _continue(self, chunk: WireChunk) -> Events:
        """The events of a chunk that adds to the open text of one candidate, and may have new totals.

        None for any other chunk.
        """
        candidates = chunk.candidates
        if candidates is None or len(candidates) != 1 or chunk.error or chunk.prompt_feedback:
            return ()
        wire = candidates[0]
        choice = self._choices.get(wire.index or 0)
        delta = None if choice is None else choice.continue_text(wire)
        if delta is None:
            return ()
        if chunk.usage_metadata:
            self._news.append(chunk.usage_metadata)
            if len(self._news) >= PIECES_PER_USAGE:
                return (delta, *self._new_usage())
        return (delta,)

    def finish(self) -> Events:
        """The bytes ended."""
        if self._over:
            return ()
        events = list(self._take_rest())
        if not self._over:
            whole = not self._broken and self._completed()
            events += self._end() if whole else self._fail(self._cut())
        return events

    def _take(self, chunk: WireChunk, data: bytes | None) -> Iterator[ResponseEvent]:
        if chunk.error:
            failure = read_failure({"error": chunk.error})
            yield from self._fail(failure or Failure(NO_REASON, "error"))
            return
        yield from self._start(chunk)
        for wire in chunk.candidates or ():
            yield from self._choice(wire.index or 0).take(wire)
        blocked = read_block(chunk.prompt_feedback)
        if blocked:
            self._blocked = blocked
            yield Opaque("promptFeedback", chunk.prompt_feedback)
        self._take_news()
        self._news.append(chunk.usage_metadata)
        has_usage = self._take_news()
        if not (has_usage or data is None or chunk.candidates or chunk.prompt_feedback):
            yield Opaque("chunk", read_json(data))
        elif data is not None:
            yield from self._heads.new_in(data, "chunk", HEAD)
        yield from self._new_usage()

    def _start(self, chunk: WireChunk) -> Iterator[ResponseEvent]:
        if not self._started:
            self._started = self._has_begun = True
            name, model = _name(chunk.response_id), _name(chunk.model_version)
            yield Status(ResponseStatus.STARTED, name, model)

    def _choice(self, index: int) -> Choice:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = Choice(index, self.blocks, self._new_id)
        return choice

    def _new_usage(self) -> Events:
        """The newest usage, if it was not emitted yet."""
        self._take_news()
        if self._usage == self._emitted_usage:
            return ()
        self._emitted_usage = self._usage
        return (read_usage(self._usage),)

    def _take_news(self) -> bool:
        """Decode the newest of the usages that wait, and drop the others. Whether there was one."""
        waiting, self._news = self._news, []
        for raw in reversed(waiting):
            update = read_json(raw)
            if isinstance(update, dict):
                self._usage = merge_usage(self._usage, update)
                return True
        return False

    # how it ends

    def _completed(self) -> bool:
        if self._blocked:
            return True
        return bool(self._choices) and all(choice.ended for choice in self._choices.values())

    def _stop_reason(self) -> StopReason | None:
        first = self._choices.get(0) or next(iter(self._choices.values()), None)
        return (first.stop if first else None) or self._blocked

    def _end(self) -> Iterator[ResponseEvent]:
        self._over = True
        yield from self._new_usage()
        for choice in self._choices.values():
            yield from choice.end()
        yield Status(ResponseStatus.COMPLETED, stop_reason=self._stop_reason())

    def _fail(self, failure: Failure, stop: StopReason | None = None) -> Events:
        return [*self._new_usage(), *super()._fail(failure, stop)]

    # not a frame of the protocol

    def _take_loose(self, frame: SseFrame) -> Events:
        raw = read_json(frame.data)
        return self._take_garbage(frame) if raw is None else list(self._take_raw(frame.event, raw))

    def _take_garbage(self, frame: SseFrame) -> Events:
        # Some proxies end every protocol like this.
        return () if frame.data == DONE else super()._take_garbage(frame)

    def _take_bare(self, data: bytes) -> Iterator[ResponseEvent]:
        failure = garbage_failure(SseFrame(data, STRAY))
        if failure:
            yield from self._fail(failure)
        elif not self._bare and (raw := read_repaired(data)) is not None:
            yield from self._take_raw(STRAY, raw)
        elif self._bare or data.lstrip().startswith((b"{", b"[")):
            self._is_careful = True
            self._bare.append(data)  # it may hold empty lines, so it is put together at the end
            self._bare_size += len(data)
            if self._bare_size > MAX_FRAME:
                yield from self._fail(TOO_LARGE)
        else:
            yield from super()._take_garbage(SseFrame(data, STRAY))

    def _take_rest(self) -> Iterator[ResponseEvent]:
        if self._bare:
            raw = read_repaired(b"\n".join(self._bare))
            self._broken = self._broken or raw is None
            yield from self._take_raw(STRAY, raw)

    def _take_raw(self, event: str, raw: Json) -> Iterator[ResponseEvent]:
        """JSON that fits no Struct as it stands: an error, a list of frames, or something new."""
        for one in raw if isinstance(raw, list) else [raw]:
            if self._over or one is None:
                return
            failure = stream_failure(event, one)
            if failure:
                yield from self._fail(failure)
            else:
                yield from self._take_object(one)

    def _take_object(self, raw: Json) -> Iterator[ResponseEvent]:
        if not isinstance(raw, dict):
            yield Opaque("chunk", raw)
            return
        chunk, rest = read_loosely(raw, WireChunk)
        if not (chunk.candidates or chunk.prompt_feedback or chunk.usage_metadata):
            yield from self._take(chunk, msgspec.json.encode(raw))
            return
        yield from self._start(chunk)
        if rest:
            yield Opaque("chunk", rest)
        yield from self._take(chunk, None)


def _name(value: object) -> str | None:
    return str(value) if value else None
