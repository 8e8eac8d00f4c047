"""Choosing events: those of a type, those in the records of a run, and those of responses or of blocks.

Whether a type passes is computed once and looked up from then on, since ``isinstance`` for each event costs more than
the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from reactivex import Observable, abc
from reactivex.internal import noop

from rxworker.errors import ConfigurationError, LogError
from rxworker.events import BlockAbort, BlockEvent, BlockStart, Custom, CustomEvent, Event, Record
from rxworker.events.custom import event_name
from rxworker.events.kinds import BLOCK_EVENTS, BLOCK_TYPE_OF, META_EVENTS, Deltas, Parts, start_of
from rxworker.events.meta import Meta
from rxworker.operators.expect import EVENTS, entries_given, observing, operator, refusal
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import (
    Both,
    Ending,
    Joined,
    Kinds,
    Operator,
    Scheduler,
    Sink,
    Source,
    connect,
    many,
    to_blocks,
)
from rxworker.state.block import BORDERS, OpenBlocks


def events(*, nested: bool = False) -> Operator[Record, Event]:
    """The event of each record, so that what is written for a response works on a run.

    The records of runs inside the run, those with a ``path``, are left out by default: their blocks would mix with the
    run's own.

        -1-2-3-|               records
        [ events() ]
        -a-b-c-|

    Args:
        nested: Whether the events of runs inside the run are emitted too, for what counts them.

    >>> from reactivex import of
    >>> from rxworker.events import Ping
    >>> record = Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=Ping())
    >>> of(record).pipe(events()).subscribe(print) and None
    Ping(timestamp=None)
    """

    def make(observer: abc.ObserverBase[Event]) -> Sink[Record]:
        push, push_many = observer.on_next, many(observer)
        ending = Ending(observer)

        def refuse(item: object) -> None:
            nonlocal push, push_many
            push = push_many = noop
            ending.on_error(refusal("events()", "records", item))

        def on_next(record: Record) -> None:
            if record.__class__ is not Record:
                refuse(record)
            elif nested or not record.path:
                event: Any = record.event
                if event.__class__ is Deltas:  # an entry
                    push_many((event,))
                else:
                    push(event)

        def on_many(records: Parts[Record]) -> None:
            found: list[Any] = []
            for each in records:
                record: Any = each
                if record.__class__ is not Record:
                    push_many(found)
                    refuse(record)
                    return
                if nested or not record.path:
                    found.append(record.event)
            push_many(found)

        sink = Sink(on_next, ending.on_error, ending.on_completed, on_many)
        sink.reads = getattr(observer, "kinds", None)
        return sink

    return observing(make, "events()")


def records_of(*types: type[Event | CustomEvent]) -> Operator[Record, Record]:
    """Pass on the records of events of these types, and no others, also of runs inside the run.

        -p-t-u-t-|             p Ping, t TextDelta, u Usage
        [ records_of(TextDelta) ]
        ---t---t-|

    As the first operator of a panel it makes the panel cheap: a dashboard gives it no other records.

    Raises:
        ConfigurationError: No types are given, or one is not a type of events. As ``on_error``: an item is not a
            record.

    >>> from reactivex import of
    >>> from rxworker.events import Ping, TextDelta
    >>> records = [Record(seq, "r", 1, 1, 0.0, event) for seq, event in enumerate([Ping(), TextDelta(0, "Hi")], 1)]
    >>> of(*records).pipe(records_of(TextDelta)).subscribe(lambda record: print(record.seq)) and None
    2
    """
    verb, kinds, customs = _read_types("records_of", types)
    if not kinds <= EVENTS:
        raise ConfigurationError(f"{verb} takes types of events, for example records_of(ToolStart)")

    def make(observer: abc.ObserverBase[Record]) -> Sink[Record]:
        push = observer.on_next
        ending = Ending(observer)

        def on_next(record: Record) -> None:
            nonlocal push
            event: Any = record.event if record.__class__ is Record else None
            if event.__class__ in kinds:
                if not customs or event.__class__ is not Custom or event.name in customs:
                    push(record)
            elif event is None:
                push = noop
                ending.on_error(refusal(verb, "records", record))
            elif event.__class__ is Deltas:
                push = noop
                ending.on_error(entries_given(verb))

        sink = Sink(on_next, ending.on_error, ending.on_completed)
        sink.reads = kinds
        return sink

    return observing(make, verb)


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
    and take neither lane: take them from the source with ``only``. Where a response begins anew or is requested again,
    the lane of the blocks gets an abort of each open block, since it does not get the event.

    Args:
        meta: Applied to the meta events.
        blocks: Applied to the block events.

    Raises:
        ConfigurationError: One is not an operator.

    >>> from reactivex import of
    >>> from reactivex import operators as ops
    >>> from rxworker.events import TextDelta
    >>> from rxworker.messages.usage import Usage
    >>> def name_of(event: object) -> str:
    ...     return type(event).__name__
    >>> both = split_meta(ops.map(name_of), ops.filter(lambda event: False))
    >>> of(TextDelta(0, "Rain."), Usage(3, 2)).pipe(both).subscribe(print) and None
    Usage
    """
    expect_operator(meta)
    expect_operator(blocks)

    def subscribe(
        source: Observable[Event], observer: abc.ObserverBase[A | B], scheduler: Scheduler
    ) -> abc.DisposableBase:
        meta_lane: Source[Meta] = Source()
        block_lane: Source[BlockEvent] = Source()
        push = observer.on_next
        opened: OpenBlocks[BlockStart] = OpenBlocks()
        lanes = Joined(observer, scheduler)

        def emit(value: A | B) -> None:
            if not lanes.is_over:
                push(value)

        def on_next(event: Any) -> None:
            kind = event.__class__
            if kind in BLOCK_TYPE_OF:  # a delta; first, since most events are
                if event.index not in opened:
                    opened[event.index] = start_of(event)
                block_lane.push(event)
                return
            if kind in BORDERS and (kind is not BlockStart or event.index in opened):
                for start, reason in opened.end_before(event):
                    block_lane.push(BlockAbort(start.index, start.block_type, reason))
            if kind in BLOCK_EVENTS:
                if kind is BlockStart:
                    opened[event.index] = event
                else:
                    opened.pop(event.index, None)
                block_lane.push(event)
            elif kind in META_EVENTS:
                meta_lane.push(event)
            elif kind not in EVENTS:
                lanes.on_error(refusal("split_meta(...)", "events", event))

        def lane_of(index: int) -> Source[BlockEvent] | None:
            return block_lane if index in opened else None

        def on_error(error: Exception) -> None:
            meta_lane.on_error(error)
            block_lane.on_error(error)

        def on_completed() -> None:
            meta_lane.on_completed()
            block_lane.on_completed()

        # The lanes first, so that a source which emits at once finds them listening.
        lanes.follow(meta(meta_lane), emit)
        lanes.follow(blocks(block_lane), emit)
        return Both(
            lanes, connect(source, Sink(on_next, on_error, on_completed, to_blocks(lane_of, on_next)), scheduler)
        )

    return operator(subscribe, "split_meta(...)", meta, blocks, takes_events=True)


