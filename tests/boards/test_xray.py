"""X-ray: the graph of a pipeline, what its operators do on virtual time, and what it leaves as it was."""

from __future__ import annotations

import re
from typing import Any

import pytest
import reactivex
from reactivex import GroupedObservable, Observable
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker import operators, panels
from rxworker.boards import Board, Dashboard, OperatorState, XRay, explain, panel
from rxworker.boards.operator_names import name_of
from rxworker.boards.xray_count import SAMPLE
from rxworker.errors import ConfigurationError
from rxworker.events import AttemptStart, Record, RunStart, TextDelta, ToolStart, ToolStop, Usage
from rxworker.messages import Conversation, ToolCall
from rxworker.operators.kernel import Operator, Source
from rxworker.testing import Marbles


def half(number: float) -> float:
    return number / 2


def third(number: int) -> int:
    return number % 3


def is_odd(number: int) -> bool:
    return number % 2 == 1


def total(numbers: Observable[int]) -> Observable[int]:
    return numbers.pipe(ops.scan(int.__add__, 0))


def seq_of(record: Record) -> int:
    return record.seq


def record(seq: int, event: Any = None, run: str = "a") -> Record:
    return Record(seq, run, 1, 1, float(seq), event or TextDelta(0, "hi"))


def graph(xray: XRay[Any, Any]) -> list[tuple[str, list[str]]]:
    """The operators, each with those that it receives items from."""
    states = xray.states
    return [(each.name, [states[at].name for at in each.inputs]) for each in states[1:]]


def items(xray: XRay[Any, Any]) -> dict[str, int]:
    return {each.name: each.items for each in xray.states}


def state(xray: XRay[Any, Any], name: str) -> OperatorState:
    [found] = [each for each in xray.states if each.name == name]
    return found


def inverse(number: float) -> float:
    return 1 / number


def raise_it(_: Record) -> float:
    raise OSError("no")


def step(sum_: float, number: float) -> float:
    return sum_ + number


any_of: Any = operators  # the functions that they are given here are never called
MADE: dict[str, Operator[Any, Any]] = {
    "events": operators.events(),
    "only(TextDelta)": operators.only(TextDelta),
    "split_meta(total, total)": any_of.split_meta(total, total),
    "text_deltas": operators.text_deltas(),
    "thinking_deltas": operators.thinking_deltas(),
    "lines": operators.lines(),
    "mask": operators.mask("a"),
    "sentences(0.5)": operators.sentences(0.5),
    "text_so_far": operators.text_so_far(),
    "think_tags": operators.think_tags(),
    "fold_scope(step)": any_of.fold_scope(step, 0),
    "group_blocks": operators.group_blocks(),
    "partial_json": operators.partial_json(),
    "partial_values": operators.partial_values(),
    "tool_calls": operators.tool_calls(),
    "tool_inputs": operators.tool_inputs(),
    "decode(<lambda>)": any_of.decode(lambda: None),
    "fail_on_error": operators.fail_on_error(),
    "committed": operators.committed(),
    "live": operators.live(),
    "coalesce(0.5)": operators.coalesce(0.5),
    "map_async(half)": any_of.map_async(half, 2),
    "quorum(2)": operators.quorum(2),
    "results": operators.results(),
    "join_runs(half)": any_of.join_runs(half),
    "session_windows(2)": operators.session_windows(2),
    "lineage": operators.lineage(),
    "spans(half, half)": any_of.spans(half, half),
    "usage_changes": operators.usage_changes(),
    "fold_sliding(2)": operators.fold_sliding(max, 0.0, 2),
    "rate(2)": operators.rate(2),
    "sliding(2)": operators.sliding(2),
    "combine_gauges": operators.combine_gauges(Usage(), input_tokens=total),
    "total": total,
}


@pytest.mark.parametrize("name", MADE)
def test_operators_have_the_names_that_they_are_written_with(name: str) -> None:
    assert name_of(MADE[name]) == name


