"""What a verb takes: events, records, texts or blocks, distinguished at each item.

Theory of operation. A verb compares the class of an item with the classes that it handles, as it does anyway. Only an
item of none of these is looked up in the table of event kinds, so that a check costs nothing for what a verb handles
and one look-up for other events. An item that is not what the verb takes ends the stream: the error names the verb,
what it was given, and the operator that converts one into the other. It never has the item itself, which may hold
secrets.

Errors and time.

Retry while no event has been emitted, raise after a time without events, and turn an error event into the error that
ends the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import asdict
from reactivex import Observable, abc

from rxworker.errors import ConfigurationError, ProviderError, RxWorkerError, TransportTimeoutError, TruncatedError
from rxworker.events import Error, Record, ResponseEvent, ResponseStatus, Status
from rxworker.events.deltas import EVENT_KINDS, Deltas, Parts
from rxworker.events.meta import TRUNCATED
from rxworker.messages.settings import check_number, check_plain
from rxworker.operators.kernel import (
    Call,
    Ending,
    Operator,
    Scheduler,
    SerialDisposable,
    Sink,
    Stage,
    connect,
    many,
    stage,
)

A = TypeVar("A")
B = TypeVar("B")

EVENTS: frozenset[type[object]] = frozenset(kind.type for kind in EVENT_KINDS)
"""The class of every event."""


def expect_events(source: Observable[Any], verb: str) -> None:
    """Refuse a source that is known to emit records, before it is subscribed to.

    Args:
        source: The source of the verb.
        verb: The verb as it is written, for the message.

    Raises:
        ConfigurationError: The source is a `Run` or another observable of rxworker that emits records.
    """
    if isinstance(source, Stage) and source.emits_records:
        raise _wrong(verb, "events", "records", _REMEDIES["events", "records"].format(verb))


def no_event(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for events that was given something else.

    >>> print(no_event("lines()", ["a", "b"]))
    lines() takes events and was given a list: put ops.flat_map(reactivex.from_iterable) before it
    """
    return _refusal(verb, "events", item)


