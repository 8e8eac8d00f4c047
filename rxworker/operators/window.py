"""The items of the last seconds: as a view, and as a fold.

An item belongs to the window from the moment it arrives until ``seconds`` later, that moment not included. One timer
waits for the oldest item; when it fires, all expired items leave at once, and the timer is set for the next one. An
item that arrives while the timer is late first removes what has expired, so that each emitted value is right whatever
the timer does. Without items there is no timer.

The list behind a view is only ever appended to, so that a `Window` is the list and two positions in it, and does not
change. Expired items are cut off by making a new list as soon as they are the greater part: each item is copied about
once, and a window that is kept keeps the list it was made of.

A fold without an inverse is kept in two stacks. New items are combined into ``back``. When the front is needed and
empty, the back is reversed into it, so that each item there holds the fold of itself and all younger ones of the front.
Each item is combined twice, however long the window is, and nothing is ever subtracted, so that no rounding error
accumulates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar, overload

from reactivex import abc

from rxworker.framing import Decoder
from rxworker.messages.settings import check_number
from rxworker.operators.decode import decoding_when_idle
from rxworker.operators.expect import Follow, expect_callable, timed
from rxworker.operators.kernel import Ending, Operator, SerialDisposable, Sink

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

# Below that, cutting off what has left is not worth a copy.
FEW = 32


class Window(Sequence[A_co]):
    """The items of a window, the oldest first. It does not change.

    >>> window = Window([1, 2, 3, 4], 1, 3)
    >>> window, len(window), window[-1], window == (2, 3)
    (Window(2, 3), 2, 3, True)
    """

    __slots__ = ("_row", "_start", "_stop")

    def __init__(self, row: Sequence[A_co], start: int, stop: int) -> None:
        self._row = row
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[A_co]:
        row = self._row
        for place in range(self._start, self._stop):
            yield row[place]

    @overload
    def __getitem__(self, index: int) -> A_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[A_co, ...]: ...
    def __getitem__(self, index: int | slice) -> A_co | tuple[A_co, ...]:
        places = range(self._start, self._stop)[index]
        return tuple(self._row[place] for place in places) if isinstance(places, range) else self._row[places]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Window | tuple):
            return tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - a tuple of anything
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Window({', '.join(map(repr, self))})"


class View(Generic[A]):
    """The items themselves."""

    __slots__ = ("_dues", "_row", "_start")

    def __init__(self) -> None:
        self._row: list[A] = []
        self._dues: list[float] = []
        self._start = 0

    @property
    def due(self) -> float | None:
        """When the oldest item leaves; ``None`` without one."""
        return self._dues[self._start] if self._start < len(self._dues) else None

    def push(self, due: float, item: A, /) -> None:
        """Take an item that leaves then, not before those that came earlier."""
        self._row.append(item)
        self._dues.append(due)

    def drop(self, now: float, /) -> bool:
        """Remove the expired items; return whether there were any."""
        start, dues = self._start, self._dues
        while start < len(dues) and dues[start] <= now:
            start += 1
        if start == self._start:
            return False
        if start > FEW and 2 * start > len(dues):
            self._row, self._dues, start = self._row[start:], dues[start:], 0
        self._start = start
        return True

    def value(self) -> Window[A]:
        """The window."""
        return Window(self._row, self._start, len(self._row))


class Fold(Generic[A]):
    """The combined value of the items."""

    __slots__ = ("_back", "_back_total", "_combine", "_empty", "_front", "_oldest")

    def __init__(self, combine: Callable[[A, A], A], empty: A) -> None:
        self._combine = combine
        self._empty = empty
        self._front: list[tuple[float, A]] = []
        self._back: list[tuple[float, A]] = []
        self._back_total = empty

    @property
    def due(self) -> float | None:
        """When the oldest item leaves; ``None`` without one."""
        if self._front:
            return self._front[-1][0]
        return self._back[0][0] if self._back else None

    def push(self, due: float, item: A, /) -> None:
        """Take an item that leaves then, not before those that came earlier."""
        total = self._combine(self._back_total, item) if self._back else item
        self._back.append((due, item))
        self._back_total = total

    def drop(self, now: float, /) -> bool:
        """Remove the expired items; return whether there were any."""
        dropped = False
        while (due := self.due) is not None and due <= now:
            if not self._front:
                self._turn_over()
            self._front.pop()
            dropped = True
        return dropped

    def value(self) -> A:
        """The combined value; ``empty`` without items."""
        if not self._front:
            return self._back_total if self._back else self._empty
        total = self._front[-1][1]
        return self._combine(total, self._back_total) if self._back else total

    def _turn_over(self) -> None:
        back, self._back, self._back_total = self._back, [], self._empty
        due, total = back.pop()
        self._front.append((due, total))
        for due, item in reversed(back):
            total = self._combine(item, total)
            self._front.append((due, total))


B = TypeVar("B")
A_contra = TypeVar("A_contra", contravariant=True)
B_co = TypeVar("B_co", covariant=True)


class _Held(Protocol[A_contra, B_co]):
    """The items of a window."""

    @property
    def due(self) -> float | None: ...
    def push(self, due: float, item: A_contra, /) -> None: ...
    def drop(self, now: float, /) -> bool: ...
    def value(self) -> B_co: ...


def sliding(seconds: float, scheduler: abc.SchedulerBase | None = None) -> Operator[A, Window[A]]:
    """The items of the last seconds, after each that comes, and whenever some have left.

        -a--b------------|     the window is 6 columns wide
        [ sliding(6) ]
        -A--B--C--D------|     A is (a), B is (a, b), C is (b), D is ()

    A `Window` is an immutable sequence. Making it costs nothing, whatever it holds, so look at it as seldom as a person
    does: after ``ops.sample``. If only one value of the items is needed, `fold_sliding` keeps it up to date.

    Args:
        seconds: How long an item stays.
        scheduler: The scheduler of the timer, by default that of the subscription. It must run on the source's thread.

    Raises:
        ConfigurationError: The window has no width. As ``on_error``: there is no scheduler.

    >>> from reactivex import of
    >>> from reactivex.scheduler import HistoricalScheduler
    >>> of("a", "b").pipe(sliding(60, HistoricalScheduler())).subscribe(print) and None
    Window('a')
    Window('a', 'b')
    """
    return slide(seconds, scheduler, View[A], "sliding")


def fold_sliding(
    combine: Callable[[A, A], A], empty: A, seconds: float, scheduler: abc.SchedulerBase | None = None
) -> Operator[A, A]:
    """The combined value of the items of the last seconds, after each new item, and whenever some have expired.

        -1--2------------|     the window is 6 columns wide
        [ fold_sliding(add, 0, 6) ]
        -1--3--2--0------|

    An item is combined about twice, however many the window holds. Nothing is taken out again, so that it works for
    ``max`` as well as for sums, and no rounding error builds up.

    Args:
        combine: Two neighbours in one, the older first. It must be associative: how they are grouped must not matter.
        empty: The value without items.
        seconds: How long an item stays.
        scheduler: The scheduler of the timer, by default that of the subscription. It must run on the source's thread.

    Raises:
        ConfigurationError: The window has no width. As ``on_error``: there is no scheduler.

    >>> from reactivex import of
    >>> from reactivex.scheduler import HistoricalScheduler
    >>> of(3, 7, 5).pipe(fold_sliding(max, 0, 60, HistoricalScheduler())).subscribe(print) and None
    3
    7
    7
    """
    expect_callable("fold_sliding(...)", combine, "a function of two items")
    return slide(seconds, scheduler, partial(Fold[A], combine, empty), "fold_sliding")


def session_windows(
    gap: float, scheduler: abc.SchedulerBase | None = None, *, at_most: int = 10_000
) -> Operator[A, tuple[A, ...]]:
    """The items between two pauses, together, as soon as a pause has lasted for so long.

        -a-b-----c---(d,|)     the gap is 4 columns wide
        [ session_windows(4) ]
        -------A-----(B,|)     A is (a, b), B is (c, d)

    Completion ends the last group; an error of the source drops it.

    Args:
        gap: Seconds without an item after which a group ends.
        scheduler: The scheduler of the timer, by default that of the subscription. It must run on the source's thread.
        at_most: How many items a group has; with the next one another begins.

    Raises:
        ConfigurationError: The gap is not a number above 0, or the limit not a whole number from 1 up. As
            ``on_error``: there is no scheduler.

    >>> from reactivex import of
    >>> from reactivex.scheduler import HistoricalScheduler
    >>> of("a", "b", "c").pipe(session_windows(60, HistoricalScheduler(), at_most=2)).subscribe(print) and None
    ('a', 'b')
    ('c',)
    """
    check_number("session_windows(gap)", gap, above=0)
    check_number("session_windows(at_most)", at_most, least=1, whole=True)
    return decoding_when_idle(partial(_Sessions[A], at_most), "session_windows(...)", gap, scheduler)


class _Sessions(Decoder[A, tuple[A, ...]]):
    """The items since the last pause."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._items: list[A] = []

    def feed(self, data: A) -> Sequence[tuple[A, ...]]:
        self._items.append(data)
        return self.finish() if len(self._items) >= self._at_most else ()

    def finish(self) -> Sequence[tuple[A, ...]]:
        items, self._items = self._items, []
        return (tuple(items),) if items else ()


