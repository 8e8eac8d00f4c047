"""Frames of the Responses stream to events.

A response is a row of items: see `rxworker.providers.openai_responses.items` for what happens to them.

A response is over at its last event, which says how it ended; bytes that end before are a truncated response. An
``error`` event is usually followed by a ``response.failed`` that says the same again, so the error waits for the next
frame or the end, and is told once. A second ``response.created`` comes from a proxy that tried again: it takes back what
the response said before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from rxworker.events import (
    BlockType,
    Opaque,
    Ping,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
)
from rxworker.framing import STRAY, SseFrame
from rxworker.messages import Json, StopReason
from rxworker.providers.blocks import CUT, OpenBlocks
from rxworker.providers.failure import Failure
from rxworker.providers.garbage import garbage_failure, read_json, stream_failure, unreadable
from rxworker.providers.ids import made_id
from rxworker.providers.loose import read_loosely
from rxworker.providers.openai_responses.error import error_failure, response_failure
from rxworker.providers.openai_responses.items import Items, is_of_item
from rxworker.providers.openai_responses.kinds import CONTENT, MESSAGE, word
from rxworker.providers.openai_responses.stop import (
    COMPLETED,
    INCOMPLETE,
    read_stop,
    status_of,
)
from rxworker.providers.openai_responses.usage import read_usage
from rxworker.providers.openai_responses.wire import WireEvent, WireResponse, decode_event
from rxworker.providers.surrogates import Halves

Events: TypeAlias = Sequence[ResponseEvent]

DONE = b"[DONE]"
TEXT_DELTA = "response.output_text.delta"
TEXT = BlockType.TEXT.value


class OpenAIResponsesDecoder:
    """`SseFrame` to events, for one response.

    Args:
        new_id: Makes an id for a tool call that came without one.

    >>> decoder = OpenAIResponsesDecoder()
    >>> decoder.feed(SseFrame(b'{"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}'))[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    def __init__(self, new_id: Callable[[], str] = made_id) -> None:
        self._new_id = new_id
        self._careful = False  # something could not be read as it stood
        self._broken: Failure | None = None
        self._halves = Halves("delta")
        self._over = False
        self._begin()

    def _begin(self) -> None:
        """Forget what was said."""
        self._blocks = OpenBlocks()
        self._started: str | None = None  # the response's id, once it has started; perhaps empty
        self._items = Items(self._blocks, self._new_id)
        self._failure: Failure | None = None  # waits for the response that failed

    def feed(self, frame: SseFrame, /) -> Events:
        """Take the next frame; return what happened."""
        if self._over:
            return ()
        if frame.data == DONE:
            return self.finish()
        if self._careful:
            if self._broken:
                return self._fail(self._broken)
            frame = replace(frame, data=self._halves.joined(frame.data))
        try:
            event = decode_event(frame.data)
        except msgspec.ValidationError:
            return list(self._take_loose(frame))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return list(self._take_garbage(frame))
        if event.type == TEXT_DELTA and event.output_index is not None and not self._failure:
            # More of a text that is open: nearly every frame.
            item = self._items.by_index.get(event.output_index)
            if item is not None and item.text is not None and item.kind == MESSAGE:
                place, part = item.text
                if place == (CONTENT, event.content_index or 0, TEXT) and event.delta:
                    part.pieces.append(event.delta)
                    return [TextDelta(part.index, event.delta)]
        return list(self._take(_named(event, frame), frame))

    def finish(self) -> Events:
        """The bytes ended. Before the last event of a response, that is an error."""
        return () if self._over else self._fail(self._failure or CUT)

    def _take(self, event: WireEvent, frame: SseFrame) -> Iterator[ResponseEvent]:
        if event.type == "error" or (event.error and not event.type):
            yield from self._take_error(read_json(frame.data))
            return
        kind = event.type
        if self._failure is not None and kind not in LAST:
            yield from self._fail(self._failure)
            return
        handler = HANDLERS.get(kind)
        if handler is not None:
            yield from handler(self, event)
        elif is_of_item(kind):
            yield from self._start(None)
            yield from self._items.take(kind, event, frame.data)
        else:
            yield Opaque(kind, read_json(frame.data))

    # the response

    def _take_created(self, event: WireEvent) -> Iterator[ResponseEvent]:
        if self._items.all:
            yield from self._blocks.abort_all("the provider started the response again")
            self._begin()
        yield from self._start(event.response)

    def _take_progress(self, event: WireEvent) -> Iterator[ResponseEvent]:
        yield from self._start(event.response)

    def _start(self, response: WireResponse | None) -> Iterator[ResponseEvent]:
        if self._started is None:
            response = response or WireResponse()
            self._started = word(response.id)
            yield Status(
                ResponseStatus.STARTED, word(response.id) or None, word(response.model) or None
            )

    def _take_last(self, event: WireEvent) -> Iterator[ResponseEvent]:
        response = event.response or WireResponse()
        yield from self._start(response)
        status = status_of(response, event.type)
        well = status in (COMPLETED, INCOMPLETE) and self._failure is None
        if well:
            yield from self._items.close(response, status)
        else:
            yield from self._blocks.abort_all(f"the response {status}")
        if isinstance(response.usage, dict) and response.usage:
            yield read_usage(response.usage)
        stop = read_stop(response, status, self._items.outcome())
        if well:
            self._over = True
            named = word(response.id)
            response_id = named if named != self._started else None
            yield Status(ResponseStatus.COMPLETED, response_id or None, stop_reason=stop)
        else:
            yield from self._fail(self._failure or response_failure(response, status), stop)

    # what went wrong, and what does not fit

    def _take_error(self, raw: Json) -> Iterator[ResponseEvent]:
        if self._failure is None:
            self._failure = error_failure(raw)
            yield from self._blocks.abort_all(self._failure.message)

    def _take_loose(self, frame: SseFrame) -> Iterator[ResponseEvent]:
        """JSON that does not fit: what does of it is taken, and the rest is told."""
        raw = read_json(frame.data)
        if raw is None:
            yield from self._take_garbage(frame)
            return
        event, rest = read_loosely(raw, WireEvent) if isinstance(raw, dict) else (WireEvent(), {})
        event = _named(event, frame)
        known = event.type in HANDLERS or event.type == "error" or is_of_item(event.type)
        if rest and stream_failure(frame.event, raw):
            yield from self._take_error(raw)
        elif not known or not isinstance(raw, dict):
            yield Opaque(event.type or frame.event, raw)
        else:
            if rest:
                yield Opaque(event.type, rest)
            yield from self._take(event, frame)

    def _take_garbage(self, frame: SseFrame) -> Iterator[ResponseEvent]:
        self._careful = True
        mended = self._halves.mended(frame.data)
        failure = garbage_failure(frame) if mended is None else None
        if mended is not None:
            yield from self._take_loose(replace(frame, data=mended))
        elif failure:
            yield from self._fail(failure)
        elif frame.event == STRAY or not unreadable(frame.data):
            yield Opaque(frame.event, frame.data.decode("utf-8", "replace"))
        else:
            # Half a frame at the very end is a truncated stream; anywhere else it is the provider's fault.
            self._broken = Failure(
                "the provider sent JSON that cannot be read", "bad_json", "server"
            )

    def _fail(self, failure: Failure, stop: StopReason | None = None) -> Events:
        self._over = True
        return self._blocks.fail(failure, stop)

    def _ping(self, _: WireEvent) -> Iterator[ResponseEvent]:
        yield Ping()


def _named(event: WireEvent, frame: SseFrame) -> WireEvent:
    """The event under its own name, or under its frame's where it has none."""
    if event.type or (event.error and frame.event == "message"):
        return event
    return replace(event, type=frame.event)


Handler: TypeAlias = Callable[[OpenAIResponsesDecoder, WireEvent], Iterator[ResponseEvent]]

LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
# What an event does to the response. Those of its items are in `items`; any other travels on as `Opaque`.
HANDLERS: dict[str, Handler] = {
    "response.created": OpenAIResponsesDecoder._take_created,
    "response.queued": OpenAIResponsesDecoder._take_progress,
    "response.in_progress": OpenAIResponsesDecoder._take_progress,
    "keepalive": OpenAIResponsesDecoder._ping,
    "ping": OpenAIResponsesDecoder._ping,
    **dict.fromkeys(LAST, OpenAIResponsesDecoder._take_last),
}

__all__ = ["OpenAIResponsesDecoder"]
