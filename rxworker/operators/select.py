"""Choosing events by their type.

Whether a type passes is found out once and looked up from then on: asking an event ``isinstance`` each time costs more
than all the rest.
"""

from __future__ import annotations

from typing import TypeVar, overload

from reactivex import Observable, abc

from rxworker.events import Record
from rxworker.operators.records import expect_events
from rxworker.operators.stage import Sink, stage
from rxworker.operators.types import Operator

A = TypeVar("A")
B = TypeVar("B")
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


__all__ = ["only", "reject"]
