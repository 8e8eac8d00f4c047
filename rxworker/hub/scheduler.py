"""The watchers that a hub serves: which within a push, which in the next turn of the event loop, at what pace.

Theory of operation. A record is in the history before any watcher receives it. Watchers without a delivery form
`ImmediateWatchers`: a round pushes the newest record to each of them, and then whatever was pushed meanwhile, so that
all watchers receive the same order. A watcher that attaches during a round receives what the others have received so
far, and then joins them.

The others form a `WatcherGroup` for each delivery. None of them is behind for long, since a push returns before the
next one begins. So they share one cursor and receive the same records, made once, and a flush costs one call for each
watcher and record. A watcher that attaches late reaches that cursor alone and joins the group there. The functions to
call are in a list; a watcher that is detached, also in the middle of a round, is replaced there by a function that does
nothing, until the list is made anew.

Whatever happens within a turn (records are pushed, a watcher is attached or detached, or takes records) requests one
flush in the next turn of a `FlushScheduler`. A flush pushes what is new to the groups, wakes the readers, and calls the
callbacks. Without an event loop a flush runs at once, and may be requested within a flush; then the one under way
repeats.

All watchers of a run with the same ``Coalesce(every=...)`` share one `Pace`, so that they receive the same records,
which are merged and encoded once. A pace is open or closed. New records that arrive while it is open are released at
once, which closes it for ``every`` seconds; what arrives meanwhile is released when it opens again. A record that
begins or ends something is released at once in either case, and so is the end of the run. The number up to which
records are released is all that the watchers need to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from functools import partial
from itertools import chain, filterfalse
from math import inf
from operator import attrgetter, call, length_hint
from typing import Any, TypeAlias

from msgspec import Struct
from reactivex import abc
from reactivex.internal import noop

from rxworker.events import Record
from rxworker.events.kinds import DEFERRABLE, Deltas
from rxworker.hub.delivery import Coalesce, Delivery, Reliable, count, every_of, held_for, take
from rxworker.hub.history import History, Item, expand
from rxworker.hub.watcher import OnRaise, Watcher, WatcherState, end_stream, fail_stream, wake
from rxworker.watchdog import watchdog

Push: TypeAlias = Callable[[Record], None]


class ImmediateWatchers(Struct, eq=False):
    """The watchers that are pushed to within ``Hub.push``, record by record.

    The first two arguments are the records, and what is called with the name of a watcher that has raised, and what it
    raised; it is detached by then.

    Attributes:
        watchers: In the order in which they were attached.
        is_pushing: Whether a round is under way.
    """

    _history: History
    _on_raise: OnRaise
    watchers: tuple[Watcher, ...] = ()
    is_pushing: bool = False
    _pushed_to: int = 0

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
                    takes, kinds = watcher.takes, watcher.kinds
                    if (
                        takes == "events"
                        and only is not None
                        and (only.path or (kinds is not None and event.__class__ not in kinds))
                    ):
                        continue
                    begun = clock() - watchdog.reported
                    try:
                        if only is not None:
                            watcher.push(event if takes == "events" else only)
                        elif takes == "events":
                            watcher.push_many([*map(_event, filterfalse(_path, entries))])
                        elif takes == "entries":
                            watcher.push_many(entries)
                        else:
                            records = records or list(chain.from_iterable(map(expand, entries)))
                            watcher.push_many(records)
                    except BaseException as error:
                        self.remove(watcher)
                        fail_stream(watcher.observer, watcher.name, error, self._on_raise)
                    if clock() - watchdog.reported - begun > watchdog.limit:
                        watchdog.end(begun, "watcher", watcher.name)
                entries = () if until >= history.last_seq else list(history.entries(until))
        finally:
            self.is_pushing = False

    def add(self, watcher: Watcher) -> bool:
        """Push everything that the others have received, and add it to them. ``False`` if it has raised."""
        seen, history, begun = watcher.seen, self._history, watchdog.begin()
        try:
            while seen < (until := self._pushed_to if self.is_pushing else history.last_seq):
                for record in history.records(seen, until):
                    if watcher.takes != "events":
                        watcher.push(record)
                    elif not record.path:
                        watcher.push(record.event)
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


Callback: TypeAlias = Callable[[], None]
Defer: TypeAlias = Callable[[Callback], object]

Later: TypeAlias = Callable[[float, Callback], Callable[[], object]]
"""Calls a function after so many seconds; returns a function that cancels the call."""

_event, _path = attrgetter("event"), attrgetter("path")
_DEFERRABLE = DEFERRABLE | {Deltas, Item}


class FlushScheduler:
    """The watchers with a delivery: groups, which are pushed to once a turn, and readers.

    Args:
        history: The records.
        loop: The event loop whose turns count.
        defer: Calls a function a little later, in place of the loop.
        on_raise: Called with the name of a watcher that has raised, and what it raised.
        scheduler: The clock of watchers with a pace, in place of the loop's.

    Attributes:
        readers: The watchers that take their records themselves.
        is_needed: Whether there are watchers or callbacks to serve.
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
        # In the context of the caller of the run: what a watcher begins is not begun by a hook or tool that emits.
        later = call if loop is None else partial(loop.call_soon, context=copy_context())
        self._defer = defer or later
        self._on_raise = on_raise
        self._groups: dict[Delivery, WatcherGroup] = {}
        self._paces: dict[float, Pace] = {}
        self._clock = loop, scheduler
        self._callbacks: tuple[Callback, ...] = ()
        self._is_requested = self._is_flushing = self._repeats = False
        self._is_over = False
        self._error: Exception | None = None

    def request(self) -> None:
        """Request a flush in the next turn."""
        if self._is_requested:
            return
        self._is_requested = True
        if self._loop is not None and self._loop.is_closed():
            self._flush()
        else:
            self._defer(self._flush)

    def end(self, error: Exception | None) -> None:
        """No more records follow."""
        self._is_over, self._error = True, error
        self.readers.end()
        if self.is_needed:
            self.request()

    def _flush(self) -> None:
        self._is_requested = False
        self._repeats = True
        if self._is_flushing:
            return
        self._is_flushing = True
        try:
            while self._repeats:
                self._repeats = False
                self._serve()
        finally:
            self._is_flushing = False

    def _serve(self) -> None:
        for every, pace in self._paces.items():
            if self._is_over:
                pace.close()
            elif pace.release():
                self.readers.wake(every)
        for delivery, group in tuple(self._groups.items()):
            pace = self._pace_of(delivery)
            if pace is None or group.is_behind(pace.released):
                group.flush(self._history)
            if not group and self._groups.get(delivery) is group:  # all of its watchers have raised
                del self._groups[delivery]
                self.notify_change()
        if self._is_over and not (self._is_requested or self._repeats):
            groups, self._groups = self._groups, {}
            for group in groups.values():
                group.end(self._error)
            self.readers.wake_all()
        self.readers.wake()
        for callback in self._callbacks:
            try:
                callback()
            except BaseException as error:
                self._remove_callback(callback)
                self._on_raise("watcher of the watchers", error)

    # Attaching and detaching.

    def add(self, watcher: Watcher) -> None:
        """Serve a watcher from the next flush on."""
        delivery = watcher.delivery
        if delivery is None or watcher.observer is None:
            self.readers.add(watcher)
            self._begin_pace(delivery)
            self.notify_change()
            return
        group = self._groups.get(delivery)
        if group is None:
            group = self._groups[delivery] = WatcherGroup(delivery, self._on_raise)
            self._begin_pace(delivery)
        group.add(watcher)
        self.is_needed = True
        self.request()

    def remove(self, watcher: Watcher) -> None:
        """Serve it no more."""
        delivery = watcher.delivery
        if delivery is None or watcher.observer is None:
            self.readers.remove(watcher)
        elif (group := self._groups.get(delivery)) is not None:
            group.remove(watcher)
            if not group:
                del self._groups[delivery]
        self.notify_change()

    def may_take(self, reader: Watcher) -> bool:
        """Whether the pace of a reader allows it to take what is new."""
        pace = self._pace_of(reader.delivery)
        return pace is None or reader.seen < pace.released

    def notify_taken(self) -> None:
        """A reader has taken records."""
        self.readers.release_source()
        if self._callbacks:
            self.request()

    def notify_change(self) -> None:
        """A watcher or callback was added or removed."""
        self.is_needed = bool(self._groups or self.readers or self._callbacks)
        if self._callbacks:
            self.request()

    def _begin_pace(self, delivery: Delivery | None) -> None:
        every = every_of(delivery)
        if every is not None and every not in self._paces:
            self._paces[every] = Pace(every, self._history, self._later, self.request)

    def _later(self, seconds: float, act: Callback) -> Callable[[], object]:
        """Call a function after so many seconds, or at once without a clock.

        Returns a function that cancels the call.
        """
        loop, scheduler = self._clock
        if scheduler is not None:

            def ring(*_: object) -> None:
                act()

            return scheduler.schedule_relative(seconds, ring).dispose
        if loop is not None and not loop.is_closed():
            return loop.call_later(seconds, act).cancel
        act()
        return act

    def _pace_of(self, delivery: Delivery | None) -> Pace | None:
        every = every_of(delivery)
        return None if every is None else self._paces.get(every)

    def add_callback(self, callback: Callback) -> Callback:
        """Call a function, once a turn, when something has happened; what is returned removes it again."""
        self._callbacks = (*self._callbacks, callback)
        self.notify_change()
        return partial(self._remove_callback, callback)

    def _remove_callback(self, callback: Callback) -> None:
        self._callbacks = tuple(other for other in self._callbacks if other is not callback)
        self.notify_change()

    def needed_after(self, last_seq: int) -> float:
        """The number after which a watcher still needs records, of those that are held for it."""
        needed = [max(one.seen, last_seq - held_for(one.delivery)) for one in self.readers]
        for delivery, group in self._groups.items():
            # Reliable() and Coalesce() are served in the next turn, whatever is pushed in this one.
            is_next = delivery == Coalesce() or isinstance(delivery, Reliable)
            held = inf if is_next else held_for(delivery)
            needed.append(max(group.seen, last_seq - held))
        return min(needed, default=last_seq)

    def __len__(self) -> int:
        return len(self.readers) + sum(map(len, self._groups.values()))

    def states(self, last_seq: int) -> list[WatcherState]:
        """The states of the watchers."""
        pushed = [state for group in self._groups.values() for state in group.states(last_seq)]
        return pushed + self.readers.states()


