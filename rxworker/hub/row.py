"""Deltas that have come together, kept as they came. Pure.

To pack them takes longer than all else that is done with them. A `Row` stands in the tail of a history, so that it is packed
only when the tail is long, which that of most runs never is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from rxworker.events import Record
from rxworker.events.deltas import Deltas


class Row:
    """Deltas that add to the same text and came at one time.

    Attributes:
        head: The record of the first; what is the same for all is read from it.
        deltas: All of them.
        seq: The number of the last one.
    """

    __slots__ = ("deltas", "head", "seq")

    def __init__(self, head: Record, deltas: Deltas[Any]) -> None:
        self.head = head
        self.deltas = deltas
        self.seq = head.seq + len(deltas.texts) - 1

    @property
    def first(self) -> int:
        """The number of the first record."""
        return self.head.seq

    @property
    def time(self) -> float:
        """When they came."""
        return self.head.time

    def text(self, after: int) -> str:
        """What the records behind this number add."""
        texts = self.deltas.texts
        return "".join(texts if after < self.head.seq else texts[self._place(after) :])

    def merged(self, after: int) -> Record:
        """One record for those behind this number, of which there are some."""
        event = replace(self.head.event, text=self.text(after))
        covers = self.seq - max(after, self.head.seq - 1)
        return replace(self.head, seq=self.seq, event=event, covers=covers)

    def records(self, after: int, until: int) -> Iterator[Record]:
        """The records behind ``after`` up to and with ``until``."""
        place = self._place(after)
        deltas = self.deltas[place : max(until - self.first + 1, 0)]
        for seq, delta in enumerate(deltas, self.first + place):
            yield replace(self.head, seq=seq, event=delta)

    def _place(self, after: int) -> int:
        return max(after - self.first + 1, 0)


__all__ = ["Row"]
