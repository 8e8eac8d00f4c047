"""Frames of the Responses stream to events.

A response is a list of items: `rxworker.providers.openai_responses.items` turns them into blocks.

A response ends at its last event, which has the status; bytes that end before are a truncated response. An ``error``
event is usually followed by a ``response.failed`` with the same error, so the error waits for the next frame or the
end, and is emitted once. A second ``response.created`` comes from a proxy that tried again: it retracts what the
response emitted before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from rxworker.events import (
    Opaque,
    Ping,
    ResponseEvent,
    ResponseStatus,
    Status,
)
from rxworker.events.deltas import FEW, Deltas, gather
from rxworker.framing.sse_frame import SseFrame, datas_of
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import read_json, word
from rxworker.providers.batch_decoder import Part
from rxworker.providers.failure import Failure
from rxworker.providers.ids import made_id
from rxworker.providers.malformed import DONE, EventDecoder, named_event
from rxworker.providers.openai_responses.finish import (
    COMPLETED,
    INCOMPLETE,
    error_failure,
    read_stop,
    read_usage,
    response_failure,
    status_of,
)
from rxworker.providers.openai_responses.items import HANDLERS as ITEM_HANDLERS
from rxworker.providers.openai_responses.items import Items
from rxworker.providers.openai_responses.wire import (
    RESPONSE,
    WireEvent,
    WireResponse,
    decode_event,
)

Events: TypeAlias = Sequence[ResponseEvent]

ERROR = "error"
NOTHING = WireResponse()
STARTED = ResponseStatus.STARTED
ENDED = ResponseStatus.COMPLETED


class OpenAIResponsesDecoder(EventDecoder):
    """`SseFrame` to events, for one response.

    Args:
        new_id: Makes an id for a tool call that came without one.

    >>> decoder = OpenAIResponsesDecoder()
    >>> decoder.feed(SseFrame(b'{"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}'))[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ("delta",)
    _decode = staticmethod(decode_event)
    _event = WireEvent

    def __init__(self, new_id: Callable[[], str] = made_id) -> None:
        super().__init__(new_id)
        self._begin()

    def _begin(self) -> None:
        """Reset."""
        self._started: str | None = None  # the response's id, once it has started; perhaps empty
        self._items = Items(self.blocks, self._new_id)
        self._failure: Failure | None = None  # waits for the response that failed
        self._goes_on = False  # it has started, and nothing has failed

    @property
    def response_id(self) -> str:
        """The service's name for the response; empty where it has not come."""
        return self._started or ""

    @property
    def is_over(self) -> bool:
        """Whether the response has ended or failed."""
        return self._over or self._failure is not None or self._broken

    def feed_many(self, frames: Sequence[SseFrame], /) -> list[Part]:
        """Take several frames; return what happened, with deltas that add to the same text as one thing."""
        datas = datas_of(frames)
        ends = datas[-1:] == [DONE]
        if ends:
            datas = datas[:-1]
        decoded = self._all_of(datas, decode_event)
        if decoded is None:
            return gather(event for frame in frames for event in self.feed(frame))
        made: list[Part] = []
        events: list[Any] = made  # for those who put nothing but events into it
        position = 0
        read = iter(decoded)
        event = next(read, None)
        while event is not None and not self._over:
            take = ITEM_HANDLERS.get(event.type) if self._goes_on else None
            if take is not None:
                pieces = take(self._items, event, datas[position], events)
            else:
                named = event if event.type else named_event(event, frames[position])
                pieces = self._take(named, datas[position], events)
            position += 1
            if pieces is None or not event.type:  # its frame gives its type
                event = next(read, None)
                continue
            texts, event = _texts_like(event, read)
            position += len(texts) - 1
            pieces += texts[1:]  # the end of a text adds the part that is missing
            if len(texts) >= FEW:
                made[-1] = Deltas(events[-1], texts)
            else:
                made += Deltas(events[-1], texts[1:])
        if ends:
            made += self.finish()
        return made

    def finish(self) -> Events:
        """The bytes ended. Before the last event of a response, that is an error."""
        return () if self._over else self._fail(self._failure or self._cut())

    def _take(self, event: WireEvent, data: bytes, events: list[ResponseEvent]) -> list[str] | None:
        """Take an event; returns the pieces so far of a text, if events like this one do nothing but add to it."""
        kind = event.type
        take = ITEM_HANDLERS.get(kind)
        if take is not None and self._failure is None:
            if self._started is None:
                self._start(NOTHING, events)
            return take(self._items, event, data, events)
        if kind == ERROR or (event.error and not kind):
            self._take_error(read_json(data), events)
        elif self._failure is not None and kind not in LAST:
            events += self._fail(self._failure)
        elif kind in HANDLERS:
            HANDLERS[kind](self, event, events)
            if event.response is not None:
                new = self._heads.new_in(data, kind, RESPONSE, "response")
                before_end = len(events) - self._over
                events[before_end:before_end] = new
        else:
            raw = read_json(data)
            if isinstance(raw, dict) and raw.get("object") == "response":
                events += self.feed(whole_frame(raw))
            else:
                events.append(Opaque(kind, raw))
        return None

    # the response

    def _take_created(self, event: WireEvent, events: list[ResponseEvent]) -> None:
        if self._items.all:
            events += self.blocks.begin_again("the provider started the response again")
            self._begin()
        self._take_progress(event, events)

    def _take_progress(self, event: WireEvent, events: list[ResponseEvent]) -> None:
        if self._started is None:
            self._start(event.response or NOTHING, events)

    def _start(self, response: WireResponse, events: list[ResponseEvent]) -> None:
        self._started = word(response.id)
        self._goes_on = self._failure is None
        self._has_begun = True
        events.append(Status(STARTED, self._started or None, word(response.model) or None))

    def _take_last(self, event: WireEvent, events: list[ResponseEvent]) -> None:
        response = event.response or NOTHING
        if self._started is None:
            self._start(response, events)
        status = status_of(response, event.type)
        well = status in (COMPLETED, INCOMPLETE) and self._failure is None
        if well:
            self._items.close(response, status, events)
        else:
            events += self.blocks.abort_all(f"the response {status}")
        if isinstance(response.usage, dict) and response.usage:
            events.append(read_usage(response.usage))
        stop = read_stop(response, status, self._items.all)
        if well:
            self._over = True
            named = word(response.id)
            response_id = named if named != self._started else None
            events.append(Status(ENDED, response_id or None, stop_reason=stop))
        else:
            events += self._fail(self._failure or response_failure(response, status), stop)

    # what went wrong, and what does not fit

    def _take_error(self, raw: Json, events: list[ResponseEvent]) -> None:
        if self._failure is None:
            self._failure = error_failure(raw)
            self._goes_on = False
            events += self.blocks.abort_all(self._failure.message)

    def _take_done(self) -> Events:
        return self.finish()

    def _knows(self, kind: str) -> bool:
        return kind in HANDLERS or kind == ERROR or kind in ITEM_HANDLERS

    def _ping(self, _: WireEvent, events: list[ResponseEvent]) -> None:
        events.append(Ping())


def _texts_like(first: WireEvent, rest: Iterator[WireEvent]) -> tuple[list[str], WireEvent | None]:
    """The deltas of an event and of the following events for the same text, and the next event after them."""
    kind, index = first.type, first.output_index
    content, summary = first.content_index, first.summary_index
    texts = [first.delta or ""]
    for event in rest:
        text = event.delta
        # Most have no more than one place, and `is` is faster than `==` for an identical object.
        if (
            not text
            or event.type != kind
            or event.output_index != index
            or (event.content_index is not content and event.content_index != content)
            or (event.summary_index is not summary and event.summary_index != summary)
        ):
            return texts, event
        texts.append(text)
    return texts, None


def whole_frame(response: JsonObject) -> SseFrame:
    """The last event of a response that came whole, from a server that does not stream."""
    kind = f"response.{response.get('status')}"
    event: JsonObject = {"type": kind if kind in LAST else LAST[0], "response": response}
    return SseFrame(msgspec.json.encode(event))


Handler: TypeAlias = Callable[[OpenAIResponsesDecoder, WireEvent, list[ResponseEvent]], None]

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
