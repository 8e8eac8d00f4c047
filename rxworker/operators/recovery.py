"""Errors and time: retry while nothing has been emitted, raise after a silence, and raise an error event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import asdict
from reactivex import abc

from rxworker.errors import ProviderError, RxWorkerError, TransportTimeoutError, TruncatedError
from rxworker.events import Error, ResponseEvent, ResponseStatus, Status
from rxworker.events.kinds import Parts
from rxworker.events.meta import TRUNCATED
from rxworker.messages.settings import check_number, check_plain
from rxworker.operators.expect import EVENTS, Follow, expect_callable, observing, refusal, timed
from rxworker.operators.kernel import Both, Call, Ending, Operator, SerialDisposable, Sink, many

A = TypeVar("A")
B = TypeVar("B")


def retry_before_first(
    should: Callable[[Exception, int], float | None], scheduler: abc.SchedulerBase | None = None
) -> Operator[A, A]:
    """Subscribe again after an error, with a pause, unless an item has passed already.

        --#                    first subscription
             --#               second, 3 columns later
                  --a--#       third; after an item errors pass
        [ retry_before_first(three) ]
        ------------a--#

    Args:
        should: Called with the error and the number of failures so far, from 1. It returns the seconds until the next
            subscription, or ``None`` to give up and let the error pass. An exception that it raises is emitted instead.
        scheduler: The scheduler of the timer, by default that of the subscription.

    Raises:
        ConfigurationError: ``should`` is not a function. As ``on_error``: there is no scheduler.

    >>> from reactivex import of, throw
    >>> from reactivex.scheduler import VirtualTimeScheduler
    >>> def once(error: Exception, failures: int) -> float | None:
    ...     return 0.5 if failures == 1 else None
    >>> time = VirtualTimeScheduler()
    >>> throw(ValueError("no")).pipe(retry_before_first(once, time)).subscribe(print, print) and None
    >>> time.start()
    no
    """
    expect_callable("retry_before_first(...)", should, "a function of an error and a number")

    def subscribe(follow: Follow[A], observer: abc.ObserverBase[A], clock: abc.SchedulerBase) -> abc.DisposableBase:
        attempts = Attempts(should, follow, observer, clock)
        attempts.begin()
        return attempts

    return timed(subscribe, "retry_before_first(...)", scheduler, should)


class Attempts(SerialDisposable, abc.ObserverBase[A]):
    """One subscription to `retry_before_first`; as functions it would be a circle, which refers to the source.

    Args:
        should: As for `retry_before_first`.
        follow: Subscribes an observer to the source.
        observer: The observer downstream.
        clock: The scheduler of the timer.
    """

    _failures = 0
    _has_begun = False

    def __init__(
        self,
        should: Callable[[Exception, int], float | None],
        follow: Follow[A],
        observer: abc.ObserverBase[A],
        clock: abc.SchedulerBase,
    ) -> None:
        self._held, self._is_over = None, False  # the base's; one is made for each response
        self._should = should
        self._follow = follow
        self._observer = observer
        self._push_many = many(observer)
        self._clock = clock

    def begin(self, _: abc.SchedulerBase | None = None, __: object = None) -> None:
        """Subscribe to the source."""
        before = self._failures
        try:
            subscription = self._follow(self)
        except Exception as error:
            self.on_error(error)
            return
        if self._failures == before:
            self.put(subscription)
        else:  # it has failed meanwhile, and the timer is there
            subscription.dispose()

    def on_next(self, value: A) -> None:
        """Pass on an item."""
        self._has_begun = True
        self._observer.on_next(value)

    def on_many(self, parts: Parts[A]) -> None:
        """Pass on several that arrived together."""
        self._has_begun = True
        self._push_many(parts)

    def on_error(self, error: Exception) -> None:
        """Pass on the error, or subscribe again."""
        delay = None
        if not self._has_begun:
            self._failures += 1
            try:
                delay = self._should(error, self._failures)
            except Exception as other:
                error = other
        if delay is None:
            self.dispose()
            self._observer.on_error(error)
        else:
            # Also without a pause through the scheduler, so that failures do not pile up on the stack.
            self.put(self._clock.schedule_relative(delay, self.begin))

    def on_completed(self) -> None:
        """Pass on that the source is complete."""
        self.dispose()
        self._observer.on_completed()


LOOKS = 8
"""How often a stream is looked at within the time that it may pause."""


def time_out(
    first: float | None,
    idle: float | None,
    scheduler: abc.SchedulerBase | None = None,
    is_held: Callable[[], bool] | None = None,
) -> Operator[A, A]:
    """End with a `TransportTimeoutError` when the first item does not come in time, or a pause is too long.

        --a--b------------     the pause may be 8 columns
        [ time_out(8, 8) ]
        --a--b--------#

    An item costs nothing but a mark: one timer looks eight times in the time of a pause whether there was a mark. The
    error therefore comes when the stream has been silent for ``idle``, and at most an eighth of it later, never
    earlier. The same holds for the first item, where a source is held. The source is disposed.

    Args:
        first: Seconds until the first item; ``None`` for no limit.
        idle: Seconds between two items, and between the last one and the end; ``None`` for no limit.
        scheduler: The scheduler of the timer, by default that of the subscription. It must run on the source's thread.
        is_held: Whether the source is kept waiting on purpose; silence does not count then.

    Raises:
        ConfigurationError: A time is not a number from 0 up. As ``on_error``: there is no scheduler.

    >>> from reactivex.scheduler import HistoricalScheduler
    >>> from reactivex.subject import Subject
    >>> clock, source = HistoricalScheduler(), Subject[str]()
    >>> def show(error: Exception) -> None:
    ...     print(type(error).__name__)
    >>> _ = source.pipe(time_out(5.0, 60.0, clock)).subscribe(print, show)
    >>> clock.advance_by(10.0)
    TransportTimeoutError
    """
    check_number("time_out(first)", first, optional=True)
    check_number("time_out(idle)", idle, optional=True)
    check_plain("time_out(is_held)", is_held)

    def subscribe(follow: Follow[A], observer: abc.ObserverBase[A], clock: abc.SchedulerBase) -> abc.DisposableBase:
        upstream, timer = SerialDisposable(), SerialDisposable()
        ending = Ending(observer, timer.dispose)
        started = marked = False
        quiet = 0

        def look(_: abc.SchedulerBase, __: object = None) -> None:
            nonlocal marked, quiet
            quiet = 0 if marked or (is_held is not None and is_held()) else quiet + 1
            marked = False
            if quiet < LOOKS:
                arm()
                return
            upstream.dispose()
            what = f"for {idle:g} seconds" if started else f"within {first:g} seconds"
            ending.on_error(TransportTimeoutError(f"nothing came {what}", retryable=True))

        def arm() -> None:
            patience = idle if started else first
            if patience is not None and not ending.is_over:
                timer.put(clock.schedule_relative(patience / LOOKS, look))

        def mark() -> None:
            nonlocal started, marked, quiet
            marked = True
            if not started:
                started, marked, quiet = True, False, 0  # the time of a pause begins right here
                timer.put(None)
                arm()

        def marking(push: Callable[[B], None]) -> Callable[[B], None]:
            def on_next(item: B) -> None:
                if not ending.is_over:
                    mark()
                    push(item)

            return on_next

        arm()
        sink = Sink(marking(observer.on_next), ending.on_error, ending.on_completed, marking(many(observer)))
        upstream.put(follow(sink))
        return Both(Call(ending.end), upstream)

    return timed(subscribe, "time_out(...)", scheduler)


def error_to_exception(event: Error) -> RxWorkerError:
    """The exception that an error event stands for.

    >>> error_to_exception(Error("overloaded_error", "try later", retryable=True, kind="overloaded"))
    ProviderError('try later')
    """
    if event.code == TRUNCATED:
        return TruncatedError(event.message, retryable=event.retryable, request_id=event.request_id)
    return ProviderError(**asdict(event))


def fail_on_error() -> Operator[ResponseEvent, ResponseEvent]:
    """Pass all events on, and end with the matching exception after an `Error` event.

        --t--e--f----|         t a delta, e Error, f Status(FAILED)
        [ fail_on_error() ]
        --t--e--(f,#)

    The end comes after the ``Status(FAILED)`` that follows the error, or where the source ends without one. Should the
    source itself end with an error, that one becomes the exception's ``__cause__``.

    >>> from reactivex import of
    >>> events = of(Error("overloaded", "try later"), Status(ResponseStatus.FAILED))
    >>> events.pipe(fail_on_error()).subscribe(print, lambda error: print("raised:", error.message)) and None
    Error(...)
    Status(...)
    raised: try later
    """
    return observing(_watch, "fail_on_error()", takes_events=True)


def _watch(observer: abc.ObserverBase[ResponseEvent]) -> Sink[ResponseEvent]:
    push = observer.on_next
    failure: RxWorkerError | None = None
    ending = Ending(observer)

    def on_next(event: ResponseEvent) -> None:
        nonlocal failure
        if ending.is_over:
            return
        if event.__class__ not in EVENTS:
            ending.on_error(refusal("fail_on_error()", "events", event))
            return
        push(event)
        if type(event) is Error:
            failure = failure or error_to_exception(event)
        elif failure is not None and type(event) is Status and event.status is ResponseStatus.FAILED:
            ending.on_error(failure)

    def on_error(error: Exception) -> None:
        if failure is None:
            ending.on_error(error)
        elif not ending.is_over:
            failure.__cause__ = error
            ending.on_error(failure)

    def on_completed() -> None:
        if failure is None:
            ending.on_completed()
        else:
            ending.on_error(failure)

    return Sink(on_next, on_error, on_completed)
