"""A watcher that is pushed to at once, record by record, and what holds for every observer of a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from reactivex import abc

from rxworker.events import Record
from rxworker.operators.stage import Many, many

A = TypeVar("A")

OnRaise: TypeAlias = Callable[[str, BaseException], None]

# A watcher may raise the latter by asking a cancelled future for its result. Whoever pushes must not take it for its own.
RAISED = (Exception, asyncio.CancelledError)


class Observer(abc.DisposableBase):
    """One that is pushed to at once, and the subscription. Compared by identity.

    Args:
        observer: Whom.
        name: For people.
        leave: Called with it when it is disposed.
        wants_events: Whether it takes the bare events of the run itself, and not records.

    Attributes:
        push: Takes a record, or an event.
        push_many: Takes several.
    """

    __slots__ = ("_leave", "name", "observer", "push", "push_many", "wants_events")

    def __init__(
        self,
        observer: abc.ObserverBase[Any],
        name: str,
        leave: Callable[[Observer], None],
        *,
        wants_events: bool = False,
    ) -> None:
        self.observer = observer
        self.push: Callable[[Any], None] = observer.on_next
        self.push_many: Many[Any] = many(observer)
        self.name = name
        self.wants_events = wants_events
        self._leave = leave

    def dispose(self) -> None:
        """Show it nothing more."""
        if self.push is not ignore:
            self._leave(self)

    def close(self) -> None:
        """Nothing is pushed to it any more, not even by a round that is under way; there is nothing left to dispose."""
        self.push = self.push_many = ignore

    def show(self, record: Record) -> None:
        """Push a record to it, or what is in it."""
        if not self.wants_events:
            self.push(record)
        elif not record.path:
            self.push(record.event)

    def show_many(self, records: Sequence[Record]) -> None:
        """The same for several."""
        if self.wants_events:
            self.push_many([record.event for record in records if not record.path])
        else:
            self.push_many(records)


def tell_end(observer: abc.ObserverBase[A], error: Exception | None) -> None:
    """Tell an observer that nothing more comes."""
    try:
        if error is None:
            observer.on_completed()
        else:
            observer.on_error(error)
    except RAISED:
        # reactivex raises the error itself for an observer without on_error. Whoever awaits the run gets it.
        return


def ignore(_: object) -> None:
    """What a watcher that has left is pushed to with."""


__all__ = ["RAISED", "Observer", "OnRaise", "ignore", "tell_end"]
