"""One run, many watchers, none of which can hurt another or the run.

Theory of operation. What was pushed is kept in one history, in the memory of its text. Each watcher is a place in it, and a
way of being given what stands behind that place; nobody has a buffer, so a slow watcher costs nothing but its own delay.
There are three sorts:

* An observer of the hub itself is pushed to at once, record by record, from the first.
* A follower (``subscribe`` on a `Watch`) is pushed to once a loop turn: all that has come since, as its delivery says.
* A reader (``async for`` over a `Watch`) takes what there is for it when it comes back.

A watcher that pushes something itself while it is being told does not break the order: what it pushes goes to the end of
the row, and everybody reaches it in turn.

A watcher that raises is detached, whatever it raises: a warning with the traceback is logged, ``on_detach`` is called, and the watcher's own
stream ends with what it raised. ``KeyboardInterrupt`` must reach the program besides: it leaves the event loop.

The hub belongs to one thread, its event loop's; a `Watch` is the door for other threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import count

from reactivex import abc

from rxworker.events import Event, Record
from rxworker.hub.deferred import Bell, Defer, Deferred
from rxworker.hub.delivery import Coalesce, Delivery, Reliable, expect_delivery, expect_place
from rxworker.hub.history import History
from rxworker.hub.home import running_loop
from rxworker.hub.latch import Latch
from rxworker.hub.loss import Losses, OnRaise
from rxworker.hub.observers import Observer, Observers
from rxworker.hub.watch import Watch
from rxworker.hub.watcher import WatcherState
from rxworker.operators.disposables import NOTHING
from rxworker.operators.stage import Stage


class Hub(Stage[Record]):
    """The records of a run: hot, with memory, and with watchers that are kept apart.

    Args:
        on_detach: Called with the name of a watcher that has raised, and what it raised.
        defer: Calls a function a little later, when whoever pushes has finished; by default in the next turn of the event loop
            that the hub was made on, and at once where there is none.
        loop: The event loop that runs, where it is at hand.
        scheduler: The clock of watchers with a pace; by default the event loop's.

    Attributes:
        history: The records so far.
        loop: The event loop that it was made on, if any.
        over: Opens when it has ended; for other threads.
        deferred: Followers and readers; for them to come and go.
        losses: Reports the watchers that have raised.

    Example:
        >>> from rxworker.events import TextDelta
        >>> hub = Hub()
        >>> hub.push(Record(1, "r", 1, 1, 0.0, TextDelta(0, "hi")))
        >>> _ = hub.subscribe(lambda record: print(record.seq))
        1
        >>> hub.push(Record(2, "r", 1, 1, 0.0, TextDelta(0, "you")))
        2
    """

    is_direct = True
    emits_records = True

    def __init__(
        self,
        on_detach: OnRaise | None = None,
        *,
        defer: Defer | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        scheduler: abc.SchedulerBase | None = None,
    ) -> None:
        super().__init__()
        self.history = History()
        self.loop = loop or running_loop()
        self.over = Latch()
        self.losses = losses = Losses(on_detach, self.loop)
        self._interrupt: KeyboardInterrupt | None = None
        if self.loop is None:
            losses.on_interrupt = self._keep_interrupt
        self.deferred = Deferred(self.history, self.loop, defer, losses.report, scheduler)
        self._observers = Observers(self.history, losses.report)
        self._ended = False
        self._error: Exception | None = None
        self._names = count(1)
        self._was_watched = False

    @property
    def last_seq(self) -> int:
        """The number of the last record; 0 before the first."""
        return self.history.last_seq

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._ended

    @property
    def error(self) -> Exception | None:
        """What it has ended with, if anything."""
        return self._error

    @property
    def watched(self) -> bool:
        """Whether anybody has watched it at any time."""
        return self._was_watched

    def push(self, entry: Record) -> None:
        """Show a record to every watcher. Its first number is the one behind ``last_seq``. After the end it does nothing.

        Args:
            entry: A record, or one whose event is a `Deltas`: watchers that want records are given one for each delta.
        """
        if self._ended:
            return
        self.history.append(entry)
        self._show((entry,))

    def push_many(self, entries: Sequence[Record]) -> None:
        """Show several, in order. All of them are in the history before the first is shown."""
        if self._ended or not entries:
            return
        self.history.extend(entries)
        self._show(entries)

    def _show(self, entries: Sequence[Record]) -> None:
        observers = self._observers
        if observers.is_telling:
            return
        if observers.row:
            observers.tell(entries)
        if self._ended or self.deferred.is_needed:
            self._pushed()

    def _pushed(self) -> None:
        """The observers have seen it; somebody else waits for it, or it was the last."""
        if self._ended:
            self._close()
        else:
            self.deferred.soon()
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt

    def _keep_interrupt(self, interrupt: KeyboardInterrupt) -> None:
        """Without a loop that it could leave, it is raised to whoever pushes, behind the round."""
        self._interrupt = interrupt
        self.deferred.is_needed = True

    def end(self, error: Exception | None = None) -> None:
        """Nothing more comes: watchers complete, or get the error."""
        if self._ended:
            return
        self._ended, self._error = True, error
        if not self._observers.is_telling:
            self._close()

    def watch(self, delivery: Delivery | None = None, *, after: int = 0, name: str = "") -> Watch:
        """A way of watching. Each subscription to it, and each iteration over it, is a watcher of its own.

        Args:
            delivery: How it is given the records; `Coalesce` by default.
            after: The number of the last record that it need not be given.
            name: For people; by default it is numbered.

        Raises:
            ConfigurationError: The delivery is none, or ``after`` is no number.
        """
        delivery = Coalesce() if delivery is None else delivery
        # Here, where the mistake is: later it would be met by whoever looks at the watchers.
        expect_delivery(delivery)
        expect_place(after)
        return Watch(self, delivery, max(after, 0), name)

    def hold(self) -> asyncio.Future[None] | None:
        """What a source waits for before it reads on: done when no `Reliable` watcher is too far behind, ``None`` when none is."""
        return self.deferred.readers.hold() if self.deferred.is_needed else None

    @property
    def is_full(self) -> bool:
        """Whether a source should wait now."""
        return self.deferred.is_needed and self.deferred.readers.is_full

    @property
    def events(self) -> Stage[Event]:
        """The bare events of the records: what ``pipe(events())`` gives, without records being made for it.

        That operator is the plain definition. Deltas that have come together reach the observer without a record being made of each.
        """
        stage: Stage[Event] = Stage(self._attach_events)
        stage.is_direct = True
        return stage

    def _subscribe_core(
        self,
        observer: abc.ObserverBase[Record],
        scheduler: abc.SchedulerBase | None = None,  # noqa: ARG002 - part of the signature
    ) -> abc.DisposableBase:
        return self._attach(Observer(observer, self.named(""), self._detach))

    def _attach_events(
        self,
        observer: abc.ObserverBase[Event],
        scheduler: abc.SchedulerBase | None = None,  # noqa: ARG002 - part of the signature
    ) -> abc.DisposableBase:
        watcher = Observer(observer, self.named(""), self._detach, wants_events=True)
        return self._attach(watcher)

    def _attach(self, watcher: Observer) -> abc.DisposableBase:
        """Push to an observer at once, from the first record."""
        if not self._observers.catch_up(watcher):
            return NOTHING
        if self._ended and not self._observers.is_telling:
            self._observers.end(self._error)
            return NOTHING
        if self.deferred.is_needed:
            self.deferred.ring()
        return watcher

    def _detach(self, watcher: Observer) -> None:
        self._observers.remove(watcher)
        if self.deferred.is_needed:
            self.deferred.ring()

    def _close(self) -> None:
        self._observers.end(self._error)
        self.over.open()
        self.deferred.end(self._error)
        # A run that is kept costs memory for as long as it is kept; a short one has not been packed until now.
        self.history.pack()

    def named(self, name: str) -> str:
        """The name of a new watcher."""
        self._was_watched = True
        number = next(self._names)  # in one step, since any thread may ask
        return name or f"watcher-{number}"

    @property
    def watching(self) -> int:
        """How many watch it now."""
        return len(self._observers.row) + len(self.deferred)

    def states(self) -> tuple[WatcherState, ...]:
        """How the watchers stand."""
        last = self.last_seq
        told = [WatcherState(w.name, "reliable", last, 0, last, 0, 0) for w in self._observers.row]
        return (*told, *self.deferred.states(last))

    def add_bell(self, bell: Bell) -> Bell:
        """Have a function called, once a loop turn, when something has been pushed or somebody has come, gone or read on.

        Returns:
            Takes it away again.
        """
        return self.deferred.add_bell(bell)

    def __aiter__(self) -> AsyncIterator[Record]:
        """Everything from the start, record by record, at the reader's own pace."""
        return aiter(self.watch(Reliable(limit=None)))


__all__ = ["Defer", "Hub"]
