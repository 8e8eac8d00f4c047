"""Frames of the Chat Completions stream to events.

The wire has neither a first nor a last event: the first chunk starts the response, and ``[DONE]`` ends it. The usage
may come after the finish reason, so the response is completed at ``[DONE]``, or at the end of the bytes where a server
sends none. Bytes that end before any finish reason are a truncated response.

Errors come in several shapes, and are looked for before anything else. One that shares a chunk with choices may be
followed by the usage, which is waited for; any other ends the response at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from rxworker.events import InputJsonDelta, Opaque, ResponseEvent, ResponseStatus, Status, TextDelta
from rxworker.events.kinds import add_deltas, gather
from rxworker.framing.sse import SseFrame, datas_of, has_event
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import as_object, read_json, read_repaired
from rxworker.providers.batch_decoder import Events, Part
from rxworker.providers.error_table import FINISH_REASONS
from rxworker.providers.failure import Failure, error_failure
from rxworker.providers.malformed import BROKEN, DONE, UNREADABLE, LenientDecoder, error_frame_failure, read_loosely
from rxworker.providers.openai_chat import wire
from rxworker.providers.openai_chat.choice import Choice

EMPTY = Failure("the server ended its answer before it began", "empty", "server")

# Beside the members that are read; ``p`` is the ``obfuscation`` of Mistral.
_REPEATED = "id model object created service_tier system_fingerprint obfuscation p"
HEAD = frozenset((*wire.WireChunk.__struct_fields__, *_REPEATED.split()))
"""The members of a chunk that are read or of no use."""

STARTED, COMPLETED = ResponseStatus.STARTED, ResponseStatus.COMPLETED


class OpenAIChatDecoder(LenientDecoder):
    """`SseFrame` to events, for one response.

    >>> decoder = OpenAIChatDecoder()
    >>> decoder.feed(SseFrame(b'{"id": "1", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}'))[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ("content", "text", "thinking", "reasoning", "reasoning_content", "summary", "refusal", "arguments")

    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, Choice] = {}
        self._usage: JsonObject | None = None
        self._started = False
        self._early: list[ResponseEvent] = []  # what came before the response had a name
        self._events: list[ResponseEvent] = []  # made, and not returned yet
        self._emit = self._events.append
        self._failure: Failure | None = None  # waits for the usage

    def feed(self, frame: SseFrame, /) -> Events:
        """Take the next frame; return what happened."""
        if self._over:
            return ()
        if self._is_careful:
            frame = replace(frame, data=self._joiner.joined(frame.data))
        if self._broken or frame.data == DONE or frame.event == "error":
            return self._take_last(frame)
        try:
            chunk = wire.decode_chunk(frame.data)
        except UNREADABLE as error:
            return self._take_unread(frame, error)
        return self._take(chunk, frame.data)

    def feed_many(self, frames: Sequence[SseFrame], /) -> list[Part]:
        """Take several frames; return what happened, with deltas that add to the same text as one thing."""
        datas = datas_of(frames)
        ends = datas[-1:] == [DONE]
        chunks = self._all_of(datas[:-1] if ends else datas, wire.decode_chunk)
        if chunks is None or has_event(frames, "error"):
            return gather(event for frame in frames for event in self.feed(frame))
        made: list[Part] = []
        growths = [*map(wire.growth_of, chunks), wire.NO_GROWTH]
        at = 0
        while at < len(chunks) and not self._over:
            position, text = growths[at]
            like = None if position is None else self._grow(position, [text])
            at += 1
            if position is None or like is None:
                made += self._take(chunks[at - 1], datas[at - 1])
                continue
            more: list[str] = []
            following = (*position[:2], False)
            while growths[at][0] == following:
                more.append(growths[at][1])
                at += 1
            if more:
                self._grow(position, more)
            add_deltas(like, [text, *more], made)
        if ends:
            made += self.feed(frames[-1])
        return made

    def _grow(self, position: wire.Position, texts: list[str]) -> TextDelta | InputJsonDelta | None:
        """Add to what is open at this place.

        Return the delta of the first text, or ``None`` if nothing is, or a failure waits.
        """
        choice = self._choices.get(position[0])
        return None if choice is None or self._failure else choice.grow(position[1], texts)

    def _take_events(self) -> Events:
        events = self._events.copy()
        self._events.clear()
        return events

    def finish(self) -> Events:
        """The bytes ended."""
        is_whole = not self._over and (self._failure or self._completed())
        return self._end() if is_whole else super().finish()

    def _take(self, chunk: wire.WireChunk, data: bytes) -> Events:
        choices, usage = chunk.choices or (), chunk.usage
        is_plain = choices and chunk.error is None and chunk.x_groq is None
        failure = None if is_plain else _failure(chunk, data)
        is_head = not (self._started and (choices or self._failure))
        if not self._started and (failure is None or choices):
            self._start(chunk, data)
        if self._failure is None and failure is None:
            for piece in choices:
                choice = self._choices.get(piece.index)
                if choice is None:
                    choice = self._choices[piece.index] = Choice(piece.index, self.blocks, self._emit)
                choice.take(piece)
            if not (choices or usage or _has_usage(chunk)):
                self._keep(Opaque("chunk", read_json(data)))
        if is_head and (choices or usage):
            for event in self._heads.new_in(data, "chunk", HEAD):
                self._keep(event)
        if chunk.x_groq is not None:
            usage = usage or chunk.x_groq.usage
        for piece in choices:
            usage = usage or piece.usage
        if usage and usage != self._usage:
            self._usage = usage
            self._keep(wire.read_usage(usage))
        if failure is not None and self._failure is None:
            self._failure = failure
            self._events += self.blocks.abort_all(failure.message)
        if self._failure and (not choices or self._usage is not None):
            return self._end()
        return self._take_events()

    def _start(self, chunk: wire.WireChunk, data: bytes) -> None:
        if self._started:
            return
        head = as_object(read_repaired(data))
        name, model = head.get("id"), head.get("model")
        # Azure sends a chunk without a name and without choices before the first real one.
        if not (name or chunk.choices):
            return
        self._started = self._has_begun = True
        self._emit(Status(STARTED, str(name) if name else None, str(model) if model else None))
        self._events += self._early
        self._early = []

    def _keep(self, event: ResponseEvent) -> None:
        (self._events if self._started else self._early).append(event)

    # how it ends

    def _completed(self) -> bool:
        return bool(self._choices) and all(choice.ended for choice in self._choices.values())

    def _failed(self) -> Failure | None:
        """The failure of a response that ended without an error, by its finish reason, or since nothing came."""
        if not self._choices:
            return EMPTY
        stop = self._stop_reason()
        raw = stop.raw if stop else None
        kind = FINISH_REASONS.get(raw.lower()) if raw else None
        return Failure(f"the server ended its answer with {raw!r}", raw, kind) if kind else None

    def _stop_reason(self) -> StopReason | None:
        first = self._choices.get(0) or next(iter(self._choices.values()), None)
        return first.stop if first else None

    def _end(self) -> Events:
        failure = self._failure or self._failed()
        if failure:
            return self._fail(failure, self._stop_reason())
        self._over = True
        if not self._started:
            self._emit(Status(STARTED))
            self._events += self._early
        for choice in self._choices.values():
            choice.end()
        self._emit(Status(COMPLETED, stop_reason=self._stop_reason()))
        return self._take_events()

    def _fail(self, failure: Failure, stop: StopReason | None = None) -> Events:
        return [*self._take_events(), *self._early, *super()._fail(failure, stop)]

    # what does not fit

    def _take_raw(self, raw: Json, frame: SseFrame) -> Events:
        """JSON that does not match its Struct: the matching part is taken, and the rest is emitted as `Opaque`."""
        chunk, rest = read_loosely(as_object(raw), wire.WireChunk)
        if not (chunk.choices or chunk.x_groq or _has_usage(chunk)):
            return self._odd(Opaque("chunk", raw))
        self._start(chunk, frame.data)
        if rest:
            self._keep(Opaque("chunk", rest))
        return self._take(chunk, frame.data)

    def _odd(self, event: ResponseEvent) -> Events:
        self._keep(event)
        return self._take_events()

    def _take_last(self, frame: SseFrame) -> Events:
        """The last frame: nothing after it is read."""
        if frame.data == DONE:
            return self._end()
        return self._fail(BROKEN if self._broken else error_frame_failure(frame))


def _failure(chunk: wire.WireChunk, data: bytes) -> Failure | None:
    error = chunk.error or (chunk.x_groq.error if chunk.x_groq else None)
    if not error and not chunk.choices and data.find(b'"error"') >= 0:
        raw = read_json(data)
        if isinstance(raw, dict) and raw.get("object") == "error":  # with nothing around it
            error = raw
    if not error:
        return None
    # A bare text has its code beside it.
    return error_failure({"error": error} if isinstance(error, dict) else read_json(data))


def _has_usage(chunk: wire.WireChunk) -> bool:
    return bool(chunk.usage or (chunk.x_groq and chunk.x_groq.usage))
