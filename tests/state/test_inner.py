"""The tokens of runs inside a run, and calls that started before their response had ended."""

from __future__ import annotations

from rxworker.events import (
    AttemptStart,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    Record,
    ResponseStatus,
    RunAbort,
    RunStart,
    RunStop,
    Status,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    Usage,
)
from rxworker.messages import Conversation, Message, StopKind, StopReason, ToolCall, ToolResult, repair
from rxworker.state import RunState, fold_run

Path = tuple[str, ...]
COMPLETED = Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.END_TURN))
CALL = ToolCall("1", "look", {})
GONE = ToolResult("1", "thrown away", is_error=True, name="look")


def fold(*events: tuple[Path, Event]) -> RunState:
    return fold_run(Record(seq, "r", 1, 1, 0.0, event, path) for seq, (path, event) in enumerate(events, 1))


def own(*events: Event) -> list[tuple[Path, Event]]:
    return [((), event) for event in events]


def usage(tokens: int) -> Usage:
    return Usage(input_tokens=tokens)


def test_the_last_snapshot_of_each_response_counts() -> None:
    state = fold(
        (("a",), AttemptStart()),
        (("a",), usage(1)),
        (("a",), usage(3)),
        (("a",), COMPLETED),
        (("a",), AttemptStart()),
        (("a",), usage(10)),
        (("a",), COMPLETED),
    )
    assert state.usage == usage(13)
    assert state.own_usage == Usage()
    assert state.usage_by_model == {"": usage(13)}


def test_the_model_of_a_run_is_kept_until_the_run_has_ended() -> None:
    records = [
        (("a",), AttemptStart(model="small")),
        (("a",), usage(1)),
        (("b",), AttemptStart(model="large")),
        (("b",), usage(4)),
        (("a",), COMPLETED),
        (("a",), RunStop()),
    ]
    state = fold(*records)
    assert [request.model for request in state.inner.open.values()] == ["large"]
    assert state.usage_by_model == {"small": usage(1), "large": usage(4)}


def test_runs_side_by_side_and_within_each_other_are_kept_apart() -> None:
    state = fold(
        (("a",), usage(1)),
        (("b",), usage(2)),
        (("a", "c"), usage(4)),
        (("a",), COMPLETED),
        (("b",), COMPLETED),
        (("a", "c"), COMPLETED),
    )
    assert state.usage == usage(7)


def test_a_response_that_was_cut_off_counts_as_far_as_it_is_known() -> None:
    state = fold((("a",), usage(1)), (("a",), RunAbort("cancel", "")))
    assert state.usage == Usage(input_tokens=1, is_partial=True)


def test_a_run_that_is_looked_at_by_itself_does_not_count_those_around_it() -> None:
    records = [Record(1, "r", 1, 1, 0.0, usage(1)), Record(2, "r", 1, 1, 0.0, usage(2), ("a", "b"))]
    state = fold_run(records, RunState(path=("a",)))
    assert state.usage == Usage(input_tokens=2, is_partial=True)


def called(*before: Event) -> list[tuple[Path, Event]]:
    block = ToolUseMetadata("1", "look")
    return own(
        RunStart(Conversation((Message.user("go"),))),
        TurnStart(),
        AttemptStart("p"),
        *before,
        Status(ResponseStatus.STARTED),
        BlockStart(0, BlockType.TOOL_USE, block),
        InputJsonDelta(0, "{}"),
        BlockStop(0, BlockType.TOOL_USE, metadata=block),
        ToolStart(CALL),
    )


def completed(kind: StopKind) -> Status:
    return Status(ResponseStatus.COMPLETED, stop_reason=StopReason(kind))


def test_an_early_call_waits_for_its_result_like_the_others() -> None:
    state = fold(*called(), *own(completed(StopKind.TOOL_USE)))
    assert (state.pending, state.started) == ((CALL,), ("1",))


def test_what_was_thrown_away_before_an_abort_is_the_only_answer() -> None:
    state = fold(*called(), *own(ToolStop(GONE), RunAbort("cancel", "")))
    answers = [r for m in state.conversation.messages for r in m.tool_results]
    assert answers == [GONE]
    assert repair(state.conversation) == state.conversation


def test_what_is_thrown_away_after_a_response_that_was_cut_changes_nothing() -> None:
    state = fold(*called(), *own(completed(StopKind.MAX_TOKENS)))
    after = fold(*called(), *own(completed(StopKind.MAX_TOKENS), ToolStop(GONE)))
    assert after.conversation == state.conversation
    assert (after.results, after.started) == ((), ())


def test_a_response_that_begins_anew_takes_its_early_calls_back() -> None:
    again = [event for _, event in called()[3:-1]]
    state = fold(*called(), *own(ToolStop(GONE), *again, completed(StopKind.TOOL_USE)))
    assert (state.pending, state.results, state.started) == ((CALL,), (), ())


def test_a_call_that_runs_after_its_early_result_was_thrown_away_waits_again() -> None:
    state = fold(*called(), *own(completed(StopKind.TOOL_USE), ToolStop(GONE), ToolStart(CALL)))
    assert (state.pending, state.results, state.started) == ((CALL,), (), ("1",))


def test_a_response_that_starts_again_counts_with_what_it_took_before() -> None:
    started = Status(ResponseStatus.STARTED)
    events = (AttemptStart(model="small"), started, usage(4), usage(5), started, usage(2), COMPLETED)
    state = fold(*own(*events))
    assert (state.usage.total_tokens, state.usage_by_model["small"].total_tokens) == (7, 7)
    inside = fold(*((("a",), event) for event in events))
    assert inside.usage == state.usage
    assert inside.usage_by_model["small"].total_tokens == 7
    # of several models, where the second reports what both took
    again = Status(ResponseStatus.STARTED, provider="other")
    state = fold(*own(AttemptStart(), started, usage(5), again, usage(7), COMPLETED))
    assert state.usage.total_tokens == 7
    # a usage before the start is a snapshot like any other
    state = fold(*((("a",), event) for event in (AttemptStart(), usage(5), started, usage(6))))
    assert state.usage.total_tokens == 6
