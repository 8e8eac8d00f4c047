"""The watchers that are pushed to once a loop turn. All of one delivery are given the same records, made once.

Theory of operation. Nobody of these is ever behind for long: a push returns before the next one begins. So they share one
place in the row of records, and a flush costs one call a watcher and record. Who comes late walks to that place alone and
joins the others there. What they are called with stands in a list; in the place of one that leaves, also in the middle of a
round, stands a function that does nothing, until the list is made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint
from typing import TypeAlias

from reactivex import abc

from rxworker.events import Record
from rxworker.hub.delivery import Delivery, take
from rxworker.hub.history import History
from rxworker.hub.loss import OnRaise
from rxworker.hub.observers import end, ignore, lose
from rxworker.hub.watcher import Watcher, WatcherState

Push: TypeAlias = Callable[[Record], None]


class Follower(Watcher):
    """One that is pushed to. Compared by identity.

    Attributes:
        observer: Who that is.
        push: Takes a record.
        place: Where it stands among those of its delivery; below 0 before it does.
    """

    __slots__ = ("_base", "observer", "place", "push")

    def __init__(
        self, name: str, delivery: Delivery, seen: int, observer: abc.ObserverBase[Record]
    ) -> None:
        super().__init__(name, delivery, seen)
        self.observer = observer
        self.push: Push = observer.on_next
        self.place = -1
        self._base: tuple[int, int, int] | None = None

    def join(self, group: Watcher) -> None:
        """From here on it is given what the group is given."""
        self._base = group.counts

    def state_with(self, group: Watcher, last_seq: int) -> WatcherState:
        """How it stands, with what it was given as one of the group."""
        if self._base is None:
            return self.state(last_seq)
        counts = [
            own + now - then
            for own, now, then in zip(self.counts, group.counts, self._base, strict=True)
        ]
        return self.described(group.seen, last_seq, *counts)


class Followers:
    """All that are pushed to with one delivery.

    Args:
        delivery: How.
        on_raise: Hears who raised what; it is gone by then.
    """

    def __init__(self, delivery: Delivery, on_raise: OnRaise) -> None:
        self._group = Watcher("", delivery, 0)
        self._on_raise = on_raise
        self._members: dict[Follower, None] = {}
        self._row: tuple[Follower, ...] = ()
        self._pushes: list[Push] = []
        self._is_stale = False
        self._coming: dict[Follower, None] = {}

    def __len__(self) -> int:
        return len(self._members) + len(self._coming)

    def add(self, follower: Follower) -> None:
        """It is given what it has not seen at the next flush."""
        if not self._members and not self._coming:
            self._group.seen = follower.seen
        self._coming[follower] = None

    def remove(self, follower: Follower) -> bool:
        """It is given nothing more. Whether it was there."""
        follower.push = ignore
        was_coming = self._coming.pop(follower, follower) is None
        was_member = self._members.pop(follower, follower) is None
        if was_member:
            self._is_stale = True
            if follower.place >= 0:
                self._pushes[follower.place] = ignore
        return was_coming or was_member

    def is_behind(self, released: int) -> bool:
        """Whether there is something for it among the records up to this one, or a new member waits."""
        return bool(self._coming) or self._group.seen < released

    def flush(self, history: History) -> None:
        """Show everything that is new."""
        group = self._group
        if self._coming:
            self._take_along(history)
        elif (record := history.newest(group.seen)) is not None:
            group.note_one()  # a single record is the same by every delivery
            self._tell(record)
        elif self._members:
            self._show(take(history, group.delivery, group.seen))

    def _take_along(self, history: History) -> None:
        """Show everything that is new, and let those who have come reach the place of the others."""
        group = self._group
        if not self._members:
            group.seen = next(iter(self._coming)).seen
        along = [follower for follower in self._coming if follower.seen == group.seen]
        batch = take(history, group.delivery, group.seen)
        self._show(batch)
        for follower in along:  # from the group's own place it is given the same
            self._give(follower, batch)
        for follower in tuple(self._coming):
            batch = take(history, group.delivery, follower.seen)
            while batch and follower in self._coming:
                self._give(follower, batch)
                batch = take(history, group.delivery, follower.seen)
            if follower.seen == group.seen and self._coming.pop(follower, follower) is None:
                follower.join(group)
                self._members[follower] = None
                self._is_stale = True

    def _show(self, batch: list[Record]) -> None:
        if batch:
            self._group.note(batch)
        for record in batch:
            self._tell(record)

    def _tell(self, record: Record) -> None:
        """One record to all that are there. This is where the time goes: a call for each, and nothing besides."""
        if self._is_stale:
            self._line_up()
        left = iter(self._pushes)
        while True:
            try:
                for push in left:
                    push(record)
            except BaseException as error:
                place = len(self._pushes) - length_hint(left) - 1
                self._lose(self._row[place], error)
            else:
                return

    def _line_up(self) -> None:
        self._is_stale = False
        self._row = tuple(self._members)
        self._pushes = [follower.push for follower in self._row]
        for place, follower in enumerate(self._row):
            follower.place = place

    def _give(self, follower: Follower, batch: list[Record]) -> None:
        if batch:
            follower.note(batch)
        for record in batch:
            try:
                follower.push(record)
            except BaseException as error:
                self._lose(follower, error)

    def _lose(self, follower: Follower, error: BaseException) -> None:
        if self.remove(follower):
            lose(follower.observer, follower.name, error, self._on_raise)

    def end(self, error: Exception | None) -> None:
        """Nothing more comes."""
        gone = (*self._members, *self._coming)
        self._members.clear()
        self._coming.clear()
        self._row, self._pushes = (), []
        for follower in gone:
            follower.push = ignore
            end(follower.observer, follower.name, error, self._on_raise)

    def states(self, last_seq: int) -> list[WatcherState]:
        """How they stand."""
        return [f.state_with(self._group, last_seq) for f in (*self._members, *self._coming)]


__all__ = ["Follower", "Followers"]
