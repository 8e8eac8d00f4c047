"""`scan_scope` and `fold_scope` carry a state along each block."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as ops

from rxworker.events import BlockAbort, BlockEvent, BlockStop, BlockType, Event, TextDelta
from rxworker.operators import Block, fold_scope, group_blocks, scan_scope
from rxworker.operators.kernel import Source
from rxworker.testing.marbles import Marbles

EVENTS: dict[str, Event] = {
    "a": TextDelta(0, "a"),
    "b": TextDelta(0, "b"),
    "x": TextDelta(1, "x"),
    "!": TextDelta(1, "!"),
    "c": BlockAbort(0, BlockType.TEXT),
    "e": BlockStop(0, BlockType.TEXT),
    "E": BlockStop(1, BlockType.TEXT),
}
STATES = {name: name for name in ("a", "ab", "ab.", "x", "x.")}


def gather(state: str, event: BlockEvent) -> str:
    if isinstance(event, TextDelta):
        if event.text == "!":
            raise ValueError("!")
        return state + event.text
    return state + "."


def test_every_state_of_every_block_comes_in_order(test: Marbles) -> None:
    source = test.hot("       -a--x--b---e---E--|", EVENTS)
    expected = test.expected("-a--x--ab--ab.-x.-|", STATES)
    assert test.observe(source.pipe(group_blocks(), scan_scope(gather, ""))) == expected


def test_the_last_state_comes_when_a_block_stops(test: Marbles) -> None:
    source = test.hot("       -a--x--b---e---E--|", EVENTS)
    expected = test.expected("-----------ab.-x.-|", STATES)
    assert test.observe(source.pipe(group_blocks(), fold_scope(gather, ""))) == expected


def test_a_block_that_is_not_whole_has_no_last_state(test: Marbles) -> None:
    source = test.hot("       -a-b-c-a-|", EVENTS)
    expected = test.expected("---------|", STATES)
    assert test.observe(source.pipe(group_blocks(), fold_scope(gather, ""))) == expected


def test_a_step_that_raises_ends_everything(test: Marbles) -> None:
    source = test.hot("       -a-!-a-|", EVENTS)
    expected = test.expected("-a-#", STATES, error=ValueError("!"))
    assert test.observe(source.pipe(group_blocks(), scan_scope(gather, ""))) == expected
    assert source.subscriptions == test.subscriptions("^--!")


@given(st.lists(st.sampled_from(sorted(EVENTS.keys() - {"!"})), max_size=30))
def test_it_means_flat_map_and_scan(names: list[str]) -> None:
    def follow(block: Block) -> Observable[str]:
        return block.pipe(ops.scan(gather, ""))

    stories: list[list[str]] = []
    for operator in (scan_scope(gather, ""), ops.flat_map(follow)):
        story: list[str] = []
        source: Source[Event] = Source()
        source.pipe(group_blocks(), operator).subscribe(story.append)
        for name in names:
            source.on_next(EVENTS[name])
        source.on_completed()
        stories.append(story)
    assert stories[0] == stories[1]
