"""JSON text as it arrives, as the value that it has made so far."""

from __future__ import annotations

from reactivex import Observable, abc

from rxworker.messages import Json
from rxworker.operators.reader import JsonReader
from rxworker.operators.stage import Sink, stage
from rxworker.operators.types import Operator


def partial_json() -> Operator[str, Json]:
    r"""The value that the text has made so far, each time that it has changed.

        --{"a":-"x--y"-,"b":1--}--|
        [ partial_json() ]
        --0-----1--2-----------3--|    0 {}, 1 {a: x}, 2 {a: xy}, 3 {a: xy, b: 1}

    It emits one object that grows: copy it to keep what it was. The cost is linear in the text. Text that is no JSON ends it
    with nothing more to show; the text itself goes its own way.

    >>> from reactivex import of
    >>> of('{"city": "Os', 'lo", "da', 'ys": 3}').pipe(partial_json()).subscribe(print) and None
    {'city': 'Os'}
    {'city': 'Oslo'}
    {'city': 'Oslo', 'days': 3}
    """

    def apply(source: Observable[str]) -> Observable[Json]:
        return stage(source, _read)

    return apply


def _read(observer: abc.ObserverBase[Json]) -> Sink[str]:
    reader = JsonReader()

    def on_next(text: str) -> None:
        if reader.feed(text):
            observer.on_next(reader.value)

    def on_completed() -> None:
        if reader.finish():
            observer.on_next(reader.value)
        observer.on_completed()

    return Sink(on_next, observer.on_error, on_completed)


__all__ = ["partial_json"]
