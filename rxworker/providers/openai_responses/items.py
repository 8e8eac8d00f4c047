"""The items of a response, and which of them an event is about.

Several items may be open at once, and they may end in any order. An item is known by its ``output_index``; its
``item_id`` is not to be relied on, since one server changes it with every event. Servers that send no ``output_index``
are helped: the item is then the one of that id, else the last open one of the type that the event belongs to, else a new
one behind the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rxworker.events import BlockType, Opaque, ResponseEvent
from rxworker.messages import Json, JsonObject
from rxworker.providers.blocks import OpenBlocks
from rxworker.providers.garbage import read_json
from rxworker.providers.openai_responses.item import Item
from rxworker.providers.openai_responses.kinds import (
    CALLS,
    CONTENT,
    MESSAGE,
    PARTS,
    REASONING,
    SUMMARY,
    TEXTS,
    json_text,
    place_of,
    word,
)
from rxworker.providers.openai_responses.stop import COMPLETED, Outcome
from rxworker.providers.openai_responses.wire import WireEvent, WireResponse


class Items:
    """The items of one response.

    Args:
        blocks: Where blocks are opened.
        new_id: Makes an id for a call that came without one.

    Attributes:
        all: In the order in which they came.
        by_index: The last item that came under an ``output_index``.
    """

    def __init__(self, blocks: OpenBlocks, new_id: Callable[[], str]) -> None:
        self.all: list[Item] = []
        self.by_index: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}
        self._next = 0
        self._blocks = blocks
        self._new_id = new_id

    def take(self, kind: str, event: WireEvent, data: bytes) -> Iterator[ResponseEvent]:
        """An event about an item.

        Args:
            kind: The event's type.
            event: What was sent.
            data: The same as bytes.
        """
        handler = HANDLERS.get(kind)
        if handler is not None:
            yield from handler(self, event)
        else:
            yield from self._text(kind, event, data)

    def close(self, response: WireResponse, status: str) -> Iterator[ResponseEvent]:
        """What is open ends with the response; what was never told is in its output."""
        output = response.output if isinstance(response.output, list) else []
        if not self.all:
            for wire in output:
                if isinstance(wire, dict):
                    yield from self._new(None, wire).stop(wire, whole=True, reason="")
        for item in self.all:
            if not item.ended:
                found = output[item.key] if item.key < len(output) else None
                wire = found if isinstance(found, dict) and found.get("type") == item.kind else None
                yield from item.stop(
                    wire, whole=status == COMPLETED, reason=f"the response was cut: {status}"
                )
        yield from self._untold_calls(output, whole=status == COMPLETED)

    def _untold_calls(self, output: Sequence[Json], *, whole: bool) -> Iterator[ResponseEvent]:
        """Calls that stand in the output alone. Nothing else is taken from there, since it may be numbered otherwise."""
        if len(output) <= len(self.all):
            return
        calls = [wire for wire in output if isinstance(wire, dict) and wire.get("type") in CALLS]
        for wire in calls:
            if not any(one in self._by_id for one in _ids(wire)):
                reason = "the response was cut before the call was told"
                yield from self._new(None, wire).stop(wire, whole=whole, reason=reason)

    def outcome(self) -> Outcome:
        """What of the items matters for the reason why the response ended."""
        return Outcome(
            called=any(item.called for item in self.all),
            refused=any(item.refused for item in self.all),
            waiting=tuple(item.kind for item in self.all if item.waits_for_client),
        )

    def _added(self, event: WireEvent) -> Iterator[ResponseEvent]:
        if event.item is None:
            return
        before = self.by_index.get(event.output_index) if event.output_index is not None else None
        if before is not None and not before.ended and before.kind == event.item.get("type"):
            yield from before.learn(event.item)
        else:
            yield from self._new(event.output_index, event.item).start()

    def _ended(self, event: WireEvent) -> Iterator[ResponseEvent]:
        wire = event.item
        if wire is None:
            return
        item = self._find(event, word(wire.get("type")), _ids(wire))
        if item is None:
            item = self._new(event.output_index, wire)
        if not item.ended:  # some say it twice
            yield from item.stop(wire, whole=True, reason="the call was cut off")

    def _text(self, kind: str, event: WireEvent, data: bytes) -> Iterator[ResponseEvent]:
        """More of a text, or all of it."""
        stem, _, moment = kind.rpartition(".")
        text = TEXTS[stem]
        value = event.delta if moment == "delta" else getattr(event, text.done)
        if value is None or value == "":
            return
        item = self._find(event, text.item, [event.item_id] if event.item_id else [])
        if item is None:
            known: JsonObject = {"type": text.item}
            known |= {"name": event.name} if event.name else {}
            item = self._new(event.output_index, known)
            self._by_id |= {event.item_id: item} if event.item_id else {}
            yield from item.start()
        if item.ended or not (item.is_prose or item.kind == text.item):
            if moment == "delta":
                yield Opaque(kind, read_json(data))
            return
        place = place_of(text.field, _position(event, text.field), text.block_type)
        whole = value if isinstance(value, str) else json_text(value)
        take = item.add if moment == "delta" else item.complete
        yield from take(place, text.block_type, whole)

    def _part(self, event: WireEvent) -> Iterator[ResponseEvent]:
        """A part of a message or thought is whole; its beginning says nothing yet."""
        part = event.part or {}
        kind = word(part.get("type"))
        if kind not in PARTS or not event.type.endswith(".done"):
            return
        block_type, field = PARTS[kind]
        of = REASONING if block_type is BlockType.THINKING else MESSAGE
        item = self._find(event, of, [event.item_id] if event.item_id else [])
        if item is not None and item.is_prose and not item.ended:
            where = SUMMARY if kind == "summary_text" else CONTENT
            place = place_of(where, _position(event, where), block_type)
            yield from item.complete(place, block_type, word(part.get(field)))

    def _annotation(self, event: WireEvent) -> Iterator[ResponseEvent]:
        if event.annotation is None:
            return
        item = self._find(event, MESSAGE, [event.item_id] if event.item_id else [])
        if item is None or item.ended or item.kind != MESSAGE:
            yield Opaque(event.type, event.annotation)
        else:
            place = place_of(CONTENT, event.content_index, BlockType.TEXT)
            yield from item.cite(place, event.annotation)

    def _find(self, event: WireEvent, kind: str, ids: Sequence[str]) -> Item | None:
        """The item that an event is about."""
        if event.output_index is not None:
            found = self.by_index.get(event.output_index)
            if found is None or found.kind == kind:
                return found
        for one in ids:
            if one in self._by_id:
                return self._by_id[one]
        open_ones = (item for item in reversed(self.all) if not item.ended)
        return next((item for item in open_ones if item.kind == kind), None)

    def _new(self, output_index: int | None, wire: JsonObject) -> Item:
        key = self._next
        if output_index is not None and output_index >= 0 and output_index not in self.by_index:
            key = output_index
        self._next = max(self._next, key + 1)
        item = Item(key, wire, self._blocks, self._new_id)
        self.all.append(item)
        self.by_index[key if output_index is None else output_index] = item
        self._by_id |= dict.fromkeys(_ids(wire), item)
        return item


def is_of_item(kind: str) -> bool:
    """Whether an event of this type is about an item, and is understood.

    >>> is_of_item("response.output_text.delta"), is_of_item("response.audio.delta")
    (True, False)
    """
    stem, _, moment = kind.rpartition(".")
    return kind in HANDLERS or (stem in TEXTS and moment in ("delta", "done"))


def _position(event: WireEvent, field: str) -> int | None:
    return event.summary_index if field == SUMMARY else event.content_index


def _ids(wire: JsonObject) -> list[str]:
    """The names under which an event may speak of an item."""
    return [one for one in (word(wire.get("id")), word(wire.get("call_id"))) if one]


# What an event does to an item. The events of texts are in `TEXTS`.
HANDLERS: dict[str, Callable[[Items, WireEvent], Iterator[ResponseEvent]]] = {
    "response.output_item.added": Items._added,
    "response.output_item.done": Items._ended,
    "response.content_part.added": Items._part,
    "response.content_part.done": Items._part,
    "response.reasoning_part.added": Items._part,
    "response.reasoning_part.done": Items._part,
    "response.reasoning_summary_part.added": Items._part,
    "response.reasoning_summary_part.done": Items._part,
    "response.output_text.annotation.added": Items._annotation,
}

__all__ = ["Items", "is_of_item"]
