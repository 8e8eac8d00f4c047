"""Deltas that have come together, kept as they came. Pure.

To pack them takes longer than all else that is done with them. A `Row` stands in the tail of a history, so that it is packed
only when the tail is long, which that of most runs never is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events.deltas import Batch, Counted, Deltas
from rxworker.events.record import Record


class Row(Struct, frozen=True, eq=False, gc=False):
    """Deltas that add to the same text and came at one time: in the place of a record of each, one of all.

    Attributes:
        seq: The number of the last one.
        run: As in a `Record`, like those that follow.
        turn: The turn's number.
        attempt: The request's number.
        time: When they came.
        event: All of them.
        path: The tool calls that lead to them.
    """

    seq: int
    run: str
    turn: int
    attempt: int
    time: float
    event: Deltas[Any]
    path: tuple[str, ...] = ()

    @property
    def first(self) -> int:
        """The number of the first record."""
        return self.seq - len(self.event.texts) + 1

    @property
    def head(self) -> Record:
        """The record of the first; what is the same for all is read from it."""
        return self._record(self.first, self.event.first)

    def text(self, after: int) -> str:
        """What the records behind this number add."""
        texts = self.event.texts
        place = self._place(after)
        return "".join(texts[place:] if place else texts)

    def merged(self, after: int) -> Record:
        """One record for those behind this number, of which there are some."""
        event = replace(self.event.like, text=self.text(after))
        covers = self.seq - max(after, self.first - 1)
        return replace(self._record(self.seq, event), covers=covers)

    def records(self, after: int, until: int) -> Iterator[Record]:
        """The records behind ``after`` up to and with ``until``."""
        first, place = self.first, self._place(after)
        deltas = self.event[place : max(until - first + 1, 0)]
        for seq, delta in enumerate(deltas, first + place):
            yield self._record(seq, delta)

    def _record(self, seq: int, event: Any) -> Record:
        return Record(seq, self.run, self.turn, self.attempt, self.time, event, self.path)

    def _place(self, after: int) -> int:
        return max(after - self.first + 1, 0)


class CountedRow(Struct, frozen=True, eq=False, gc=False):
    """The same for deltas with the usage behind each. As one record it cannot be told, only as all that it stands for.

    Attributes:
        seq: The number of the last record, a usage.
        run: As in a `Record`, like those that follow.
        turn: The turn's number.
        attempt: The request's number.
        time: When they came.
        event: All of them.
        path: The tool calls that lead to them.
    """

    seq: int
    run: str
    turn: int
    attempt: int
    time: float
    event: Counted[Any]
    path: tuple[str, ...] = ()

    @property
    def first(self) -> int:
        """The number of the first record."""
        return self.seq - len(self.event) + 1

    def records(self, after: int, until: int) -> Iterator[Record]:
        """The records behind ``after`` up to and with ``until``."""
        first = self.first
        begin = max(after + 1, first)
        for seq, event in enumerate(self.event[begin - first : max(until - first + 1, 0)], begin):
            yield Record(seq, self.run, self.turn, self.attempt, self.time, event, self.path)


class BatchRow(Struct, eq=False, gc=False):
    """The same for all that a read has brought. Most are only folded, which takes them as they are: nobody needs them apart.

    Attributes:
        seq: The number of the last record.
        run: As in a `Record`, like those that follow.
        turn: The turn's number.
        attempt: The request's number.
        time: When they came.
        event: All of them; none is a turn event.
        path: The tool calls that lead to them.
    """

    seq: int
    run: str
    turn: int
    attempt: int
    time: float
    event: Batch[Any]
    path: tuple[str, ...] = ()
    _parts: list[Record | Row] | None = None

    @property
    def first(self) -> int:
        """The number of the first record."""
        return self.seq - len(self.event) + 1

    @property
    def parts(self) -> list[Record | Row]:
        """The records, and the rows of deltas. Made for the first who asks, and kept for others; any thread may ask."""
        if self._parts is None:
            self._parts = self._apart()
        return self._parts

    def _apart(self) -> list[Record | Row]:
        parts: list[Record | Row] = []
        seq, run, turn, attempt, time = self.first - 1, self.run, self.turn, self.attempt, self.time
        rows: Sequence[Any] = self.event.rows
        for row in rows:
            if row.__class__ is Deltas:
                seq += len(row.texts)
                parts.append(Row(seq, run, turn, attempt, time, row, self.path))
            else:
                seq += 1
                parts.append(Record(seq, run, turn, attempt, time, row, self.path))
        return parts


Entry: TypeAlias = Record | Row | CountedRow | BatchRow
"""What a run writes down at once."""

__all__ = ["BatchRow", "CountedRow", "Entry", "Row"]
