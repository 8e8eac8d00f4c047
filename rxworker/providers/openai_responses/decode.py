"""Frames of the Responses stream to events.

A response is a row of items, and several may be open at once. An item is known by its ``output_index``; its ``item_id``
is not to be relied on, since one server changes it with every event. Servers that send no ``output_index`` are helped:
the item is then the one of that id, else the last open one of the type that the event belongs to, else a new one.

A response is over at its last event, which says how it ended; bytes that end before are a truncated response. An
``error`` event is usually followed by a ``response.failed`` that says the same again, so the error waits for the next
frame or the end, and is told once. A second ``response.created`` comes from a proxy that tried again: it takes back what
the response said before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from rxworker.events import (
    Opaque,
    Ping,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
)
from rxworker.framing import STRAY, SseFrame
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.providers.blocks import CUT, OpenBlocks
from rxworker.providers.failure import Failure
from rxworker.providers.garbage import garbage_failure, read_json, stream_failure, unreadable
from rxworker.providers.ids import made_id
from rxworker.providers.openai_responses.error import error_failure, response_failure
from rxworker.providers.openai_responses.item import Item
from rxworker.providers.openai_responses.kinds import (
    CONTENT,
    MESSAGE,
    PARTS,
    REASONING,
    SUMMARY,
    TEXTS,
    WHOLE,
    Place,
    Text,
    json_text,
    word,
)
from rxworker.providers.openai_responses.stop import (
    COMPLETED,
    INCOMPLETE,
    read_stop,
    status_of,
)
from rxworker.providers.openai_responses.usage import read_usage
from rxworker.providers.openai_responses.wire import (
    WireEvent,
    WireResponse,
    decode_event,
    decode_loosely,
)

Events: TypeAlias = Sequence[ResponseEvent]

DONE = b"[DONE]"
TEXT_DELTA = "response.output_text.delta"


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
        self._broken: Failure | None = None
        self._over = False
        self._begin()

    def _begin(self) -> None:
        """Forget what was said."""
        self._blocks = OpenBlocks()
        self._started: str | None = None  # the response's id, once it has started; perhaps empty
        self._items: list[Item] = []
        self._by_index: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}
        self._next = 0
        self._failure: Failure | None = None  # waits for the response that failed

    def feed(self, frame: SseFrame, /) -> Events:
        """Take the next frame; return what happened."""
        if self._over:
            return ()
        if frame.data == DONE:
            return self.finish()
        if self._broken:
            return self._fail(self._broken)
        try:
            event = decode_event(frame.data)
        except msgspec.ValidationError:
            return list(self._take_loose(frame))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return list(self._take_garbage(frame))
        if event.type == TEXT_DELTA and event.output_index is not None and event.delta:
            # More of a text that is open: nearly every frame.
            item = self._by_index.get(event.output_index)
            if item is not None and item.text is not None and item.kind == MESSAGE:
                place, part = item.text
                if place == (CONTENT, event.content_index or 0) and not item.refused:
                    part.pieces.append(event.delta)
                    return [TextDelta(part.index, event.delta)]
        return list(self._take(event, frame))

    def finish(self) -> Events:
        """The bytes ended. Before the last event of a response, that is an error."""
        return () if self._over else self._fail(self._failure or CUT)

    def _take(self, event: WireEvent, frame: SseFrame) -> Iterator[ResponseEvent]:
        kind = event.type or frame.event
        if kind == "error" or (event.error and not event.type):
            yield from self._take_error(read_json(frame.data))
            return
        if self._failure is not None and kind not in LAST:
            yield from self._fail(self._failure)
            return
        stem, _, moment = kind.rpartition(".")
        handler = HANDLERS.get(kind)
        if handler is not None:
            yield from handler(self, event)
        elif stem in TEXTS and moment in ("delta", "done"):
            yield from self._take_text(event, TEXTS[stem], moment, frame)
        else:
            yield Opaque(kind, read_json(frame.data))

    # the response

    def _take_created(self, event: WireEvent) -> Iterator[ResponseEvent]:
        if self._items:
            yield from self._blocks.abort_all("the provider started the response again")
            self._begin()
        yield from self._start(event.response)

    def _take_progress(self, event: WireEvent) -> Iterator[ResponseEvent]:
        yield from self._start(event.response)

    def _start(self, response: WireResponse | None) -> Iterator[ResponseEvent]:
        if self._started is None:
            response = response or WireResponse()
            self._started = word(response.id)
            yield Status(ResponseStatus.STARTED, word(response.id) or None, word(response.model) or None)

    def _take_last(self, event: WireEvent) -> Iterator[ResponseEvent]:
        response = event.response or WireResponse()
        yield from self._start(response)
        status = status_of(response, event.type)
        well = status in (COMPLETED, INCOMPLETE) and self._failure is None
        if well:
            yield from self._close_items(response, status)
        else:
            yield from self._blocks.abort_all(f"the response {status}")
        if isinstance(response.usage, dict) and response.usage:
            yield read_usage(msgspec.convert(response.usage, JsonObject))
        stop = self._stop_reason(response, status)
        if well:
            self._over = True
            named = word(response.id)
            response_id = named if named != self._started else None
            yield Status(ResponseStatus.COMPLETED, response_id or None, stop_reason=stop)
        else:
            yield from self._fail(self._failure or response_failure(response, status), stop)

    def _close_items(self, response: WireResponse, status: str) -> Iterator[ResponseEvent]:
        """What is open ends with the response; what was never told is in its output."""
        output: list[Json] = response.output if isinstance(response.output, list) else []
        if not self._items:
            for wire in output:
                if isinstance(wire, dict):
                    yield from self._new_item(None, wire).stop(wire, whole=True, reason="")
        for item in self._items:
            if not item.ended:
                found = output[item.key] if item.key < len(output) else None
                wire = found if isinstance(found, dict) and found.get("type") == item.kind else None
                yield from item.stop(
                    wire, whole=status == COMPLETED, reason=f"the response was cut: {status}"
                )

    def _stop_reason(self, response: WireResponse, status: str) -> StopReason:
        return read_stop(
            response,
            status,
            called=any(item.called for item in self._items),
            refused=any(item.refused for item in self._items),
            waiting=[item.kind for item in self._items if item.waits_for_client],
        )

    # its items

    def _take_added(self, event: WireEvent) -> Iterator[ResponseEvent]:
        if event.item is None:
            return
        before = self._by_index.get(event.output_index) if event.output_index is not None else None
        if before is not None and not before.ended and before.kind == event.item.get("type"):
            return  # said twice
        yield from self._start(None)
        yield from self._new_item(event.output_index, event.item).start()

    def _take_ended(self, event: WireEvent) -> Iterator[ResponseEvent]:
        wire = event.item
        if wire is None:
            return
        yield from self._start(None)
        item = self._find(event, word(wire.get("type")), _ids(wire))
        if item is None:
            item = self._new_item(event.output_index, wire)
        elif item.ended:
            return  # said twice
        yield from item.stop(wire, whole=True, reason="the call was cut off")

    def _take_text(
        self, event: WireEvent, text: Text, moment: str, frame: SseFrame
    ) -> Iterator[ResponseEvent]:
        value = event.delta if moment == "delta" else getattr(event, text.done)
        if value is None or value == "":
            return
        yield from self._start(None)
        item = self._find(event, text.item, [event.item_id] if event.item_id else [])
        if item is None:
            known: JsonObject = {"type": text.item}
            known |= {"name": event.name} if event.name else {}
            item = self._new_item(event.output_index, known)
            self._by_id |= {event.item_id: item} if event.item_id else {}
            yield from item.start()
        if item.ended or not (item.is_prose or item.kind == text.item):
            if moment == "delta":
                yield Opaque(event.type, read_json(frame.data))
            return
        whole = value if isinstance(value, str) else json_text(value)
        take = item.add if moment == "delta" else item.complete
        yield from take(_place(event, text), text.block_type, whole)

    def _take_part(self, event: WireEvent) -> Iterator[ResponseEvent]:
        """A part of a message or thought is whole; its beginning says nothing yet."""
        part = event.part or {}
        found = PARTS.get(word(part.get("type")))
        if found is None or not event.type.endswith(".done"):
            return
        block_type, field = found
        kind = REASONING if part.get("type") in ("reasoning_text", "summary_text") else MESSAGE
        item = self._find(event, kind, [event.item_id] if event.item_id else [])
        if item is None or item.ended or not item.is_prose:
            return
        text = Text(kind, SUMMARY if part.get("type") == "summary_text" else CONTENT, block_type)
        yield from item.complete(_place(event, text), block_type, word(part.get(field)))

    def _take_annotation(self, event: WireEvent) -> Iterator[ResponseEvent]:
        if event.annotation is None:
            return
        yield from self._start(None)
        item = self._find(event, MESSAGE, [event.item_id] if event.item_id else [])
        if item is None or item.ended or item.kind != MESSAGE:
            yield Opaque(event.type, event.annotation)
        else:
            yield from item.cite((CONTENT, event.content_index or 0), event.annotation)

    def _find(self, event: WireEvent, kind: str, ids: Sequence[str]) -> Item | None:
        """The item that an event is about."""
        if event.output_index is not None:
            return self._by_index.get(event.output_index)
        for one in ids:
            if one in self._by_id:
                return self._by_id[one]
        open_ones = (item for item in reversed(self._items) if not item.ended)
        return next((item for item in open_ones if item.kind == kind), None)

    def _new_item(self, output_index: int | None, wire: JsonObject) -> Item:
        taken = output_index is None or output_index in self._by_index or output_index < 0
        key = self._next if taken or output_index is None else output_index
        self._next = max(self._next, key + 1)
        item = Item(key, wire, self._blocks, self._new_id)
        self._items.append(item)
        self._by_index[key if output_index is None else output_index] = item
        self._by_id |= dict.fromkeys(_ids(wire), item)
        return item

    # what went wrong, and what does not fit

    def _take_error(self, raw: Json) -> Iterator[ResponseEvent]:
        if self._failure is None:
            self._failure = error_failure(raw)
            yield from self._blocks.abort_all(self._failure.message)

    def _take_loose(self, frame: SseFrame) -> Iterator[ResponseEvent]:
        """JSON that does not fit: numbers as text, an error in another shape, or something new."""
        try:
            event = decode_loosely(frame.data)
        except msgspec.ValidationError:
            raw = read_json(frame.data)
            if stream_failure(frame.event, raw):
                yield from self._take_error(raw)
                return
            kind = word(raw.get("type")) if isinstance(raw, dict) else ""
            yield Opaque(kind or frame.event, raw)
        else:
            yield from self._take(event, frame)

    def _take_garbage(self, frame: SseFrame) -> Iterator[ResponseEvent]:
        failure = garbage_failure(frame)
        if failure:
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


def _place(event: WireEvent, text: Text) -> Place:
    if not text.field:
        return WHOLE
    number = event.summary_index if text.field == SUMMARY else event.content_index
    return text.field, number or 0


def _ids(wire: JsonObject) -> list[str]:
    """The names under which an event may speak of an item."""
    return [one for one in (word(wire.get("id")), word(wire.get("call_id"))) if one]


Handler: TypeAlias = Callable[[OpenAIResponsesDecoder, WireEvent], Iterator[ResponseEvent]]

LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
# The protocol: what an event does. Texts are in `TEXTS`; what is in neither travels on as `Opaque`.
HANDLERS: dict[str, Handler] = {
    "response.created": OpenAIResponsesDecoder._take_created,
    "response.queued": OpenAIResponsesDecoder._take_progress,
    "response.in_progress": OpenAIResponsesDecoder._take_progress,
    "response.output_item.added": OpenAIResponsesDecoder._take_added,
    "response.output_item.done": OpenAIResponsesDecoder._take_ended,
    "response.content_part.added": OpenAIResponsesDecoder._take_part,
    "response.content_part.done": OpenAIResponsesDecoder._take_part,
    "response.reasoning_part.added": OpenAIResponsesDecoder._take_part,
    "response.reasoning_part.done": OpenAIResponsesDecoder._take_part,
    "response.reasoning_summary_part.added": OpenAIResponsesDecoder._take_part,
    "response.reasoning_summary_part.done": OpenAIResponsesDecoder._take_part,
    "response.output_text.annotation.added": OpenAIResponsesDecoder._take_annotation,
    "keepalive": OpenAIResponsesDecoder._ping,
    "ping": OpenAIResponsesDecoder._ping,
    **dict.fromkeys(LAST, OpenAIResponsesDecoder._take_last),
}

__all__ = ["OpenAIResponsesDecoder"]
