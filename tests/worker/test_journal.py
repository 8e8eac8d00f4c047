"""The journal numbers what comes together as it numbers what comes one by one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import (
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    Event,
    InputJsonDelta,
    Ping,
    Record,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.events.deltas import Deltas, flatten
from rxworker.messages import StopKind, StopReason
from rxworker.state import RunState, fold_run, step_run
from rxworker.worker.journal import Journal

ROW = Deltas[Event](TextDelta(0, ""), ["a", "b", "c", "d", "e"])
KINDS: dict[str, Event | Deltas[Event]] = {
    "turn": TurnStart(),
    "stop": TurnStop(),
    "attempt": AttemptStart("p", "m"),
    "ping": Ping(),
    "text": TextDelta(0, "x"),
    "row": ROW,
}
RESPONSE: dict[str, Event | Deltas[Event]] = {
    "begin": Status(ResponseStatus.STARTED, "id", "model-1"),
    "end": Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.TOOL_USE)),
    "failed": Status(ResponseStatus.FAILED),
    "error": Error("broken", "it broke"),
    "usage": Usage(9, 1),
    "ping": Ping(),
    "open": BlockStart(0, BlockType.TEXT),
    "stop": BlockStop(0, BlockType.TEXT),
    "abort": BlockAbort(0, BlockType.TEXT),
    "text": TextDelta(0, "x"),
    "row": ROW,
    "other": TextDelta(1, "y"),
    "call": BlockStart(2, BlockType.TOOL_USE, ToolUseMetadata("c", "look")),
    "piece": InputJsonDelta(2, '{"a": 1}'),
    "called": BlockStop(2, BlockType.TOOL_USE),
}
READS = st.lists(st.lists(st.sampled_from(sorted(RESPONSE)), max_size=9), max_size=6)


def emit_together(journal: Journal, parts: Sequence[Event | Deltas[Event]]) -> list[Event]:
    """Emit what a read brought as a receiver does; return the single events."""
    journal.emit_many(parts)
    return list(flatten(parts))


def told(journal: Journal) -> list[Record]:
    return list(journal.hub.history.records(0))


@given(st.lists(st.lists(st.sampled_from(sorted(KINDS)), max_size=8), max_size=8))
def test_a_read_is_numbered_as_its_events_are(reads: Sequence[Sequence[str]]) -> None:
    together, single = Journal("r", lambda: 1.0), Journal("r", lambda: 1.0)
    seen: list[Event] = []
    together.hub.events.subscribe(seen.append)
    for read in reads:
        for event in emit_together(together, [KINDS[name] for name in read]):
            single.emit(event)
    assert told(together) == told(single)
    assert together.turn == single.turn
    assert seen == [record.event for record in told(single)]


@given(READS, st.frozensets(st.integers(0, 5)), st.frozensets(st.integers(0, 5)))
def test_a_read_is_read_again_and_folded_as_its_events_are(
    reads: Sequence[Sequence[str]], packs: frozenset[int], looks: frozenset[int]
) -> None:
    together, single = Journal("r", lambda: 1.0), Journal("r", lambda: 1.0)
    history = together.hub.history
    single_state = RunState()
    for place, read in enumerate(reads):
        for journal in (together, single):
            if "begin" in read:
                journal.emit(AttemptStart("p", "m"))
        for event in emit_together(together, [RESPONSE[name] for name in read]):
            single.emit(event)
        if place in packs:
            history.pack()
        if place in looks:
            assert together.state == single.state
    records = told(single)
    for record in records:
        single_state = step_run(single_state, record)
    assert together.state == single.state == single_state
    for after in range(len(records) + 1):
        assert list(history.records(after)) == records[after:]
        assert history.merged(after) == single.hub.history.merged(after)
        before = fold_run(records[:after])
        assert fold_run(history.unseen(after), before) == single_state
