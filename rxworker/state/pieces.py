"""A list that is only ever added to, and is a value all the same. Pure.

Theory of operation. A state is never changed, so adding to what has grown must not copy it. A `Pieces` is therefore a
link to the pieces before it and one more: adding makes one object and shares the rest. Whatever walks along the links
does so in a loop, since a chain may be as long as a response; Python itself takes care of freeing one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from msgspec import Struct

C = TypeVar("C")


class Pieces(Struct, Generic[C], frozen=True, eq=False):
    """An immutable list that is added to in constant time. Pieces of text are equal when they make the same text.

    Attributes:
        count: How many there are; for the paths where ``len`` is too dear.

    >>> some = Pieces[str]().add("a").add("b")
    >>> some.add("c"), some.add("d"), len(some)
    (Pieces(['a', 'b', 'c']), Pieces(['a', 'b', 'd']), 2)
    """

    _before: Pieces[C] | None = None
    _last: C | None = None
    count: int = 0

    def add(self, piece: C) -> Pieces[C]:
        """The list with one more piece at its end."""
        return Pieces(self, piece, self.count + 1)

    def to_list(self) -> list[C]:
        """The pieces, in order."""
        pieces: list[C] = []
        node = self
        while node._before is not None:
            pieces.append(node._last)  # pyright: ignore[reportArgumentType] - only the empty list has none
            node = node._before
        pieces.reverse()
        return pieces

    def __iter__(self) -> Iterator[C]:
        return iter(self.to_list())

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return self.count > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pieces):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> str | tuple[object, ...]:
        # How a text was cut on its way has no meaning: deltas may have been merged.
        pieces: tuple[object, ...] = tuple(self.to_list())
        texts = [piece for piece in pieces if isinstance(piece, str)]
        return "".join(texts) if len(texts) == len(pieces) else pieces

    def __repr__(self) -> str:
        return f"Pieces({self.to_list()!r})"


def joined(pieces: Pieces[str]) -> str:
    """The text that the pieces make.

    >>> joined(Pieces[str]().add("hel").add("lo"))
    'hello'
    """
    if pieces.count == 1:  # most texts are merged before they come here
        return pieces._last or ""
    return "".join(pieces.to_list())


def packed(pieces: Pieces[str]) -> Pieces[str]:
    """The text in one piece: it is joined once, and the pieces are freed."""
    return pieces if pieces.count < 2 else NO_TEXT.add(joined(pieces))


NO_TEXT: Pieces[str] = Pieces()
