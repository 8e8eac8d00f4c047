"""All records of a run, in about the memory of their text. Pure.

Theory of operation. An entry is a `Record`. For deltas from one network read, the entry's event is a `Deltas`, and the
record covers as many numbers; `expand` makes the single records from it when a watcher wants them. New entries are in
the tail, unchanged. When the tail is long, and when the run ends, it is packed: adjacent deltas become one `Deltas`,
which keeps their joined text, the end of each in it, and the time of each. So the memory of a run is bounded by its
text and its other events, and a reader may begin after any number.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import Event, Record
from rxworker.events.kinds import TEXTS, Deltas, adds_to_same

A = TypeVar("A")


class Item(Struct, Generic[A], frozen=True):
    """An item of a published stream.

    Attributes:
        seq: Its number, from 1. The numbers that a watcher is not given between two items are those of items that its
            delivery, or the memory of the stream, has dropped.
        time: Seconds since the epoch.
        value: The value that the observable has emitted.
    """

    seq: int
    time: float
    value: A


_seq = attrgetter("seq")
TAIL = 512
"""The maximum number of unpacked entries, and of records beyond the number of entries."""


class History(Struct, eq=False):
    """The records, numbered from 1 without gaps.

    Attributes:
        last_seq: The number of the last record; 0 before the first.
        tail: The newest entries, not packed yet.

    >>> from rxworker.events import TextDelta
    >>> history = History()
    >>> for n, text in enumerate(["a", "b", "c"], start=1):
    ...     history.extend([Record(n, "r", 1, 1, 0.0, TextDelta(0, text))])
    >>> [record.event.text for record in history.merged(after=1)]
    ['bc']
    """

    last_seq: int = 0
    _packed: list[Record] = []
    _packed_to: int = 0
    tail: list[Record] = []
    _dropped: int = 0  # entries
    _may_pack_at: int = TAIL  # not before, since each record adds at most one to either count

    def extend(self, entries: Sequence[Record]) -> None:
        """Add the next entries, of which there is at least one."""
        self.tail += entries
        self.last_seq = entries[-1].seq
        if self.last_seq < self._may_pack_at:
            return
        count = len(self.tail)
        left = TAIL - max(count, self.last_seq - self._packed_to - count)
        if left > 0:
            self._may_pack_at = self.last_seq + left  # each record adds one to one of the two
        else:
            self.pack()

    def pack(self) -> None:
        """Pack the tail."""
        self._packed.extend(packed(self.tail))
        self._packed_to = self.last_seq
        self._may_pack_at = self.last_seq + TAIL
        self.tail = []

    @property
    def held(self) -> int:
        """The number of entries that it holds."""
        return len(self._packed) + len(self.tail)

    def drop(self, until: int) -> None:
        """Drop the entries up to this number. The next read begins with the first entry that is left."""
        count = bisect_right(self._packed, until, key=_seq)
        self._dropped += count
        del self._packed[:count]
        if until > self._packed_to:
            self.tail = self.tail[bisect_right(self.tail, until, key=_seq) :]

    def entries(self, after: int) -> Iterable[Record]:
        """The entries with the records after this number, to which the first of them is cut."""
        if after < self._packed_to:
            return self._packed_after(after)
        entries = self.tail[bisect_right(self.tail, after, key=_seq) :]
        if entries and entries[0].covers > 1:
            entries[0] = _rest(entries[0], after)
        return entries

    def _packed_after(self, after: int) -> Iterator[Record]:
        """The packed entries after a number, and then the tail."""
        # By index: a watcher that receives these may push, and the tail is packed then, or entries are dropped.
        place = bisect_right(self._packed, after, key=_seq) + self._dropped
        while (index := max(place - self._dropped, 0)) < len(self._packed):
            place = index + self._dropped + 1
            yield _rest(self._packed[index], after)
        yield from self.tail

    def records(self, after: int, until: int | None = None) -> Iterator[Record]:
        """Every record after ``after``, as it was pushed, up to and including ``until``."""
        until = self.last_seq if until is None else until
        for entry in self.entries(after):
            if deltas_of(entry):
                yield from expand(entry, after, until)
            elif entry.seq <= until:
                yield entry
            if entry.seq >= until:
                return

    def newest(self, after: int) -> Record | None:
        """The only record after this number, if there is exactly one, and it was pushed alone."""
        if after == self.last_seq - 1 and self.tail:
            entry = self.tail[-1]
            return None if deltas_of(entry) else entry
        return None

    def merged(self, after: int) -> list[Record]:
        """The records after this number, with adjacent deltas merged."""
        only = self.newest(after)
        return [only] if only is not None else merge(self.entries(after), after)


def deltas_of(entry: Record) -> Deltas[Event] | None:
    """The deltas of an entry that covers several records; ``None`` for a record."""
    event: Any = entry.event
    return event if event.__class__ is Deltas else None


def expand(entry: Record, after: int = 0, until: int | None = None) -> Iterator[Record]:
    """The records that an entry covers, after ``after`` and up to ``until``, equal to those that were pushed."""
    deltas = deltas_of(entry)
    first = entry.first
    start = max(after + 1 - first, 0)
    stop = entry.covers if until is None else max(min(until + 1 - first, entry.covers), 0)
    if deltas is None:
        if stop > start:
            yield entry
        return
    times = deltas.times
    for index, event in enumerate(deltas[start:stop], start):
        time = entry.time if times is None else times[index]
        yield Record(first + index, entry.run_id, entry.turn, entry.attempt, time, event, entry.path)


def _rest(entry: Record, after: int) -> Record:
    """An entry cut to its records after this number, of which there is at least one."""
    deltas = deltas_of(entry)
    if deltas is None or entry.first > after:
        return entry
    start = after + 1 - entry.first
    times = None if deltas.times is None else deltas.times[start:]
    rest: Deltas[Event] = Deltas(deltas.like, deltas.cut(start, entry.covers), times)
    return replace(entry, event=cast("Event", rest), covers=entry.covers - start)


def merged(entry: Record, after: int) -> Record:
    """One record for the records of an entry after this number, of which there is at least one."""
    deltas = deltas_of(entry)
    if deltas is None:
        return entry
    start = max(after + 1 - entry.first, 0)
    event = deltas.with_text(deltas.text(start))
    return replace(entry, event=event, covers=entry.covers - start)


def merge(entries: Iterable[Record], after: int) -> list[Record]:
    """The records after a number, with adjacent deltas merged."""

    def merge_group(group: list[Record]) -> Sequence[Record]:
        head, last = group[0], group[-1]
        text = "".join([_text_of(entry, after) for entry in group])
        first = max(after + 1, head.first)
        event = replace(_like_of(head), text=text)
        return (replace(head, seq=last.seq, time=last.time, event=event, covers=last.seq - first + 1),)

    return [merged(entry, after) for entry in _joined(entries, merge_group)]


def packed(entries: Iterable[Record]) -> list[Record]:
    """The entries, with adjacent deltas as one packed `Deltas`.

    >>> from rxworker.events import TextDelta
    >>> records = [Record(n, "r", 1, 1, 0.0, TextDelta(0, "hi")) for n in (1, 2, 3)]
    >>> [entry] = packed(records)
    >>> list(expand(entry)) == records
    True
    """
    result = _joined(entries, _pack_group)
    for entry in result:
        event: Any = entry.event
        if event.__class__ is Deltas:
            event.pack()
    return result


def _pack_group(group: list[Record]) -> Sequence[Record]:
    """Adjacent deltas of one text as one packed entry."""
    head, last = group[0], group[-1]
    if any(entry.covers > 1 and deltas_of(entry) is None for entry in group):
        return group  # merged records cannot be restored from one text
    times = array("d")
    texts: list[str] = []
    for entry in group:
        one: Any = entry.event
        if one.__class__ is Deltas:
            texts += one.texts
            times.extend(one.times or [entry.time] * entry.covers)
        else:
            texts.append(one.text)
            times.append(entry.time)
    event = cast("Event", Deltas(_like_of(head), texts, times))
    return (replace(head, seq=last.seq, time=last.time, event=event, covers=len(texts)),)


def _joined(entries: Iterable[Record], join: Callable[[list[Record]], Sequence[Record]]) -> list[Record]:
    """The entries, of which several neighbours that add to the same text are joined."""
    result: list[Record] = []
    group: list[Record] = []  # those at the end that add to the same text
    like: Any = None  # a delta of the group
    for entry in entries:
        event: Any = entry.event
        kind = event.__class__
        delta = None if kind not in TEXTS else event.like if kind is Deltas else event
        if group and (delta is None or not _continues(entry, delta, group[0], like)):
            result += join(group) if len(group) > 1 else group
            group = []
        if delta is None:
            result.append(entry)
        else:
            group.append(entry)
            like = delta
    result += join(group) if len(group) > 1 else group
    return result


def _continues(entry: Record, delta: Any, head: Record, like: Any) -> bool:
    return (
        delta.__class__ is like.__class__
        and adds_to_same(delta, like)
        and entry.path == head.path
        # The records that are made from the group again have these from its first entry.
        and entry.attempt == head.attempt
        and entry.turn == head.turn
        and entry.run_id == head.run_id
    )


def _like_of(entry: Record) -> Any:
    event: Any = entry.event
    return event.like if event.__class__ is Deltas else event


def _text_of(entry: Record, after: int) -> str:
    event: Any = entry.event
    if event.__class__ is Deltas:
        return event.text(max(after + 1 - entry.first, 0))
    return event.text
