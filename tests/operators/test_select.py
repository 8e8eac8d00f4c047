"""`only`, `reject`, the text operators and `events`."""

from __future__ import annotations

from typing import Any

import pytest
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


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (only(TextDelta), "---a---b-----|"),
        (only(Ping, BlockDelta), "-p-a---b-k-l-|"),  # and their subclasses
        (reject(Ping, Usage), "---a---b-k-l-|"),
    ],
)
def test_only_keeps_types_and_reject_drops_them(operator: Any, expected: str, test: Marbles) -> None:
    assert test.observe(test.hot(SOURCE, EVENTS).pipe(operator)) == test.expected(expected, EVENTS)


@pytest.mark.parametrize(("deltas", "expected"), [(text_deltas, "---A---B-----|"), (thinking_deltas, "---------K-L-|")])
def test_text_and_thinking_deltas_are_those_of_a_choice(deltas: Any, expected: str, test: Marbles) -> None:
    source = test.hot(SOURCE, EVENTS)
    assert test.observe(source.pipe(deltas(), ops.merge(source.pipe(deltas(1))))) == test.expected(expected)


def test_events_opens_the_envelopes() -> None:
    def record(event: Event) -> Record:
        return Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=event)

    test = Marbles()
    records = {name: record(event) for name, event in EVENTS.items()}
    assert test.observe(test.hot(SOURCE, records).pipe(events())) == test.expected(SOURCE, EVENTS)
