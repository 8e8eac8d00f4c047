"""The kernel of the operators: `Stage`, the result of an operator, `Source`, a hot observable, and `Guard`.

reactivex guards each subscription between two operators with an observer that detaches itself and with a trampoline;
for each event and each subscription that costs more than the operators do. Between two stages `connect` attaches
directly. In return, the author of a stage guarantees:

* the stage emits nothing after a terminal event, provided that upstream does the same;
* an exception of a user's callback goes to ``on_error``, and the stage is silent from then on;
* all state is created in the function that subscribes;
* one thread at a time: there are no locks, also in the disposables, which are otherwise like those of reactivex.

The guard is needed once, at the end of a pipeline. `Guard` behaves like reactivex's ``AutoDetachObserver``, without its
locks:

* nothing is emitted after a terminal event or after disposing, not even the rest of a list of parts;
* a terminal event disposes the source, also when the observer raises at it; if it is emitted while the source is being
  subscribed to, the source is disposed right after;
* an exception of the observer goes to the caller that pushed, and ends nothing;
* an exception while subscribing goes to ``on_error``, or to the subscriber if a terminal event was emitted before;
* without ``on_error`` the error is raised.

A subscription may be disposed by another thread: it is stored first, and then the flag is checked, so that one of the
two disposes it.

The trampoline lets a source that emits while it is subscribed to wait until the subscriber holds the subscription.
Upstream of a stage with ``is_direct`` nothing waits there, since events are pushed by hand.

A network read brings many events at once. Between two stages these travel together, as a list of parts: a part is an
item, or a `Deltas` of several adjacent ones. `many` returns the function that takes it. The meaning is the same: a list
is its items, one after the other, and an observer without ``on_many``, like any observer of another library, receives
them one by one.

Any other observable may be upstream (`connect` falls back to ``subscribe``) or downstream.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from types import BuiltinFunctionType, NoneType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.internal import default_error, noop
from reactivex.scheduler import CurrentThreadScheduler

from rxworker.events.kinds import Deltas, Parts, flatten
from rxworker.messages.settings import AWAITED, check_plain
from rxworker.operators.factories import expect_operator


class SerialDisposable(abc.DisposableBase):
    """Holds one subscription at a time.

    What goes in disposes of what was there, and once disposed, it disposes of what goes in.

    It does what that of reactivex does, without a lock, and serves in place of a ``SingleAssignmentDisposable``.

    >>> current = SerialDisposable()
    >>> current.put(Call(lambda: print("first")))
    >>> current.put(Call(lambda: print("second")))
    first
    >>> current.dispose()
    second
    """

    __slots__ = ("_held", "_is_over")

    def __init__(self) -> None:
        self._held: abc.DisposableBase | None = None
        self._is_over = False

    def put(self, subscription: abc.DisposableBase | None) -> None:
        """Hold this from now on."""
        if self._is_over:
            gone = subscription
        else:
            gone, self._held = self._held, subscription
        if gone is not None:
            gone.dispose()

    def dispose(self) -> None:
        """Dispose the held disposable, and each one that is put in later."""
        self._is_over = True
        gone, self._held = self._held, None
        if gone is not None:
            gone.dispose()


class RefCounted(SerialDisposable):
    """Holds one subscription until it is disposed and its last user has left, as a ``RefCountDisposable``.

    Attributes:
        users: How many users there are. Each adds itself.

    >>> shared = RefCounted()
    >>> shared.put(Call(lambda: print("gone")))
    >>> shared.users += 1; shared.dispose(); shared.release()
    gone
    """

    __slots__ = ("_is_left", "users")

    def __init__(self) -> None:
        super().__init__()
        self.users = 0
        self._is_left = False

    def release(self) -> None:
        """Count one user less."""
        self.users -= 1
        if self._is_left and not self.users:
            super().dispose()

    def dispose(self) -> None:
        """Dispose the held disposable, or let the last user do it."""
        self._is_left = True
        if not self.users:
            super().dispose()


class Call(abc.DisposableBase):
    """Calls a function when it is disposed for the first time."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def dispose(self) -> None:
        """Call it, unless that has been done."""
        action, self._action = self._action, None
        if action is not None:
            action()