class Readers(Struct, eq=False):
    """The watchers that read at their own pace: which sleep until more is there, and which make the source wait.

    The first argument is the history that they read.
    """

    _history: History
    _readers: dict[Watcher, None] = {}
    _wait_limits: dict[Watcher, int] = {}
    # By pace: every record wakes those without one.
    _asleep: dict[float | None, dict[Watcher, asyncio.Future[None]]] = {}
    _held: list[asyncio.Future[None]] = []
    _is_over: bool = False

    def __len__(self) -> int:
        return len(self._readers)

    def __iter__(self) -> Iterator[Watcher]:
        return iter(self._readers)

    def add(self, reader: Watcher) -> None:
        """Add a reader."""
        self._readers[reader] = None
        if reader.wait_limit is not None and not self._is_over:
            self._wait_limits[reader] = reader.wait_limit

    def remove(self, reader: Watcher) -> None:
        """Remove a reader; the source does not wait for it any more."""
        self._readers.pop(reader, None)
        self._wait_limits.pop(reader, None)
        self._asleep.get(every_of(reader.delivery), {}).pop(reader, None)
        self.release_source()

    def sleep(self, reader: Watcher) -> asyncio.Future[None]:
        """A future that is done when there may be more for the reader."""
        future = asyncio.get_running_loop().create_future()
        self._asleep.setdefault(every_of(reader.delivery), {})[reader] = future
        return future

    def wake(self, every: float | None = None) -> None:
        """Wake the readers of this pace; by default those without one."""
        asleep = self._asleep.pop(every, None)
        if asleep:
            wake(asleep.values(), None)

    def wake_all(self) -> None:
        """Wake the readers of every pace."""
        for every in tuple(self._asleep):
            self.wake(every)

    def hold(self) -> asyncio.Future[None] | None:
        """A future that is done when no reader makes the source wait; ``None`` when none does now."""
        if not (self._wait_limits and self.is_full):
            return None
        future = asyncio.get_running_loop().create_future()
        self._held.append(future)
        return future

    def release_source(self) -> None:
        """Let the source continue, unless a reader still makes it wait."""
        if self._held and not self.is_full:
            held, self._held = self._held, []
            wake(held, None)

    def end(self) -> None:
        """No more records follow, so that no source waits."""
        self._is_over = True
        self._wait_limits.clear()
        if self._held:
            self.release_source()

    @property
    def is_full(self) -> bool:
        """Whether a reader makes the source wait."""
        last = self._history.last_seq
        return any(last - reader.seen >= limit for reader, limit in self._wait_limits.items())

    def states(self) -> list[WatcherState]:
        """The states of the readers."""
        last = self._history.last_seq
        return [reader.state(last) for reader in self._readers]


