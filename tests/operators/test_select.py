"""`only`, `reject`, the text operators and `events`."""

from __future__ import annotations

from reactivex import operators as ops

from rxworker.events import BlockDelta, Event, Ping, Record, TextDelta, ThinkingDelta, Usage
from rxworker.operators import events, only, reject, text_deltas, thinking_deltas
from rxworker.testing.marbles import Marbles

EVENTS: dict[str, Event] = {
    "p": Ping(),
    "u": Usage(1),
    "a": TextDelta(0, "A"),
    "b": TextDelta(1, "B", choice=1),
    "k": ThinkingDelta(2, "K"),
    "l": ThinkingDelta(3, "L", choice=1),
}
SOURCE = "-p-a-u-b-k-l-|"


def test_only_keeps_one_type() -> None:
    test = Marbles()
    seen = test.observe(test.hot(SOURCE, EVENTS).pipe(only(TextDelta)))
    assert seen == test.expected("---a---b-----|", EVENTS)


def test_only_keeps_several_types_and_their_subclasses() -> None:
    test = Marbles()
    seen = test.observe(test.hot(SOURCE, EVENTS).pipe(only(Ping, BlockDelta)))
    assert seen == test.expected("-p-a---b-k-l-|", EVENTS)


def test_reject_drops_types() -> None:
    test = Marbles()
    seen = test.observe(test.hot(SOURCE, EVENTS).pipe(reject(Ping, Usage)))
    assert seen == test.expected("---a---b-k-l-|", EVENTS)


def test_text_deltas_are_those_of_a_choice() -> None:
    test = Marbles()
    source = test.hot(SOURCE, EVENTS)
    seen = test.observe(source.pipe(text_deltas(), ops.merge(source.pipe(text_deltas(1)))))
    assert seen == test.expected("---A---B-----|")


def test_thinking_deltas_are_those_of_a_choice() -> None:
    test = Marbles()
    source = test.hot(SOURCE, EVENTS)
    seen = test.observe(source.pipe(thinking_deltas(), ops.merge(source.pipe(thinking_deltas(1)))))
    assert seen == test.expected("---------K-L-|")


def test_events_opens_the_envelopes() -> None:
    def record(event: Event) -> Record:
        return Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=event)

    test = Marbles()
    records = {name: record(event) for name, event in EVENTS.items()}
    assert test.observe(test.hot(SOURCE, records).pipe(events())) == test.expected(SOURCE, EVENTS)
