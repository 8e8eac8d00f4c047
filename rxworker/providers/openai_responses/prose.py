"""A message or a thought, as blocks: each of its texts is one, which ends when the next text begins or the item ends."""

from __future__ import annotations

from collections.abc import Callable

from rxworker.events import (
    BlockType,
    CitationDelta,
    RefusalDelta,
    ResponseEvent,
    TextDelta,
    ThinkingDelta,
)
from rxworker.messages import JsonObject
from rxworker.providers.blocks import OpenBlocks
from rxworker.providers.openai_responses.item import Item, missing
from rxworker.providers.openai_responses.kinds import (
    CONTENT,
    MESSAGE,
    REFUSAL,
    SUMMARY,
    TEXT,
    THINKING,
    Place,
    Text,
    parts_of,
)

DELTAS = {
    TEXT: TextDelta,
    THINKING: ThinkingDelta,
    REFUSAL: RefusalDelta,
}


class Part:
    """A text within an item: where it lies, what it is, the block it goes into, and what has come of it."""

    __slots__ = ("block_type", "cited", "index", "pieces", "place")

    def __init__(self, place: Place, block_type: BlockType) -> None:
        self.place = place
        self.block_type = block_type
        self.index = 0
        self.pieces: list[str] = []
        self.cited = 0


class Prose(Item):
    """What has come of an item that has texts of its own; see `Item`."""

    __slots__ = ("_part", "_parts")

    def __init__(
        self,
        key: int,
        kind: str,
        wire: JsonObject,
        blocks: OpenBlocks,
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(key, kind, wire, blocks, new_id)
        self._parts: dict[Place, Part] = {}
        self._part: Part | None = None  # the text that is open

    def takes(self, text: Text) -> bool:
        """Whether a text of this sort can go into it: any that stands in a list."""
        return text.field != ""

    def start(self, events: list[ResponseEvent]) -> None:
        """It was added. A message has no block before its first text."""
        if self.kind != MESSAGE:
            self._start_block(THINKING, None, events)

    def add(self, place: Place, text: str, events: list[ResponseEvent], /) -> list[str]:
        """More of the text at a place; returns what has come of it."""
        part = self._turn_to(place, events)
        part.pieces.append(text)
        events.append(DELTAS[part.block_type](part.index, text))
        return part.pieces

    def complete(self, place: Place, text: str, events: list[ResponseEvent]) -> None:
        """The whole of the text at a place: adds what is missing at its end."""
        part = self._parts.get(place)
        rest = text if part is None else missing(text, part.pieces)
        if rest:
            self.add(place, rest, events)

    def cite(self, place: Place, annotation: JsonObject, events: list[ResponseEvent]) -> None:
        """One more source of a text."""
        part = self._turn_to(place, events)
        part.cited += 1
        events.append(CitationDelta(part.index, annotation))

    def _fill(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        if self.kind == MESSAGE:
            self._fill_message(wire, events)
        elif not self._parts:  # a server that streams one of the lists sends the same in the other
            field = SUMMARY if parts_of(wire, SUMMARY) else CONTENT
            for number, (_, text, _) in enumerate(parts_of(wire, field)):
                self.complete((field, number, THINKING), text, events)

    def _fill_message(self, wire: JsonObject, events: list[ResponseEvent]) -> None:
        # Some servers begin to count their parts at 1, so what was streamed is matched by its order.
        streamed = [place for place in self._parts if place[0] == CONTENT]
        if len(streamed) > 1:
            streamed.sort(key=_order)
        for number, (block_type, text, part) in enumerate(parts_of(wire, CONTENT)):
            is_streamed = number < len(streamed)
            place = streamed[number] if is_streamed else (CONTENT, number, block_type)
            self.complete(place, text, events)
            annotations = part.get("annotations")
            if annotations and place in self._parts and isinstance(annotations, list):
                for annotation in annotations[self._parts[place].cited :]:
                    if isinstance(annotation, dict):
                        self.cite(place, annotation, events)

    def _turn_to(self, place: Place, events: list[ResponseEvent]) -> Part:
        """The part at a place, open."""
        if self._part is not None:
            if self._part.place == place:
                return self._part
            if self._open is not None:
                events.append(self._blocks.stop(self._open))
                self._open = None
        part = self._parts.get(place)
        if part is None:
            block_type = place[2] if self.kind == MESSAGE else THINKING
            part = self._parts[place] = Part(place, block_type)
            self.refused = self.refused or block_type is REFUSAL
        index = self._open
        part.index = self._start_block(part.block_type, None, events) if index is None else index
        self._part = part
        return part

    def _metadata(self, _: BlockType, /) -> None:
        """A text has no metadata."""


def _order(place: Place) -> tuple[int, str]:
    return place[1], place[2].value
