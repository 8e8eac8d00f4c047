"""Deltas that have come together, as one thing: most of what a network read brings. Pure.

Who is given several events at once (see `rxworker.operators.stage`) would have to look at each of them to know what to do. So
they are looked at once, where they come in; a decoder knows many rows without that. What is a `Deltas` says by its class alone that
nothing begins or ends in it, and that all in it are of one type, one block and one choice. A `Batch` is all that one read has brought:
such rows, and the events between them. Of a provider that tells the usage with every delta, a row is a `Counted`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, TypeAlias, TypeVar, final, overload

from rxworker.events.block import InputJsonDelta, RefusalDelta, TextDelta, ThinkingDelta
from rxworker.events.kinds import MERGEABLE

E = TypeVar("E")

FEW = 4
"""As many neighbours as it takes until going together is cheaper than going one by one."""

Growing: TypeAlias = TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta


@final
class Deltas(Sequence[E]):
    """Deltas that add to the same text, one behind the other: of one type, one block and one choice.

    Most who take them need only their texts. The events are made when somebody looks at them.

    Args:
        like: A delta of the sort, with any text.
        texts: What each one adds.

    >>> deltas = Deltas(TextDelta(0, ""), ["hel", "lo"])
    >>> len(deltas), deltas[1]
    (2, TextDelta(index=0, text='lo', choice=0))
    """

    __slots__ = ("_made", "like", "texts")

    def __init__(self, like: E, texts: list[str]) -> None:
        self.like = like
        self.texts = texts
        self._made: list[E] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[E]:
        return iter(self._events())

    @overload
    def __getitem__(self, place: int, /) -> E: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[E]: ...
    def __getitem__(self, place: int | slice, /) -> E | list[E]:
        return self._events()[place]

    def __repr__(self) -> str:
        return f"Deltas({self.like!r}, {self.texts!r})"

    @property
    def first(self) -> E:
        """The first of them."""
        like: Any = self.like
        kind: Callable[..., E] = like.__class__
        if like.__class__ is InputJsonDelta:
            return kind(like.index, self.texts[0])
        return kind(like.index, self.texts[0], like.choice)

    def _events(self) -> list[E]:
        if self._made is None:
            self._made = self.made()
        return self._made

    def made(self) -> list[E]:
        """The events, made anew."""
        like: Any = self.like
        kind: Callable[..., E] = like.__class__
        if like.__class__ is InputJsonDelta:  # its block says whose it is
            return list(map(kind, repeat(like.index), self.texts))
        return list(map(kind, repeat(like.index), self.texts, repeat(like.choice)))


@final
class Counted(Sequence[E]):
    """A row of deltas with an event behind each: the usage so far, where a provider tells it with every piece of a text.

    It travels by itself, and never in a `Batch`: who does not know of it takes it for what it is, the events one behind the other.

    Args:
        deltas: The deltas.
        usages: What stands behind each of them; may be made when somebody looks.

    >>> from rxworker.messages import Usage
    >>> row = Counted(Deltas(TextDelta(0, ""), ["hel", "lo"]), [Usage(9, 1), Usage(9, 2)])
    >>> len(row), row[1], row[2].text
    (4, Usage(input_tokens=9, output_tokens=1), 'lo')
    """

    __slots__ = ("deltas", "usages")

    def __init__(self, deltas: Deltas[E], usages: Sequence[E]) -> None:
        self.deltas = deltas
        self.usages = usages

    def __len__(self) -> int:
        return 2 * len(self.deltas.texts)

    def __iter__(self) -> Iterator[E]:
        # Made anew each time: what keeps the row keeps no events.
        return chain.from_iterable(zip(self.deltas.made(), self.usages, strict=True))

    @overload
    def __getitem__(self, place: int, /) -> E: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[E]: ...
    def __getitem__(self, place: int | slice, /) -> E | list[E]:
        places = range(len(self))[place]
        if isinstance(places, int):
            row = self.usages if places % 2 else self.deltas
            return row[places // 2]
        if places.step != 1:
            return list(self)[place]
        pair, within = divmod(places.start, 2)
        pairs = slice(pair, (places.stop + 1) // 2)
        part = Counted(Deltas(self.deltas.like, self.deltas.texts[pairs]), self.usages[pairs])
        return list(part)[within : within + len(places)]

    def __repr__(self) -> str:
        return f"Counted({self.deltas!r}, {self.usages!r})"


@final
class Batch(Sequence[E]):
    """Events that have come together, with the rows of deltas among them.

    Who knows of rows takes them with `rows_of`; for everybody else it is the events, one behind the other.

    Args:
        rows: The events, and the rows. A history keeps them as they are: nobody changes them any more.
        count: How many events that is, for those who know.

    >>> batch = Batch([TextDelta(1, "so"), Deltas(TextDelta(0, ""), ["hel", "lo"])])
    >>> len(batch), [event.text for event in batch]
    (3, ['so', 'hel', 'lo'])
    """

    __slots__ = ("_count", "rows")

    def __init__(self, rows: Sequence[E | Deltas[E]], count: int | None = None) -> None:
        self.rows = rows
        self._count = count

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum([len(row.texts) if type(row) is Deltas else 1 for row in self.rows])
        return self._count

    def __iter__(self) -> Iterator[E]:
        for row in self.rows:
            if type(row) is Deltas:
                yield from row
            else:
                yield row

    @overload
    def __getitem__(self, place: int, /) -> E: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[E]: ...
    def __getitem__(self, place: int | slice, /) -> E | list[E]:
        return list(self)[place]

    def __repr__(self) -> str:
        return f"Batch({self.rows!r})"


Told: TypeAlias = E | Deltas[E] | Counted[E]
"""What a read may bring, each thing of it."""


def rows_of(events: Sequence[E]) -> Sequence[E | Deltas[E]]:
    """Events that have come together, as the single ones and the rows of deltas that they are known to be.

    >>> deltas = Deltas(TextDelta(0, ""), ["hel", "lo"])
    >>> rows_of(deltas) == (deltas,), rows_of(Batch([deltas])) == [deltas]
    (True, True)
    """
    told: Any = events  # every read comes by here; isinstance would ask the abstract Sequence first
    kind: type[object] = told.__class__
    if kind is Batch:
        return told.rows
    return (told,) if kind is Deltas else events


def block_rows_of(events: Sequence[E]) -> Sequence[E | Deltas[E]]:
    """The same for those who want nothing but what blocks say: of a `Counted` it is the deltas alone."""
    told: Any = events
    return rows_of(told.deltas if told.__class__ is Counted else events)


def rows(events: Iterable[E]) -> list[E | Deltas[E]]:
    """The events one by one, but neighbours that add to the same text together.

    >>> events = [TextDelta(0, letter) for letter in "rain"]
    >>> [row] = rows([*events, *events])
    >>> row.__class__ is Deltas, len(row)
    (True, 8)
    """
    told: list[Any] = []
    place = 0  # in them, where the row begins that goes on
    like: Any = None
    for event in events:
        kind = event.__class__
        if kind not in MERGEABLE:
            if like is not None:
                _gather(told, place)
                like = None
        elif like is None or kind is not like.__class__ or not _adds_to_same(event, like):
            if like is not None:
                _gather(told, place)
            place, like = len(told), event
        told.append(event)
    if like is not None:
        _gather(told, place)
    return told


def _gather(told: list[Any], place: int) -> None:
    """Make one thing of what stands from there on, if it is worth it."""
    if len(told) - place >= FEW:
        told[place:] = [Deltas(told[place], [delta.text for delta in told[place:]])]


def _adds_to_same(delta: Any, other: Any) -> bool:
    """Whether two of a type are of one block and one choice."""
    # Arguments have no choice of their own: their block says whose they are.
    return delta.index == other.index and (
        delta.__class__ is InputJsonDelta or delta.choice == other.choice
    )


__all__ = [
    "FEW",
    "Growing",
    "Batch",
    "Counted",
    "Deltas",
    "Told",
    "block_rows_of",
    "rows",
    "rows_of",
]