def test_operators_of_reactivex_are_named_with_the_functions_and_numbers_that_they_were_given() -> None:
    counted: Any = ops.take(3)
    given: list[Any] = [ops.filter(bool)]

    def pipeline(numbers: Observable[int]) -> Observable[Any]:
        any_: Any = numbers.pipe(*given)
        return any_.pipe(
            ops.map(half),
            ops.scan(int.__add__, seed=0),
            ops.distinct_until_changed(),
            counted,
            ops.group_by(lambda _: "secret"),
            ops.flat_map(total), ops.publish(total), ops.start_with("secret"),
            ops.debounce(1),
            ops.merge(reactivex.never()),
        )  # fmt: skip

    assert [name for name, _ in graph(explain(pipeline))] == [
        *("filter(bool)", "map(half)", "scan(int.__add__, 0)", "distinct_until_changed", "take(3)"),
        *("group_by(<lambda>)", "flat_map(total)", "publish(total)", "start_with", "debounce(1)", "merge"),
    ]


def test_a_pipeline_is_seen_before_it_runs() -> None:
    def pipeline(numbers: Observable[int]) -> Observable[float]:
        return numbers.pipe(ops.filter(is_odd), total, ops.map(half))

    xray = explain(pipeline)
    add = "scan(int.__add__, 0)"
    assert graph(xray) == [("filter(is_odd)", ["source"]), (add, ["filter(is_odd)"]), ("map(half)", [add])]
    outer = pipeline.__qualname__.replace("<locals>.", "")
    assert state(xray, add).within == (outer, "total")
    assert state(xray, "map(half)").within == (outer,)
    assert repr(xray) == f"explain({outer})"
    assert {each.items for each in xray.states} == {0}


def test_branches_are_inputs_of_the_operator_that_joins_them() -> None:
    def pipeline(numbers: Observable[int]) -> Observable[float]:
        odd = numbers.pipe(ops.filter(is_odd))
        return numbers.pipe(ops.map(half), ops.merge(odd.pipe(total), numbers))

    xray = explain(pipeline)
    [merge] = [inputs for name, inputs in graph(xray) if name == "merge"]
    assert merge == ["map(half)", "scan(int.__add__, 0)", "source"]
    source = Source[int]()
    seen: list[float] = []
    source.pipe(xray).subscribe(seen.append)
    for number in (1, 2, 3):
        source.on_next(number)
    assert sorted(seen) == [0.5, 1, 1, 1, 1.5, 2, 3, 4]
    assert items(xray) == {"source": 3, "filter(is_odd)": 2, "scan(int.__add__, 0)": 2, "map(half)": 3, "merge": 8}


def test_a_function_that_joins_without_pipe_is_one_node_after_what_it_joins() -> None:
    def joined(numbers: Observable[int]) -> Observable[float]:
        return reactivex.merge(numbers.pipe(ops.map(half)), numbers.pipe(ops.filter(is_odd)))

    def pipeline(numbers: Observable[int]) -> Observable[float]:
        return numbers.pipe(joined, ops.take(9))

    xray = explain(pipeline)
    name = name_of(joined)
    assert graph(xray)[2:] == [(name, ["map(half)", "filter(is_odd)"]), ("take(9)", [name])]
    reactivex.of(1, 2).pipe(xray).subscribe()
    assert items(xray) == {"source": 2, "map(half)": 2, "filter(is_odd)": 1, name: 3, "take(9)": 3}


def test_the_operators_of_groups_are_counted_together() -> None:
    def follow(group: GroupedObservable[int, int]) -> Observable[tuple[int, int]]:
        return group.pipe(total, ops.map(lambda so_far: (group.key, so_far)))

    def pipeline(numbers: Observable[int]) -> Observable[tuple[int, int]]:
        return numbers.pipe(ops.group_by(third), ops.flat_map(follow))  # pyright: ignore[reportUnknownArgumentType] - reactivex's group_by has no type for the items of a group

    xray = explain(pipeline)
    numbers = [1, 2, 3, 4, 5]
    seen: list[tuple[int, int]] = []
    reactivex.from_iterable(numbers).pipe(xray).subscribe(seen.append)
    assert seen == [(1, 1), (2, 2), (0, 3), (1, 5), (2, 7)]
    assert items(xray) == {
        "source": 5,
        "group_by(third)": 3,
        "flat_map(follow)": 5,
        "scan(int.__add__, 0)": 5,
        "map(<lambda>)": 5,
    }
    assert dict(graph(xray))["flat_map(follow)"] == ["group_by(third)", "map(<lambda>)"]
    assert dict(graph(xray))["scan(int.__add__, 0)"] == ["group_by(third)"]


