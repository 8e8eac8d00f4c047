"""The cases that stand for every operator: never, empty, error, disposed early, subscribed twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.events import (
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    Record,
    TextDelta,
    ThinkingDelta,
    ToolStart,
    ToolUseMetadata,
    Usage,
)
from rxworker.messages import ToolCall
from rxworker.operators import (
    Block,
    coalesce,
    decode,
    events,
    fail_on_error,
    fold_scope,
    fold_sliding,
    group_blocks,
    hold_back,
    lineage,
    lines,
    map_async,
    mask,
    only,
    rate,
    records_of,
    reject,
    retry_before_first,
    scan_scope,
    sentences,
    session_windows,
    sliding,
    spans,
    split_meta,
    text_deltas,
    text_so_far,
    think_tags,
    thinking_deltas,
    throttle,
    time_out,
    tool_calls,
    tool_inputs,
    usage_changes,
)
from rxworker.operators.kernel import Operator
from rxworker.testing.marbles import Marbles
from rxworker.timeline import Timeline

EVENTS: dict[str, Event] = {
    "s": BlockStart(0, BlockType.TEXT),
    "d": TextDelta(0, "hello"),
    "e": BlockStop(0, BlockType.TEXT),
    "k": ThinkingDelta(1, "hm"),
    "S": BlockStart(2, BlockType.TOOL_USE, ToolUseMetadata("1", "look")),
    "j": InputJsonDelta(2, '{"a": 1, "b": 2}'),
    "E": BlockStop(2, BlockType.TOOL_USE),
    "u": Usage(1, 2),
}
STORY = "-s-d-e-k-S-j-E-u-|"


class Same:
    """A decoder that changes nothing."""

    def feed(self, data: Event) -> Sequence[Event]:
        return [data]

    def finish(self) -> Sequence[Event]:
        return []


def count(state: int, _: BlockEvent) -> int:
    return state + 1


def same(source: Observable[Any]) -> Observable[Any]:
    return source


def once(item: Event) -> Observable[Event]:
    return Observable(emit(item))


def emit(item: Event) -> Callable[..., abc.DisposableBase]:
    def subscribe(observer: abc.ObserverBase[Event], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        from reactivex.disposable import Disposable

        observer.on_next(item)
        observer.on_completed()
        return Disposable()

    return subscribe


def followed(source: Observable[Event]) -> Observable[BlockEvent]:
    def follow(block: Block) -> Observable[BlockEvent]:
        return block

    return source.pipe(group_blocks(), ops.flat_map(follow))


def envelop(event: Event) -> Record:
    return Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=event)


def in_records(source: Observable[Event]) -> Observable[Event]:
    return source.pipe(ops.map(envelop), events())


def with_calls(event: Event) -> Event:
    """Each start of a tool's block as the start of the tool, so that there is something to tell."""
    if isinstance(event, BlockStart) and isinstance(event.metadata, ToolUseMetadata):
        return ToolStart(ToolCall(event.metadata.id, event.metadata.name, {}))
    return event


def starts(record: Record) -> int | None:
    return 0 if isinstance(record.event, BlockStart) else None


def stops(record: Record) -> int | None:
    return 0 if isinstance(record.event, BlockStop) else None


def one(_: object) -> float:
    return 1.0


def add(one: float, other: float) -> float:
    return one + other


def never_again(_: Exception, __: int) -> float | None:
    return None


