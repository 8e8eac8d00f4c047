"""Adjacent deltas that add to the same text, as one value: what a network read brings, and what a history keeps. Pure.

A read often brings many deltas of one block. Taken one by one, each would pass every operator and be numbered, folded
and kept alone. A `Deltas` is a sequence of such events: consumers that need only the text join it; consumers that need
events iterate over it, and the events are made then.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, repeat
from operator import sub
from typing import Any, TypeAlias, TypeVar, final, overload

from rxworker.events.block import InputJsonDelta, RefusalDelta, TextDelta, ThinkingDelta
from rxworker.events.kinds import MERGEABLE

E = TypeVar("E")

FEW = 4
"""The number of neighbours from which one `Deltas` costs less than single events."""

TextDeltas: TypeAlias = TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta
"""The deltas that only add text: the `MERGEABLE` rows of the table of event kinds."""


@final
class Deltas(Sequence[E]):
    """Adjacent deltas of one type, one block and one choice.

    Args:
        like: A delta of that type, block and choice, with any text.
        texts: The text of each.
        times: When each arrived, in seconds since the epoch; ``None`` where they arrived together.

    Attributes:
        size: How many there are; for the paths where ``len`` is too dear.

    >>> deltas = Deltas(TextDelta(0, ""), ["hel", "lo"])
    >>> len(deltas), deltas[1], deltas.text()
    (2, TextDelta(index=0, text='lo', choice=0), 'hello')
    """

    __slots__ = ("_ends", "_joined", "_texts", "like", "size", "times")

    def __init__(self, like: E, texts: list[str], times: array[float] | None = None) -> None:
        self.like = like
        self.size = len(texts)
        self.times = times
        self._texts: list[str] | None = texts
        self._joined = ""
        self._ends = _NO_ENDS

    @property
    def texts(self) -> list[str]:
        """The text of each."""
        texts = self._texts  # read once: another thread may pack
        return self.cut(0, len(self)) if texts is None else texts

    def text(self, start: int = 0) -> str:
        """The text of all from ``start`` on."""
        texts = self._texts
        if texts is not None:
            return "".join(texts[start:] if start else texts)
        return self._joined[self._ends[start - 1] :] if start else self._joined

    def cut(self, start: int, stop: int) -> list[str]:
        """The texts from ``start`` up to ``stop``."""
        texts = self._texts
        if texts is not None:
            return texts[start:stop]
        joined, ends = self._joined, self._ends[start:stop]
        begin = self._ends[start - 1] if start else 0
        return [joined[place:end] for place, end in zip([begin, *ends], ends, strict=False)]

    def lengths(self) -> list[int]:
        """The length of each text."""
        texts = self._texts
        if texts is not None:
            return list(map(len, texts))
        ends = self._ends
        return list(map(sub, ends, chain((0,), ends)))

    def pack(self) -> None:
        """Keep one joined text and the end of each in it: 4 bytes for a delta beside its text, and 8 for its time."""
        texts = self._texts
        if texts is not None:
            self._ends = array("I", accumulate(map(len, texts)))
            self._joined = "".join(texts)
            self._texts = None

    def with_text(self, text: str) -> E:
        """One delta of the same type, block and choice, with this text."""
        return self._made([text])[0]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[E]:
        return iter(self._made(self.texts))

    @overload
    def __getitem__(self, place: int, /) -> E: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[E]: ...
    def __getitem__(self, place: int | slice, /) -> E | list[E]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            return self._made(self.cut(start, stop)[::step] if step > 0 else self.texts[place])
        return self.with_text(self.texts[place])

    def __repr__(self) -> str:
        return f"Deltas({self.like!r}, {self.texts!r})"

    def _made(self, texts: list[str]) -> list[E]:
        like: Any = self.like
        kind: Callable[..., E] = like.__class__
        if like.__class__ is InputJsonDelta:  # its block has the choice
            return list(map(kind, repeat(like.index), texts))
        return list(map(kind, repeat(like.index), texts, repeat(like.choice)))


TEXTS = MERGEABLE | {Deltas}
"""The events that only add text, one or several."""


_NO_ENDS = array("I")

Parts: TypeAlias = Sequence[E | Deltas[E]]
"""Events that arrived together: single events, and adjacent deltas as one `Deltas` each."""


def gather(events: Iterable[E]) -> list[E | Deltas[E]]:
    """The events, with `FEW` and more neighbours that add to the same text as one `Deltas`.

    >>> [deltas] = gather([TextDelta(0, letter) for letter in "rain"])
    >>> deltas
    Deltas(TextDelta(index=0, text='r', choice=0), ['r', 'a', 'i', 'n'])
    """
    gathered: list[Any] = []
    start = 0  # of the neighbours at the end
    like: Any = None  # the first of them, if they can be merged
    each: Iterable[Any] = events
    for event in each:
        kind = event.__class__
        is_more = kind is like.__class__ and event.index == like.index  # `adds_to_same`, without a call for each
        if not is_more or (kind is not InputJsonDelta and event.choice != like.choice):
            _merge_from(start, gathered)
            start, like = len(gathered), event if kind in MERGEABLE else None
        gathered.append(event)
    _merge_from(start, gathered)
    return gathered


def add_deltas(like: TextDeltas, texts: list[str], events: list[Any]) -> None:
    """Append deltas with these texts to a list of events: as one `Deltas` if there are `FEW` or more.

    >>> events: list[object] = []
    >>> add_deltas(TextDelta(0, ""), ["a", "b"], events)
    >>> events
    [TextDelta(index=0, text='a', choice=0), TextDelta(index=0, text='b', choice=0)]
    """
    deltas: Deltas[TextDeltas] = Deltas(like, texts)
    if len(texts) < FEW:
        events += deltas
    else:
        events.append(deltas)


def flatten(parts: Iterable[E | Deltas[E]]) -> Iterator[E]:
    """The single events of parts.

    >>> list(flatten(["a", Deltas(TextDelta(0, ""), ["hel", "lo"])]))
    ['a', TextDelta(index=0, text='hel', choice=0), TextDelta(index=0, text='lo', choice=0)]
    """
    each: Iterable[Any] = parts
    for part in each:
        if part.__class__ is Deltas:
            yield from part
        else:
            yield part


def adds_to_same(delta: Any, other: Any) -> bool:
    """Whether two mergeable deltas of one type are of one block and one choice."""
    # Arguments have no choice: their block has it.
    return delta.index == other.index and (delta.__class__ is InputJsonDelta or delta.choice == other.choice)


def _merge_from(start: int, gathered: list[Any]) -> None:
    if len(gathered) - start >= FEW:
        texts = [delta.text for delta in gathered[start:]]
        gathered[start:] = [Deltas(gathered[start], texts)]