@dataclass(eq=False)
class _Sliding(abc.DisposableBase, Generic[A, B]):
    """One subscription to a window that slides over time.

    Attributes:
        seconds: How long an item stays.
    """

    seconds: float
    _held: _Held[A, B]
    _empty: Callable[[], B] | None  # makes the value without items, if that is emitted when the source completes
    _clock: abc.SchedulerBase
    _observer: abc.ObserverBase[B]

    def __post_init__(self) -> None:
        self.upstream = SerialDisposable()
        self._timer = SerialDisposable()
        self.ending = Ending(self._observer, self._timer.dispose)
        self._waits_for: float | None = None
        self._last = float("-inf")
        self._ahead = 0.0

    def _read_clock(self) -> float:
        # A wall clock may be set back. Then time goes on here from where it was.
        now = self._clock.to_seconds(self._clock.now) + self._ahead
        if now < self._last:
            self._ahead += self._last - now
            now = self._last
        self._last = now
        return now

    def _arm(self) -> None:
        due = self._held.due
        if due is not None:
            self._waits_for = due
            self._timer.put(self._clock.schedule_relative(max(due - self._last, 0.0), self._ring))

    def _ring(self, _: abc.SchedulerBase, __: object = None) -> None:
        if self._waits_for is not None and not self.ending.is_over:
            # A clock may ring a moment early. What it was set for is due all the same.
            due, self._waits_for = self._waits_for, None
            self._change(max(self._read_clock(), due))

    def _change(self, now: float, *items: A) -> None:
        """Remove the expired items, and add a new one."""
        try:
            is_new = self._held.drop(now)
            if items:
                self._held.push(now + self.seconds, *items)
                is_new = True
            value = self._held.value()
        except Exception as error:
            self.upstream.dispose()
            self.ending.on_error(error)
            return
        if self._waits_for is None:
            self._arm()
        if is_new:
            self._observer.on_next(value)

    def on_next(self, item: A) -> None:
        if not self.ending.is_over:
            self._change(self._read_clock(), item)

    def on_completed(self) -> None:
        if self._empty is not None and self._held.due is not None and not self.ending.is_over:
            self._observer.on_next(self._empty())
        self.ending.on_completed()

    def dispose(self) -> None:
        self.ending.end()
        self.upstream.dispose()


def slide(
    seconds: float,
    scheduler: abc.SchedulerBase | None,
    hold: Callable[[], _Held[A, B]],
    verb: str,
    *,
    ends_empty: bool = False,
) -> Operator[A, B]:
    """The value of the items of the last seconds, after each that comes, and whenever some have left.

    Args:
        seconds: How long an item stays.
        scheduler: The scheduler of the timer.
        hold: Makes what holds the items of a subscription.
        verb: The operator's name, without parentheses.
        ends_empty: Whether the value without items is emitted when the source completes.

    Raises:
        ConfigurationError: The window has no width. As ``on_error``: there is no scheduler.
    """
    check_number(f"{verb}(seconds)", seconds, above=0)

    def subscribe(follow: Follow[A], observer: abc.ObserverBase[B], clock: abc.SchedulerBase) -> abc.DisposableBase:
        empty = (lambda: hold().value()) if ends_empty else None
        window = _Sliding(seconds, hold(), empty, clock, observer)
        sink = Sink(window.on_next, window.ending.on_error, window.on_completed)
        window.upstream.put(follow(sink))
        return window

    return timed(subscribe, f"{verb}(...)", scheduler, seconds)
