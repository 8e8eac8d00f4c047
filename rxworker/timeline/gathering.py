"""A timeline with two collectors of its own, as a worker has it.

Theory of operation. What comes is kept for the collectors until somebody looks (see `Backlog`), and often nobody ever does. So they
are made when somebody asks for one of them, when another handler comes, and when what is kept has to be given to them. That shows
nowhere: it is as if they had been registered first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar
from weakref import ref

from reactivex import abc

from rxworker.timeline.backlog import Collecting
from rxworker.timeline.collectors import TextBlockCollector, ToolCallCollector
from rxworker.timeline.handler import HandlerLike
from rxworker.timeline.kind import TEXT_BLOCK, TOOL_USE_BLOCK, Kind
from rxworker.timeline.timeline import Timeline

K = TypeVar("K")
S = TypeVar("S")

_Own: TypeAlias = tuple[TextBlockCollector, ToolCallCollector]


class _ToCome:
    """Stands for the collectors that are not made yet."""

    def drop(self) -> None:
        """Nothing was collected."""


TO_COME: frozenset[Collecting] = frozenset({_ToCome()})


class Gathering(Timeline):
    """Gathers the texts and the tool calls of what it follows, besides calling handlers.

    >>> from rxworker.events import BlockStop, BlockType, TextDelta
    >>> timeline = Gathering()
    >>> timeline.dispatch(TextDelta(0, "hello"))
    >>> timeline.dispatch(BlockStop(0, BlockType.TEXT))
    >>> timeline.texts.collected()
    ['hello']
    """

    _is_between_completed = False  # a worker's attempts are streams

    def __init__(self) -> None:
        super().__init__()
        self._own: _Own | None = None
        self._backlog.collectors = TO_COME
        # Not the timeline itself: where they are never made, all that is kept goes with it.
        self._backlog.give = partial(_give_late, ref(self))

    @property
    def texts(self) -> TextBlockCollector:
        """Gathers the texts."""
        return self._collectors()[0]

    @property
    def tool_calls(self) -> ToolCallCollector:
        """Gathers the tool calls."""
        return self._collectors()[1]

    def clear(self) -> None:
        """Forget what was gathered."""
        if self._own is not None or self._backlog:
            for collector in self._collectors():
                collector.clear()

    def on(self, kind: Kind[K], handler: HandlerLike[K, S]) -> abc.DisposableBase:
        """Register a handler behind those that are there, and behind the collectors; see `Timeline.on`."""
        self._collectors()
        return super().on(kind, handler)

    def _collectors(self) -> _Own:
        if self._own is None:
            with self._lock:
                if self._own is None:
                    own = TextBlockCollector(), ToolCallCollector()
                    self._register(self._registration(TEXT_BLOCK, own[0]))
                    self._register(self._registration(TOOL_USE_BLOCK, own[1]))
                    self._own = own  # for other threads they are there from here on
        return self._own

    def give_late(self, rows: Sequence[Any]) -> None:
        """Give what was kept to the collectors, which are made for that."""
        self._collectors()
        self._give(rows)


def _give_late(kept: ref[Gathering], rows: Sequence[Any]) -> None:
    timeline = kept()
    if timeline is not None:  # of course: it is who asks
        timeline.give_late(rows)


__all__ = ["Gathering"]
