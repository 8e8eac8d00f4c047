"""What several frames have made, with deltas that add to the same text gathered as they come. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rxworker.events import ResponseEvent
from rxworker.events.deltas import FEW, Deltas, Growing

Row: TypeAlias = Deltas[ResponseEvent]


class Rows:
    """Events one behind the other, the last of which may be a row of deltas that goes on.

    A decoder that knows that a frame does nothing but add to the row appends to its texts, and has no event to make.

    Attributes:
        made: What has come before the row.
        texts: Those of the row, to append to while there is one.

    >>> from rxworker.events import TextDelta
    >>> rows = Rows()
    >>> rows.begin(TextDelta(0, "a"))
    >>> rows.texts += ["b", "c", "d"]
    >>> rows.end()
    [Deltas(TextDelta(index=0, text='a', choice=0), ['a', 'b', 'c', 'd'])]
    """

    __slots__ = ("_like", "made", "texts")

    def __init__(self) -> None:
        self.made: list[ResponseEvent | Row] = []
        self.texts: list[str] = []
        self._like: Growing | None = None

    def begin(self, delta: Growing) -> None:
        """A delta that others may continue."""
        if self._like is not None:
            self.end()
        self._like = delta
        self.texts = [delta.text]

    def add(self, events: Iterable[ResponseEvent]) -> None:
        """Something else; the row is over."""
        if self._like is not None:
            self.end()
        self.made += events

    def end(self) -> list[ResponseEvent | Row]:
        """The row is over; everything that was made."""
        like, texts = self._like, self.texts
        if like is not None:
            self._like = None
            row: Row = Deltas(like, texts)
            if len(texts) < FEW:
                self.made += row
            else:
                self.made.append(row)
        return self.made


__all__ = ["Row", "Rows"]
