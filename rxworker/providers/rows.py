"""What several frames have made that add to the same text. Pure."""

from __future__ import annotations

from typing import TypeAlias

from rxworker.events import ResponseEvent
from rxworker.events.deltas import FEW, Deltas, Growing

Row: TypeAlias = Deltas[ResponseEvent]
"""Deltas that add to the same text, as one thing."""


def add_row(like: Growing, texts: list[str], made: list[ResponseEvent | Row]) -> None:
    """Put deltas behind what there is, as one thing if they are worth it.

    Args:
        like: A delta of the sort, with any text, of the first choice.
        texts: What each one adds.
        made: What there is.

    >>> from rxworker.events import TextDelta
    >>> made: list[ResponseEvent | Row] = []
    >>> add_row(TextDelta(0, ""), ["a", "b"], made)
    >>> made
    [TextDelta(index=0, text='a', choice=0), TextDelta(index=0, text='b', choice=0)]
    """
    if len(texts) < FEW:
        kind, index = like.__class__, like.index
        made += [kind(index, text) for text in texts]
    else:
        made.append(Deltas(like, texts))


__all__ = ["Row", "add_row"]
