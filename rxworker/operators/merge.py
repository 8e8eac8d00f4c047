"""Merging adjacent deltas of one block into one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from rxworker.events import (
    Event,
    InputJsonDelta,
    InputValueDelta,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
)

E = TypeVar("E")


def merge_deltas(events: Iterable[E]) -> list[E]:
    """The same story in fewer events: neighbours that add to the same text become one.

    Nothing else changes: all other events stay, everything stays in order, and a block folds to the same content.

    >>> merge_deltas([TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(1, "c")])
    [TextDelta(index=0, text='ab', choice=0), TextDelta(index=1, text='c', choice=0)]
    """
    merged: list[E] = []
    pieces: list[str] = []
    first: E | None = None
    for event in events:
        if first is not None and pieces and _continues(first, event):
            pieces.append(text_of(event) or "")
            continue
        if first is not None:
            merged.append(_joined(first, pieces))
        text = text_of(event)
        first, pieces = event, [] if text is None else [text]
    if first is not None:
        merged.append(_joined(first, pieces))
    return merged


def text_of(event: object) -> str | None:
    """The text that a delta adds to its block; ``None`` for any other event."""
    if isinstance(event, TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta):
        return event.text
    if isinstance(event, InputValueDelta) and isinstance(event.value, str):
        return event.value
    return None


def is_mergeable(event: Event) -> bool:
    """Whether the event may be merged with another: it is a delta that adds text."""
    return text_of(event) is not None


def _continues(first: object, event: object) -> bool:
    if type(event) is not type(first):
        return False
    if isinstance(event, InputValueDelta) and isinstance(first, InputValueDelta):
        return (
            event.append
            and isinstance(event.value, str)
            and (event.index, event.path) == (first.index, first.path)
        )
    if isinstance(event, InputJsonDelta) and isinstance(first, InputJsonDelta):
        return event.index == first.index
    if isinstance(event, TextDelta | ThinkingDelta | RefusalDelta) and isinstance(
        first, TextDelta | ThinkingDelta | RefusalDelta
    ):
        return event.index == first.index and event.choice == first.choice
    return False


def _joined(first: E, pieces: list[str]) -> E:
    """The first of a row of neighbours, with the text of all of them."""
    if len(pieces) < 2:
        return first
    text = "".join(pieces)
    joined: object = first
    if isinstance(first, TextDelta):
        joined = TextDelta(first.index, text, first.choice)
    elif isinstance(first, ThinkingDelta):
        joined = ThinkingDelta(first.index, text, first.choice)
    elif isinstance(first, RefusalDelta):
        joined = RefusalDelta(first.index, text, first.choice)
    elif isinstance(first, InputJsonDelta):
        joined = InputJsonDelta(first.index, text)
    elif isinstance(first, InputValueDelta):
        joined = InputValueDelta(first.index, first.path, text, first.append)
    return cast(E, joined)  # it has the type of the first, which is an E


__all__ = ["is_mergeable", "merge_deltas", "text_of"]
