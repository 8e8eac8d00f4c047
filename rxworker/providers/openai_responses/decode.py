"""Frames of the Responses stream to events.

A response is a list of items (`Items`), which `rxworker.providers.openai_responses.item` turns into blocks. Several
items may be open at once, and they may end in any order. An item is known by its ``output_index``; its ``item_id`` is
not to be relied on, since one server changes it with every event. Servers that send no ``output_index`` are helped: the
item is then the one of that id, else the last open one of the type that the event belongs to, else a new one after the
others.

A response ends at its last event, which has the status; bytes that end before are a truncated response. An ``error``
event is usually followed by a ``response.failed`` with the same error, so the error waits for the next frame or the
end, and is emitted once. A second ``response.created`` comes from a proxy that tried again: it retracts what the
response emitted before it. Cached input is part of the input, reasoning part of the output.

All events share one Struct: their fields have the same names everywhere, and their types are looked up in tables. Items
and parts stay plain objects, since they are kept as they came. What the server should not get wrong, but might, is
``Json`` and checked where it is read, so that no content is lost for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from rxworker.events import Opaque, Ping, ResponseEvent, ResponseStatus, Status
from rxworker.events.kinds import FEW, Deltas, gather
from rxworker.framing.sse import SseFrame, datas_of
from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.lenient_json import as_object, json_text, read_json, word
from rxworker.messages.usage import Usage
from rxworker.providers.batch_decoder import Events, Part
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.failure import CANCELLED, Failure, ended_failure
from rxworker.providers.finish_reasons import CUT, TOOL_USE, known_kind
from rxworker.providers.malformed import DONE, ERROR, EventDecoder, Handlers, named_event
from rxworker.providers.openai_responses.item import (
    CALLS,
    CONTENT,
    CUSTOM_CALL,
    FUNCTION_CALL,
    MESSAGE,
    PARTS,
    REASONING,
    SUMMARY,
    TEXT,
    TEXT_DELTAS,
    WHOLE,
    WHOLES,
    CallItem,
    Item,
    Position,
    Text,
    TextItem,
    waits_for_client,
)
from rxworker.providers.usage import numbers_in


class WireResponse(Struct, frozen=True, gc=False):
    """The response as a whole, which the first and the last events carry."""

    id: Json = None
    status: Json = None
    error: Json = None
    incomplete_details: Json = None
    model: Json = None
    output: Json = None
    usage: Json = None


# https://developers.openai.com/api/reference/resources/responses, and the types of the official package
_REPEATED = (
    "background billing completed_at conversation created_at instructions max_output_tokens max_tool_calls metadata "
    "object parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options "
    "prompt_cache_retention reasoning safety_identifier service_tier store temperature text tool_choice tools "
    "top_logprobs top_p truncation user frequency_penalty presence_penalty output_text"
)
RESPONSE = frozenset((*WireResponse.__struct_fields__, *_REPEATED.split()))
"""The members of a response that are read, or that repeat the request."""


class WireEvent(Struct, frozen=True, gc=False):
    """One frame of the stream.

    Attributes:
        type: The type of the event; empty where only the frame's name has it.
        item_id: Which item; some servers change it with every event, others send nothing else.
        output_index: Which item, again. The one name that stays the same for an item's whole life.
        delta: More text.
        text: The whole text, with ``.done``; likewise ``refusal``, ``arguments``, ``input`` and ``code``.
    """

    type: str = ""
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: Json = None
    input: str | None = None
    code: Json = None
    name: str | None = None
    part: JsonObject | None = None
    item: JsonObject | None = None
    annotation: JsonObject | None = None
    response: WireResponse | None = None
    error: Json = None


decode_event = msgspec.json.Decoder(WireEvent).decode


# What becomes of an item by its type; any other is an `Item`.
SORTS = {MESSAGE: TextItem, REASONING: TextItem, FUNCTION_CALL: CallItem, CUSTOM_CALL: CallItem}


class Items:
    """The items of one response.

    Args:
        blocks: Opens blocks.

    Attributes:
        all: In the order in which they came.
    """

    def __init__(self, blocks: BlockFactory) -> None:
        self.all: list[Item] = []
        # The last item that came under an ``output_index``; none came without one.
        self._by_index: dict[int | None, Item] = {}
        self._by_name: dict[str, Item] = {}
        self._next = 0
        self._blocks = blocks

    def close(self, response: WireResponse, status: str, events: list[ResponseEvent]) -> None:
        """Open items end with the response; items that were never reported are in its output."""
        begun = [item for item in self.all if not item.ended]
        output = response.output if isinstance(response.output, list) else []
        if not self.all:
            for wire in output:
                if isinstance(wire, dict):
                    self._new(None, wire).stop(wire, events, whole=True, reason="")
        for item in begun:
            found = output[item.key] if item.key < len(output) else None
            wire = found if isinstance(found, dict) and found.get("type") == item.kind else None
            reason = f"the response was cut: {status}"
            item.stop(wire, events, whole=status == COMPLETED, reason=reason)
        if len(output) > len(self.all):
            self._take_untold_calls(output, events, whole=status == COMPLETED)

    def _take_untold_calls(self, output: Sequence[Json], events: list[ResponseEvent], *, whole: bool) -> None:
        """Calls that stand in the output alone.

        Nothing else is taken from there, since it may be numbered otherwise.
        """
        calls = [wire for wire in output if isinstance(wire, dict) and wire.get("type") in CALLS]
        for wire in calls:
            if self._named(wire.get("id"), wire.get("call_id")) is None:
                reason = "the response was cut before the call was complete"
                self._new(None, wire).stop(wire, events, whole=whole, reason=reason)

    def _silent(self, event: WireEvent, data: bytes, events: list[ResponseEvent]) -> None:
        """A part that begins has no text yet."""

    def _added(self, event: WireEvent, _: bytes, events: list[ResponseEvent]) -> None:
        wire, index = event.item, event.output_index
        if wire is None:
            return
        before = self._by_index.get(index)
        if before is not None and not before.ended and before.kind == wire.get("type"):
            before.learn(wire, events)
        else:
            self._new(index, wire).start(events)

    def _ended(self, event: WireEvent, _: bytes, events: list[ResponseEvent]) -> None:
        wire = event.item
        if wire is None:
            return
        item = self._by_index.get(event.output_index)
        if item is None or item.kind != wire.get("type"):
            item = self._find(event, word(wire.get("type")), wire)
        if item is None:
            item = self._new(event.output_index, wire)
        if not item.ended:  # some send it twice
            item.stop(wire, events, whole=True, reason="the call was cut off")

    def _delta(self, event: WireEvent, data: bytes, events: list[ResponseEvent]) -> list[str] | None:
        """More of a text; returns its pieces so far, if events of its type and index do nothing but add to it."""
        if not event.delta:
            return None
        text = TEXT_DELTAS[event.type]
        item = self._by_index.get(event.output_index)
        is_known = True
        if item is None or item.kind != text.item:
            item = self._item_of(text, event, events)
            # It may be new, and may be found by its index from now on.
            is_known = item.kind == text.item and item is self._by_index.get(event.output_index)
        if item.ended or not (is_known or item.takes(text)):
            events.append(Opaque(event.type, read_json(data)))
            return None
        position = _position(event, text) if text.field else WHOLE
        pieces = item.add(position, event.delta, events)
        return pieces if is_known else None

    def _whole(self, event: WireEvent, _: bytes, events: list[ResponseEvent]) -> None:
        """All of a text."""
        text = WHOLES[event.type]
        value = getattr(event, text.done)
        if value is None or value == "":
            return
        item = self._by_index.get(event.output_index)
        if item is None or item.kind != text.item:
            item = self._item_of(text, event, events)
            if not item.takes(text):
                return
        if not item.ended:
            whole = value if isinstance(value, str) else json_text(value)
            item.complete(_position(event, text) if text.field else WHOLE, whole, events)

    def _part(self, event: WireEvent, _: bytes, events: list[ResponseEvent]) -> None:
        """A part of a message or thought is whole."""
        part = event.part or {}
        text = PARTS.get(word(part.get("type")))
        if text is None:
            return
        item = self._by_index.get(event.output_index)
        if item is None or item.kind != text.item:
            item = self._find(event, text.item)
        if isinstance(item, TextItem) and not item.ended:
            item.complete(_position(event, text), word(part.get(text.done)), events)

    def _annotation(self, event: WireEvent, _: bytes, events: list[ResponseEvent]) -> None:
        if event.annotation is None:
            return
        item = self._find(event, MESSAGE)
        if isinstance(item, TextItem) and item.kind == MESSAGE and not item.ended:
            item.cite((CONTENT, event.content_index or 0, TEXT), event.annotation, events)
        else:
            events.append(Opaque(event.type, event.annotation))

    def _item_of(self, text: Text, event: WireEvent, events: list[ResponseEvent]) -> Item:
        """The item whose text it is; a new one if it was not reported."""
        item = self._find(event, text.item)
        if item is None:
            known: JsonObject = {"type": text.item}
            known |= {"name": event.name} if event.name else {}
            item = self._new(event.output_index, known, (event.item_id,))
            item.start(events)
        return item

    def _find(self, event: WireEvent, kind: str, wire: JsonObject | None = None) -> Item | None:
        """The item that an event is about, which may have sent it whole."""
        if event.output_index is not None:
            found = self._by_index.get(event.output_index)
            if found is None or found.kind == kind:
                return found
        ids = (event.item_id,) if wire is None else (wire.get("id"), wire.get("call_id"))
        if (named := self._named(*ids)) is not None:
            return named
        for item in reversed(self.all):
            if item.kind == kind and not item.ended:
                return item
        return None

    def _named(self, *names: Json) -> Item | None:
        """The last item that has the first of these names that one has."""
        for name in names:
            if name and isinstance(name, str) and name in self._by_name:
                return self._by_name[name]
        return None

    def _new(self, output_index: int | None, wire: JsonObject, names: Sequence[Json] = ()) -> Item:
        key = self._next
        if output_index is not None and output_index >= 0 and output_index not in self._by_index:
            key = output_index
        if key >= self._next:
            self._next = key + 1
        kind = wire.get("type")
        if type(kind) is not str:
            kind = ""
        item = SORTS.get(kind, Item)(key, kind, wire, self._blocks)
        self.all.append(item)
        for name in names or (wire.get("id"), wire.get("call_id")):
            if type(name) is str:
                self._by_name[name] = item
        self._by_index[key if output_index is None else output_index] = item
        return item


def _position(event: WireEvent, text: Text) -> Position:
    """Where a text lies that stands in a list; servers that leave out its position have one of a sort."""
    number = event.summary_index if text.field == SUMMARY else event.content_index
    return text.field, number or 0, text.block_type


# What an event does to the items, each with the pieces so far of a text that goes on; see `Items._delta`.
ITEM_HANDLERS: dict[str, Callable[[Items, WireEvent, bytes, list[ResponseEvent]], list[str] | None]] = {
    "response.output_item.added": Items._added,
    "response.output_item.done": Items._ended,
    "response.content_part.added": Items._silent,
    "response.content_part.done": Items._part,
    "response.reasoning_part.added": Items._silent,
    "response.reasoning_part.done": Items._part,
    "response.reasoning_summary_part.added": Items._silent,
    "response.reasoning_summary_part.done": Items._part,
    "response.output_text.annotation.added": Items._annotation,
    **dict.fromkeys(TEXT_DELTAS, Items._delta),
    **dict.fromkeys(WHOLES, Items._whole),
}


COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"
STATUSES = (COMPLETED, INCOMPLETE, FAILED, CANCELLED)
# Why a complete response ended, by what one of its items is.
ENDINGS = {"called": TOOL_USE, "malformed": StopKind.MALFORMED, "refused": StopKind.REFUSAL}


def status_of(response: WireResponse, event: str) -> str:
    """How it ended: by the response, else by the last word of the event.

    >>> status_of(WireResponse(), "response.incomplete")
    'incomplete'
    """
    return response.status if response.status in STATUSES else event.rpartition(".")[2]


def read_stop(response: WireResponse, status: str, items: Sequence[Item]) -> StopReason:
    """The normal form.

    Args:
        response: The response as received.
        status: Its final status.
        items: Its items.

    >>> read_stop(WireResponse(), "completed", []).kind
    <StopKind.END_TURN: 'EndTurn'>
    """
    if response.incomplete_details:
        reason = word(as_object(response.incomplete_details).get("reason"))
        kind = known_kind(reason) if reason else None
        # An unknown reason does not invalidate a complete response.
        if reason and (kind in CUT or status != COMPLETED):
            return StopReason(kind if kind in CUT else StopKind.INCOMPLETE, reason)
    if status != COMPLETED:
        return StopReason(StopKind.INCOMPLETE, status)
    for name, kind in ENDINGS.items():
        if any(map(attrgetter(name), items)):
            return StopReason(kind, status)
    waiting = [item.kind for item in items if waits_for_client(item.wire)]
    return StopReason(StopKind.END_TURN, status, f"waits for the client: {', '.join(waiting)}" if waiting else None)


def read_usage(raw: JsonObject) -> Usage:
    """The normal form, which is how it counts itself.

    >>> read_usage({"input_tokens": 5, "output_tokens": 2}).total_tokens
    7
    """
    return Usage(*numbers(raw), raw=raw)


def numbers(raw: JsonObject) -> list[int | None]:
    """The tokens as they were sent: input and output, those read from a cache and written to it, and reasoning."""
    return numbers_in(
        raw,
        "input_tokens",
        "output_tokens",
        "input_tokens_details.cached_tokens",
        "input_tokens_details.cache_write_tokens",
        "output_tokens_details.reasoning_tokens",
    )


NOTHING = WireResponse()
STARTED = ResponseStatus.STARTED
ENDED = ResponseStatus.COMPLETED
LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class OpenAIResponsesDecoder(EventDecoder):
    """`SseFrame` to events, for one response.

    >>> decoder = OpenAIResponsesDecoder()
    >>> decoder.feed(SseFrame(b'{"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}'))[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ("delta",)
    _decode = staticmethod(decode_event)
    _event = WireEvent
    _whole = "response"
    _known = RESPONSE

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def _begin(self) -> None:
        """Reset."""
        self._started = None
        self._items = Items(self.blocks)
        self._failure: Failure | None = None  # waits for the response that failed
        self._goes_on = False  # it has started, and nothing has failed

    @property
    def is_over(self) -> bool:
        """Whether the response has ended or failed."""
        return super().is_over or self._failure is not None

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
        if (take := ITEM_HANDLERS.get(kind)) is not None and self._failure is None:
            if self._started is None:
                self._start(NOTHING, events)
            return take(self._items, event, data, events)
        if self._failure is not None and kind not in LAST and kind != ERROR and (kind or not event.error):
            events += self._fail(self._failure)
        else:
            super()._take(event, data, events)
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
            events += self._fail(
                self._failure
                or ended_failure("response", status, {"error": response.error} if response.error else None),
                stop,
            )

    # what went wrong, and what does not fit

    def _take_error(self, failure: Failure) -> Events:
        if self._failure is not None:
            return ()
        self._failure, self._goes_on = failure, False
        return self.blocks.abort_all(failure.message)

    def _take_done(self) -> Events:
        return self.finish()

    def _knows(self, kind: str) -> bool:
        return kind == ERROR or kind in ITEM_HANDLERS or super()._knows(kind)

    def _ping(self, _: WireEvent, events: list[ResponseEvent]) -> None:
        events.append(Ping())

    @staticmethod
    def _last_frame(response: JsonObject) -> SseFrame:
        kind = f"response.{response.get('status')}"
        return SseFrame(msgspec.json.encode({"type": kind if kind in LAST else LAST[0], "response": response}))

    # Those of its items are in `ITEM_HANDLERS`.
    _handlers: ClassVar[Handlers] = {
        "response.created": _take_created,
        "response.queued": _take_progress,
        "response.in_progress": _take_progress,
        "keepalive": _ping,
        "ping": _ping,
        **dict.fromkeys(LAST, _take_last),
    }


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
