"""The items of a response, and which of them an event is about.

Several items may be open at once, and they may end in any order. An item is known by its ``output_index``; its
``item_id`` is not to be relied on, since one server changes it with every event. Servers that send no ``output_index``
are helped: the item is then the one of that id, else the last open one of the type that the event belongs to, else a
new one after the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rxworker.events import Opaque, ResponseEvent
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import json_text, read_json, word
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.openai_responses import kinds
from rxworker.providers.openai_responses.finish import COMPLETED
from rxworker.providers.openai_responses.item import CallItem, Item, TextItem
from rxworker.providers.openai_responses.wire import WireEvent, WireResponse

# What becomes of an item by its type; any other is an `Item`.
SORTS = {
    kinds.MESSAGE: TextItem,
    kinds.REASONING: TextItem,
    kinds.FUNCTION_CALL: CallItem,
    kinds.CUSTOM_CALL: CallItem,
}


class Items:
    """The items of one response.

    Args:
        blocks: Opens blocks.
        new_id: Makes an id for a call that came without one.

    Attributes:
        all: In the order in which they came.
    """

    def __init__(self, blocks: BlockFactory, new_id: Callable[[], str]) -> None:
        self.all: list[Item] = []
        # The last item that came under an ``output_index``; none came without one.
        self._by_index: dict[int | None, Item] = {}
        self._by_name: dict[str, Item] = {}
        self._noted = 0  # of the items, by their names: few responses need a lookup by name
        self._next = 0
        self._blocks = blocks
        self._new_id = new_id

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
        calls = [wire for wire in output if isinstance(wire, dict) and wire.get("type") in kinds.CALLS]
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
        text = kinds.DELTAS[event.type]
        item = self._by_index.get(event.output_index)
        is_known = True
        if item is None or item.kind != text.item:
            item = self._item_of(text, event, events)
            # It may be new, and may be found by its index from now on.
            is_known = item.kind == text.item and item is self._by_index.get(event.output_index)
        if item.ended or not (is_known or item.takes(text)):
            events.append(Opaque(event.type, read_json(data)))
            return None
        position = _position(event, text) if text.field else kinds.WHOLE
        pieces = item.add(position, event.delta, events)
        return pieces if is_known else None

    def _whole(self, event: WireEvent, _: bytes, events: list[ResponseEvent]) -> None:
        """All of a text."""
        text = kinds.WHOLES[event.type]
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
            item.complete(_position(event, text) if text.field else kinds.WHOLE, whole, events)

    def _part(self, event: WireEvent, _: bytes, events: list[ResponseEvent]) -> None:
        """A part of a message or thought is whole."""
        part = event.part or {}
        text = kinds.PARTS.get(word(part.get("type")))
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
        item = self._find(event, kinds.MESSAGE)
        if isinstance(item, TextItem) and item.kind == kinds.MESSAGE and not item.ended:
            item.cite((kinds.CONTENT, event.content_index or 0, kinds.TEXT), event.annotation, events)
        else:
            events.append(Opaque(event.type, event.annotation))

    def _item_of(self, text: kinds.Text, event: WireEvent, events: list[ResponseEvent]) -> Item:
        """The item whose text it is; a new one if it was not reported."""
        item = self._find(event, text.item)
        if item is None:
            known: JsonObject = {"type": text.item}
            known |= {"name": event.name} if event.name else {}
            item = self._new(event.output_index, known)
            item.names = (event.item_id,)
            item.start(events)
        return item

    def _find(self, event: WireEvent, kind: str, wire: JsonObject | None = None) -> Item | None:
        """The item that an event is about, which may have sent it whole."""
        if event.output_index is not None:
            found = self._by_index.get(event.output_index)
            if found is None or found.kind == kind:
                return found
        ids = (event.item_id,) if wire is None else (wire.get("id"), wire.get("call_id"))
        named = self._named(*ids)
        if named is not None:
            return named
        for item in reversed(self.all):
            if item.kind == kind and not item.ended:
                return item
        return None

    def _named(self, *names: Json) -> Item | None:
        """The last item that has the first of these names that one has."""
        for item in self.all[self._noted :]:
            self._by_name |= {name: item for name in item.names if isinstance(name, str)}
        self._noted = len(self.all)
        for name in names:
            if name and isinstance(name, str) and name in self._by_name:
                return self._by_name[name]
        return None

    def _new(self, output_index: int | None, wire: JsonObject) -> Item:
        key = self._next
        if output_index is not None and output_index >= 0 and output_index not in self._by_index:
            key = output_index
        if key >= self._next:
            self._next = key + 1
        kind = wire.get("type")
        if type(kind) is not str:
            kind = ""
        names = wire.get("id"), wire.get("call_id")
        item = SORTS.get(kind, Item)(key, kind, wire, self._blocks, self._new_id, names)
        self.all.append(item)
        self._by_index[key if output_index is None else output_index] = item
        return item


def _position(event: WireEvent, text: kinds.Text) -> kinds.Position:
    """Where a text lies that stands in a list; servers that leave out its position have one of a sort."""
    number = event.summary_index if text.field == kinds.SUMMARY else event.content_index
    return text.field, number or 0, text.block_type


# What an event does to the items, each with the pieces so far of a text that goes on; see `Items._delta`.
HANDLERS: dict[str, Callable[[Items, WireEvent, bytes, list[ResponseEvent]], list[str] | None]] = {
    "response.output_item.added": Items._added,
    "response.output_item.done": Items._ended,
    "response.content_part.added": Items._silent,
    "response.content_part.done": Items._part,
    "response.reasoning_part.added": Items._silent,
    "response.reasoning_part.done": Items._part,
    "response.reasoning_summary_part.added": Items._silent,
    "response.reasoning_summary_part.done": Items._part,
    "response.output_text.annotation.added": Items._annotation,
    **dict.fromkeys(kinds.DELTAS, Items._delta),
    **dict.fromkeys(kinds.WHOLES, Items._whole),
}
