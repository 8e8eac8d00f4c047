from collections.abc import Sequence

import pytest
import reactivex as rx

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    Event,
    InputJsonDelta,
    Opaque,
    PauseState,
    Ping,
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
    ToolProgress,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.messages import Conversation, ToolCall, ToolResult
from rxworker.testing import check_balanced, ensure_balanced, lint
from tests.seen import through

TEXT, TOOL = BlockType.TEXT, BlockType.TOOL_USE
BEGIN, DONE = Status(ResponseStatus.STARTED), Status(ResponseStatus.COMPLETED)
FAILED, CANCELLED = Status(ResponseStatus.FAILED), Status(ResponseStatus.CANCELLED)
START, STOP, ABORT = BlockStart(0, TEXT), BlockStop(0, TEXT), BlockAbort(0, TEXT)
SAY = TextDelta(0, "x")
CALL = ToolUseMetadata("1", "look")
RUN = ToolStart(ToolCall("1", "look", {}))
RAN = ToolStop(ToolResult("1"))


def records(*events: Event) -> list[Record]:
    return [Record(seq, "r", 1, 1, 0.0, event) for seq, event in enumerate(events, start=1)]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [BEGIN, DONE],
        [BEGIN, START, SAY, STOP, Usage(), DONE],
        [BEGIN, START, ABORT, Error("x", "y"), FAILED],
        [Error("x", "y"), FAILED],
        [BEGIN, START, ABORT, CANCELLED],
        [BEGIN, Ping(), Opaque("new"), DONE],
        [BEGIN, START, BlockStart(1, TEXT), SAY, BlockStop(1, TEXT), STOP, DONE],
        [BEGIN, START, ABORT, BEGIN, START, STOP, DONE],
        [BEGIN, BlockStart(0, TOOL, CALL), BlockStop(0, TOOL, metadata=CALL), DONE],
        [BEGIN, BlockStart(0, BlockType.TOOL_RESULT), SAY, BlockStop(0, BlockType.TOOL_RESULT), DONE],
    ],
)
def test_a_sound_response_draws_no_complaint(events: Sequence[Event]) -> None:
    assert lint(events) == []


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([BEGIN, START, DONE], "event 2: block 0 (text) is still open at Status(COMPLETED)"),
        ([BEGIN, START, START, STOP, DONE], "event 2: block 0 (text) starts while it is open"),
        ([BEGIN, START, STOP, START, STOP, DONE], "event 3: block 0 (text) starts again after its end"),
        ([BEGIN, SAY, DONE], "event 1: TextDelta outside of a block: 0 is not open"),
        ([BEGIN, START, STOP, SAY, DONE], "event 3: TextDelta outside of a block: 0 is not open"),
        ([BEGIN, STOP, DONE], "event 1: BlockStop outside of a block: 0 is not open"),
        ([BEGIN, START, STOP, ABORT, DONE], "event 3: BlockAbort outside of a block: 0 is not open"),
        ([BEGIN, DONE, Ping()], "event 2: Ping after Status(COMPLETED)"),
        ([BEGIN, DONE, DONE], "event 2: Status after Status(COMPLETED)"),
        ([BEGIN, Error("x", "y"), Ping(), FAILED], "event 2: Ping after an Error"),
        ([BEGIN, Error("x", "y"), DONE], "event 2: Status(COMPLETED) after an Error"),
        ([BEGIN], "end: the response has no terminal status"),
        ([BEGIN, START, BEGIN, DONE], "event 2: block 0 (text) is still open when it was retracted"),
        (
            [BEGIN, BlockStart(0, TOOL), BlockStop(0, TOOL), DONE],
            "event 1: block 0 (tool_use) starts without the id and the name of its call",
        ),
        (
            [BEGIN, BlockStart(0, TOOL, CALL), BlockStop(0, TOOL), DONE],
            "event 2: block 0 (tool_use) does not end with the id and the name of its start",
        ),
        (
            [
                BEGIN,
                BlockStart(0, TOOL, CALL),
                BlockStop(0, TOOL, metadata=CALL),
                BlockStart(1, TOOL, CALL),
                BlockStop(1, TOOL, metadata=CALL),
                DONE,
            ],
            "event 3: block 1 (tool_use) has the id of an earlier call: 1",
        ),
        ([BEGIN, START, BlockStop(0, TOOL), DONE], "event 2: block 0 (text) ends as tool_use"),
        ([BEGIN, START, ThinkingDelta(0, "x"), STOP, DONE], "event 2: block 0 (text) has a ThinkingDelta"),
        ([BEGIN, START, InputJsonDelta(0, "{}"), STOP, DONE], "event 2: block 0 (text) has a InputJsonDelta"),
    ],
)
def test_a_broken_response_draws_its_complaint(events: Sequence[Event], complaint: str) -> None:
    assert lint(events) == [complaint]