class Both(abc.DisposableBase):
    """Two as one, disposed in this order."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: abc.DisposableBase, second: abc.DisposableBase) -> None:
        self._first = first
        self._second = second

    def dispose(self) -> None:
        """Dispose of both."""
        self._first.dispose()
        self._second.dispose()


NOTHING = Disposable()
"""There is nothing to dispose."""


A = TypeVar("A")
B = TypeVar("B")
S = TypeVar("S")

Operator: TypeAlias = Callable[[Observable[A]], Observable[B]]
"""A function from one observable to another: what ``pipe`` takes."""

Step: TypeAlias = Callable[[S, A], S]
"""A pure function from a state and what happened to the next state: what ``scan`` takes."""


Scheduler: TypeAlias = abc.SchedulerBase | None
"""The scheduler that a subscriber passes, if it passes one."""


class Guard(abc.ObserverBase[A]):
    """Forwards the notifications of a stage until its end.

    Args:
        on_next: Takes an item.
        on_error: Takes the error that ends the stream.
        on_completed: Called when the stream is complete.
    """

    __slots__ = ("_held", "_is_disposed", "_is_stopped", "_on_completed", "_on_error", "_on_next")

    def __init__(
        self,
        on_next: Callable[[A], None] | None,
        on_error: Callable[[Exception], None] | None,
        on_completed: Callable[[], None] | None,
    ) -> None:
        self._on_next = on_next or noop
        self._on_error = on_error or default_error
        self._on_completed = on_completed or noop
        self._held: abc.DisposableBase | None = None
        self._is_stopped = self._is_disposed = False

    def begin(self, subscribe: abc.Subscription[A], scheduler: abc.SchedulerBase | None, *_: object) -> None:
        """Subscribe to the source; the result of a trampoline is not needed.

        Raises:
            Exception: What subscribing raised, if it is too late to notify the observer.
        """
        try:
            # As any function that an observable is made of: it may give a function to call, or nothing.
            subscription: Any = subscribe(self, scheduler)
        except Exception as error:
            if self._is_stopped:
                raise
            self._is_stopped = True
            self._on_error(error)
            return
        self._held = subscription if hasattr(subscription, "dispose") else Disposable(subscription)
        if self._is_disposed:
            self.dispose()

    def on_next(self, value: A) -> None:
        """Pass on an item."""
        if not self._is_stopped:
            self._on_next(value)

    def on_many(self, parts: Parts[A]) -> None:
        """Pass on several that arrived together, one by one."""
        push: Callable[[Any], None] = self._on_next
        for value in flatten(parts) if Deltas in map(type, parts) else parts:
            if self._is_stopped:
                return
            push(value)

    def on_error(self, error: Exception) -> None:
        """Pass on the error, and let go."""
        self._end(self._on_error, error)

    def on_completed(self) -> None:
        """Pass on that the stream is complete, and let go."""
        self._end(self._on_completed)

    def _end(self, notify: Callable[..., None], *errors: Exception) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            try:
                notify(*errors)
            finally:
                self.dispose()

    def dispose(self) -> None:
        """Emit nothing any more, and dispose the source."""
        self._is_stopped = self._is_disposed = True
        held, self._held = self._held, None
        if held is not None:
            held.dispose()


Many: TypeAlias = Callable[[Parts[A]], None]

_PLAIN = NoneType, BuiltinFunctionType

TRAMPOLINE = CurrentThreadScheduler.singleton()
"""The scheduler of the calling thread."""


class Sink(abc.ObserverBase[A]):
    """An observer of three functions, held as attributes so that calling one costs one frame.

    Attributes:
        on_next: Takes an item.
        on_error: Takes the error that ends the stream.
        on_completed: Called when the stream is complete.
        on_many: Takes several items that arrived together, as a list in which a `Deltas` stands for adjacent deltas;
            without it, each item goes through ``on_next``.
        kinds: Of an observer of events, the classes of those that it takes notice of; of all, if it is not set.
        reads: Of an observer of records, the same of their events: see `reads_of`.
    """

    # The slots stand in for the base class's abstract methods; the names below only declare their types.
    __slots__ = ("kinds", "on_completed", "on_error", "on_many", "on_next", "reads")

    on_next: Callable[[A], None]  # pyright: ignore[reportIncompatibleMethodOverride] - a slot
    on_error: Callable[[Exception], None]  # pyright: ignore[reportIncompatibleMethodOverride] - a slot
    on_completed: Callable[[], None]  # pyright: ignore[reportIncompatibleMethodOverride] - a slot
    kinds: Kinds | None
    reads: Kinds | None

    def __init__(
        self,
        on_next: Callable[[A], None],
        on_error: Callable[[Exception], None],
        on_completed: Callable[[], None],
        on_many: Many[A] | None = None,
    ) -> None:
        self.on_next = on_next
        self.on_error = on_error
        self.on_completed = on_completed
        self.on_many = on_many


Kinds: TypeAlias = frozenset[type[object]]
"""Classes of events."""

NO_KINDS: Kinds = frozenset()


def reads_of(observers: Iterable[abc.ObserverBase[Any]]) -> Kinds | None:
    """The classes of the events whose records an observer of these takes notice of; ``None`` for all classes.

    The records of others need not be pushed to them.
    """
    found = NO_KINDS
    for observer in observers:
        reads: Kinds | None = getattr(observer, "reads", None)
        if reads is None:
            return None
        found |= reads
    return found


def many(observer: abc.ObserverBase[A]) -> Many[A]:
    """How to push several items at once to an observer, of whatever make.

    >>> seen = []
    >>> many(Sink(seen.append, print, print))([1, 2])
    >>> seen
    [1, 2]
    """
    on_many: Many[A] | None = getattr(observer, "on_many", None)
    if on_many is not None:
        return on_many
    push = observer.on_next

    def each(parts: Parts[A]) -> None:
        for item in flatten(parts):
            push(item)

    return each


def check_observer(*functions: object) -> None:
    """Refuse coroutine functions of an observer.

    Raises:
        ConfigurationError: One is a coroutine function.
    """
    instead = "; or iterate with async for, over the run, or over rxworker.hub.iterate(observable)"
    check_plain("subscribe(...)", *functions, instead=instead)


class Unstaged(Observable[A]):
    """An observable other than a `Stage`: reactivex keeps its contract."""

    def subscribe(
        self,
        on_next: abc.ObserverBase[A] | abc.OnNext[A] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Subscribe an observer, or functions; see ``Observable.subscribe``."""
        check_observer(getattr(on_next, "on_next", on_next), on_error, on_completed)
        return super().subscribe(on_next, on_error, on_completed, scheduler=scheduler)


