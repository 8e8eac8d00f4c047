"""The watchers that are pushed to at once, record by record, and what holds for every observer of a hub.

Theory of operation. A record stands in the history before anybody is shown it. A round shows the newest one to each observer, and
whatever is pushed meanwhile behind it, so that everybody sees the same order. Who comes during a round is shown what has been
shown so far, and then is one of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

from reactivex import abc

from rxworker.errors import RxWorkerError, as_exception, describe
from rxworker.events import Record
from rxworker.hub.history import History, deltas_of, expand
from rxworker.hub.loss import OnRaise
from rxworker.operators.stage import Many, many

A = TypeVar("A")


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
        """Push a record to it, or the event of a record of the run itself."""
        if not self.wants_events:
            self.push(record)
        elif not record.path:
            self.push(record.event)


class Observers:
    """All that are pushed to at once.

    Args:
        history: What they are shown.
        on_raise: Hears who raised what; it is gone by then.

    Attributes:
        row: Who they are, in the order of their coming.
        is_telling: Whether a round is under way.
    """

    def __init__(self, history: History, on_raise: OnRaise) -> None:
        self.row: tuple[Observer, ...] = ()
        self.is_telling = False
        self._history = history
        self._on_raise = on_raise
        self._shown = 0

    def tell(self, entries: Sequence[Record]) -> None:
        """Show the newest entries, and whatever is pushed meanwhile."""
        self.is_telling = True
        history = self._history
        try:
            while True:
                self._shown = entries[-1].seq
                self._show(entries)
                if self._shown >= history.last_seq:
                    return
                entries = list(history.unseen(self._shown))
        finally:
            self.is_telling = False

    def _show(self, entries: Sequence[Record]) -> None:
        only = entries[0] if len(entries) == 1 and deltas_of(entries[0]) is None else None
        records: list[Record] = []  # made for the first observer that takes records
        for observer in self.row:
            try:
                if only is not None:
                    observer.show(only)
                elif observer.wants_events:
                    observer.push_many([entry.event for entry in entries if not entry.path])
                else:
                    records = records or list(chain.from_iterable(map(expand, entries)))
                    observer.push_many(records)
            except BaseException as error:
                self._lose(observer, error)

    def catch_up(self, observer: Observer) -> bool:
        """Show it everything that the others have been shown, and let it join them. Whether it did, and has not raised."""
        seen, history = 0, self._history
        try:
            while seen < (until := self._shown if self.is_telling else history.last_seq):
                for record in history.records(seen, until):
                    observer.show(record)
                seen = until
        except BaseException as error:
            lose(observer.observer, observer.name, error, self._on_raise)
            return False
        self.row = (*self.row, observer)
        return True

    def remove(self, observer: Observer) -> None:
        """It is given nothing more, not even by a round that is under way."""
        observer.push = observer.push_many = ignore
        if observer in self.row:
            self.row = tuple([o for o in self.row if o is not observer])

    def _lose(self, observer: Observer, error: BaseException) -> None:
        self.remove(observer)
        lose(observer.observer, observer.name, error, self._on_raise)

    def end(self, error: Exception | None) -> None:
        """Nothing more comes."""
        row, self.row = self.row, ()
        for observer in row:
            end(observer.observer, observer.name, error, self._on_raise)


def end(
    observer: abc.ObserverBase[A], name: str, error: Exception | None, on_raise: OnRaise
) -> None:
    """End the stream of an observer, and report what it raises at that."""
    try:
        if error is None:
            observer.on_completed()
        else:
            observer.on_error(error)
    except BaseException as raised:
        # reactivex raises the error itself for an observer without on_error. Whoever awaits the run gets it.
        if raised is not error:
            on_raise(name, raised)


def lose(observer: abc.ObserverBase[A], name: str, error: BaseException, on_raise: OnRaise) -> None:
    """Report an observer that has raised, and end its stream with what it raised.

    Behind it there may be operators, and whoever awaits what comes out of them.
    """
    failure = as_exception(error)
    if isinstance(error, KeyboardInterrupt):
        # The hub hands it on itself, once. Whoever awaits the stream gets another exception.
        failure = RxWorkerError(describe(error))
        failure.__cause__ = error
    trace = error.__traceback__
    with suppress(BaseException):
        observer.on_error(failure)
    # An observer without on_error raises it once more, which is no part of where it came from.
    on_raise(name, error.with_traceback(trace))


def ignore(_: object) -> None:
    """What a watcher that has left is pushed to with."""


__all__ = ["Observer", "Observers", "end", "ignore", "lose"]
