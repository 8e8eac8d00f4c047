"""What has come within the last seconds.

Theory of operation. An item belongs to the window from the moment it comes until ``seconds`` later, that moment not included.
One timer waits for the oldest item; when it rings, everything that is due leaves at once, and the timer is set for the next
one. An item that comes while the timer is late lets out what is due before it enters, so that what is emitted is right at
that moment, whatever the timer does. Without items there is no timer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable, SerialDisposable, SingleAssignmentDisposable

from rxworker.operators.stage import Sink, Stage, connect
from rxworker.operators.types import Operator
from rxworker.operators.window_view import Fold, View, Window

A = TypeVar("A")
B = TypeVar("B")
A_contra = TypeVar("A_contra", contravariant=True)
B_co = TypeVar("B_co", covariant=True)


class _Held(Protocol[A_contra, B_co]):
    """What a window holds."""

    @property
    def due(self) -> float | None: ...
    def push(self, due: float, item: A_contra, /) -> None: ...
    def drop(self, now: float, /) -> bool: ...
    def value(self) -> B_co: ...


def sliding(seconds: float, scheduler: abc.SchedulerBase) -> Operator[A, Window[A]]:
    """The items of the last seconds, after each that comes, and whenever some have left.

        -a--b------------|     the window is 6 columns wide
        [ sliding(6) ]
        -A--B--C--D------|     A is (a), B is (a, b), C is (b), D is ()

    A `Window` is an immutable sequence. Making it costs nothing, whatever it holds, so look at it as seldom as a person does:
    behind ``ops.sample``. Where one value is all that is asked for, `fold_sliding` keeps it up to date.

    Args:
        seconds: How long an item stays.
        scheduler: Whose time it is. It must run on the source's thread.

    Raises:
        ValueError: The window has no width.

    >>> from reactivex import of
    >>> from reactivex.scheduler import HistoricalScheduler
    >>> of("a", "b").pipe(sliding(60, HistoricalScheduler())).subscribe(print) and None
    Window('a')
    Window('a', 'b')
    """

    def hold() -> _Held[A, Window[A]]:
        return View()

    return _slide(seconds, scheduler, hold)


def fold_sliding(
    combine: Callable[[A, A], A], empty: A, seconds: float, scheduler: abc.SchedulerBase
) -> Operator[A, A]:
    """What the items of the last seconds come to, after each that comes, and whenever some have left.

        -1--2------------|     the window is 6 columns wide
        [ fold_sliding(add, 0, 6) ]
        -1--3--2--0------|

    An item is combined about twice, however many the window holds. Nothing is taken out again, so that it works for ``max`` as
    well as for sums, and no rounding error builds up.

    Args:
        combine: Two neighbours in one, the older first. It must be associative: how they are grouped must not matter.
        empty: What no items come to.
        seconds: How long an item stays.
        scheduler: Whose time it is. It must run on the source's thread.

    Raises:
        ValueError: The window has no width.

    >>> from reactivex import of
    >>> from reactivex.scheduler import HistoricalScheduler
    >>> of(3, 7, 5).pipe(fold_sliding(max, 0, 60, HistoricalScheduler())).subscribe(print) and None
    3
    7
    7
    """

    def hold() -> _Held[A, A]:
        return Fold(combine, empty)

    return _slide(seconds, scheduler, hold)


def _slide(
    seconds: float, scheduler: abc.SchedulerBase, hold: Callable[[], _Held[A, B]]
) -> Operator[A, B]:
    if not seconds > 0:
        raise ValueError(f"a window of {seconds} seconds holds nothing")

    def apply(source: Observable[A]) -> Observable[B]:
        def subscribe(
            observer: abc.ObserverBase[B], default: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            held = hold()
            emit = observer.on_next
            upstream = SingleAssignmentDisposable()
            timer = SerialDisposable()
            waits_for: float | None = None
            last = float("-inf")
            ahead = 0.0
            over = False

            def read_clock() -> float:
                # A wall clock may be set back. Then time goes on here from where it was.
                nonlocal last, ahead
                now = scheduler.to_seconds(scheduler.now) + ahead
                if now < last:
                    ahead += last - now
                    now = last
                last = now
                return now

            def arm() -> None:
                nonlocal waits_for
                due = held.due
                if waits_for is None and due is not None:
                    waits_for = due
                    timer.disposable = scheduler.schedule_relative(max(due - last, 0.0), ring)

            def ring(_: abc.SchedulerBase, __: object = None) -> None:
                nonlocal waits_for
                if over or waits_for is None:
                    return
                # A clock may ring a moment early. What it was set for is due all the same.
                due, waits_for = waits_for, None
                try:
                    if not held.drop(max(read_clock(), due)):
                        arm()
                        return
                    value = held.value()
                except Exception as error:
                    fail(error)
                    return
                arm()
                emit(value)

            def on_next(item: A) -> None:
                if over:
                    return
                now = read_clock()
                try:
                    held.drop(now)
                    held.push(now + seconds, item)
                    value = held.value()
                except Exception as error:
                    fail(error)
                    return
                arm()
                emit(value)

            def end() -> bool:
                nonlocal over
                was_over, over = over, True
                timer.dispose()
                return not was_over

            def fail(error: Exception) -> None:
                upstream.dispose()
                on_error(error)

            def on_error(error: Exception) -> None:
                if end():
                    observer.on_error(error)

            def on_completed() -> None:
                if end():
                    observer.on_completed()

            def dispose() -> None:
                end()
                upstream.dispose()

            sink = Sink(on_next, on_error, on_completed)
            upstream.disposable = connect(source, sink, default)
            return Disposable(dispose)

        return Stage(subscribe)

    return apply


__all__ = ["fold_sliding", "sliding"]