def test_of_a_part_nothing_is_missing() -> None:
    assert lint([BEGIN, START], complete=False) == []


def test_a_sound_run_draws_no_complaint() -> None:
    turn = [TurnStart(), AttemptStart(), BEGIN, START, STOP, DONE, RUN]
    again = [AttemptStart(), BEGIN, START, ABORT, AttemptRetract("x"), AttemptStart(), BEGIN, DONE]
    run = [*turn, ToolProgress("1", 0.5), RAN, TurnStop(), TurnStart(), *again, TurnStop()]

    assert lint(records(RunStart(Conversation()), *run, RunStop())) == []


@pytest.mark.parametrize("rest", [[TurnStop()], [TurnStart(), TurnStop()]])
def test_a_resumed_run_goes_on_within_its_turn_or_after_it(rest: list[Event]) -> None:
    resumed = RunResume(Conversation())

    assert lint(records(TurnStart(), RunPause(PauseState("guard", (), ())), resumed, *rest, RunStop())) == []


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([RUN, RunStop()], "seq 2: tool call 1 still runs at RunStop"),
        ([RUN, RUN, RAN], "seq 2: ToolStart of 1, which runs already"),
        ([ToolProgress("1", 1)], "seq 1: ToolProgress of 1, which does not run"),
        ([TurnStart(), TurnStart()], "seq 2: TurnStart within a turn"),
        ([TurnStop()], "seq 1: TurnStop outside of a turn"),
        ([TurnStart()], "end: the turn is still open at the end"),
        ([RunStop(), RunStop()], "seq 2: RunStop after RunStop"),
        (
            [AttemptStart(), BEGIN, START, AttemptRetract("x")],
            "seq 4: block 0 (text) is still open when it was retracted",
        ),
        ([AttemptStart(), BEGIN, AttemptStart()], "seq 3: the response has no terminal status"),
        (
            [AttemptStart(), BEGIN, START, RunAbort("cancel", "x")],
            "seq 4: block 0 (text) is still open when it was retracted",
        ),
        ([RunStop(), BEGIN, DONE], "seq 2: Status after RunStop"),
    ],
)
def test_a_broken_run_draws_its_complaint(events: Sequence[Event], complaint: str) -> None:
    assert lint(records(*events))[0] == complaint


def test_records_are_numbered_without_gaps() -> None:
    first, _, third = records(Ping(), Ping(), Ping())

    assert lint([first, third], complete=False) == ["seq 3: seq 3 after 1"]


def test_a_run_inside_a_run_is_read_for_itself() -> None:
    outer = [BEGIN, START, STOP, DONE]
    woven = [
        Record(seq, "r", 1, 1, 0.0, event, path)
        for seq, (event, path) in enumerate(((event, path) for event in outer for path in ((), ("call",))), start=1)
    ]

    assert lint(woven) == []


def test_the_assertion_lists_every_complaint() -> None:
    with pytest.raises(AssertionError, match=r"(?s)event 0: .*event 1: .*end: "):
        check_balanced([SAY, STOP])


def test_the_operator_passes_a_sound_stream_on() -> None:
    heard = through([BEGIN, START, STOP, DONE], ensure_balanced())

    assert heard == [BEGIN, START, STOP, DONE]


@pytest.mark.parametrize(("events", "passed"), [([BEGIN, SAY, DONE], [BEGIN]), ([BEGIN, START], [BEGIN, START])])
def test_the_operator_ends_a_broken_stream(events: list[Event], passed: list[Event]) -> None:
    heard: list[Event] = []
    errors: list[Exception] = []
    source = rx.from_iterable(events).pipe(ensure_balanced())

    for _ in range(2):
        source.subscribe(heard.append, errors.append)

    assert heard == passed * 2
    assert [type(error) for error in errors] == [AssertionError] * 2


def test_the_operator_leaves_a_failure_as_it_is() -> None:
    errors: list[Exception] = []
    failure = ValueError("no")
    rx.concat(rx.of(BEGIN), rx.throw(failure)).pipe(ensure_balanced()).subscribe(on_error=errors.append)

    assert errors == [failure]