OPERATORS: dict[str, Callable[[Marbles], Operator[Any, Any]]] = {
    "decode": lambda _: decode(Same),
    "fail_on_error": lambda _: fail_on_error(),
    "only": lambda _: only(TextDelta),
    "reject": lambda _: reject(TextDelta),
    "text_deltas": lambda _: text_deltas(),
    "thinking_deltas": lambda _: thinking_deltas(),
    "events": lambda _: in_records,
    "split_meta": lambda _: split_meta(same, same),
    "group_blocks": lambda _: followed,
    "group_blocks, replayed": lambda _: lambda source: source.pipe(group_blocks(replay=True), ops.merge_all()),
    "scan_scope": lambda _: lambda source: source.pipe(group_blocks(), scan_scope(count, 0)),
    "fold_scope": lambda _: lambda source: source.pipe(group_blocks(), fold_scope(count, 0)),
    "tool_calls": lambda _: tool_calls(),
    "tool_inputs": lambda _: lambda source: source.pipe(tool_inputs(), ops.map(repr)),
    "lines": lambda _: lines(),
    "sentences": lambda _: sentences(),
    "mask": lambda _: mask("l+"),
    "hold_back": lambda _: hold_back(bool, window=2),
    "think_tags": lambda _: think_tags(),
    "coalesce": lambda test: coalesce(3.0, test.scheduler),
    "throttle": lambda test: throttle(3.0, scheduler=test.scheduler),
    "records_of": lambda _: lambda source: source.pipe(ops.map(envelop), records_of(BlockStart, BlockStop)),
    "retry_before_first": lambda test: retry_before_first(never_again, test.scheduler),
    "time_out": lambda test: time_out(900.0, 900.0, test.scheduler),
    "map_async": lambda _: map_async(once, 2),
    "map_async, in order": lambda _: map_async(once, 2, in_order=True),
    "session_windows": lambda test: session_windows(1.0, test.scheduler),
    "text_so_far": lambda _: text_so_far(),
    "sentences, idle": lambda test: sentences(1.0, 2, test.scheduler),
    "timeline": lambda _: Timeline(),
    "sliding": lambda test: sliding(4, test.scheduler),
    "fold_sliding": lambda test: lambda source: source.pipe(ops.map(one), fold_sliding(add, 0.0, 4, test.scheduler)),
    "rate": lambda test: lambda source: source.pipe(ops.map(one), rate(4, test.scheduler)),
    "lineage": lambda _: lambda source: source.pipe(ops.map(with_calls), ops.map(envelop), lineage()),
    "spans": lambda _: lambda source: source.pipe(ops.map(envelop), spans(starts, stops)),
    "usage_changes": lambda _: lambda source: source.pipe(ops.map(envelop), usage_changes()),
}


@pytest.fixture(params=OPERATORS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def kinds_of(records: Sequence[Any]) -> list[str]:
    return [record.value.kind for record in records]


def test_never_stays_never(name: str, test: Marbles) -> None:
    source = test.hot("----", EVENTS)
    assert test.observe(source.pipe(OPERATORS[name](test)), until="------!") == []
    assert source.subscriptions == test.subscriptions("^-----!")


def test_empty_stays_empty(name: str, test: Marbles) -> None:
    source = test.hot("---|", EVENTS)
    assert test.observe(source.pipe(OPERATORS[name](test))) == test.expected("---|")
    assert source.subscriptions == test.subscriptions("^--!")


def test_error_passes(name: str, test: Marbles) -> None:
    source = test.hot("---#", EVENTS)
    assert test.observe(source.pipe(OPERATORS[name](test))) == test.expected("---#")
    assert source.subscriptions == test.subscriptions("^--!")


def test_error_behind_items_comes_once_and_last(name: str, test: Marbles) -> None:
    source = test.hot("-s-d-e-k-S-j-E-u-#", EVENTS)
    kinds = kinds_of(test.observe(source.pipe(OPERATORS[name](test))))
    assert kinds[-1] == "E"
    assert kinds.count("E") == 1
    assert len(source.subscriptions) == 1


def test_disposing_early_ends_the_subscription_upstream(name: str, test: Marbles) -> None:
    source = test.hot(STORY, EVENTS)
    kinds = kinds_of(test.observe(source.pipe(OPERATORS[name](test)), until="------!"))
    assert "C" not in kinds
    assert source.subscriptions == test.subscriptions("^-----!")


def test_nothing_comes_after_disposing_within_an_item(name: str, test: Marbles) -> None:
    source = test.hot(STORY, EVENTS)
    records = test.observe(source.pipe(OPERATORS[name](test), ops.take(1)))
    assert kinds_of(records) == ["N", "C"]
    assert source.subscriptions[0].unsubscribe < test.subscriptions("^-----------------!")[0].unsubscribe


def test_two_subscriptions_emit_the_same_events(name: str, test: Marbles) -> None:
    source = test.cold(STORY, EVENTS)
    result = source.pipe(OPERATORS[name](test))
    first = test.scheduler.create_observer()
    second = test.scheduler.create_observer()
    result.subscribe(first)
    result.subscribe(second)
    test.scheduler.start()
    assert first.messages == second.messages
    assert kinds_of(first.messages)[-1] == "C"
    assert len(kinds_of(first.messages)) > 1
    assert len(source.subscriptions) == 2


def test_state_is_born_at_subscription(name: str, test: Marbles) -> None:
    result = test.cold(STORY, EVENTS).pipe(OPERATORS[name](test))
    stories: list[list[Any]] = []
    for _ in range(2):
        story: list[Any] = []
        result.subscribe(story.append)
        test.scheduler.start()
        stories.append(story)
    assert stories[0] == stories[1] != []
