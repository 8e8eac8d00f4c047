"""Choosing events: those of a type, those in the records of a run, and those of responses or of blocks.

Whether a type passes is computed once and looked up from then on, since ``isinstance`` for each event costs more than the rest.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable

from rxworker.errors import ConfigurationError
from rxworker.events import BlockEvent, Event, Meta, Record, is_meta
from rxworker.events.deltas import Parts, flatten
from rxworker.events.kinds import BLOCK_EVENTS
from rxworker.operators.stage import Operator, Sink, Source, Stage, connect, many, stage


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
        source: The source of the verb.
        verb: The verb as it is written, for the message.

    Raises:
        ConfigurationError: The source is a `Run` or another observable of rxworker that emits records.
    """
    if isinstance(source, Stage) and source.emits_records:
        raise records_given(verb)


def records_given(verb: str) -> ConfigurationError:
    """The error of a verb for events that was given a record."""
    return ConfigurationError(
        f"{verb} takes events and was given records: use run.events.pipe({verb}), or put events() before it"
    )


A = TypeVar("A")
B = TypeVar("B")


def split_meta(meta: Operator[Meta, A], blocks: Operator[BlockEvent, B]) -> Operator[Event, A | B]:
    """Send meta events through one operator and block events through another, and merge their outputs.

        -u-s-d-u-e-|           u Usage; s start, d delta, e stop
        meta:   -u-----u---|   [ meta ]    -A-----A---|
        blocks: ---s-d---e-|   [ blocks ]  ---B-B---B-|
        [ split_meta(meta, blocks) ]
        -A-B-B-A-B-|

    What the two emit at once comes out in the order of the events that caused it. The source's end is the end of both
    lanes; the result completes when both have, and fails with the first that fails. Turn events are about no response
    and take neither lane: take them from the source with ``only``.

    Args:
        meta: Applied to the meta events.
        blocks: Applied to the block events.
    """

    def apply(source: Observable[Event]) -> Observable[A | B]:
        expect_events(source, "split_meta(...)")

        def subscribe(
            observer: abc.ObserverBase[A | B], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            meta_lane: Source[Meta] = Source()
            block_lane: Source[BlockEvent] = Source()
            push = observer.on_next
            lanes = 2
            over = False

            def emit(value: A | B) -> None:
                if not over:
                    push(value)

            def fail(error: Exception) -> None:
                nonlocal over
                if not over:
                    over = True
                    observer.on_error(error)

            def leave() -> None:
                nonlocal lanes, over
                lanes -= 1
                if lanes == 0 and not over:
                    over = True
                    observer.on_completed()

            def on_next(event: Any) -> None:
                if type(event) in BLOCK_EVENTS:
                    block_lane.on_next(event)
                elif is_meta(event):
                    meta_lane.on_next(event)
                elif type(event) is Record:
                    raise records_given("split_meta(...)")

            def on_error(error: Exception) -> None:
                meta_lane.on_error(error)
                block_lane.on_error(error)

            def on_completed() -> None:
                meta_lane.on_completed()
                block_lane.on_completed()

            joined: Sink[A | B] = Sink(emit, fail, leave)
            # The lanes first, so that a source which emits at once finds them listening.
            return CompositeDisposable(
                connect(meta(meta_lane), joined, scheduler),
                connect(blocks(block_lane), joined, scheduler),
                connect(source, Sink(on_next, on_error, on_completed), scheduler),
            )

        return Stage(subscribe)

    return apply


C = TypeVar("C")
D = TypeVar("D")


@overload
def only(a: type[A], /) -> Operator[object, A]: ...
@overload
def only(a: type[A], b: type[B], /) -> Operator[object, A | B]: ...
@overload
def only(a: type[A], b: type[B], c: type[C], /) -> Operator[object, A | B | C]: ...
@overload
def only(a: type[A], b: type[B], c: type[C], d: type[D], /) -> Operator[object, A | B | C | D]: ...
@overload
def only(*types: type[A]) -> Operator[object, A]: ...
def only(*types: type[object]) -> Operator[object, object]:
    """Pass on the events of these types, and no others; the result's type is theirs.

        -p-t-u-t-|             p Ping, t TextDelta, u Usage
        [ only(TextDelta) ]
        ---t---t-|

    >>> from reactivex import of
    >>> from rxworker.events import Ping, TextDelta
    >>> of(Ping(), TextDelta(0, "hello")).pipe(only(TextDelta)).subscribe(print) and None
    TextDelta(index=0, text='hello', choice=0)
    """
    choices: dict[type[object], bool] = {}

    def choose(kind: type[object]) -> bool:
        passes = choices[kind] = issubclass(kind, types)
        return passes

    takes_records = any(issubclass(Record, kind) for kind in types)

    def apply(source: Observable[object]) -> Observable[object]:
        if not takes_records:
            expect_events(source, f"only({', '.join(kind.__name__ for kind in types)})")

        def make(observer: abc.ObserverBase[object]) -> Sink[object]:
            push = observer.on_next
            chosen = choices.get

            def on_next(event: object) -> None:
                passes = chosen(type(event))
                if passes is None:
                    passes = choose(type(event))
                if passes:
                    push(event)

            return Sink(on_next, observer.on_error, observer.on_completed)

        return stage(source, make)

    return apply


def reject(*types: type[object]) -> Operator[A, A]:
    """Pass on all events but those of these types.

        -p-t-u-t-|             p Ping, t TextDelta, u Usage
        [ reject(Ping) ]
        ---t-u-t-|

    >>> from reactivex import of
    >>> from rxworker.events import Ping, TextDelta
    >>> of(Ping(), TextDelta(0, "hello")).pipe(reject(Ping)).subscribe(print) and None
    TextDelta(index=0, text='hello', choice=0)
    """
    choices: dict[type[object], bool] = {}

    def choose(kind: type[object]) -> bool:
        passes = choices[kind] = not issubclass(kind, types)
        return passes

    def apply(source: Observable[A]) -> Observable[A]:
        def make(observer: abc.ObserverBase[A]) -> Sink[A]:
            push = observer.on_next
            chosen = choices.get

            def on_next(event: A) -> None:
                passes = chosen(type(event))
                if passes is None:
                    passes = choose(type(event))
                if passes:
                    push(event)

            return Sink(on_next, observer.on_error, observer.on_completed)

        return stage(source, make)

    return apply
