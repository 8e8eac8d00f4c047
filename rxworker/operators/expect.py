"""What a verb takes: events, records, texts or blocks, distinguished at each item.

Theory of operation. A verb compares the class of an item with the classes that it handles, as it does anyway. Only an item of none of these is looked up in
the table of event kinds, so that a check costs nothing for what a verb handles and one look-up for other events. An item that is not what the verb takes
ends the stream: the error names the verb, what it was given, and the operator that converts one into the other. It never has the item itself, which may hold secrets.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from reactivex import Observable, abc

from rxworker.errors import ConfigurationError
from rxworker.events import Record
from rxworker.events.deltas import Deltas
from rxworker.events.kinds import EVENT_KINDS
from rxworker.messages.settings import check_number
from rxworker.operators.kernel import Stage

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
        raise _wrong(verb, "events", "records", f"use run.events.pipe({verb}), or {_EVENTS_FIRST}")


def no_event(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for events that was given something else.

    >>> print(no_event("lines()", ["a", "b"]))
    lines() takes events and was given a list: put ops.flat_map(reactivex.from_iterable) before it
    """
    if isinstance(item, Record):
        return _wrong(verb, "events", "records", f"use run.events.pipe({verb}), or {_EVENTS_FIRST}")
    if isinstance(item, Deltas):
        return _wrong(verb, "events", "the deltas of entries", f"use run.events.pipe({verb})")
    return _wrong(verb, "events", _a(item), _remedy(item, "it reads the events of a response"))


def no_record(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for records that was given something else.

    >>> from rxworker.events import Ping
    >>> print(no_record("lineage()", Ping()))
    lineage() takes records and was given events: use run.pipe(lineage()), without events() before it
    """
    if item.__class__ in EVENTS:
        remedy = f"use run.pipe({verb}), without events() before it"
        return _wrong(verb, "records", "events", remedy)
    return _wrong(verb, "records", _a(item), _remedy(item, "it reads the records of a run"))


def entries_given(verb: str) -> ConfigurationError:
    """The error of a verb for single records that was given the entries of a run."""
    remedy = f"use run.pipe({verb}), which has a record for each delta"
    return _wrong(verb, "single records", "the entries of a run", remedy)


def neither(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for events or records that was given something else."""
    remedy = _remedy(item, "it reads the records of a run, or its events")
    return _wrong(verb, "events or records", _a(item), remedy)


def no_text(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for texts that was given something else."""
    if isinstance(item, Record):
        return _wrong(verb, "texts", "records", "put events(), text_deltas() before it")
    if item.__class__ in EVENTS:
        return _wrong(verb, "texts", "events", "put text_deltas() before it")
    return _wrong(verb, "texts", _a(item), _remedy(item, "it reads pieces of text"))


def no_block(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for blocks that was given something else."""
    if isinstance(item, Record):
        return _wrong(verb, "blocks", "records", "put events(), group_blocks() before it")
    if item.__class__ in EVENTS:
        return _wrong(verb, "blocks", "events", "put group_blocks() before it")
    return _wrong(verb, "blocks", _a(item), _remedy(item, "it follows what group_blocks() emits"))


def no_amount(verb: str, item: object) -> ConfigurationError:
    """The error of a verb for numbers that was given something else."""
    return _wrong(verb, "numbers", _a(item), "put ops.map(...) before it, which returns the amount")


def expect_scheduler(verb: str, scheduler: object) -> None:
    """Refuse what is not a scheduler.

    Raises:
        ConfigurationError: It has no clock.
    """
    if not isinstance(scheduler, abc.SchedulerBase):
        raise ConfigurationError(
            f"{verb} needs a scheduler: give run.scheduler, or AsyncIOScheduler(asyncio.get_running_loop())"
        )


def expect_callable(verb: str, function: object, what: str) -> None:
    """Refuse what cannot be called.

    Raises:
        ConfigurationError: It is not callable.
    """
    if not callable(function):
        raise ConfigurationError(f"{verb} takes {what}, and was given {_a(function)}")


def expect_choice(name: str, choice: object) -> None:
    """Refuse a choice that is not a number, such as the source of an operator whose parentheses are missing.

    Raises:
        ConfigurationError: It is not the index of a choice.
    """
    if isinstance(choice, Observable):
        message = f"{name} makes an operator and is not one: write {name}(), with parentheses"
        raise ConfigurationError(message)
    check_number(f"{name}(choice)", choice, whole=True)


class Ending:
    """Forwards the first terminal event of a stage that may end by itself, and nothing after it.

    Args:
        observer: The observer downstream.

    Attributes:
        is_over: Whether a terminal event was forwarded.
    """

    __slots__ = ("_observer", "is_over")

    def __init__(self, observer: abc.ObserverBase[Any]) -> None:
        self._observer = observer
        self.is_over = False

    def on_error(self, error: Exception) -> None:
        """End the stream with an error."""
        if not self.is_over:
            self.is_over = True
            self._observer.on_error(error)

    def on_completed(self) -> None:
        """Complete the stream."""
        if not self.is_over:
            self.is_over = True
            self._observer.on_completed()


def ignore(_: object) -> None:
    """Take an item that comes after the end."""


_EVENTS_FIRST = "put events() before it"


def _wrong(verb: str, wanted: str, given: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"{verb} takes {wanted} and was given {given}: {remedy}")


def _a(item: object) -> str:
    name = type(item).__name__
    return f"{'an' if name[:1] in 'aeiouAEIO' else 'a'} {name}"


def _remedy(item: object, reads: str) -> str:
    if isinstance(item, Observable):
        return "put ops.merge_all() before it"
    if isinstance(item, Sequence | Set) and not isinstance(item, str | bytes):
        return "put ops.flat_map(reactivex.from_iterable) before it"
    return f"{reads}, so put it before the operator that made this"
