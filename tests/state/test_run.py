"""`step_run`: the state of a run is the fold of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from hypothesis import example, given
from hypothesis import strategies as st

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CommandTaken,
    Error,
    Event,
    Fork,
    HookMessage,
    HookVerdict,
    InputJsonDelta,
    LimitReached,
    MessageAdd,
    PausedCall,
    PauseState,
    Record,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.events.kinds import Deltas
from rxworker.messages import (
    Conversation,
    JsonObject,
    Message,
    StopKind,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    repair,
)
from rxworker.operators import merge_deltas
from rxworker.state import RunState, fold_run, step_run
from rxworker.state.run import STARTED_ONLY

T = BlockType
HELLO = Conversation((Message.user("hello"),))
BEGIN: list[Event] = [RunStart(HELLO), TurnStart(), AttemptStart("acme", "model-1")]
STARTED = Status(ResponseStatus.STARTED, "resp_1", "model-1")
FAILED = Status(ResponseStatus.FAILED)


def completed(kind: StopKind = StopKind.END_TURN) -> Event:
    return Status(ResponseStatus.COMPLETED, stop_reason=StopReason(kind))


def records(events: Sequence[Event]) -> list[Record]:
    return [
        Record(seq=seq, run_id="r", turn=1, attempt=1, time=0.0, event=event) for seq, event in enumerate(events, 1)
    ]


def fold(*events: Event) -> RunState:
    return fold_run(records(events))


def text(said: str, index: int = 0) -> list[Event]:
    return [BlockStart(index, T.TEXT), TextDelta(index, said), BlockStop(index, T.TEXT)]


def call(call_id: str, index: int) -> list[Event]:
    return [
        BlockStart(index, T.TOOL_USE, ToolUseMetadata(call_id, "look")),
        InputJsonDelta(index, "{}"),
        BlockStop(index, T.TOOL_USE),
    ]


def called(call_id: str) -> ToolCall:
    return ToolCall(call_id, "look", {})


def answered(*messages: Message) -> Conversation:
    return HELLO.add(*messages)


def assistant(*content: Text | ToolCall) -> Message:
    return Message("assistant", content, "acme", "model-1")


ONE_TURN: list[Event] = [*BEGIN, STARTED, *text("hi"), Usage(10, 5), completed(), TurnStop()]
CALLS: list[Event] = [*BEGIN, STARTED, *call("1", 0), *call("2", 1), Usage(10, 5)]


def test_a_run_of_one_turn() -> None:
    state = fold(*ONE_TURN, RunStop())
    assert state.status == "finished"
    assert state.conversation == answered(assistant(Text("hi")))
    assert (state.turns, state.attempts, state.tool_calls) == (1, 1, 0)
    assert state.usage == Usage(10, 5)
    assert state.seq == len(ONE_TURN) + 1
    assert state.is_over


def test_a_new_run_is_new() -> None:
    assert RunState().status == "new"
    assert fold(RunStart(HELLO)).status == "running"


def test_the_response_enters_the_conversation_when_it_is_complete_and_only_once() -> None:
    before, after = fold(*ONE_TURN[:-2]), fold(*ONE_TURN[:-1])
    assert before.conversation == HELLO
    assert after.conversation == answered(assistant(Text("hi")))
    assert fold(*ONE_TURN, TurnStart(), RunStop()).conversation == after.conversation


def test_the_usage_is_that_of_all_responses() -> None:
    more: list[Event] = [TurnStart(), AttemptStart("acme"), STARTED, Usage(20, 1), Usage(20, 7)]
    state = fold(*ONE_TURN, *more)
    assert state.usage == Usage(30, 12, is_partial=True)
    assert state.turns == 2


def test_a_retracted_attempt_leaves_no_trace_but_its_tokens() -> None:
    error = Error("overloaded", "later", retryable=True)
    lost: list[Event] = [STARTED, *text("lost"), Usage(10, 1), error, FAILED, AttemptRetract("later")]
    state = fold(*BEGIN, *lost)
    assert state.conversation == HELLO
    assert state.response is None
    again: list[Event] = [AttemptStart("acme", "model-1"), STARTED, *text("hi"), Usage(10, 5)]
    state = fold(*BEGIN, *lost, *again, completed())
    assert state.conversation == answered(assistant(Text("hi")))
    assert state.usage == Usage(20, 6, is_partial=True)
    assert state.attempts == 2


def test_a_complete_response_can_be_retracted_too() -> None:
    state = fold(*CALLS, completed(StopKind.TOOL_USE), AttemptRetract("refused"))
    assert state.conversation == HELLO
    assert state.pending == ()


def test_a_failed_response_enters_when_nothing_can_replace_it() -> None:
    failed = [*BEGIN, STARTED, *text("so far"), FAILED]
    assert fold(*failed).conversation == HELLO
    assert fold(*failed, TurnStop()).conversation == answered(assistant(Text("so far")))


def test_calls_wait_for_their_results() -> None:
    state = fold(*CALLS, completed(StopKind.TOOL_USE))
    assert state.pending == (called("1"), called("2"))
    state = fold(*CALLS, completed(StopKind.TOOL_USE), ToolStart(called("1")), ToolStart(called("2")))
    assert (state.tool_calls, state.started) == (2, ("1", "2"))
    done = ToolResult("2", "two")
    state = step_run(state, Record(99, "r", 1, 1, 0.0, ToolStop(done)))
    assert (state.pending, state.started, state.results) == ((called("1"),), ("1",), (done,))


def test_results_enter_with_their_message() -> None:
    results = (ToolResult("1", "one"), ToolResult("2", "two"))
    state = fold(
        *CALLS,
        completed(StopKind.TOOL_USE),
        *[ToolStop(result) for result in results],
        MessageAdd((Message("user", results),), "tools"),
    )
    assert (state.pending, state.results) == ((), ())
    assert state.conversation == answered(assistant(called("1"), called("2")), Message("user", results))


def test_a_tool_that_ran_while_the_model_streamed_does_not_wait() -> None:
    early: list[Event] = [ToolStart(called("1")), ToolStop(ToolResult("1", "one"))]
    state = fold(*CALLS[:-4], *early, *CALLS[-4:], completed(StopKind.TOOL_USE))
    assert state.pending == (called("2"),)


def test_calls_of_a_cut_response_never_wait_and_are_answered() -> None:
    state = fold(*CALLS, completed(StopKind.MAX_TOKENS))
    assert state.pending == ()
    assert state.conversation == repair(state.conversation)
    assert [r.is_error for r in state.conversation.messages[-1].tool_results] == [True, True]


def test_an_abort_closes_what_is_open_and_leaves_a_conversation_that_can_be_sent() -> None:
    state = fold(*BEGIN, STARTED, *text("hi"), TextDelta(1, "the"), RunAbort("cancel", "enough"))
    assert (state.status, state.cause, state.reason) == ("aborted", "cancel", "enough")
    assert state.conversation == answered(assistant(Text("hi"), Text("the")))


def test_an_abort_keeps_results_of_tools_and_states_whether_the_others_were_started() -> None:
    state = fold(
        *CALLS[:-1],
        *call("3", 2),
        completed(StopKind.TOOL_USE),
        MessageAdd((Message.user("by the way"),), "hook"),
        ToolStart(called("1")),
        ToolStart(called("2")),
        ToolStop(ToolResult("2", "two")),
        RunAbort("cancel", "enough"),
    )
    *_, results, last = state.conversation.messages
    assert [result.tool_use_id for result in results.tool_results] == ["1", "2", "3"]
    assert [result.text for result in results.tool_results][:2] == [STARTED_ONLY, "two"]
    assert "not run" in results.tool_results[2].text
    assert last == Message.user("by the way")
    assert repair(state.conversation) == state.conversation


def test_a_paused_run_waits_with_its_calls_and_goes_on_with_what_was_approved() -> None:
    left = PauseState("approve", (PausedCall(1, called("2")),), ())
    pause = fold(*CALLS, completed(StopKind.TOOL_USE), RunPause(left))
    assert (pause.status, pause.reason, pause.pending) == ("paused", "approve", (called("2"),))
    resumed = fold(RunResume(pause.conversation, left))
    assert resumed.status == "running"
    assert (resumed.conversation, resumed.pending) == (pause.conversation, pause.pending)


def test_results_stand_right_behind_their_calls() -> None:
    results = Message("user", (ToolResult("1", "one"), ToolResult("2", "two")))
    aside = Message.user("by the way")
    state = fold(*CALLS, completed(StopKind.TOOL_USE), MessageAdd((aside,), "hook"), MessageAdd((results,), "tools"))
    assert state.conversation == answered(assistant(called("1"), called("2")), results, aside)


def test_answers_that_hooks_sent_back_are_counted() -> None:
    back = HookVerdict("check", "on_turn_end", "ContinueWithMessages")
    assert fold(*ONE_TURN, back, HookVerdict("guard", "before_tool_call", "Skip")).continuations == 1


def test_a_limit_has_its_name() -> None:
    assert fold(*BEGIN, LimitReached("max_turns", 3)).reason == "max_turns"


def test_events_for_watchers_change_nothing_but_the_number() -> None:
    state, after = fold(*BEGIN), fold(*BEGIN, HookMessage("hook", "message", "hi"))
    assert (after.conversation, after.response, after.seq) == (state.conversation, state.response, 4)


def test_a_record_seen_twice_counts_once() -> None:
    story = records(ONE_TURN)
    assert fold_run([*story, *story[3:]]) == fold_run(story)


def test_records_of_a_run_inside_the_run_change_nothing_but_the_number() -> None:
    inner = Record(4, "r", 1, 1, 0.0, TextDelta(0, "inner"), path=("1",))
    state = step_run(fold(*BEGIN), inner)
    assert state.response is not None
    assert state.response.blocks == ()
    assert step_run(RunState(path=("1",)), inner).response is not None


def test_a_response_that_begins_anew_after_its_end_is_retracted() -> None:
    state = fold(*ONE_TURN[:-1], STARTED, *text("again"), completed())
    assert state.conversation == answered(assistant(Text("again")))


def test_a_response_that_was_closed_before_it_started_is_kept() -> None:
    """As where a hook adds a message behind the start of the attempt."""
    aside = MessageAdd((Message.user("aside"),), "hook")
    story = records([*BEGIN, aside, STARTED, *text("here"), completed()])
    state = fold_run(story)
    assert state.conversation == answered(assistant(Text("here")))
    assert fold_run(story[5:], fold_run(story[:5])) == state


def test_a_response_of_no_attempt_that_was_complete_at_first_is_open_for_what_follows() -> None:
    state = fold(RunStart(HELLO), completed(), *text("here"), RunStop())
    assert state.conversation.messages[-1].text == "here"


middle: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, st.integers(0, 2), st.text(max_size=2)),
    st.builds(ThinkingDelta, st.integers(0, 2), st.text(max_size=2)),
    st.builds(InputJsonDelta, st.integers(0, 2), st.sampled_from(["{", "}"])),
    st.builds(BlockStart, st.integers(0, 2), st.sampled_from([T.TEXT, T.TOOL_USE, T.THINKING])),
    st.builds(BlockStop, st.integers(0, 2), st.sampled_from([T.TEXT, T.TOOL_USE])),
    st.builds(BlockAbort, st.integers(0, 2), st.sampled_from([T.TEXT, T.TOOL_USE])),
    st.builds(Usage, st.integers(0, 9)),
    st.sampled_from(
        [
            STARTED,
            completed(),
            completed(StopKind.TOOL_USE),
            FAILED,
            TurnStop(),
            TurnStart(),
            AttemptStart("acme"),
            AttemptRetract("later"),
            ToolStart(called("")),
            ToolStop(ToolResult("", "done")),
            MessageAdd((Message.user("more"),), "hook"),
        ]
    ),
)


TEXTS = st.lists(st.sampled_from(["a", "{", "}", ""]), max_size=3)


@given(st.lists(middle, max_size=25))
def test_merged_deltas_give_the_same_run(events: list[Event]) -> None:
    story: list[Event] = [RunStart(HELLO), *events]
    one, two = fold(*story), fold(*merge_deltas(story))
    assert (one.conversation, one.usage, one.pending) == (two.conversation, two.usage, two.pending)


@given(st.lists(st.tuples(middle, TEXTS), max_size=25))
def test_deltas_that_come_together_give_the_same_run(events: list[tuple[Event, list[str]]]) -> None:
    single: list[Event] = [RunStart(HELLO)]
    told: list[Record] = [*records(single)]
    for event, texts in events:
        if isinstance(event, TextDelta | ThinkingDelta | InputJsonDelta) and texts:
            deltas = Deltas(event, texts)
            single += deltas
            told.append(Record(len(single), "r", 1, 1, 0.0, cast("Event", deltas), covers=len(texts)))
        else:
            single.append(event)
            told.append(Record(len(single), "r", 1, 1, 0.0, event))
    assert fold_run(told) == fold(*single)


@given(st.lists(middle, max_size=25))
def test_an_aborted_run_can_always_be_sent(events: list[Event]) -> None:
    state = fold(RunStart(HELLO), *events, RunAbort("cancel", ""))
    assert repair(state.conversation) == state.conversation
    assert state.response is None


@given(st.lists(middle, max_size=25), st.integers(0, 25))
def test_a_snapshot_and_the_tail_are_the_whole(events: list[Event], cut: int) -> None:
    story = records([RunStart(HELLO), *events])
    assert fold_run(story[cut:], fold_run(story[:cut])) == fold_run(story)


@given(st.lists(st.tuples(st.sampled_from([(), ("a",)]), middle), max_size=25))
@example([(("a",), ToolStart(ToolCall("call_1", "look", {})))])  # within a hook, before the first turn
def test_all_at_once_is_the_same_as_one_record_at_a_time(events: list[tuple[tuple[str, ...], Event]]) -> None:
    story = [
        Record(seq, "r", 1, 1, 0.0, event, path)
        for seq, (path, event) in enumerate([((), RunStart(HELLO)), *events], 1)
    ]
    state = RunState()
    for record in story:
        state = step_run(state, record)
    assert fold_run(story) == state


def test_calls_with_arguments_that_are_distinguished_are_not_a_repetition() -> None:
    def turn(arguments: JsonObject) -> list[Event]:
        asked = Message("assistant", (ToolCall("call_1", "look", arguments),))
        heard = Message("user", (ToolResult("call_1", "nothing", name="look"),))
        return [TurnStart(), MessageAdd((asked,), "test"), MessageAdd((heard,), "tools")]

    once, again = turn({"depth": 1, "at": "x"}), turn({"at": "x", "depth": 1})
    assert fold(RunStart(HELLO), *once, *again).repeats == 2
    for other in (1.0, True, 2):
        assert fold(RunStart(HELLO), *once, *turn({"depth": other, "at": "x"})).repeats == 1


def test_a_fork_counts_its_own_commands() -> None:
    """A number of the run that it was copied from would hide the results that are delivered to it."""
    happened = [RunStart(Conversation()), CommandTaken(5, "send"), Fork("run-1", 2), CommandTaken(1, "deliver")]
    records = [Record(seq, "run-2", 0, 0, 0.0, event) for seq, event in enumerate(happened, 1)]
    assert [fold_run(records[:last]).commands for last in (2, 3, 4)] == [5, 0, 1]
