"""Adjacent deltas of one block kept as one text, from which each can be made again. Pure.

A record of four characters takes some 250 bytes. Of a row of them a `Span` keeps the text, where each one ends in it, and
when each one came: 12 bytes a record and the text itself. Nothing is lost: `Span.records` gives equal records back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, TypeAlias, TypeGuard

from msgspec.structs import replace

from rxworker.events import Event, InputJsonDelta, Record
from rxworker.events.deltas import Growing
from rxworker.events.kinds import MERGEABLE
from rxworker.events.row import BatchRow, CountedRow, Row


class Span:
    """Deltas that stand next to each other and add to the same text, at least two.

    Attributes:
        head: The first record; what is the same for all is read from it.
        seq: The number of the last record.
    """

    __slots__ = ("_ends", "_text", "_times", "head", "seq")

    def __init__(
        self, head: Record, seq: int, text: str, ends: array[int], times: array[float]
    ) -> None:
        self.head = head
        self.seq = seq
        self._text = text
        self._ends = ends
        self._times = times

    @classmethod
    def of(cls, entries: Sequence[Record | Row]) -> Span:
        """The span of records, and of rows of them, of which each continues the one before."""
        texts: list[str] = []
        times = array("d")
        for entry in entries:
            event: Any = entry.event
            if isinstance(entry, Row):
                texts += event.texts
                times += array("d", (entry.time,)) * len(event.texts)
            else:
                texts.append(event.text)
                times.append(entry.time)
        ends = array("I", accumulate(map(len, texts)))
        first = entries[0]
        head = first if isinstance(first, Record) else first.head
        return cls(head, entries[-1].seq, "".join(texts), ends, times)

    @property
    def first(self) -> int:
        """The number of the first record."""
        return self.seq - len(self._ends) + 1

    @property
    def time(self) -> float:
        """When the last record came."""
        return self._times[-1]

    def text(self, after: int) -> str:
        """What the records behind this number add."""
        place = after - self.first + 1
        return self._text[self._ends[place - 1] :] if place > 0 else self._text

    def merged(self, after: int) -> Record:
        """One record for those behind this number, of which there are some."""
        event = with_text(self.head.event, self.text(after))
        covers = self.seq - max(after, self.first - 1)
        return replace(self.head, seq=self.seq, time=self.time, event=event, covers=covers)

    def records(self, after: int, until: int) -> Iterator[Record]:
        """The records behind ``after`` up to and with ``until``, equal to those that were kept."""
        first = self.first
        start = max(after - first + 1, 0)
        begin = self._ends[start - 1] if start > 0 else 0
        for place in range(start, min(until - first + 1, len(self._ends))):
            end = self._ends[place]
            event = with_text(self.head.event, self._text[begin:end])
            yield replace(self.head, seq=first + place, time=self._times[place], event=event)
            begin = end


Mergeable: TypeAlias = Record | Row | Span
"""What deltas can be merged from."""

Kept: TypeAlias = Mergeable | CountedRow

_seq = attrgetter("seq")


def with_text(event: Event, text: str) -> Event:
    """The same delta with another text."""
    return replace(event, text=text)


def is_mergeable(event: Event) -> TypeGuard[Growing]:
    """Whether the event adds text that may be merged with what stands next to it."""
    return event.__class__ in MERGEABLE


def text_of(entry: Mergeable, after: int) -> str:
    """What an entry of mergeable deltas adds, behind a number."""
    if not isinstance(entry, Record):
        return entry.text(after)
    return entry.event.text if is_mergeable(entry.event) else ""


def continues(record: Record, head: Record) -> bool:
    """Whether one mergeable record adds to the same text as another.

    >>> a, b = (Record(n, "r", 1, 1, 0.0, TextDelta(0, "hi")) for n in (1, 2))
    >>> continues(b, a)
    True
    """
    event: Any = record.event  # every delta comes by here: what their kind says is not asked again
    first: Any = head.event
    kind: type[object] = event.__class__
    return (
        kind is first.__class__
        and kind in MERGEABLE
        and event.index == first.index
        and (kind is InputJsonDelta or event.choice == first.choice)
        and record.path == head.path
        # Nothing is made up: the records that are made again are equal in all that they say.
        and record.attempt == head.attempt
        and record.turn == head.turn
        and record.run == head.run
    )


def packed(entries: Iterable[Kept | BatchRow]) -> list[Kept]:
    """The entries with each row as a span, and neighbouring records as one, too.

    >>> records = [Record(n, "r", 1, 1, 0.0, TextDelta(0, "hi")) for n in (1, 2, 3)]
    >>> [span] = packed(records)
    >>> list(span.records(0, 3)) == records
    True
    """
    spans: list[Kept] = []
    row: list[Record | Row] = []
    head: Record | None = None  # of the row, where others may continue it
    for entry in apart(entries):
        if isinstance(entry, Record):
            first = entry
        elif isinstance(entry, Row):
            first = entry.head
        else:
            _close(row, spans)
            row, head = [], None
            spans.append(entry)
            continue
        if head is not None and continues(first, head):
            row.append(entry)
            continue
        _close(row, spans)
        is_whole = first.event.__class__ not in MERGEABLE or first.covers > 1
        row, head = [entry], None if is_whole else first
    _close(row, spans)
    return spans


def _close(row: Sequence[Record | Row], entries: list[Kept]) -> None:
    if len(row) == 1 and isinstance(row[0], Record):
        entries.append(row[0])
    elif row:
        entries.append(Span.of(row))


def place_after(entries: Sequence[Kept | BatchRow], after: int) -> int:
    """Where the first entry stands that has a record behind this number."""
    return bisect_right(entries, after, key=_seq)


def apart(entries: Iterable[Kept | BatchRow], after: int = 0) -> Iterator[Kept]:
    """The entries, and in the place of all that came together each of its parts that has a record behind this number."""
    for entry in entries:
        if isinstance(entry, BatchRow):
            yield from entry.parts[place_after(entry.parts, after) :]
        else:
            yield entry


__all__ = [
    "Kept",
    "Mergeable",
    "Span",
    "apart",
    "continues",
    "is_mergeable",
    "packed",
    "place_after",
    "text_of",
    "with_text",
]
