"""The journal numbers what comes together as it numbers what comes one by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import (
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CommandTaken,
    Error,
    Event,
    InputJsonDelta,
    MessageAdd,
    PauseState,
    Ping,
    Record,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    Usage,
    WatcherDetach,
)
from rxworker.events.kinds import Deltas, flatten
from rxworker.messages import Conversation, StopKind, StopReason, ToolCall, ToolResult
from rxworker.state import RunState, fold_run, step_run
from rxworker.testing import checked_records, lint
from rxworker.turn.journal import Journal

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


@pytest.mark.ungrammatical
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


@pytest.mark.ungrammatical
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
        assert fold_run(history.entries(after), before) == single_state


RESULT = ToolResult("c", "seen", name="look")
BROKEN: dict[str, list[Event]] = {
    "an abort behind the end": [RunStart(Conversation()), RunStop(), RunAbort("cancel", "late")],
    "a turn behind the end": [RunStart(Conversation()), RunStop(), TurnStart()],
    "a message behind an abort": [RunAbort("cancel", "x"), MessageAdd((), "send")],
    "a command behind a pause": [RunPause(PauseState("hook", (), ())), CommandTaken(1, "cancel")],
    "a second end": [RunStop(), RunStop()],
    "a turn in a turn": [TurnStart(), TurnStart()],
    "a stop without a start": [RunStart(Conversation()), TurnStop()],
    "progress of no call": [TurnStart(), ToolProgress("c", 0.5)],
    "an output before its stop": [TurnStart(), ToolStart(ToolCall("c", "look", {}), place=0), ToolOutput(RESULT, 0)],
    "a call twice": [
        TurnStart(),
        ToolStart(ToolCall("c", "look", {}), place=0),
        ToolStart(ToolCall("c", "look", {}), place=0),
    ],
    "an end of a turn before its calls": [TurnStart(), ToolStart(ToolCall("c", "look", {}), place=0), TurnStop()],
}


@pytest.mark.ungrammatical
@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("together", [False, True])
def test_a_record_that_breaks_the_rules_is_refused_where_it_is_numbered(broken: str, together: bool) -> None:
    *before, wrong = BROKEN[broken]
    with checked_records() as faults:
        journal = Journal("r", lambda: 1.0)
        for event in before:
            journal.emit(event)
        emit = partial(journal.emit_many, [wrong]) if together else partial(journal.emit, wrong)
        with pytest.raises(AssertionError, match=rf"^r, record {len(before) + 1}: \w"):
            emit()
        assert len(faults) == 1
        faults.clear()
    assert [record.event for record in told(journal)] == before, "it is not emitted"
    seen = [Record(n, "r", 1, 1, 1.0, event) for n, event in enumerate([*before, wrong], 1)]
    assert len(lint(seen, complete=False)) == 1, "the linter finds the same"


@pytest.mark.ungrammatical
def test_a_fault_is_raised_again_where_the_check_ends() -> None:
    """A run may take the first error for one of its own."""

    def run() -> None:
        with checked_records():
            journal = Journal("r", lambda: 1.0)
            with suppress(AssertionError):
                journal.emit(TurnStop())

    with pytest.raises(AssertionError, match="records break the rules"):
        run()


@pytest.mark.ungrammatical
def test_records_are_not_checked_outside_of_tests() -> None:
    journal = Journal("r", lambda: 1.0)
    for event in BROKEN["an abort behind the end"]:
        journal.emit(event)
    assert len(told(journal)) == 3


@pytest.mark.ungrammatical
def test_the_detach_of_a_watcher_may_follow_the_end() -> None:
    with checked_records() as faults:
        journal = Journal("r", lambda: 1.0)
        for event in (RunStart(Conversation()), RunStop(), WatcherDetach("w", "x")):
            journal.emit(event)
    assert faults == []