def test_what_is_emitted_is_drawn_on_virtual_time() -> None:
    def pipeline(numbers: Observable[int]) -> Observable[float]:
        return numbers.pipe(ops.filter(is_odd), ops.map(half), ops.delay(8))

    test = Marbles()
    xray = explain(pipeline)
    numbers = {str(number): number for number in range(1, 8)}
    source = test.hot("                      -1-2-3---5------6-------7|", numbers)
    halves = {"a": 0.5, "b": 1.5, "c": 2.5, "d": 3.5}
    assert test.observe(source.pipe(xray)) == test.expected(
        "                             ---------a---b---c--------------d|", halves
    )
    assert re.findall(r"\S*--\S*", str(xray)) == [
        "1-2-3---5------6-------7--------",
        "1---3---5--------------7--------",
        "0.5-1.5-2.5------------3.5------",
        "--------0.5-1.5-2.5------------3.5",
    ]
    assert [(each.items, each.lag) for each in xray.states] == [(6, 8), (4, 8), (4, 8), (4, 0)]
    assert [each.rate for each in xray.states] == [6 / 31, 4 / 31, 4 / 31, 4 / 23]


class Clock:
    """A clock for timing that only the operators move."""

    def __init__(self) -> None:
        self.now = 0.0

    def spend(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("value", "mark"), [(26714, "26714"), ("Usage", "u")])
def test_a_long_number_is_drawn_whole_and_a_long_text_as_its_first_letter(value: int | str, mark: str) -> None:
    def pipeline(values: Observable[int | str]) -> Observable[int | str]:
        return values.pipe(ops.filter(bool))

    xray = explain(pipeline)
    reactivex.of(value).pipe(xray).subscribe()
    assert re.findall(r"\S+--\S*", str(xray)) == [mark.ljust(32, "-")] * 2


def test_the_time_of_an_operator_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("rxworker.boards.xray_count.time.perf_counter", lambda: clock.now)

    def slow(number: int) -> int:
        clock.spend(0.003)
        return number

    def quick(number: int) -> bool:
        clock.spend(0.001)
        return number % 2 == 1

    def last(number: int) -> int:
        clock.spend(0.002)
        return number

    def pipeline(numbers: Observable[int]) -> Observable[int]:
        return numbers.pipe(ops.map(slow), ops.filter(quick), ops.map(last))

    xray = explain(pipeline)
    # The first of each SAMPLE is timed: the second time, `quick` lets it pass no more.
    reactivex.from_iterable([1] * SAMPLE + [2] * SAMPLE).pipe(xray).subscribe(lambda _: clock.spend(1.0))
    assert {each.name: round(each.micros) for each in xray.states} == {
        "source": 0,
        "map(slow)": 3000,
        "filter(quick)": 1000,
        "map(last)": 1000,
    }


def test_the_operator_that_raised_has_the_error_and_no_other() -> None:
    def pipeline(numbers: Observable[int]) -> Observable[float]:
        return numbers.pipe(ops.map(half), ops.map(inverse), ops.filter(bool), ops.take(9))

    xray = explain(pipeline)
    errors: list[Exception] = []
    reactivex.of(2, 0, 1).pipe(xray).subscribe(on_error=errors.append)
    place = f"in inverse, test_xray.py:{inverse.__code__.co_firstlineno + 1}; operator map(inverse)"
    assert [(each.name, each.error) for each in xray.states if each.error] == [
        ("map(inverse)", f"ZeroDivisionError: float division by zero ({place})")
    ]
    assert xray.operator_of(errors[0]) == "map(inverse)"
    assert "has stopped: ZeroDivisionError" in str(xray)
    assert xray.operator_of(ValueError()) == ""


