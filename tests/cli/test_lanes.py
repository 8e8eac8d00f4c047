from rxworker.cli.lane import MOST
from rxworker.cli.lanes import MOST_LANES, Lanes
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    Record,
    ResponseStatus,
    RunAbort,
    Status,
    TextDelta,
    ToolProgress,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
)
from rxworker.messages import ToolCall, ToolResult

TOOL = BlockType.TOOL_USE


def fold(*events: tuple[float, Event], path: tuple[str, ...] = ()) -> Lanes:
    lanes = Lanes()
    for seq, (time, event) in enumerate(events, start=1):
        record = Record(
            seq=seq, run="r", turn=1, attempt=1, time=100 + time, event=event, path=path
        )
        lanes.feed(record)
    return lanes


def stretches(lanes: Lanes) -> list[list[tuple[str, float, float | None]]]:
    return [[(s.activity, s.start, s.end) for s in lane.stretches] for lane in lanes.lanes]


def called(index: int, id_: str) -> BlockStart:
    return BlockStart(index, TOOL, ToolUseMetadata(id_, "look"))


def test_a_block_is_a_lane_from_start_to_stop() -> None:
    lanes = fold(
        (0, BlockStart(0, BlockType.TEXT)),
        (0.5, TextDelta(0, "Hi")),
        (1, BlockStop(0, BlockType.TEXT)),
    )
    assert stretches(lanes) == [[("text", 0.0, 1.0)]]
    assert (lanes.lanes[0].detail, lanes.lanes[0].outcome) == ("Hi", "done")


def test_a_tool_call_and_its_run_are_one_lane() -> None:
    lanes = fold(
        (0, called(0, "a")),
        (0.5, InputJsonDelta(0, '{"city":')),
        (1, BlockStop(0, TOOL)),
        (2, ToolStart(ToolCall("a", "look", {}))),
        (3, ToolProgress("a", {"done": 1})),
    )
    assert stretches(lanes) == [[("arguments", 0.0, 1.0), ("tool", 2.0, None)]]
    assert lanes.lanes[0].detail == '{"done":1}'
    assert lanes.lanes[0].seconds(4.0) == 3.0


def test_parallel_tools_end_each_at_its_own_end() -> None:
    lanes = fold(
        (0, called(0, "a")),
        (0, called(1, "b")),
        (1, ToolStart(ToolCall("a", "look", {}))),
        (1, ToolStart(ToolCall("b", "look", {}))),
        (1.5, ToolStop(ToolResult("a", "rain", name="look"), seconds=0.5)),
        (3, ToolStop(ToolResult("b", "oh", is_error=True, name="look"), seconds=2.0)),
    )
    assert [lane.stretches[-1].end for lane in lanes.lanes] == [1.5, 3.0]
    assert [lane.detail for lane in lanes.lanes] == ["rain", "failed: oh"]
    assert [lane.outcome for lane in lanes.lanes] == ["done", "failed"]


def test_a_skipped_call_ends_without_having_run() -> None:
    lanes = fold(
        (0, called(0, "a")),
        (1, BlockStop(0, TOOL)),
        (2, ToolStop(ToolResult("a", "no", is_error=True, name="look"))),
    )
    assert stretches(lanes) == [[("arguments", 0.0, 1.0)]]
    assert lanes.lanes[0].outcome == "failed"


def test_a_result_without_a_call_gets_a_lane() -> None:
    assert [lane.name for lane in fold((0, ToolStop(ToolResult("x", name="look")))).lanes] == [
        "look"
    ]


def test_blocks_that_break_off_have_failed() -> None:
    lanes = fold(
        (0, BlockStart(0, BlockType.TEXT)),
        (1, BlockAbort(0, BlockType.TEXT, "cut")),
        (1, called(1, "a")),
        (2, RunAbort("error", "cut")),
    )
    assert [lane.outcome for lane in lanes.lanes] == ["failed", "failed"]
    assert all(lane.stretches[-1].end is not None for lane in lanes.lanes)


def test_an_attempt_that_is_taken_back_is_marked_with_all_its_blocks() -> None:
    lanes = fold(
        (0, AttemptStart()),
        (0, BlockStart(0, BlockType.THINKING)),
        (1, BlockStop(0, BlockType.THINKING)),
        (1, BlockStart(1, BlockType.TEXT)),
        (2, AttemptRetract("overloaded")),
        (3, AttemptStart()),
        (3, BlockStart(0, BlockType.TEXT)),
    )
    assert [lane.outcome for lane in lanes.lanes] == ["retracted", "retracted", "open"]


def test_a_response_that_starts_again_retracts_the_lanes_of_the_first() -> None:
    started = Status(ResponseStatus.STARTED)
    lanes = fold(
        (0, AttemptStart()),
        (0, started),
        (0, BlockStart(0, BlockType.TEXT)),
        (1, BlockAbort(0, BlockType.TEXT, "restart")),
        (1, started),
        (1, BlockStart(0, BlockType.TEXT)),
        (2, BlockStop(0, BlockType.TEXT)),
        (3, AttemptStart()),
        (3, started),
    )
    assert [lane.outcome for lane in lanes.lanes] == ["retracted", "done"]


def test_a_clock_that_is_set_back_moves_nothing_back() -> None:
    lanes = fold((5, BlockStart(0, BlockType.TEXT)), (1, BlockStop(0, BlockType.TEXT)))
    assert stretches(lanes) == [[("text", 0.0, 0.0)]]


def test_lanes_and_details_do_not_grow_without_end() -> None:
    deltas = [(0.0, TextDelta(0, "x" * 50)) for _ in range(100)]
    assert len(fold((0, BlockStart(0, BlockType.TEXT)), *deltas).lanes[0].detail) == MOST
    starts = [(0.0, BlockStart(index, BlockType.TEXT)) for index in range(MOST_LANES + 10)]
    assert len(fold(*starts).lanes) == MOST_LANES


def test_runs_inside_the_run_have_no_lanes_here() -> None:
    assert not fold((0, BlockStart(0, BlockType.TEXT)), path=("call_1",)).lanes
