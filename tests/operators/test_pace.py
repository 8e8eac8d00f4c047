"""`coalesce`: deltas of a moment in one, lifecycle events at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import BlockStart, BlockStop, BlockType, Event, TextDelta, Usage
from rxworker.operators import coalesce, merge_deltas
from rxworker.testing.marbles import Marbles, values_of

EVENTS: dict[str, Event] = {
    "s": BlockStart(0, BlockType.TEXT),
    "e": BlockStop(0, BlockType.TEXT),
    "u": Usage(1),
    "a": TextDelta(0, "a"),
    "b": TextDelta(0, "b"),
    "c": TextDelta(0, "c"),
    "A": TextDelta(0, "abc"),
    "B": TextDelta(0, "ab"),
    "x": TextDelta(1, "x"),
}


def observe(drawing: str, until: str = "") -> list[object]:
    test = Marbles()
    source = test.hot(drawing, EVENTS)
    return list(test.observe(source.pipe(coalesce(4.0, test.scheduler)), until=until))


def test_deltas_of_a_moment_become_one() -> None:
    assert observe("-a-b-------|") == Marbles().expected("-----B-----|", EVENTS)
    assert observe("-a-b-c-----|") == Marbles().expected("-----A-----|", EVENTS)


def test_a_lifecycle_event_lets_out_what_is_held_and_passes_at_once() -> None:
    assert observe("-a-b-e-----|") == Marbles().expected("-----(B,e)-|", EVENTS)
    assert observe("-s-u-------|") == Marbles().expected("-s-u-------|", EVENTS)


def test_completion_lets_out_what_is_held() -> None:
    assert observe("-a-b-|") == Marbles().expected("-----(B,|)", EVENTS)


def test_an_error_lets_out_what_is_held() -> None:
    assert observe("-a-b-#") == Marbles().expected("-----(B,#)", EVENTS)


def test_blocks_keep_their_order() -> None:
    test = Marbles()
    source = test.hot("-a-x-b-----|", EVENTS)
    seen = test.observe(source.pipe(coalesce(6.0, test.scheduler)))
    assert values_of(seen) == [EVENTS["a"], EVENTS["x"], EVENTS["b"]]
    assert {record.time for record in seen[:-1]} == {207}


def test_the_moment_begins_with_the_first_delta_and_does_not_grow() -> None:
    assert observe("-a--b--c-----|") == Marbles().expected("-----B-----c-|", EVENTS)


def test_what_is_held_is_dropped_with_the_subscription() -> None:
    assert observe("-a-b-c-----|", until="----!") == []


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=20), st.integers(0, 6))
def test_nothing_is_lost_and_nothing_changes_places(names: list[str], seconds: int) -> None:
    test = Marbles()
    source = test.hot("-" + "".join(f"{name}-" for name in names) + "|", EVENTS)
    seen = test.observe(source.pipe(coalesce(float(seconds), test.scheduler)))
    assert seen[-1] == test.expected("-" + "--" * len(names) + "|")[0]
    assert merge_deltas(values_of(seen)) == merge_deltas([EVENTS[name] for name in names])
