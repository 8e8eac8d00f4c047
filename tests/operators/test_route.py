"""`split_meta`: two lanes, joined in their original order."""

from __future__ import annotations

from reactivex import Observable
from reactivex import operators as ops

from rxworker.events import BlockAbort, BlockEvent, BlockStart, BlockType, Event, TextDelta, TurnStart, Usage
from rxworker.events.kinds import Deltas
from rxworker.events.meta import Meta
from rxworker.operators import split_meta
from rxworker.operators.kernel import Source, many
from rxworker.testing.marbles import Marbles

EVENTS: dict[str, Event] = {
    "u": Usage(1),
    "s": BlockStart(0, BlockType.TEXT),
    "d": TextDelta(0, "hello"),
    "t": TurnStart(),
}


def name_meta(source: Observable[Meta]) -> Observable[str]:
    def name(event: Meta) -> str:
        return "M" + type(event).__name__[0]

    return source.pipe(ops.map(name))


def name_block(source: Observable[BlockEvent]) -> Observable[str]:
    def name(event: BlockEvent) -> str:
        return "B" + type(event).__name__[0]

    return source.pipe(ops.map(name))


def fail_at_once(source: Observable[Meta]) -> Observable[str]:
    def fail(_: Meta) -> str:
        raise ValueError("meta")

    return source.pipe(ops.map(fail))


def first_only(source: Observable[Meta]) -> Observable[Meta]:
    return source.pipe(ops.take(1))


def same(source: Observable[BlockEvent]) -> Observable[BlockEvent]:
    return source


def gone(source: Observable[BlockEvent]) -> Observable[BlockEvent]:
    return source.pipe(ops.take(1))


def test_the_lanes_join_in_the_original_order(test: Marbles) -> None:
    source = test.hot("       -u-  s-  d-  u-  d-  |", EVENTS)
    expected = test.expected("-MU--BB--BT--MU--BT-|")
    seen = test.observe(source.pipe(split_meta(name_meta, name_block)))
    assert [record.value for record in seen] == [record.value for record in expected]
    assert [record.time - 200 for record in seen] == [1, 3, 5, 7, 9, 11]
    assert source.subscriptions == test.subscriptions("^----------!")


def test_turn_events_take_neither_lane(test: Marbles) -> None:
    seen = test.observe(test.hot("-t-d-t-|", EVENTS).pipe(split_meta(first_only, same)))
    assert seen == test.expected("---d---|", EVENTS)


def test_a_lane_that_fails_ends_the_result(test: Marbles) -> None:
    source = test.hot("       -s-u-d-|", EVENTS)
    expected = test.expected("-s-#", EVENTS, error=ValueError("meta"))
    assert test.observe(source.pipe(split_meta(fail_at_once, same))) == expected
    assert source.subscriptions == test.subscriptions("^--!")


def test_a_lane_that_ends_leaves_the_other(test: Marbles) -> None:
    seen = test.observe(test.hot("-u-d-u-d-|", EVENTS).pipe(split_meta(first_only, same)))
    assert seen == test.expected("-u-d---d-|", EVENTS)


def test_the_source_is_left_when_both_lanes_have_ended(test: Marbles) -> None:
    source = test.hot("-u-d-u-d-|", EVENTS)
    assert test.observe(source.pipe(split_meta(first_only, gone))) == test.expected("-u-(d,|)", EVENTS)
    assert source.subscriptions == test.subscriptions("^--!")


def test_deltas_that_come_together_open_their_block() -> None:
    source: Source[Event] = Source()
    seen: list[object] = []
    source.pipe(split_meta(first_only, same)).subscribe(seen.append)
    many(source._observers[0])([Deltas(TextDelta(0, ""), ["a", "b"]), EVENTS["s"]])
    aborted = BlockAbort(0, BlockType.TEXT, "another block has started at its index")
    assert seen == [TextDelta(0, "a"), TextDelta(0, "b"), aborted, EVENTS["s"]]