class Pace:
    """The pace of all watchers with the same ``every``.

    Args:
        every: Seconds between two releases of deferrable records.
        history: The records.
        later: The clock.
        request: Requests a flush.

    Attributes:
        released: The number of the last record that may be delivered.
    """

    def __init__(self, every: float, history: History, later: Later, request: Callback) -> None:
        self.released = history.last_seq
        self._every = every
        self._history = history
        self._later = later
        self._request = request
        self._checked = self.released
        self._is_open = True
        self._cancel: Callable[[], object] | None = None

    def release(self) -> bool:
        """Release the new records, if it is time. Whether something was released."""
        last = self._history.last_seq
        if last <= self.released or not (self._is_open or self._has_barrier(last)):
            return False
        self.released = self._checked = last
        if self._is_open:
            self._is_open = False
            self._cancel = self._later(self._every, self._open)
        return True

    def close(self) -> None:
        """Release everything; no more records follow."""
        self.released = self._history.last_seq
        if self._cancel is not None:
            self._cancel()

    def _has_barrier(self, last: int) -> bool:
        """Whether a record that must not wait is among those that were not checked yet."""
        checked, self._checked = self._checked, last
        entries = self._history.entries(checked)
        return any(entry.event.__class__ not in _DEFERRABLE for entry in entries)

    def _open(self) -> None:
        self._is_open = True
        if self._history.last_seq > self.released:
            self._request()
