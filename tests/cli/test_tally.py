from rxworker.cli.tally import Tally, step_tally, summary_line
from rxworker.events import AttemptStart, Event, Record, ToolStart, ToolStop, TurnStart, Usage
from rxworker.messages import ToolCall, ToolResult


def fold(*events: Event) -> Tally:
    tally = Tally()
    for seq, event in enumerate(events, start=1):
        record = Record(seq=seq, run="r", turn=1, attempt=1, time=100.0 + seq, event=event)
        tally = step_tally(tally, record)
    return tally


def test_snapshots_replace_each_other_and_requests_add_up() -> None:
    tally = fold(
        AttemptStart(),
        Usage(input_tokens=10, output_tokens=1),
        Usage(input_tokens=10, output_tokens=7),
        AttemptStart(),
        Usage(input_tokens=20, output_tokens=2),
    )
    assert tally.total == Usage(input_tokens=30, output_tokens=9)


def test_tools_are_counted_while_they_run_and_when_they_fail() -> None:
    running = fold(ToolStart(ToolCall("1", "look", {})), ToolStart(ToolCall("2", "look", {})))
    assert (running.calls, running.running) == (2, 2)
    record = Record(3, "r", 1, 1, 104.0, ToolStop(ToolResult("1", "no", is_error=True)))
    stopped = step_tally(running, record)
    assert (stopped.running, stopped.failed) == (1, 1)


def test_a_skipped_call_does_not_count_below_zero() -> None:
    assert fold(ToolStop(ToolResult("1", "skipped"))).running == 0


def test_the_summary_is_one_line() -> None:
    line = summary_line(fold(TurnStart(), TurnStart(), AttemptStart()), 1)
    assert line == "One run: 2 turns, 0 tool calls, 0 tokens, 2.0 s; 1 watcher"
