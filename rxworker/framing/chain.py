"""Two machines in a row are a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from rxworker.framing.decoder import Decoder, Limited

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Chain(Generic[A, B, C]):
    r"""A decoder from ``A`` to ``C``, made of one from ``A`` to ``B`` and one from ``B`` to ``C``.

    Args:
        first: Takes what arrives.
        second: Takes what the first one returns.

    >>> from rxworker.framing import NdjsonDecoder, SseDecoder
    >>> [frame.data for frame in Chain(NdjsonDecoder(), SseDecoder()).feed(b"")]
    []
    """

    def __init__(self, first: Decoder[A, B], second: Decoder[B, C]) -> None:
        self._first = first
        self._second = second

    @property
    def limit(self) -> int | None:
        """The limit of the first one; ``None`` if it has none."""
        return self._first.limit if isinstance(self._first, Limited) else None

    @limit.setter
    def limit(self, limit: int | None) -> None:
        if isinstance(self._first, Limited):
            self._first.limit = limit

    def feed(self, data: A, /) -> Sequence[C]:
        """Take the next piece; return what it completed at the far end."""
        halves = self._first.feed(data)
        if len(halves) == 1:  # the usual case: a provider sends one event a chunk
            return self._second.feed(halves[0])
        whole: list[C] = []
        for half in halves:
            whole.extend(self._second.feed(half))
        return whole

    def finish(self) -> Sequence[C]:
        """The input ended: the first machine ends, then the second."""
        whole: list[C] = []
        for half in self._first.finish():
            whole.extend(self._second.feed(half))
        whole.extend(self._second.finish())
        return whole


__all__ = ["Chain"]
