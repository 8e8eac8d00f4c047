"""Operators that emit the value that JSON text has made so far."""

from __future__ import annotations

from reactivex import abc

from rxworker.events import Event, ResponseStatus, Status, TextDelta
from rxworker.messages import Json
from rxworker.messages.json_reader import JsonReader
from rxworker.operators.expect import EVENTS, expect_choice, no_event, no_text, observing
from rxworker.operators.kernel import Ending, Operator, Sink


def partial_json() -> Operator[str, Json]:
    r"""The value that the text has made so far, each time that it has changed.

        --{"a":-"x--y"-,"b":1--}--|
        [ partial_json() ]
        --0-----1--2-----------3--|    0 {}, 1 {a: x}, 2 {a: xy}, 3 {a: xy, b: 1}

    It emits one object that grows: copy it to keep what it was. The cost is linear in the text. Text that is not JSON
    ends it with nothing more to show; the text itself goes its own way.

    >>> from reactivex import of
    >>> of('{"city": "Os', 'lo", "da', 'ys": 3}').pipe(partial_json()).subscribe(print) and None
    {'city': 'Os'}
    {'city': 'Oslo'}
    {'city': 'Oslo', 'days': 3}
    """
    return observing(_read, "partial_json()")


def _read(observer: abc.ObserverBase[Json]) -> Sink[str]:
    reader = JsonReader()
    ending = Ending(observer)

    def on_next(text: str) -> None:
        if ending.is_over:
            return
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            ending.on_error(no_text("partial_json()", text))
        elif reader.feed(text):
            observer.on_next(reader.value)

    def on_completed() -> None:
        if not ending.is_over and reader.finish():
            observer.on_next(reader.value)
        ending.on_completed()

    return Sink(on_next, ending.on_error, on_completed)


def partial_values(choice: int = 0) -> Operator[Event, Json]:
    r"""The value that the answer has made so far, when the answer is JSON. Each response begins anew.

        -s-[1,-2]-e-s-{}-e-|    s Status(STARTED), e its end, between them text
        [ partial_values() ]
        ---1----2-----3----|    1 [1], 2 [1, 2], 3 {}

    What holds for `partial_json` holds here: it is one object that grows.

    Args:
        choice: The index of the choice whose text is emitted, if the request has several.
    """
    expect_choice("partial_values", choice)

    def make(observer: abc.ObserverBase[Json]) -> Sink[Event]:
        reader = JsonReader()
        ending = Ending(observer)

        def on_next(event: Event) -> None:
            nonlocal reader
            if ending.is_over:
                return
            changed = False
            if type(event) is TextDelta:
                changed = event.choice == choice and reader.feed(event.text)
            elif isinstance(event, Status):
                changed = reader.finish()
                if event.status is ResponseStatus.STARTED:
                    reader = JsonReader()
            elif event.__class__ not in EVENTS:
                ending.on_error(no_event("partial_values()", event))
            if changed:
                observer.on_next(reader.value)

        return Sink(on_next, ending.on_error, ending.on_completed)

    return observing(make, "partial_values()", takes_events=True)
