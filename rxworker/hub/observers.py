"""The watchers that are pushed to at once, record by record, and what holds for every observer of a hub.

Theory of operation. A record stands in the history before anybody is shown it. A round shows the newest one to each observer, and
whatever is pushed meanwhile behind it, so that everybody sees the same order. Who comes during a round is shown what has been
shown so far, and then is one of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from reactivex import abc

from rxworker.events import Event, Record
from rxworker.hub.history import History
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
        self._leave(self)

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


class Observers:
    """All that are pushed to at once.

    Args:
        history: What they are shown.
        on_raise: Hears who raised what; it is gone by then.

    Attributes:
        row: Who they are, in the order of their coming.
        is_telling: Whether a round is under way.
        take_records: Whether one of them wants records of deltas, too.
    """

    def __init__(self, history: History, on_raise: OnRaise) -> None:
        self.row: tuple[Observer, ...] = ()
        self.is_telling = False
        self.take_records = False
        self._history = history
        self._on_raise = on_raise
        self._shown = 0

    def tell(self, record: Record) -> None:
        """Show the newest record, and whatever is pushed meanwhile."""
        self.is_telling = True
        self._shown = record.seq
        try:
            for observer in self.row:
                try:
                    # `show`, written out: everything comes by here.
                    if not observer.wants_events:
                        observer.push(record)
                    elif not record.path:
                        observer.push(record.event)
                except RAISED as error:
                    self._lose(observer, error)
            if self._shown < self._history.last_seq:
                self._tell_rest()
        finally:
            self.is_telling = False

    def tell_together(self, events: Sequence[Event]) -> None:
        """Show what has come together, and whatever is pushed meanwhile. It stands in the history, and nobody takes records."""
        self.is_telling = True
        self._shown = self._history.last_seq
        try:
            for observer in self.row:
                try:
                    observer.push_many(events)
                except RAISED as error:
                    self._lose(observer, error)
            if self._shown < self._history.last_seq:
                self._tell_rest()
        finally:
            self.is_telling = False

    def tell_behind(self, seq: int) -> None:
        """Show all records behind this number, together, and whatever is pushed meanwhile."""
        self.is_telling = True
        self._shown = seq
        try:
            self._tell_rest()
        finally:
            self.is_telling = False

    def _tell_rest(self) -> None:
        while self._shown < self._history.last_seq:
            records = list(self._history.records(self._shown))
            self._shown = records[-1].seq
            for observer in self.row:
                try:
                    observer.show_many(records)
                except RAISED as error:
                    self._lose(observer, error)

    def catch_up(self, observer: Observer) -> bool:
        """Show it everything that the others have been shown, and let it join them. Whether it did, and has not raised."""
        seen = 0
        try:
            while seen < (until := self._shown if self.is_telling else self._history.last_seq):
                for record in self._history.records(seen, until):
                    observer.show(record)
                seen = until
        except RAISED as error:
            self._on_raise(observer.name, error)
            return False
        self.row = (*self.row, observer)
        self.take_records = self.take_records or not observer.wants_events
        return True

    def remove(self, observer: Observer) -> None:
        """It is given nothing more, not even by a round that is under way."""
        observer.push = observer.push_many = ignore
        if observer in self.row:
            self.row = tuple([o for o in self.row if o is not observer])
            self.take_records = False in [o.wants_events for o in self.row]

    def _lose(self, observer: Observer, error: BaseException) -> None:
        self.remove(observer)
        self._on_raise(observer.name, error)

    def end(self, error: Exception | None) -> None:
        """Nothing more comes."""
        row, self.row = self.row, ()
        for observer in row:
            tell_end(observer.observer, error)


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


__all__ = ["RAISED", "Observer", "Observers", "OnRaise", "ignore", "tell_end"]