E = TypeVar("E", bound=Event | CustomEvent)
F = TypeVar("F", bound=Event)


@overload
def only(*types: type[E]) -> Operator[Event, E]: ...  # pyright: ignore[reportOverlappingOverload] - it takes less
@overload
def only(*types: type[A]) -> Operator[object, A]: ...
def only(*types: type[object]) -> Operator[Any, object]:
    """Pass on the events of these types, and no others; the result's type is theirs.

        -p-t-u-t-|             p Ping, t TextDelta, u Usage
        [ only(TextDelta) ]
        ---t---t-|

    Where all types are types of events, it takes events, and nothing else. Of a class of `CustomEvent` it emits the
    events with that type. ``only(Record)`` takes records. With other types it takes any items, but records only if one
    of the types includes them.

    Raises:
        ConfigurationError: No types are given, or an argument is not a type. As ``on_error``: an item is not what it
            takes.

    >>> from reactivex import of
    >>> from rxworker.events import Ping, TextDelta
    >>> of(Ping(), TextDelta(0, "hello")).pipe(only(TextDelta)).subscribe(print) and None
    TextDelta(index=0, text='hello', choice=0)
    """
    return _choose("only", types, passes=True)


@overload
def reject(*types: type[E]) -> Operator[F, F]: ...
@overload
def reject(*types: type[object]) -> Operator[A, A]: ...
def reject(*types: type[object]) -> Operator[Any, Any]:
    """Pass on all events but those of these types.

        -p-t-u-t-|             p Ping, t TextDelta, u Usage
        [ reject(Ping) ]
        ---t-u-t-|

    It takes what `only` takes.

    Raises:
        ConfigurationError: As for `only`.

    >>> from reactivex import of
    >>> from rxworker.events import Ping, TextDelta
    >>> of(Ping(), TextDelta(0, "hello")).pipe(reject(Ping)).subscribe(print) and None
    TextDelta(index=0, text='hello', choice=0)
    """
    return _choose("reject", types, passes=False)


