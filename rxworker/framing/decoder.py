"""What every machine of the house looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

A_contra = TypeVar("A_contra", contravariant=True)
B_co = TypeVar("B_co", covariant=True)


class Decoder(Protocol[A_contra, B_co]):
    """A machine that takes what arrived and returns what became complete, which may be nothing yet."""

    def feed(self, data: A_contra, /) -> Sequence[B_co]:
        """Take the next piece; return what it completed, in order."""
        ...

    def finish(self) -> Sequence[B_co]:
        """The input ended; return what is left. Nothing may be fed after it."""
        ...


@runtime_checkable
class Limited(Protocol):
    """A machine that refuses lines and frames above a limit."""

    @property
    def limit(self) -> int | None:
        """Bytes that a line or frame may have; ``None`` for any number. It may be changed."""
        ...

    @limit.setter
    def limit(self, limit: int | None) -> None: ...


__all__ = ["Decoder", "Limited"]
