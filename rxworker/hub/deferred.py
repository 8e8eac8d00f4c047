"""The watchers that are served when the event loop comes round: followers, readers, and who asks how they all stand.

Theory of operation. Whatever happens within a turn of the loop (records, somebody who comes, goes or reads on) asks once for a
flush in the next one. A flush shows the followers what is new, wakes the readers, and rings the bells. Where nothing is
deferred, a flush may be asked for within a flush; then the one under way goes round once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from reactivex import abc

from rxworker.hub.delivery import Delivery
from rxworker.hub.followers import Follower, Followers
from rxworker.hub.history import History
from rxworker.hub.loss import OnRaise
from rxworker.hub.pace import Later, Pace, every_of
from rxworker.hub.readers import Readers
from rxworker.hub.watcher import Watcher, WatcherState

Bell: TypeAlias = Callable[[], None]
Defer: TypeAlias = Callable[[Bell], object]


class Deferred:
    """All that are served once a turn.

    Args:
        history: What they are shown.
        loop: Whose turns.
        defer: What calls a function a little later, in the place of the loop.
        on_raise: Hears who raised what.
        scheduler: The clock of watchers with a pace, in the place of the loop's.

    Attributes:
        readers: Those who take their records themselves.
        is_needed: Whether anybody is there.
    """

    def __init__(
        self,
        history: History,
        loop: asyncio.AbstractEventLoop | None,
        defer: Defer | None,
        on_raise: OnRaise,
        scheduler: abc.SchedulerBase | None = None,
    ) -> None:
        self.readers = Readers(history)
        self.is_needed = False
        self._history = history
        self._loop = loop if defer is None else None
        self._defer = defer or (_at_once if loop is None else loop.call_soon)
        self._on_raise = on_raise
        self._followers: dict[Delivery, Followers] = {}
        self._paces: dict[float, Pace] = {}
        self._clock = _later_of(loop, scheduler)
        self._bells: tuple[Bell, ...] = ()
        self._is_due = self._is_flushing = self._goes_round = False
        self._has_lost = self._is_over = False
        self._error: Exception | None = None

    def soon(self) -> None:
        """Something has happened."""
        if self._is_due:
            return
        self._is_due = True
        if self._loop is not None and self._loop.is_closed():
            self._flush()
        else:
            self._defer(self._flush)

    def end(self, error: Exception | None) -> None:
        """Nothing more comes."""
        self._is_over, self._error = True, error
        self.readers.end()
        if self.is_needed:
            self.soon()

    def _flush(self) -> None:
        self._is_due = False
        self._goes_round = True
        if self._is_flushing:
            return
        self._is_flushing = True
        try:
            while self._goes_round:
                self._goes_round = False
                self._serve()
        finally:
            self._is_flushing = False

    def _serve(self) -> None:
        for every, pace in self._paces.items():
            if self._is_over:
                pace.close()
            elif pace.look():
                self.readers.wake(every)
        for delivery, group in tuple(self._followers.items()):
            pace = self._pace_of(delivery)
            if pace is None or group.is_behind(pace.released):
                group.flush(self._history)
        if self._has_lost:
            self._forget_the_empty()
        if self._is_over and not (self._is_due or self._goes_round):
            groups, self._followers = self._followers, {}
            for group in groups.values():
                group.end(self._error)
            self.readers.wake_all()
        self.readers.wake()
        for bell in self._bells:
            try:
                bell()
            except BaseException as error:
                self._take_away(bell)
                self._on_raise("watcher of the watchers", error)

    # Followers.

    def add_follower(self, follower: Follower) -> None:
        """Push to it from the next flush on."""
        group = self._followers.get(follower.delivery)
        if group is None:
            group = Followers(follower.delivery, self._lost)
            self._followers[follower.delivery] = group
            self._begin_pace(follower.delivery)
        group.add(follower)
        self.is_needed = True
        self.soon()

    def remove_follower(self, follower: Follower) -> None:
        """Push to it no more."""
        group = self._followers.get(follower.delivery)
        if group is not None:
            group.remove(follower)
            if not group:
                del self._followers[follower.delivery]
        self.ring()

    def _lost(self, name: str, error: BaseException) -> None:
        self._has_lost = True
        self._on_raise(name, error)

    def _forget_the_empty(self) -> None:
        self._has_lost = False
        self._followers = {kind: group for kind, group in self._followers.items() if group}
        self.ring()

    # Readers.

    def add_reader(self, reader: Watcher) -> None:
        """It will come for its records."""
        self.readers.add(reader)
        self._begin_pace(reader.delivery)
        self.ring()

    def may_take(self, reader: Watcher) -> bool:
        """Whether it is time for a reader to take what there is."""
        pace = self._pace_of(reader.delivery)
        return pace is None or reader.seen < pace.released

    def remove_reader(self, reader: Watcher) -> None:
        """It comes no more."""
        self.readers.remove(reader)
        self.ring()

    def took(self) -> None:
        """A reader has taken something."""
        self.readers.let_go()
        if self._bells:
            self.soon()

    # Those with a pace.

    def _begin_pace(self, delivery: Delivery) -> None:
        every = every_of(delivery)
        if every is not None and every not in self._paces:
            self._paces[every] = Pace(every, self._history, self._clock, self.soon)

    def _pace_of(self, delivery: Delivery) -> Pace | None:
        every = every_of(delivery)
        return None if every is None else self._paces.get(every)

    # Who asks how they stand.

    def ring(self) -> None:
        """Somebody has come or gone."""
        self.is_needed = bool(self._followers or self.readers or self._bells)
        if self._bells:
            self.soon()

    def add_bell(self, bell: Bell) -> Bell:
        """Have a function called, once a turn, when something has happened; what is returned takes it away again."""
        self._bells = (*self._bells, bell)
        self.ring()
        return partial(self._take_away, bell)

    def _take_away(self, bell: Bell) -> None:
        self._bells = tuple(b for b in self._bells if b is not bell)
        self.ring()

    def __len__(self) -> int:
        return len(self.readers) + sum(map(len, self._followers.values()))

    def states(self, last_seq: int) -> list[WatcherState]:
        """How they stand."""
        followers = [s for group in self._followers.values() for s in group.states(last_seq)]
        return followers + self.readers.states()


def _later_of(loop: asyncio.AbstractEventLoop | None, scheduler: abc.SchedulerBase | None) -> Later:
    """The clock of the scheduler, or of the loop; without either nothing waits."""

    def later(seconds: float, call: Callable[[], None]) -> Callable[[], object]:
        if scheduler is not None:

            def act(_: abc.SchedulerBase, __: object = None) -> None:
                call()

            return scheduler.schedule_relative(seconds, act).dispose
        if loop is not None and not loop.is_closed():
            return loop.call_later(seconds, call).cancel
        call()
        return call

    return later


def _at_once(call: Bell) -> None:
    call()


__all__ = ["Bell", "Defer", "Deferred"]