def test_an_error_of_the_source_is_that_of_the_source() -> None:
    xray = explain(total)
    reactivex.throw(OSError("no")).pipe(xray).subscribe(on_error=print)
    assert [each.name for each in xray.states if each.error] == ["source"]


def test_the_error_of_a_panel_names_its_operator() -> None:
    def pipeline(records: Observable[Record]) -> Observable[float]:
        return records.pipe(ops.map(seq_of), spell)

    def spell(numbers: Observable[int]) -> Observable[Any]:
        return numbers.pipe(operators.only(int), ops.map(str))

    [shown] = Dashboard([panel("Cost", explain(pipeline))]).at([record(1)])
    assert shown.error.startswith("ConfigurationError: the pipeline emitted a str")
    assert "operator" not in shown.error  # the panel raised it

    [shown] = Dashboard([panel("Cost", explain(ops.map(raise_it)))]).at([record(1)])
    place = f"in raise_it, test_xray.py:{raise_it.__code__.co_firstlineno + 1}"
    assert shown.error == f"OSError: no ({place}; operator map(raise_it))"


def board_of(dashboard: Dashboard, *, xray: bool) -> tuple[Board, Source[Record]]:
    source = Source[Record]()
    clock = HistoricalScheduler()
    return dashboard.show(source, scheduler=clock, xray=xray), source


def test_a_board_shows_the_same_with_and_without() -> None:
    events = [
        *(RunStart(Conversation()), AttemptStart("a", "small"), TextDelta(0, "Hello.")),
        ToolStart(ToolCall("1", "look", {})),
        *(Usage(10, 2), ToolStop(call_id="1", result=None, seconds=0.5, tool="look")),
    ]
    for dashboard in (panels.USAGE, panels.RUNS):
        boards = [board_of(dashboard, xray=on) for on in (False, True)]
        for _, source in boards:
            for seq in range(200):
                source.on_next(record(seq + 1, events[seq % len(events)], run="ab"[seq % 2]))
        (off, _), (on, _) = boards
        assert on.states == off.states
        assert any(state.value for state in on.states)
        counted = {each.name: on.xray(each.name).states for each in dashboard.panels}
        assert all(states[0].items for states in counted.values())


def test_a_board_has_the_operators_of_all_groups_of_a_panel() -> None:
    dashboard = Dashboard([panel("Tools", panels.count(ToolStart), group=panels.run_of)])
    board, source = board_of(dashboard, xray=True)
    for seq, run in enumerate("abac", 1):
        source.on_next(record(seq, ToolStart(ToolCall("1", "look", {})), run))
    assert items(board.xray("tools")) == {"source": 4, "events": 4, "only(ToolStart)": 4, "scan(_one_more, 0)": 4}


def test_a_board_without_x_ray_runs_the_pipelines_as_they_are() -> None:
    seen: list[Observable[Any]] = []

    def pipeline(records: Observable[Record]) -> Observable[int]:
        seen.append(records)
        return records.pipe(ops.map(seq_of))

    board, source = board_of(Dashboard([panel("Number", pipeline)]), xray=False)
    source.on_next(record(1))
    assert len(seen) == 1
    assert isinstance(seen[0], Source)
    with pytest.raises(ConfigurationError, match="use show\\(records, xray=True\\)"):
        board.xray("number")
    with pytest.raises(ConfigurationError, match="no panel 'numbers'; did you mean"):
        board.xray("numbers")


def test_what_is_not_an_operator_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="parentheses"):
        explain(ops.map)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="parentheses"):
        str(explain(lambda numbers: numbers.pipe(ops.map)))  # pyright: ignore
    with pytest.raises(ConfigurationError, match="not an observable"):
        str(explain(lambda _: 3))  # pyright: ignore