def no_record(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for records that was given something else.

    >>> from rxworker.events import Ping
    >>> print(no_record("lineage()", Ping()))
    lineage() takes records and was given events: use run.pipe(lineage()), without events() before it
    """
    return _refusal(verb, "records", item)


def entries_given(verb: str) -> ConfigurationError:
    """The error of a verb for single records that was given the entries of a run."""
    remedy = f"use run.pipe({verb}), which has a record for each delta"
    return _wrong(verb, "single records", "the entries of a run", remedy)


def neither(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for events or records that was given something else."""
    return _refusal(verb, "events or records", item)


def no_text(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for texts that was given something else."""
    return _refusal(verb, "texts", item)


def no_block(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for blocks that was given something else."""
    return _refusal(verb, "blocks", item)


def no_amount(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for numbers that was given something else."""
    return _wrong(verb, "numbers", _a(item), "put ops.map(...) before it, which returns the amount")


def expect_scheduler(verb: str, scheduler: object, *, optional: bool = False) -> None:
    """Refuse what is not a scheduler.

    Raises:
        ConfigurationError: It has no clock.
    """
    if not isinstance(scheduler, abc.SchedulerBase) and not (optional and scheduler is None):
        raise ConfigurationError(
            f"{verb} needs a scheduler: give run.scheduler, or AsyncIOScheduler(asyncio.get_running_loop())"
        )


def scheduler_of(verb: str, scheduler: Scheduler, default: Scheduler) -> abc.SchedulerBase:
    """The scheduler of an operator: the given one, or that of the subscription.

    Raises:
        ConfigurationError: There is neither.
    """
    found = scheduler or default
    if found is None:
        raise ConfigurationError(
            f"{verb} has no scheduler: give it one, or subscribe with scheduler=. Operators on a run have that of "
            "the run"
        )
    return found


def expect_callable(verb: str, function: object, what: str) -> None:
    """Refuse what cannot be called, and coroutine functions.

    Raises:
        ConfigurationError: It is not callable, or is a coroutine function.
    """
    if not callable(function):
        raise ConfigurationError(f"{verb} takes {what}, and was given {_a(function)}")
    check_plain(f"the function of {verb}", function)


def expect_choice(name: str, choice: object) -> None:
    """Refuse a choice that is not a number, such as the source of an operator whose parentheses are missing.

    Raises:
        ConfigurationError: It is not the index of a choice.
    """
    if isinstance(choice, Observable):
        message = f"{name} makes an operator and is not one: write {name}(), with parentheses"
        raise ConfigurationError(message)
    if type(choice) is not int or choice < 0:
        check_number(f"{name}(choice)", choice, whole=True)


def operator(
    subscribe: Callable[[Observable[A], abc.ObserverBase[B], Scheduler], abc.DisposableBase],
    verb: str,
    *given: object,
    takes_events: bool = False,
) -> Operator[A, B]:
    """An operator, from the function that subscribes an observer to its result.

    On a run it has the run's time, and so do the operators that it was given. X-ray shows it by its verb, with the
    functions and the numbers that it was given.

    Args:
        subscribe: Called at each subscription with the source, the observer downstream and the scheduler of the
            subscriber.
        verb: The verb as it is written.
        given: The functions and the numbers that the operator was given.
        takes_events: Whether it takes events and no records.
    """

    def apply(source: Observable[A]) -> Observable[B]:
        if takes_events:
            expect_events(source, verb)
        made: Stage[B] = Stage(partial(subscribe, source))
        timing = source.timing if isinstance(source, Stage) else None
        return made if timing is None else timing(made)

    apply.__qualname__ = verb
    if given:
        vars(apply)["given"] = given
    return apply


def observing(
    make: Callable[[abc.ObserverBase[B]], abc.ObserverBase[A]], verb: str, *given: object, takes_events: bool = False
) -> Operator[A, B]:
    """An operator that is one observer in front of another; see `stage`.

    Args:
        make: Called at each subscription with the observer downstream; gives the one to attach upstream.
        verb: As for `operator`.
        given: As for `operator`.
        takes_events: As for `operator`.
    """

    def apply(source: Observable[A]) -> Observable[B]:
        if takes_events:
            expect_events(source, verb)
        return stage(source, make)

    apply.__qualname__ = verb
    if given:
        vars(apply)["given"] = given
    return apply


_READS = {
    "events": "it reads the events of a response",
    "records": "it reads the records of a run",
    "events or records": "it reads the records of a run, or its events",
    "texts": "it reads pieces of text",
    "blocks": "it follows what group_blocks() emits",
}

# What converts the items that a verb was given into those that it takes.
_REMEDIES = {
    ("events", "records"): "use run.events.pipe({}), or put events() before it",
    ("events", "the deltas of entries"): "use run.events.pipe({})",
    ("records", "events"): "use run.pipe({}), without events() before it",
    ("texts", "records"): "put events(), text_deltas() before it",
    ("texts", "events"): "put text_deltas() before it",
    ("blocks", "records"): "put events(), group_blocks() before it",
    ("blocks", "events"): "put group_blocks() before it",
}


def _refusal(verb: str, takes: str, item: object) -> ConfigurationError:
    kind = item.__class__
    given = "events" if kind in EVENTS else _GIVEN.get(kind, "")
    remedy = _REMEDIES.get((takes, given), "").format(verb)
    return _wrong(verb, takes, given if remedy else _a(item), remedy or _remedy(item, takes))


_GIVEN: dict[type[object], str] = {Record: "records", Deltas: "the deltas of entries"}


def _wrong(verb: str, takes: str, given: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"{verb} takes {takes} and was given {given}: {remedy}")


def _a(item: object) -> str:
    name = type(item).__name__
    return f"{'an' if name[:1] in 'aeiouAEIO' else 'a'} {name}"


def _remedy(item: object, takes: str) -> str:
    if isinstance(item, Observable):
        return "put ops.merge_all() before it"
    if isinstance(item, Sequence | Set) and not isinstance(item, str | bytes):
        return "put ops.flat_map(reactivex.from_iterable) before it"
    return f"{_READS[takes]}, so put it before the operator that made this"


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
    expect_scheduler("retry_before_first(...)", scheduler, optional=True)

    def subscribe(source: Observable[A], observer: abc.ObserverBase[A], default: Scheduler) -> abc.DisposableBase:
        clock = scheduler_of("retry_before_first(...)", scheduler, default)
        current = SerialDisposable()
        push, push_many = observer.on_next, many(observer)
        failures = 0
        started = False

        def on_next(item: A) -> None:
            nonlocal started
            started = True
            push(item)

        def on_many(parts: Parts[A]) -> None:
            nonlocal started
            started = True
            push_many(parts)

        def on_error(error: Exception) -> None:
            nonlocal failures
            delay = None
            if not started:
                failures += 1
                try:
                    delay = should(error, failures)
                except Exception as other:
                    error = other
            if delay is None:
                observer.on_error(error)
            else:
                # Also without a pause through the scheduler, so that failures do not pile up on the stack.
                current.put(clock.schedule_relative(delay, attempt))

        def attempt(_: abc.SchedulerBase | None = None, __: object = None) -> None:
            subscription = SerialDisposable()
            current.put(subscription)
            sink = Sink(on_next, on_error, observer.on_completed, on_many)
            try:
                connected = connect(source, sink, default)
            except Exception as error:
                on_error(error)
            else:
                subscription.put(connected)

        attempt()
        return current

    return operator(subscribe, "retry_before_first(...)", should)


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
    """
    check_number("time_out(first)", first, optional=True)
    check_number("time_out(idle)", idle, optional=True)
    check_plain("time_out(is_held)", is_held)
    expect_scheduler("time_out(...)", scheduler, optional=True)

    def subscribe(source: Observable[A], observer: abc.ObserverBase[A], default: Scheduler) -> abc.DisposableBase:
        clock = scheduler_of("time_out(...)", scheduler, default)
        push, push_many = observer.on_next, many(observer)
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

        def on_next(item: A) -> None:
            if not ending.is_over:
                mark()
                push(item)

        def on_many(parts: Parts[A]) -> None:
            if not ending.is_over:
                mark()
                push_many(parts)

        def dispose() -> None:
            ending.end()
            upstream.dispose()

        arm()
        sink = Sink(on_next, ending.on_error, ending.on_completed, on_many)
        upstream.put(connect(source, sink, default))
        return Call(dispose)

    return operator(subscribe, "time_out(...)")


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
            ending.on_error(no_event("fail_on_error()", event))
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
