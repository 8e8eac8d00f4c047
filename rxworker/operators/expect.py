"""What a verb takes: events, records, texts or blocks, distinguished at each item.

Theory of operation. A verb compares the class of an item with the classes that it handles, as it does anyway. Only an
item of none of these is looked up in the table of event kinds, so that a check costs nothing for what a verb handles
and one look-up for other events. An item that is not what the verb takes ends the stream: the error names the verb,
what it was given, and the operator that converts one into the other. It never has the item itself, which may hold
secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from reactivex import Observable, abc

from rxworker.errors import ConfigurationError
from rxworker.events import Record
from rxworker.events.kinds import EVENT_KINDS, Deltas
from rxworker.messages.settings import check_number, check_plain
from rxworker.operators.kernel import Operator, Scheduler, Stage, connect, stage

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


Taken: TypeAlias = Literal["events", "records", "events or records", "texts", "blocks"]
"""What a verb takes."""


def refusal(verb: str, takes: Taken, item: object) -> ConfigurationError:
    """The error of a verb that was given something else than what it takes.

    >>> print(refusal("lines()", "events", ["a", "b"]))
    lines() takes events and was given a list: put ops.flat_map(reactivex.from_iterable) before it
    >>> from rxworker.events import Ping
    >>> print(refusal("lineage()", "records", Ping()))
    lineage() takes records and was given events: use run.pipe(lineage()), without events() before it
    """
    kind = item.__class__
    given = "events" if kind in EVENTS else _GIVEN.get(kind, "")
    remedy = _REMEDIES.get((takes, given), "").format(verb)
    return _wrong(verb, takes, given if remedy else _a(item), remedy or _remedy(item, takes))


def entries_given(verb: str) -> ConfigurationError:
    """The error of a verb for single records that was given the entries of a run."""
    remedy = f"use run.pipe({verb}), which has a record for each delta"
    return _wrong(verb, "single records", "the entries of a run", remedy)


def no_amount(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for numbers that was given something else."""
    return _wrong(verb, "numbers", _a(item), "put ops.map(...) before it, which returns the amount")


def no_run(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for runs that was given something else."""
    return _wrong(verb, "runs", _a(item), "put it behind an observable of runs, such as server.runs or of(run, run)")


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
    if type(choice) is not int or choice < 0:
        if isinstance(choice, Observable):
            raise ConfigurationError(f"{name} makes an operator and is not one: write {name}(), with parentheses")
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


Follow: TypeAlias = Callable[[abc.ObserverBase[A]], abc.DisposableBase]
"""Subscribes an observer to the source of an operator."""


def timed(
    subscribe: Callable[[Follow[A], abc.ObserverBase[B], abc.SchedulerBase], abc.DisposableBase],
    verb: str,
    scheduler: Scheduler,
    *given: object,
    takes_events: bool = False,
) -> Operator[A, B]:
    """An operator that waits; see `operator`.

    Args:
        subscribe: Called at each subscription with how to follow the source, the observer downstream and the clock.
        verb: As for `operator`.
        scheduler: The clock; by default that of the subscriber.
        given: As for `operator`.
        takes_events: As for `operator`.

    Raises:
        ConfigurationError: It is not a scheduler. As ``on_error``: there is none.
    """
    if not isinstance(scheduler, Scheduler):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError(
            f"{verb} needs a scheduler: give run.scheduler, or AsyncIOScheduler(asyncio.get_running_loop())"
        )

    def begin(source: Observable[A], observer: abc.ObserverBase[B], default: Scheduler) -> abc.DisposableBase:
        clock = scheduler or default
        if clock is None:
            raise ConfigurationError(
                f"{verb} has no scheduler: give it one, or subscribe with scheduler=. Operators on a run have that of "
                "the run"
            )
        return subscribe(partial(connect, source, scheduler=default), observer, clock)

    return operator(begin, verb, *given, takes_events=takes_events)


_READS: dict[Taken, str] = {
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


_GIVEN: dict[type[object], str] = {Record: "records", Deltas: "the deltas of entries"}


def _wrong(verb: str, takes: str, given: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"{verb} takes {takes} and was given {given}: {remedy}")


def _a(item: object) -> str:
    name = type(item).__name__
    return f"{'an' if name[:1] in 'aeiouAEIO' else 'a'} {name}"


def _remedy(item: object, takes: Taken) -> str:
    if isinstance(item, Observable):
        return "put ops.merge_all() before it"
    if isinstance(item, Sequence | Set) and not isinstance(item, str | bytes):
        return "put ops.flat_map(reactivex.from_iterable) before it"
    return f"{_READS[takes]}, so put it before the operator that made this"