def _read_types(name: str, types: tuple[type[object], ...]) -> tuple[str, Kinds, dict[str, type[CustomEvent]]]:
    """The verb, and the classes of the items that are chosen.

    Of the events of the application, which all are of the class `Custom`, also the classes with their types by their
    names, unless all are chosen.
    """
    if not types or not all(isinstance(kind, type) for kind in types):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError(f"{name}(...) takes types, for example {name}(ToolStart)")
    verb = f"{name}({', '.join(kind.__name__ for kind in types)})"
    kinds = frozenset([Custom if issubclass(kind, CustomEvent) else kind for kind in types])
    if Custom in types or CustomEvent in types:
        return verb, kinds, {}
    return verb, kinds, {event_name(kind): kind for kind in types if issubclass(kind, CustomEvent)}


def _choose_customs(
    observer: abc.ObserverBase[Any],
    customs: dict[str, type[CustomEvent]],
    ending: Ending,
    otherwise: Callable[[object], None],
    *,
    passes: bool,
) -> Callable[[object], None]:
    """Pass on, of the events of the application, those of the classes with their types, or all others.

    Other items go to ``otherwise``.
    """

    def on_next(item: object) -> None:
        if not isinstance(item, Custom):
            otherwise(item)
        elif not ending.is_over:
            kind = customs.get(item.name)
            if kind is None and not passes:
                observer.on_next(item)
            elif kind is not None and passes:
                try:
                    typed = kind.of(item)
                except LogError as error:
                    ending.on_error(error)
                else:
                    observer.on_next(typed)

    return on_next


def _choose(name: str, types: tuple[type[object], ...], *, passes: bool) -> Operator[Any, Any]:
    """Pass on the items of the types, or all others."""
    verb, kinds, customs = _read_types(name, types)
    takes_events = kinds <= EVENTS
    takes_records = any(issubclass(Record, kind) for kind in kinds)
    choices: dict[type[object], bool] = {}

    def choose(item: object) -> bool:
        """Whether items of this class pass, looked up from now on.

        Raises:
            ConfigurationError: It is not among what the verb takes.
        """
        kind = type(item)
        if takes_events and kind not in EVENTS:
            raise refusal(verb, "events", item)
        if kinds <= {Record} and kind is not Record:
            raise refusal(verb, "records", item)
        if kind is Record and not takes_records:
            raise refusal(verb, "events", item)
        choices[kind] = passes is issubclass(kind, (*kinds,))
        return choices[kind]

    def make(observer: abc.ObserverBase[Any]) -> Sink[Any]:
        push = observer.on_next
        chosen = choices.get
        ending = Ending(observer)

        def on_next(item: object) -> None:
            nonlocal push
            chooses = chosen(type(item))
            if chooses is None:
                try:
                    chooses = choose(item)
                except ConfigurationError as error:
                    push = noop
                    ending.on_error(error)
                    return
            if chooses:
                push(item)

        typed = _choose_customs(observer, customs, ending, on_next, passes=passes) if customs else None
        sink = Sink(typed or on_next, ending.on_error, ending.on_completed)
        if takes_events and passes:
            sink.kinds = kinds
        return sink

    return observing(make, verb, takes_events=not takes_records)
