"""``hub.events`` emits what ``hub.pipe(events())`` emits, for any bursts, and however watchers attach and detach."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxworker.events import Event, Ping, Record, TextDelta
from rxworker.events.kinds import Deltas
from rxworker.hub import Hub
from rxworker.operators import events, text_deltas
from rxworker.operators.kernel import Sink, connect


def record(seq: int, event: Event, *path: str) -> Record:
    return Record(seq, "r", 1, 1, float(seq), event, path)


def burst(first: int, deltas: Deltas[Event]) -> Record:
    count = len(deltas)
    event = cast("Event", deltas)
    return Record(first + count - 1, "r", 1, 1, float(first), event, covers=count)


def push(hub: Hub, move: str) -> None:
    seq = hub.last_seq + 1
    if move == "one":
        hub.push(record(seq, TextDelta(0, f"{seq} ")))
    elif move == "ping":
        hub.push(record(seq, Ping()))
    elif move == "inner":
        hub.push(record(seq, TextDelta(0, "inside"), "call"))
    elif move == "several":
        hub.push_many([record(seq, Ping()), record(seq + 1, TextDelta(0, "x"))])
    elif move == "together":
        row = Deltas[Event](TextDelta(0, ""), [f"{n} " for n in range(5)])
        hub.push(burst(seq, row))
    elif move == "read":
        row = Deltas[Event](TextDelta(0, ""), [f"{n} " for n in range(5)])
        first, last = record(seq, Ping()), record(seq + 6, TextDelta(1, "end"))
        hub.push_many([first, burst(seq + 1, row), last])


MOVES = ["one", "ping", "inner", "several", "together", "read", "bare", "records", "leave"]


@given(st.lists(st.sampled_from(MOVES), max_size=25))
def test_it_emits_what_the_plain_operator_emits(moves: list[str]) -> None:
    hub = Hub()
    watching: list[tuple[list[Event], Callable[[], None]]] = []
    for move in moves:
        if move in ("bare", "records"):
            seen: list[Event] = []
            source = hub.events if move == "bare" else hub.pipe(events())
            watching.append((seen, source.subscribe(seen.append).dispose))
        elif move == "leave" and watching:
            watching.pop()[1]()
        else:
            push(hub, move)
    expected = [r.event for r in hub.history.records(0) if not r.path]
    for seen, _ in watching:
        assert seen == expected
    assert [r.seq for r in hub.history.records(0)] == list(range(1, hub.last_seq + 1))


def test_events_pushed_together_have_one_time_and_their_own_numbers(hub: Hub) -> None:
    push(hub, "together")
    push(hub, "together")
    assert [(r.seq, r.time) for r in hub.history.records(3, 7)] == [(4, 1.0), (5, 1.0), (6, 6.0), (7, 6.0)]


def test_no_record_is_made_for_observers_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Record:
        raise AssertionError("a record was made")

    hub = Hub()
    texts: list[str] = []
    hub.events.pipe(text_deltas()).subscribe(texts.append)
    entry = burst(1, Deltas[Event](TextDelta(0, ""), [f"{n} " for n in range(5)]))
    monkeypatch.setattr("rxworker.hub.history.Record", refuse)
    hub.push(entry)
    assert texts == ["0 ", "1 ", "2 ", "3 ", "4 "]


def test_an_observer_that_pushes_does_not_break_the_order(hub: Hub) -> None:
    first: list[Event] = []
    second: list[Event] = []

    def echo(event: Event) -> None:
        first.append(event)
        if len(first) == 2:
            push(hub, "ping")
            push(hub, "together")

    hub.events.subscribe(echo)
    hub.events.subscribe(second.append)
    push(hub, "together")
    assert len(first) == 11
    assert first == second == [r.event for r in hub.history.records(0)]


def test_an_observer_that_raises_is_detached_and_the_others_receive_all() -> None:
    lost: list[str] = []
    hub = Hub(lambda name, error: lost.append(f"{name}: {error}"))
    seen: list[Event] = []

    def boom(event: Event) -> None:
        raise ValueError("no")

    hub.events.subscribe(boom)
    hub.events.subscribe(seen.append)
    push(hub, "together")
    push(hub, "together")
    assert len(seen) == 10
    assert lost == ["watcher-1: no"]


def test_an_observer_disposed_within_a_burst_receives_nothing_more(hub: Hub) -> None:
    seen: list[Event] = []
    hub.events.pipe(ops.take(2)).subscribe(seen.append)
    push(hub, "together")
    assert len(seen) == 2


def test_an_end_within_a_burst_follows_the_burst(hub: Hub) -> None:
    seen: list[object] = []

    def end(_: Event) -> None:
        hub.end()

    hub.events.subscribe(end)
    hub.events.subscribe(seen.append, seen.append, lambda: seen.append("end"))
    push(hub, "together")
    assert len(seen) == 6
    assert seen[-1] == "end"


def test_an_instrument_receives_deltas_that_came_together_as_one_record_and_is_not_a_watcher(hub: Hub) -> None:
    push(hub, "together")
    seen: list[Record] = []
    hub.entries(after=hub.last_seq).subscribe(seen.append)
    assert (hub.watching, hub.watched, hub.states()) == (0, False, ())
    first = hub.last_seq + 1
    push(hub, "together")
    assert (seen[0].first, seen[-1].seq) == (first, hub.last_seq)
    assert len(seen) < sum(record.covers for record in seen)


def test_an_observer_that_names_the_kinds_it_takes_notice_of_is_pushed_no_other_single_event() -> None:
    hub = Hub()
    seen: list[object] = []
    sink: Sink[Event] = Sink(seen.append, seen.append, lambda: None, seen.append)
    sink.kinds = frozenset({TextDelta})
    connect(hub.events, sink)
    push(hub, "ping")
    push(hub, "one")
    push(hub, "inner")
    assert seen == [TextDelta(0, "2 ")]
