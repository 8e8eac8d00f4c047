"""Sources and stages keep the Rx contract."""

from __future__ import annotations

import pytest
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.subject import Subject

from rxworker.events import BlockStart, BlockStop, BlockType, Event, Ping, TextDelta
from rxworker.events.kinds import Deltas, Parts
from rxworker.events.meta import Meta
from rxworker.operators import Block, group_blocks, only, scan_scope, split_meta
from rxworker.operators.kernel import Sink, Source, Stage, connect, many, stage
from rxworker.testing.marbles import Marbles
from tests.seen import through


def doubled(source: Observable[int]) -> Observable[int]:
    def make(observer: abc.ObserverBase[int]) -> Sink[int]:
        def on_next(value: int) -> None:
            observer.on_next(2 * value)

        return Sink(on_next, observer.on_error, observer.on_completed)

    return stage(source, make)


def nothing() -> None:
    return None


def ignore(_: object) -> None:
    return None


def test_stages_attach_to_each_other_and_to_any_observable() -> None:
    seen = through([1, 2], doubled, ops.map(doubled_value), doubled, doubled)
    assert seen == [16, 32]


def doubled_value(value: int) -> int:
    return 2 * value


def test_a_stage_on_a_subject_leaves_it_when_disposed() -> None:
    source: Subject[int] = Subject()
    source.pipe(doubled, doubled).subscribe(ignore).dispose()
    assert source.observers == []


def test_a_stage_on_a_source_leaves_it_when_disposed() -> None:
    source: Source[int] = Source()
    seen: list[int] = []
    subscription = source.pipe(doubled, doubled).subscribe(seen.append)
    source.on_next(1)
    subscription.dispose()
    source.on_next(2)
    assert seen == [4]
    assert source._observers == ()


def test_all_subscribers_see_an_event_also_when_one_raises() -> None:
    source: Source[int] = Source()
    seen: list[int] = []

    def refuse(value: int) -> None:
        raise ValueError(value)

    source.subscribe(refuse)
    source.subscribe(seen.append)
    with pytest.raises(ValueError, match="1"):
        source.on_next(1)
    assert seen == [1]


@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_a_late_subscriber_receives_the_end_of_the_source(error: ValueError | None) -> None:
    source: Source[int] = Source()
    source.on_completed() if error is None else source.on_error(error)
    source.on_next(1)
    source.on_completed()
    ended: list[object] = []
    source.subscribe(ended.append, ended.append, lambda: ended.append(None))
    assert ended == [error]


def test_who_subscribes_within_an_event_gets_the_next_one() -> None:
    source: Source[int] = Source()
    late: list[int] = []

    def subscribe_once(value: int) -> None:
        if value == 1:
            source.subscribe(late.append)

    source.subscribe(subscribe_once)
    source.on_next(1)
    source.on_next(2)
    assert late == [2]


def test_a_subscription_to_a_source_may_be_disposed_twice() -> None:
    source: Source[int] = Source()
    subscription = connect(source, Sink(ignore, ignore, nothing))
    subscription.dispose()
    subscription.dispose()
    assert source._observers == ()


def test_an_error_while_subscribing_arrives_as_an_error() -> None:
    failure = ValueError("no")

    def refuse(_: abc.ObserverBase[int], __: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        raise failure

    errors: list[Exception] = []
    Stage(refuse).pipe(doubled).subscribe(ignore, errors.append)
    assert errors == [failure]


def test_a_synchronous_source_can_be_cut() -> None:
    seen = through([1, 2, 3], doubled, ops.take(1))
    assert seen == [2]


def test_the_scheduler_of_the_subscription_reaches_the_source(test: Marbles) -> None:
    source = test.cold("-a-|")
    seen = test.observe(source.pipe(only(str), only(str)))
    assert seen == test.expected("-a-|")


def test_a_source_pushes_to_those_who_are_there_at_the_time() -> None:
    source: Source[int] = Source()
    one, two = list[int](), list[int]()
    source.push(0)
    first = source.subscribe(one.append)
    source.push(1)
    second = source.subscribe(two.append)
    source.push(2)
    first.dispose()
    source.push(3)
    second.dispose()
    source.push(4)
    source.on_completed()
    source.push(5)
    assert (one, two) == ([1, 2], [2, 3])


def collecting(parts: list[object]) -> Sink[Event]:
    def on_many(row: Parts[Event]) -> None:
        parts.append(list(row))

    return Sink(parts.append, ignore, nothing, on_many)


def test_what_comes_together_is_pushed_together_to_one_and_in_turn_to_several() -> None:
    source: Source[Event] = Source()
    row: Deltas[Event] = Deltas(TextDelta(0, ""), ["a", "b"])
    seen: list[object] = []
    connect(source, collecting(seen))
    source.push_many([row])
    assert seen == [[row]]
    seen.clear()
    connect(source, collecting(seen))
    source.push_many([row])
    assert seen == [TextDelta(0, "a"), TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(0, "b")]


def test_deltas_that_come_together_reach_the_block_together() -> None:
    source: Source[Event] = Source()
    row: Deltas[Event] = Deltas(TextDelta(0, ""), ["a", "b"])
    seen: list[object] = []

    def meta(source: Observable[Meta]) -> Observable[Meta]:
        return source

    def follow(item: Meta | Block) -> None:
        if isinstance(item, Block):
            connect(item, collecting(seen))
        else:
            seen.append(item)

    source.pipe(split_meta(meta, group_blocks())).subscribe(follow)
    push_many = many(source._observers[0])
    push_many([row, row, Ping()])
    assert seen == [TextDelta(0, "a"), TextDelta(0, "b"), [row], Ping()]


def test_a_state_is_carried_along_deltas_that_come_together() -> None:
    source: Source[Event] = Source()
    seen: list[int] = []

    def count(state: int, _: object) -> int:
        return state + 1

    source.pipe(group_blocks(), scan_scope(count, 0)).subscribe(seen.append)
    start, stop = BlockStart(0, BlockType.TEXT), BlockStop(0, BlockType.TEXT)
    many(source._observers[0])([start, Deltas(TextDelta(0, ""), ["a", "b"]), stop])
    assert seen == [1, 2, 3, 4]