class Stage(Observable[A]):
    """An observable that keeps the Rx contract by itself, so that another stage may attach to it directly.

    There are many of them, most for the time of one response. The lock that every observable has, for operators of
    reactivex that join several, is created at its first use.

    Args:
        subscribe: Attaches an observer.

    Attributes:
        is_direct: Whether nothing upstream waits in the trampoline of the thread that subscribes.
        emits_records: Whether it emits the records of a run, and not bare events.
        timing: Gives a pipeline on it the time of its event loop, where operators of other libraries are in it;
            ``None`` where it has no event loop.
    """

    is_direct = False
    emits_records = False
    timing: Callable[[Observable[Any]], Stage[Any]] | None = None
    _subscribe = None

    def __init__(self, subscribe: abc.Subscription[A] | None = None) -> None:
        # Not the base's: it makes the lock. Nor is its way of calling the function needed.
        if subscribe is not None:
            self._subscribe_core = subscribe  # pyright: ignore[reportAttributeAccessIssue] - its parameters have no names

    if not TYPE_CHECKING:  # a type checker reports it by itself

        def __iter__(self) -> NoReturn:  # that of an observable never ends
            raise TypeError("an observable is not iterable: subscribe to it, or use async for record in run")

    @cached_property
    def lock(self) -> threading.RLock:  # pyright: ignore[reportIncompatibleVariableOverride] - made late
        """For operators that join several sources."""
        return threading.RLock()

    def subscribe(
        self,
        on_next: abc.ObserverBase[A] | abc.OnNext[A] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Subscribe an observer, or functions: ``Observable.subscribe``, which see, for less."""
        push: Any = on_next  # or an observer
        if callable(getattr(push, "on_next", None)):
            push, on_error, on_completed = push.on_next, push.on_error, push.on_completed
        for function in (push, on_error, on_completed):
            if not isinstance(function, _PLAIN):
                code = getattr(function, "__code__", None)
                if code is None or code.co_flags & AWAITED:
                    check_observer(function)
        guard: Guard[A] = Guard(push, on_error, on_completed)
        if self.is_direct or not TRAMPOLINE.schedule_required():
            guard.begin(self._subscribe_core, scheduler)
        else:
            TRAMPOLINE.schedule(partial(guard.begin, self._subscribe_core, scheduler))
        return Call(guard.dispose)

    if not TYPE_CHECKING:  # the base's knows its types

        def pipe(self, *operators: Callable[[Any], Any]) -> Any:
            """Compose operators, from left to right: ``Observable.pipe``, which see, for less.

            Raises:
                ConfigurationError: One only makes an operator: its parentheses are missing.
            """
            result = self
            timing = self.timing
            has_foreign = False
            for operator in operators:
                try:
                    result = operator(result)
                except TypeError:
                    expect_operator(operator)
                    raise
                found = getattr(result, "timing", ...)  # of a `Stage`; its class is abstract: see `connect`
                if found is not None and found is not ...:
                    continue  # else it is of several operators, with one of another library among them
                if found is ... and not isinstance(result, Observable):
                    if inspect.iscoroutine(result):
                        result.close()
                    expect_operator(operator)
                has_foreign = True
            if has_foreign and timing is not None and isinstance(result, Observable):
                return timing(result)
            return result


def connect(
    source: Observable[A], sink: abc.ObserverBase[A], scheduler: abc.SchedulerBase | None = None
) -> abc.DisposableBase:
    """Subscribe a stage's observer.

    Directly to one of our own stages, through ``subscribe`` to any other observable.
    """
    if hasattr(source, "is_direct"):  # a `Stage`: its class is abstract, for which `isinstance` takes several calls
        return source._subscribe_core(sink, scheduler)
    return source.subscribe(sink, scheduler=scheduler)


def stage(source: Observable[A], make: Callable[[abc.ObserverBase[B]], abc.ObserverBase[A]]) -> Stage[B]:
    """The result of an operator that is one observer in front of another.

    Args:
        source: The source of the operator.
        make: Called at each subscription with the observer downstream; gives the one to attach upstream.

    >>> from reactivex import of
    >>> def doubled(source: Observable[int]) -> Observable[int]:
    ...     def make(observer: abc.ObserverBase[int]) -> Sink[int]:
    ...         def on_next(value: int) -> None:
    ...             observer.on_next(2 * value)
    ...         return Sink(on_next, observer.on_error, observer.on_completed)
    ...     return stage(source, make)
    >>> of(1, 2).pipe(doubled).subscribe(print) and None
    2
    4
    """

    def subscribe(observer: abc.ObserverBase[B], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return connect(source, make(observer), scheduler)

    made: Stage[B] = Stage(subscribe)
    if getattr(source, "is_direct", False):
        made.is_direct = True
    if isinstance(source, Stage):
        made.timing = source.timing
    return made


class Ending:
    """Forwards the first terminal event of a stage that may end by itself, and nothing after it.

    Args:
        observer: The observer downstream.
        release: Called once, before the terminal event is forwarded.

    Attributes:
        is_over: Whether it has ended.
    """

    __slots__ = ("_observer", "_release", "is_over")

    def __init__(self, observer: abc.ObserverBase[Any], release: Callable[[], object] | None = None) -> None:
        self._observer = observer
        self._release = release
        self.is_over = False

    def end(self) -> bool:
        """Forward nothing any more. Whether it had not ended before."""
        if self.is_over:
            return False
        self.is_over = True
        if self._release is not None:
            self._release()
        return True

    def on_error(self, error: Exception) -> None:
        """End the stream with an error."""
        if self.end():
            self._observer.on_error(error)

    def on_completed(self) -> None:
        """Complete the stream."""
        if self.end():
            self._observer.on_completed()


class _Followed(SerialDisposable, abc.ObserverBase[A]):
    """One of the sources that are joined: the observer of it, and the subscription to it."""

    __slots__ = ("_completed", "_failed", "_joined", "on_many", "on_next")

    on_next: Callable[[A], None]  # pyright: ignore[reportIncompatibleMethodOverride] - a slot

    def __init__(
        self,
        joined: Joined,
        on_next: Callable[[A], None],
        failed: Callable[[Exception], None] | None,
        on_many: Many[A] | None,
        completed: Callable[[], object] | None,
    ) -> None:
        self._held = None  # not the base's, which is a call for each of many blocks
        self._is_over = False
        self._joined = joined
        self._failed = failed
        self._completed = completed
        self.on_next = on_next
        self.on_many = on_many

    def on_error(self, error: Exception) -> None:
        """End all, or this source alone."""
        if self._failed is None:
            self._joined.on_error(error)
            return
        try:
            if not self._joined.is_over:
                self._failed(error)
        except Exception as raised:
            self._joined.on_error(raised)
        self.on_completed()

    def on_completed(self) -> None:
        """Complete all, if this source is the last."""
        joined = self._joined
        joined._followed.pop(self, None)
        self.dispose()
        if self._completed is not None:
            self._completed()
        if not joined._followed:
            joined.on_completed()


class Joined(Ending, abc.DisposableBase):
    """Several sources with one observer: it completes when all of them have, and fails with the first that fails.

    Args:
        observer: The observer downstream.
        scheduler: The scheduler of the subscriber.
    """

    __slots__ = ("_followed", "_scheduler")

    def __init__(self, observer: abc.ObserverBase[Any], scheduler: Scheduler) -> None:
        super().__init__(observer, self._leave)
        self._scheduler = scheduler
        self._followed: dict[SerialDisposable, None] = {}

    def follow(
        self,
        source: Observable[A],
        on_next: Callable[[A], None],
        failed: Callable[[Exception], None] | None = None,
        on_many: Many[A] | None = None,
        completed: Callable[[], object] | None = None,
    ) -> None:
        """Subscribe to another source, until the end.

        Args:
            source: The source.
            on_next: Takes its items.
            failed: Called with its error, which then ends this source alone.
            on_many: Takes several of its items that arrived together; without it, each goes through ``on_next``.
            completed: Called when it has completed, or failed alone; it may follow another source.
        """
        if not self.is_over:
            followed = _Followed(self, on_next, failed, on_many, completed)
            self._followed[followed] = None
            followed.put(connect(source, followed, self._scheduler))

    def dispose(self) -> None:
        """Dispose the subscriptions, and emit nothing any more."""
        self.end()

    def _leave(self) -> None:
        followed, self._followed = self._followed, {}
        for subscription in followed:
            subscription.dispose()


class Source(Stage[A]):
    """A hot observable that is pushed by hand: what ``Subject`` is, without its locks.

    All subscribers see an event, also when one of them raises; the first exception is then raised to the caller that
    pushed. A subscriber that comes after the end receives the terminal event alone.

    Attributes:
        push: What `on_next` calls: the function of the subscriber itself, where there is one. To be looked up for each
            item, since it changes when subscribers come and go.
        served: Called with the observers, if it is set, when one has come or gone.

    >>> numbers = Source[int]()
    >>> subscription = numbers.subscribe(print)
    >>> numbers.on_next(1)
    1
    """

    # Of the class until there is a subscriber: a source is made for each block.
    _observers: tuple[abc.ObserverBase[A], ...] = ()
    _pushes: tuple[Callable[[A], None], ...] = ()
    push: Callable[[A], None] = staticmethod(noop)
    served: Callable[[tuple[abc.ObserverBase[A], ...]], object] | None = None
    _over = False
    _error: Exception | None = None

    def _subscribe_core(
        self,
        observer: abc.ObserverBase[A],
        scheduler: abc.SchedulerBase | None = None,  # noqa: ARG002 - part of the signature
    ) -> abc.DisposableBase:
        if self._over:
            if self._error is None:
                observer.on_completed()
            else:
                observer.on_error(self._error)
            return NOTHING
        self._serve((*self._observers, observer))
        return Subscribed(self, observer)

    def _remove(self, observer: abc.ObserverBase[Any]) -> None:
        if not self._over:
            self._serve(tuple(o for o in self._observers if o is not observer))

    def _serve(self, observers: tuple[abc.ObserverBase[A], ...]) -> None:
        # New tuples, not longer lists: a round of on_next that is under way keeps the ones it began with.
        self._observers = observers
        if len(observers) == 1:  # as most have
            self.push = observers[0].on_next
            self._pushes = (self.push,)
        else:
            self._pushes = tuple([o.on_next for o in observers])
            # Not a method: a source that held itself would wait for the garbage collector.
            self.push = partial(_push_to_each, self._pushes) if observers else noop
        if self.served is not None:
            self.served(observers)

    def on_next(self, value: A) -> None:
        """Push an item to all subscribers."""
        self.push(value)

    def push_many(self, parts: Parts[A]) -> None:
        """Push items that arrived together: as they are to a single subscriber, else one by one, each to all."""
        if len(self._observers) == 1:
            many(self._observers[0])(parts)
        else:
            for item in flatten(parts):
                self.push(item)

    def on_error(self, error: Exception) -> None:
        """End the stream with an error, for all subscribers and those to come."""
        for observer in self._end(error):
            observer.on_error(error)

    def on_completed(self) -> None:
        """Complete the stream, for all subscribers and those to come."""
        for observer in self._end(None):
            observer.on_completed()

    def _end(self, error: Exception | None) -> tuple[abc.ObserverBase[A], ...]:
        if self._over:
            return ()
        self._over, self._error = True, error
        observers, self._observers, self._pushes, self.push = self._observers, (), (), noop
        return observers


class Subscribed(abc.DisposableBase):
    """One subscription to a source: an object for it, since a block has one and lives shortly."""

    __slots__ = ("_observer", "_source")

    def __init__(self, source: Source[Any], observer: abc.ObserverBase[Any]) -> None:
        self._source: Source[Any] | None = source
        self._observer = observer

    def dispose(self) -> None:
        """Leave the source, unless that has been done."""
        source, self._source = self._source, None
        if source is not None:
            source._remove(self._observer)


def _push_to_each(pushes: tuple[Callable[[A], None], ...], value: A) -> None:
    failure: Exception | None = None
    for push in pushes:
        try:
            push(value)
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure


def to_blocks(find: Callable[[int], Source[Any] | None], on_next: Callable[[Any], None]) -> Many[Any]:
    """How an operator that pushes the events of a block to a source takes several events that arrived together.

    Args:
        find: Returns the source for the deltas of the open block with this index.
        on_next: Takes any other event.
    """

    def on_many(parts: Parts[Any]) -> None:
        for part in parts:
            source = find(part.like.index) if part.__class__ is Deltas else None
            if source is not None:
                source.push_many((part,))
            else:
                for event in flatten((part,)):
                    on_next(event)

    return on_many
