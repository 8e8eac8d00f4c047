"""All records of a run, kept in the memory of its text. Pure.

Theory of operation. What was pushed last stands in the tail as it came: a record, a row of deltas that came together, or all that a
read has brought. That is all that a push does. Whoever wants records is given the latter taken apart. When the tail is long it is
packed: rows of deltas become spans, from which each record can be made again; a row with a usage behind each delta stays what it is,
since it holds no records either. So the memory of a run is bounded by its text and its other events, a late reader costs no more than
that either, and still every reader may begin behind any number, also in the middle of a span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from rxworker.events import Record
from rxworker.events.kinds import MERGEABLE
from rxworker.events.row import BatchRow, CountedRow, Entry, Row
from rxworker.hub.span import (
    Kept,
    Mergeable,
    apart,
    continues,
    packed,
    place_after,
    text_of,
    with_text,
)

TAIL = 512
"""How many entries stand unpacked, or how many records more than entries, before they are packed."""


class History:
    """The records, numbered from 1 without gaps.

    Attributes:
        last_seq: The number of the last record; 0 before the first.
        tail: The newest entries, not packed yet.

    >>> from rxworker.events import TextDelta
    >>> history = History()
    >>> for n, text in enumerate(["a", "b", "c"], start=1):
    ...     history.append(Record(n, "r", 1, 1, 0.0, TextDelta(0, text)))
    >>> [record.event.text for record in history.merged(after=1)]
    ['bc']
    """

    def __init__(self) -> None:
        self.last_seq = 0
        self.tail: list[Entry] = []
        self._packed: list[Kept] = []
        self._packed_to = 0
        self._may_pack_at = TAIL  # no earlier, since an entry stands for a record at least

    def append(self, entry: Entry) -> None:
        """Keep the next record, or what the next ones have come in."""
        self.last_seq = seq = entry.seq
        self.tail.append(entry)
        if seq >= self._may_pack_at:
            self._pack_if_long()

    def extend(self, entries: Sequence[Entry]) -> None:
        """Keep the next ones, at least one."""
        self.last_seq = seq = entries[-1].seq
        self.tail += entries
        if seq >= self._may_pack_at:
            self._pack_if_long()

    def _pack_if_long(self) -> None:
        batches = [e for e in self.tail if isinstance(e, BatchRow)]
        count = len(self.tail) + sum([len(batch.event.rows) - 1 for batch in batches])
        left = TAIL - max(count, self.last_seq - self._packed_to - count)
        if left > 0:
            self._may_pack_at = self.last_seq + left  # each record adds one to one of the two
        else:
            self.pack()

    def pack(self) -> None:
        """Pack what stands in the tail."""
        self._packed.extend(packed(self.tail))
        self._packed_to = self.last_seq
        self._may_pack_at = self.last_seq + TAIL
        self.tail = []

    def entries(self, after: int) -> Iterator[Mergeable]:
        """What holds the records behind this number; of the first entry, some may stand before it."""
        return mergeable(self._kept(after), after)

    def _kept(self, after: int) -> Iterator[Kept | BatchRow]:
        if after < self._packed_to:
            return self._entries_from(place_after(self._packed, after))
        return iter(self.tail[place_after(self.tail, after) :])

    def _entries_from(self, place: int) -> Iterator[Kept | BatchRow]:
        # By index: whoever is shown these may push, and what stands in the tail is packed then.
        while place < len(self._packed):
            yield self._packed[place]
            place += 1
        yield from self.tail

    def records(self, after: int, until: int | None = None) -> Iterator[Record]:
        """Every record behind ``after``, as it was pushed, up to and with ``until``."""
        until = self.last_seq if until is None else until
        for entry in apart(self._kept(after), after):
            if not isinstance(entry, Record):
                yield from entry.records(after, until)
            elif entry.seq <= until:
                yield entry
            if entry.seq >= until:
                return

    def newest(self, after: int) -> Record | None:
        """The only record behind this number, if there is one and it stands in the tail alone."""
        if after == self.last_seq - 1 and self.tail:
            entry = self.tail[-1]
            return entry if isinstance(entry, Record) else None
        return None

    def standing(self, after: int) -> Sequence[Entry]:
        """The same story as it stands, with what is packed as one record a span: what costs least to take in."""
        if after < self._packed_to:
            return [one for kept in self._kept(after) for one in _standing(kept, after)]
        tail = self.tail
        behind = tail[place_after(tail, after) :]
        if behind and not isinstance(behind[0], Record) and behind[0].first <= after:
            behind[:1] = _standing(behind[0], after)
        return behind

    def merged(self, after: int) -> list[Record]:
        """The same story in as few records as there can be."""
        only = self.newest(after)
        return [only] if only is not None else merge_entries(self.entries(after), after)


def mergeable(kept: Iterable[Kept | BatchRow], after: int) -> Iterator[Mergeable]:
    """The same with records in the place of rows that cannot be told as one."""
    for entry in apart(kept, after):
        if isinstance(entry, CountedRow):
            yield from entry.records(after, entry.seq)
        else:
            yield entry


def _standing(kept: Kept | BatchRow, after: int) -> Sequence[Entry]:
    if isinstance(kept, Record):
        return (kept,)
    if isinstance(kept, BatchRow):
        return [one for part in apart((kept,), after) for one in _standing(part, after)]
    if isinstance(kept, Row | CountedRow) and kept.first > after:
        return (kept,)
    if isinstance(kept, CountedRow):
        return [*kept.records(after, kept.seq)]
    return (kept.merged(after),)


def merge_entries(entries: Iterable[Mergeable], after: int) -> list[Record]:
    """The records behind a number, with each row of neighbours as one."""
    merged: list[Record] = []
    row: list[Mergeable] = []
    head: Record | None = None
    for entry in entries:
        first = entry if isinstance(entry, Record) else entry.head
        is_mergeable = first.event.__class__ in MERGEABLE
        if is_mergeable and head is not None and continues(first, head):
            row.append(entry)
            continue
        if head is not None:
            merged.append(_one(head, row, after))
            head = None
        if is_mergeable:
            head, row = first, [entry]
        else:
            merged.append(first)
    if head is not None:
        merged.append(_one(head, row, after))
    return merged


def _one(head: Record, row: list[Mergeable], after: int) -> Record:
    """One record for a row of neighbours."""
    last = row[-1]
    if last is head:
        return head
    if len(row) == 1 and not isinstance(last, Record):
        return last.merged(after)
    first = max(after + 1, row[0].first)
    text = "".join([text_of(entry, after) for entry in row])
    event = with_text(head.event, text)
    return replace(head, seq=last.seq, time=last.time, event=event, covers=last.seq - first + 1)


__all__ = ["TAIL", "History", "merge_entries", "mergeable"]
