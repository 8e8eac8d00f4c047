"""From the records of a run to the events in them."""

from __future__ import annotations

from typing import Any

from reactivex import Observable, abc

from rxworker.errors import ConfigurationError
from rxworker.events import Event, Record
from rxworker.events.deltas import Parts, flatten
from rxworker.operators.stage import Sink, Stage, many, stage
from rxworker.operators.types import Operator


def events() -> Operator[Record, Event]:
    """The event of each record, so that what is written for a response works on a run.

    The records of runs inside the run, those with a ``path``, are left out: their blocks would mix with the run's own.

        -1-2-3-|               records
        [ events() ]
        -a-b-c-|

    >>> from reactivex import of
    >>> from rxworker.events import Ping
    >>> record = Record(seq=1, run="r", turn=1, attempt=1, time=0.0, event=Ping())
    >>> of(record).pipe(events()).subscribe(print) and None
    Ping(timestamp=None)
    """

    def apply(source: Observable[Record]) -> Observable[Event]:
        def make(observer: abc.ObserverBase[Event]) -> Sink[Record]:
            push, push_many = observer.on_next, many(observer)

            def on_next(record: Record) -> None:
                if not record.path:
                    push(record.event)

            def on_many(records: Parts[Record]) -> None:
                push_many([record.event for record in flatten(records) if not record.path])

            return Sink(on_next, observer.on_error, observer.on_completed, on_many)

        return stage(source, make)

    return apply


def expect_events(source: Observable[Any], verb: str) -> None:
    """Refuse a source of records, in which a verb for events would find nothing.

    Args:
        source: What the verb is applied to.
        verb: The verb as it is written, for the message.

    Raises:
        ConfigurationError: The source is a `Run` or another observable of ours that emits records.
    """
    if isinstance(source, Stage) and source.emits_records:
        raise records_given(verb)


def records_given(verb: str) -> ConfigurationError:
    """The error of a verb for events that was given a record."""
    return ConfigurationError(
        f"{verb} takes events and was given records: use run.events.pipe({verb}), or put events() before it"
    )


__all__ = ["events", "expect_events", "records_given"]
