"""The watchers that a hub pushes to: within ``Hub.push``, or once a turn of the event loop.

Theory of operation. A record is in the history before any watcher receives it. Watchers without a delivery form
`ImmediateWatchers`: a round pushes the newest record to each of them, and then whatever was pushed meanwhile, so that
all watchers receive the same order. A watcher that attaches during a round receives what the others have received so
far, and then joins them.

The others form a `WatcherGroup` for each delivery. None of them is behind for long, since a push returns before the
next one begins. So they share one cursor and receive the same records, made once, and a flush costs one call for each
watcher and record. A watcher that attaches late reaches that cursor alone and joins the group there. The functions to
call are in a list; a watcher that is detached, also in the middle of a round, is replaced there by a function that does
nothing, until the list is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import length_hint
from typing import Any, TypeAlias

from reactivex.internal import noop

from rxworker.events import Record
from rxworker.events.deltas import Deltas
from rxworker.hub.delivery import Delivery, count, take
from rxworker.hub.detach import OnRaise, end_stream, fail_stream
from rxworker.hub.history import History, expand
from rxworker.hub.watcher import Watcher, WatcherState
from rxworker.watchdog import watchdog

Push: TypeAlias = Callable[[Record], None]


class ImmediateWatchers:
    """The watchers that are pushed to within ``Hub.push``, record by record.

    Args:
        history: The records.
        on_raise: Called with the name of a watcher that has raised, and what it raised; it is detached by then.

    Attributes:
        watchers: In the order in which they were attached.
        is_pushing: Whether a round is under way.
    """

    def __init__(self, history: History, on_raise: OnRaise) -> None:
        self.watchers: tuple[Watcher, ...] = ()
        self.is_pushing = False
        self._history = history
        self._on_raise = on_raise
        self._pushed_to = 0

    def __len__(self) -> int:
        return sum([watcher.takes != "entries" for watcher in self.watchers])

    def push(self, entries: Sequence[Record]) -> None:
        """Push the newest entries, and whatever is added to the history meanwhile."""
        self.is_pushing = True
        history, clock = self._history, watchdog.clock
        try:
            while entries:
                self._pushed_to = until = history.last_seq
                event: Any = entries[0].event
                only = entries[0] if len(entries) == 1 and event.__class__ is not Deltas else None
                records: list[Record] = []  # made for the first watcher that takes records
                for watcher in self.watchers:
                    begun = clock() - watchdog.reported
                    try:
                        if only is not None:
                            watcher.push_record(only)
                        elif watcher.takes == "events":
                            watcher.push_many([entry.event for entry in entries if not entry.path])
                        elif watcher.takes == "entries":
                            watcher.push_many(entries)
                        else:
                            records = records or list(chain.from_iterable(map(expand, entries)))
                            watcher.push_many(records)
                    except BaseException as error:
                        self.remove(watcher)
                        fail_stream(watcher.observer, watcher.name, error, self._on_raise)
                    if clock() - watchdog.reported - begun > watchdog.limit:
                        watchdog.end(begun, "watcher", watcher.name)
                entries = () if until >= history.last_seq else list(history.unseen(until))
        finally:
            self.is_pushing = False

    def add(self, watcher: Watcher) -> bool:
        """Push everything that the others have received, and add it to them. ``False`` if it has raised."""
        seen, history, begun = watcher.seen, self._history, watchdog.begin()
        try:
            while seen < (until := self._pushed_to if self.is_pushing else history.last_seq):
                for record in history.records(seen, until):
                    watcher.push_record(record)
                seen = until
        except BaseException as error:
            fail_stream(watcher.observer, watcher.name, error, self._on_raise)
            return False
        finally:
            watchdog.end(begun, "watcher", watcher.name)
        self.watchers = (*self.watchers, watcher)
        return True

    def remove(self, watcher: Watcher) -> None:
        """Push nothing more to it, also in a round that is under way."""
        watcher.silence()
        if watcher in self.watchers:
            self.watchers = tuple([w for w in self.watchers if w is not watcher])

    def end(self, error: Exception | None) -> None:
        """End their streams."""
        watchers, self.watchers = self.watchers, ()
        for watcher in watchers:
            end_stream(watcher.observer, watcher.name, error, self._on_raise)

    def states(self, last_seq: int) -> list[WatcherState]:
        """Their states."""
        listed = [watcher for watcher in self.watchers if watcher.takes != "entries"]
        return [watcher.state(last_seq, last_seq, last_seq) for watcher in listed]


class WatcherGroup:
    """The watchers with one delivery that are pushed to once a turn.

    Args:
        delivery: Their delivery.
        on_raise: Called with the name of a watcher that has raised, and what it raised; it is detached by then.
    """

    def __init__(self, delivery: Delivery, on_raise: OnRaise) -> None:
        self._delivery = delivery
        self._seen = 0
        self._delivered = 0
        self._on_raise = on_raise
        self._members: dict[Watcher, None] = {}
        self._joining: dict[Watcher, None] = {}
        # The members as the loop over them needs them; made anew when stale.
        self._watchers: tuple[Watcher, ...] = ()
        self._pushes: list[Push] = []
        self._is_stale = False

    def __len__(self) -> int:
        return len(self._members) + len(self._joining)

    @property
    def seen(self) -> int:
        """The number of the last record that all of its watchers have received."""
        joining = [watcher.seen for watcher in self._joining]
        return min([self._seen, *joining] if self._members else joining, default=self._seen)

    def add(self, watcher: Watcher) -> None:
        """Push the records that are new for it at the next flush."""
        if not self._members and not self._joining:
            self._seen = watcher.seen
        self._joining[watcher] = None

    def remove(self, watcher: Watcher) -> bool:
        """Push nothing more to it. Whether it was there."""
        watcher.silence()
        was_joining = self._joining.pop(watcher, watcher) is None
        was_member = self._members.pop(watcher, watcher) is None
        if was_member:
            self._is_stale = True
            if watcher.place >= 0:
                self._pushes[watcher.place] = noop
        return was_joining or was_member

    def is_behind(self, released: int) -> bool:
        """Whether there is something for it among the records up to this one, or a new watcher waits."""
        return bool(self._joining) or self._seen < released

    def flush(self, history: History) -> None:
        """Push everything that is new."""
        if self._joining:
            self._flush_and_join(history)
        elif (record := history.newest(self._seen)) is not None:
            self._seen += 1  # a single record is the same by every delivery
            self._delivered += 1
            self._push(record)
        elif self._members:
            self._push_batch(take(history, self._delivery, self._seen))

    def _flush_and_join(self, history: History) -> None:
        """Push everything that is new, and let new watchers reach the cursor of the others."""
        if not self._members:
            self._seen = next(iter(self._joining)).seen
        level = [watcher for watcher in self._joining if watcher.seen == self._seen]
        batch = take(history, self._delivery, self._seen)
        self._push_batch(batch)
        for watcher in level:  # from the group's cursor on, the records are the same
            self._push_alone(watcher, batch)
        for watcher in tuple(self._joining):
            batch = take(history, self._delivery, watcher.seen)
            while batch and watcher in self._joining:
                self._push_alone(watcher, batch)
                batch = take(history, self._delivery, watcher.seen)
            if watcher.seen == self._seen and self._joining.pop(watcher, watcher) is None:
                # From here on the group counts for it.
                watcher.delivered -= self._delivered
                self._members[watcher] = None
                self._is_stale = True

    def _push_batch(self, batch: list[Record]) -> None:
        if batch:
            self._seen = batch[-1].seq
            self._delivered += count(batch, self._delivery)
        if len(batch) > 1 and any(watcher.push_batch for watcher in self._members):
            for watcher in tuple(self._members):
                self._push_to(watcher, batch)
            return
        for record in batch:
            self._push(record)

    def _push(self, record: Record) -> None:
        """Push one record to all members. Most time is spent here: one call for each member, and nothing else."""
        if self._is_stale:
            self._list_pushes()
        begun = watchdog.clock() - watchdog.reported
        left = iter(self._pushes)
        while True:
            try:
                for push in left:
                    push(record)
            except BaseException as error:
                place = len(self._pushes) - length_hint(left) - 1
                self._fail(self._watchers[place], error)
            else:
                break
        if watchdog.clock() - watchdog.reported - begun > watchdog.limit:
            names = " or ".join([watcher.name for watcher in self._watchers])
            watchdog.end(begun, "watcher", names)

    def _list_pushes(self) -> None:
        self._is_stale = False
        self._watchers = tuple(self._members)
        self._pushes = [watcher.push for watcher in self._watchers]
        for place, watcher in enumerate(self._watchers):
            watcher.place = place

    def _push_alone(self, watcher: Watcher, batch: list[Record]) -> None:
        if batch:
            watcher.note(batch)
            self._push_to(watcher, batch)

    def _push_to(self, watcher: Watcher, batch: list[Record]) -> None:
        begun = watchdog.begin()
        try:
            if watcher.push_batch is not None:
                watcher.push_batch(batch)
            else:
                for record in batch:
                    watcher.push(record)
        except BaseException as error:
            self._fail(watcher, error)
        watchdog.end(begun, "watcher", watcher.name)

    def _fail(self, watcher: Watcher, error: BaseException) -> None:
        if self.remove(watcher):
            fail_stream(watcher.observer, watcher.name, error, self._on_raise)

    def end(self, error: Exception | None) -> None:
        """End their streams."""
        watchers = (*self._members, *self._joining)
        self._members.clear()
        self._joining.clear()
        self._watchers, self._pushes = (), []
        for watcher in watchers:
            watcher.silence()
            end_stream(watcher.observer, watcher.name, error, self._on_raise)

    def states(self, last_seq: int) -> list[WatcherState]:
        """Their states."""
        seen, given = self._seen, self._delivered
        members = [w.state(last_seq, seen, w.delivered + given) for w in self._members]
        return members + [watcher.state(last_seq) for watcher in self._joining]
