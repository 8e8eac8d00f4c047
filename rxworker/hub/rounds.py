"""The part of a hub that pushes: to all who are pushed to at once.

Theory of operation. A record stands in the history before anybody is shown it. A round shows the newest one to each observer, and
whatever is pushed meanwhile behind it, so that everybody sees the same order. Who comes during a round is shown what has been
shown so far, and then is one of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.events import Event, Record
from rxworker.events.row import Entry
from rxworker.hub.deferred import Deferred
from rxworker.hub.history import History
from rxworker.hub.observers import RAISED, Observer, OnRaise, tell_end


class Rounds:
    """Keeps records, and pushes them to observers.

    Args:
        history: Where they are kept.
        deferred: Who waits for them besides.
        on_raise: Hears who raised what; it is gone by then.

    Attributes:
        history: The records so far.
        deferred: Followers and readers; for them to come and go.
    """

    def __init__(self, history: History, deferred: Deferred, on_raise: OnRaise) -> None:
        self.history = history
        self.deferred = deferred
        self._row: tuple[Observer, ...] = ()  # in the order of their coming
        self._is_telling = False  # whether a round is under way
        self._take_records = False  # whether one of them wants records of deltas, too
        self._shown = 0
        self._ended = False
        self._on_raise = on_raise

    def push(self, record: Record) -> None:
        """Show the record to every watcher. Its number is the one behind ``last_seq``. After the end it does nothing."""
        if self._ended:
            return
        history = self.history
        # `History.append` and `Observer.show`, written out: everything comes by here.
        history.last_seq = seq = record.seq
        history.tail.append(record)
        if seq >= history.pack_at:
            history.pack_if_long()
        if self._is_telling:
            return
        if self._row:
            self._is_telling = True
            self._shown = seq
            try:
                for observer in self._row:
                    try:
                        if not observer.wants_events:
                            observer.push(record)
                        elif not record.path:
                            observer.push(record.event)
                    except RAISED as error:
                        self._lose(observer, error)
                if self._shown < history.last_seq:
                    self._tell_rest()
            finally:
                self._is_telling = False
        if self._ended or self.deferred.is_needed:
            self._pushed()

    def push_many(self, records: Sequence[Record]) -> None:
        """Show records that have come together, in order."""
        if self._ended or not records:
            return
        before = self.history.last_seq
        self.history.extend(records)
        if self._is_telling:
            return
        self._tell_behind(before)
        if self._ended or self.deferred.is_needed:
            self._pushed()

    def push_entries(self, entries: Sequence[Entry], events: Sequence[Event]) -> None:
        """Show what has come together.

        Records are made of it only if somebody wants records right now; else those who come for them later have them made.

        Args:
            entries: All of it.
            events: What is in them.
        """
        if self._ended or not entries:
            return
        history = self.history
        before = history.last_seq
        history.extend(entries)
        if self._is_telling:
            return
        if self._take_records:
            self._tell_behind(before)
        elif self._row:
            self._is_telling = True
            self._shown = history.last_seq
            try:
                for observer in self._row:
                    try:
                        observer.push_many(events)
                    except RAISED as error:
                        self._lose(observer, error)
                if self._shown < history.last_seq:
                    self._tell_rest()
            finally:
                self._is_telling = False
        if self._ended or self.deferred.is_needed:
            self._pushed()

    def _tell_behind(self, seq: int) -> None:
        """Show all records behind this number, together, and whatever is pushed meanwhile."""
        self._is_telling = True
        self._shown = seq
        try:
            self._tell_rest()
        finally:
            self._is_telling = False

    def _tell_rest(self) -> None:
        while self._shown < self.history.last_seq:
            records = list(self.history.records(self._shown))
            self._shown = records[-1].seq
            for observer in self._row:
                try:
                    observer.show_many(records)
                except RAISED as error:
                    self._lose(observer, error)

    def _pushed(self) -> None:
        """The observers have seen it; somebody else waits for it, or it was the last."""
        raise NotImplementedError

    def _catch_up(self, observer: Observer) -> bool:
        """Show it everything that the others have been shown, and let it join them. Whether it did, and has not raised."""
        seen, history = 0, self.history
        try:
            while seen < (until := self._shown if self._is_telling else history.last_seq):
                for record in history.records(seen, until):
                    observer.show(record)
                seen = until
        except RAISED as error:
            self._on_raise(observer.name, error)
            return False
        self._row = (*self._row, observer)
        self._take_records = self._take_records or not observer.wants_events
        return True

    def _remove(self, observer: Observer) -> None:
        """It is given nothing more, not even by a round that is under way."""
        observer.close()
        if observer in self._row:
            self._row = tuple([o for o in self._row if o is not observer])
            self._take_records = False in [o.wants_events for o in self._row]

    def _lose(self, observer: Observer, error: BaseException) -> None:
        self._remove(observer)
        self._on_raise(observer.name, error)

    def _tell_end(self, error: Exception | None) -> None:
        """Nothing more comes."""
        row, self._row = self._row, ()
        for observer in row:
            observer.close()
            tell_end(observer.observer, error)


__all__ = ["Rounds"]
