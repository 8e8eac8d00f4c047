"""Panels: what they show of which values, in groups, at a limit, and when something in them raises."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from random import Random
from typing import Any

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker.boards import AlertChange, Dashboard, Panel, PanelState, above, below, panel
from rxworker.boards.cell import MAX_KEPT
from rxworker.boards.clock import AS_DUE
from rxworker.boards.dashboard import Fold
from rxworker.boards.values import MAX_GROUPS
from rxworker.errors import ConfigurationError
from rxworker.events import Event, Record, TextDelta, ToolStart, ToolStop, Usage
from rxworker.messages import ToolCall
from rxworker.operators import Span, rate
from rxworker.operators.kernel import Operator
from rxworker.panels import cost, error_rate, label_of, tool_spans


def record(time: float, event: Event | None = None, run: str = "a", seq: int = 1) -> Record:
    return Record(seq, run, 1, 1, time, event or TextDelta(0, "hi"))


def at(shown: Panel, *records: Record, time: float | None = None) -> PanelState:
    [state] = Dashboard([shown]).at(records, time)
    return state


def seq_of(record: Record) -> int:
    return record.seq


def run_of(record: Record) -> str:
    return record.run_id


def emit(*values: object) -> Operator[Record, Any]:
    """Emits these values at the first record."""

    def pipeline(records: Observable[Record]) -> Observable[Any]:
        return records.pipe(ops.take(1), ops.flat_map_indexed(lambda *_: values))  # pyright: ignore

    return pipeline


def one_more(count: int, _: Record) -> int:
    return count + 1


COUNT: Operator[Record, int] = ops.scan(one_more, 0)


def test_the_last_value_is_shown_with_its_time() -> None:
    shown = panel("Number", ops.map(seq_of))
    assert at(shown) == PanelState("number")
    assert at(shown, record(5.0), record(7.0, seq=4)) == PanelState("number", 7.0, 4)


def test_later_records_are_left_out_and_records_are_put_in_order() -> None:
    shown = panel("Number", ops.map(seq_of))
    records = [record(7.0, seq=4), record(5.0, seq=2), record(9.0, seq=6)]
    assert [at(shown, *records, time=t).value for t in (4.0, 5.0, 8.9, 9.0)] == [None, 2, 4, 6]


@pytest.mark.parametrize(
    ("view", "values", "shown"),
    [
        ("number", [1, 2.5], 2.5),
        ("number", [{"a": 1}, {"b": 2, "c": 3}], {"b": 2, "c": 3}),
        ("bar", [{"a": 1}], {"a": 1}),
        ("text", ["one", "two"], "two"),
        ("state", ["running"], "running"),
        ("table", [{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}]),
        ("table", [[{"a": 1}, {"a": 2}], [{"a": 3}]], [{"a": 3}]),
        ("table", [Usage(1, 2)], None),
        ("heat", [{"≤ 1": 1, "> 1": 0}, {"≤ 1": 1, "> 1": 1}], [{"≤ 1": 1, "> 1": 0}, {"≤ 1": 1, "> 1": 1}]),
        ("line", [4], 4),
        ("lane", [Span(record(1.0), record(2.5))], [{"lane": "a", "from": 1.0, "to": 2.5, "run": "a"}]),
    ],
)
def test_each_view_shows_its_values(view: Any, values: list[object], shown: object) -> None:
    state = at(panel("Panel", emit(*values), view=view), record(1.0))
    assert not state.error
    if shown is None:
        assert isinstance(state.value, list)
        assert state.value[0]["input_tokens"] == 1
    else:
        assert state.value == shown


@pytest.mark.parametrize(
    ("view", "value", "expected"),
    [
        ("number", "1", "emitted a str, and the view 'number' shows numbers"),
        ("number", float("nan"), "emitted nan: emit a finite number"),
        ("bar", {"a": "b"}, "emitted a str"),
        ("text", 1, "shows texts"),
        ("table", 1, "shows Structs or mappings"),
        ("lane", 1, "shows Spans"),
    ],
)
def test_a_value_that_a_view_does_not_show_is_the_error_of_its_panel(view: Any, value: object, expected: str) -> None:
    state = at(panel("Panel", emit(value), view=view), record(1.0), record(2.0))
    assert expected in state.error
    assert "ConfigurationError" in state.error


def test_a_panel_without_a_value_has_no_rows_and_one_that_has_emitted_none_has() -> None:
    shown = panel("Rows", emit([]), view="table")
    assert at(shown).value is None
    assert at(shown, record(1.0)).value == []


def test_each_group_has_a_pipeline_and_what_is_in_no_group_is_left_out() -> None:
    def group(record: Record) -> str | None:
        return None if record.run_id == "b" else record.run_id

    shown = panel("Records", COUNT, view="bar", group=group)
    records = [record(1.0), record(2.0, run="b"), record(3.0, run="c"), record(4.0)]
    assert at(shown, *records).value == {"a": 2, "c": 1}


def test_a_hundred_groups_are_shown_and_the_others_are_one() -> None:
    shown = panel("Records", COUNT, view="bar", group=run_of)
    value = at(shown, *[record(1.0 + n, run=f"run-{n}") for n in range(150)]).value
    assert isinstance(value, dict)
    assert len(value) == 101
    assert value["others"] == 50


def test_of_rows_by_group_those_with_the_last_records_are_shown_and_a_few_more_are_computed() -> None:
    def row_of(record: Record) -> dict[str, str]:
        return {"run": record.run_id}

    shown = panel("Records", ops.map(row_of), view="table", group=run_of)
    fold = Fold(Dashboard([shown]))
    [cell] = fold.cells.values()
    for n in range(2 * MAX_KEPT):
        fold.take(record(1.0 + n, run=f"run-{n}"))
    fold.take(record(1000.0, run="run-350"))
    value = cell.state.value
    assert isinstance(value, list)
    assert [row["run"] for row in value] == ["run-350", *[f"run-{n}" for n in range(501, 600)]]
    assert len(cell._lanes) == len(cell.values._values) == len(cell._subscriptions) == MAX_KEPT


@pytest.mark.parametrize("view", ["bar", "line"])
def test_of_many_numbers_by_name_the_greatest_are_shown_and_the_sum_of_the_others(view: Any) -> None:
    numbers: dict[str, float] = {f"{n:03}": n for n in range(150)}
    greatest = {f"{n:03}": n for n in range(50, 150)}
    late: dict[str, float] = {f"late-{n}": n for n in range(MAX_GROUPS)}

    def at_each(*values: object) -> PanelState:
        def value_at(record: Record) -> object:
            return values[record.seq]

        shown = panel("Numbers", ops.map(value_at), view=view)
        return at(shown, *[record(1.0 + seq, seq=seq) for seq in range(len(values))])

    assert at_each(numbers).value == {**greatest, "others": sum(range(50))}
    assert at_each({**numbers, "others": 7}).value == {**greatest, "others": 7 + sum(range(50))}
    assert at_each({**late, "others": 7}).value == {**late, "others": 7}
    state = at_each(numbers, late)
    assert state.value == late
    assert len(state.points) == (101 if view == "line" else 0)
    assert not state.points or late.keys() < state.points.keys()


def test_the_name_of_a_group_is_cut() -> None:
    shown = panel("Records", COUNT, view="bar", group=lambda _: "x" * 1_000_000)
    assert at(shown, record(1.0)).value == {"x" * 200: 1}
    assert at(panel("One", ops.map(lambda _: {"x" * 1000: 1})), record(1.0)).value == {"x" * 200: 1}
    same = {"x" * 200 + end: number for end, number in (("a", 1), ("b", 2))}
    assert at(panel("Both", ops.map(lambda _: same)), record(1.0)).value == {"x" * 200: 3}


@pytest.mark.parametrize("period", [1.0, 0.001, 1e-6])
def test_a_week_without_records_costs_a_timer_a_few_thousand_calls(period: float) -> None:
    calls = 0

    def ticking(_: Observable[Record]) -> Observable[int]:
        def tick(number: int) -> int:
            nonlocal calls
            calls += 1
            return number

        return reactivex.interval(period).pipe(ops.map(tick))

    shown = panel("Ticks", ticking)
    week = 7 * 86400.0
    state = at(shown, record(1.0), time=1.0 + week)
    assert 5000 < calls < 25_000
    assert state.time == pytest.approx(1.0 + week, rel=2 / AS_DUE)  # it is still called
    calls = 0
    exact = at(shown, record(1.0), record(1.0 + week), time=1.0 + week + 100 * period)
    assert exact.time == pytest.approx(1.0 + week + 100 * period, abs=period)
    assert calls < 25_000
    calls = 0
    at(panel("Ticks", ticking), record(1.0), time=1.0 + 900 * period)
    assert calls == pytest.approx(900, abs=1)  # until there are many, each is


def test_the_grid_of_timers_depends_on_the_records_and_the_moment_alone() -> None:
    def ticks(records: Observable[Record]) -> Observable[int]:
        return records.pipe(ops.flat_map(lambda _: reactivex.interval(0.7)), ops.scan(lambda n, _: n + 1, 0))

    shown = panel("Ticks", ticks, alert=above(1500, lasting=600))
    records = [record(1.0), record(4000.3, seq=2), record(4000.4, seq=3)]
    random = Random(4)
    told: list[list[AlertChange]] = []
    moments = sorted(random.uniform(1.0, 9000.0) for _ in range(200))
    fold = Fold(board := Dashboard([shown]), (live := list[AlertChange]()).append)
    [cell] = fold.cells.values()
    waiting = [*records]
    for moment in moments:
        while waiting and waiting[0].time <= moment:
            fold.take(waiting.pop(0))
        fold.clock.move_to(moment)
        assert fold.clock.due is None or fold.clock.due > moment
        told.append([*live])
        if moment in moments[::20]:
            folded = Fold(board, (again := list[AlertChange]()).append)
            for each in records:
                if each.time <= moment:
                    folded.take(each)
            folded.clock.move_to(moment)
            assert (cell.state, live) == (folded.cells[shown.name].state, again)
    assert told[-1]


def test_a_pipeline_that_emits_without_end_stops_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.boards.values.MAX_EMITTED", 1000)

    def endless(_: Observable[Record]) -> Observable[int]:
        return reactivex.from_iterable(repeat(1))

    def much(records: Observable[Record]) -> Observable[int]:
        return records.pipe(ops.flat_map(lambda _: reactivex.range(900)))

    board = Dashboard([panel("Endless", endless), panel("Much", much)])
    bad, good = board.at([record(1.0), record(2.0)])
    assert "emits without end" in bad.error
    assert (good.value, good.error) == (899, "")


def test_a_group_that_raises_stops_alone_and_its_error_names_the_function() -> None:
    def inverse(record: Record) -> float:
        return 1 / (record.seq - 2)

    shown = panel("Inverse", ops.map(inverse), group=run_of)
    records = [record(1.0), record(2.0, seq=2), record(3.0, run="b"), record(4.0, seq=3)]
    state = at(shown, *records)
    assert state.value == {"a": -1.0, "b": -1.0}
    assert state.error.startswith("a: ZeroDivisionError: division by zero (in inverse, test_panels.py:")


def test_what_raises_elsewhere_is_the_error_of_its_panel_alone() -> None:
    def raise_it(*_: object) -> Any:
        raise OSError("no")

    def late(records: Observable[Record]) -> Observable[Any]:
        return records.pipe(ops.delay(1.0), ops.map(raise_it))

    panels = [
        panel("Made", raise_it),
        panel("Nothing", lambda _: None),  # pyright: ignore
        panel("Group", COUNT, group=raise_it),
        panel("Timer", late),
        panel("Good", COUNT),
    ]
    made, nothing, group, timer, good = Dashboard(panels).at([record(1.0), record(5.0)])
    place = f"in raise_it, test_panels.py:{raise_it.__code__.co_firstlineno + 1}"
    assert [made.error, group.error] == [f"OSError: no ({place})"] * 2
    assert timer.error == f"OSError: no ({place}; operator map)"
    assert "returned None, which is not an observable" in nothing.error
    assert (good.value, good.error) == (2, "")


def test_the_timers_of_all_panels_run_in_the_order_of_time_and_one_without_end_stops_its_panel_alone() -> None:
    rung: list[str] = []

    def endless(_: Observable[Record]) -> Observable[int]:
        return reactivex.repeat_value(1)

    def ringing(name: str, period: float) -> Panel:
        def pipeline(_: Observable[Record]) -> Observable[int]:
            return reactivex.interval(period).pipe(ops.do_action(lambda _: rung.append(name)))

        return panel(name, pipeline)

    panels = [ringing("Slow", 3.0), panel("Endless", endless), ringing("Fast", 2.0)]
    slow, stopped, fast = Dashboard(panels).at([record(1.0)], 8.0)
    assert rung == ["Fast", "Slow", "Fast", "Slow", "Fast"]
    assert (slow.value, fast.value, slow.error, fast.error) == (1, 2, "", "")
    assert "due again at the same moment without end" in stopped.error


def test_operators_of_time_need_no_scheduler() -> None:
    def one(_: Record) -> float:
        return 1.0

    def speed(records: Observable[Record]) -> Observable[float]:
        return records.pipe(ops.map(one), rate(2.0))

    def sampled(records: Observable[Record]) -> Observable[int]:
        return records.pipe(ops.map(seq_of), ops.sample(1.0))

    records = [record(10.0), record(11.0, seq=2)]
    shown = panel("Speed", speed, view="line")
    assert [at(shown, *records, time=t).value for t in (10.0, 11.5, 12.5, 13.5)] == [0.5, 1, 0.5, 0]
    state = at(shown, *records, time=20.0)
    assert state.points == {"": [(10.0, 0.5), (11.0, 1.0), (12.0, 0.5), (13.0, 0.0)]}
    assert [at(panel("S", sampled), *records, time=t).value for t in (10.5, 11.5, 12.5)] == [None, 1, 2]


def test_a_line_is_bounded_and_ends_with_its_last_value() -> None:
    shown = panel("Number", ops.map(seq_of), view="line")
    points = at(shown, *[record(float(n), seq=n) for n in range(1, 2000)]).points[""]
    assert 100 < len(points) <= 300
    assert points[-1] == (1999.0, 1999)
    assert points == sorted(points)


def test_rows_and_spans_are_bounded() -> None:
    def row(record: Record) -> dict[str, int]:
        return {"n": record.seq}

    value = at(panel("Rows", ops.map(row), view="table"), *[record(float(n), seq=n) for n in range(500)]).value
    assert isinstance(value, list)
    assert [len(value), value[0], value[-1]] == [200, {"n": 300}, {"n": 499}]


def test_a_table_with_groups_has_a_row_for_each() -> None:
    def row(record: Record) -> dict[str, int]:
        return {"n": record.seq}

    shown = panel("Runs", ops.map(row), view="table", group=run_of)
    records = [record(1.0, seq=1), record(2.0, run="b", seq=5), record(3.0, seq=2)]
    assert at(shown, *records).value == [{"run": "a", "n": 2}, {"run": "b", "n": 5}]


def test_spans_are_in_the_lanes_of_their_groups() -> None:
    """Two calls of a response may have one id."""
    starts = [record(1.0 + place, ToolStart(ToolCall("1", "look", {}), place)) for place in (0, 1)]
    stops = [record(4.0 + place, ToolStop(call_id="1", place=place)) for place in (0, 1)]
    shown = panel("Calls", tool_spans, view="lane", group=run_of)
    value: Any = at(shown, *starts, record(3.0), *stops).value
    assert [(each["lane"], each["from"], each["to"], each["run"]) for each in value] == [
        ("a", 1.0, 4.0, "a"),
        ("a", 2.0, 5.0, "a"),
    ]


def test_an_alert_is_reported_when_its_time_has_passed_and_when_it_is_over() -> None:
    shown = panel("Number", ops.map(seq_of), alert=above(2, lasting=10))
    records = [record(0.5, seq=3), record(1.0, seq=1), record(2.0, seq=5), record(30.0, seq=1)]
    moments = (1.5, 11.9, 12.0, 29.0, 30.0)
    assert [at(shown, *records, time=t).alerts for t in moments] == [{}, {}, {"": 12}, {"": 12}, {}]
    shown = panel("Number", ops.map(seq_of), alert=below(2), group=run_of)
    assert at(shown, *records, record(31.0, run="b", seq=9)).alerts == {"a": 30}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: panel("A", ops.map), "write map"),  # pyright: ignore[reportArgumentType]
        (lambda: panel("A", COUNT, view="lines"), "did you mean 'line'?"),  # pyright: ignore[reportArgumentType]
        (lambda: panel("", COUNT), "a panel needs a title"),
        (lambda: panel("A", COUNT, group="tool"), "give a function of a record"),  # pyright: ignore[reportArgumentType]
        (lambda: panel("A", COUNT, group=label_of), r"write label_of\(\.\.\.\)"),  # pyright: ignore[reportArgumentType]
        (lambda: panel("A", COUNT, group=(run_of, label_of)), "label_of"),  # pyright: ignore[reportArgumentType]
        (lambda: panel("A", cost), r"write cost\(\.\.\.\), with parentheses"),  # pyright: ignore[reportArgumentType]
        (lambda: panel("A", error_rate), r"write error_rate\(\.\.\.\)"),  # pyright: ignore[reportArgumentType]
        (lambda: panel("A", COUNT, view="text", alert=above(1)), "shows no numbers"),
        (lambda: panel("A", COUNT, alert=5), r"alert=above\(5\)"),  # pyright: ignore[reportArgumentType]
        (lambda: panel("数", COUNT), "give the panel '数' a name"),
        (lambda: panel("A", COUNT, name="a b"), "of a-z, 0-9 and dashes"),
        (lambda: panel("A", COUNT, width=5), "1 to 4 columns and 1 to 3 rows"),
        (lambda: panel("A", COUNT, height=0), "1 to 4 columns and 1 to 3 rows"),
        (lambda: above("1"), "limit"),  # pyright: ignore[reportArgumentType]
        (lambda: below(1, lasting=-1), "lasting"),
        (lambda: Dashboard([]), "takes a list of panels"),
        (lambda: Dashboard([panel("A", COUNT)], title="数"), "give the dashboard '数' a name"),
        (lambda: Dashboard([panel("A", COUNT)], name="a/b"), "of a-z, 0-9 and dashes"),
        (lambda: Dashboard(panel("A", COUNT)), "takes a list of panels"),  # pyright: ignore[reportArgumentType]
        (lambda: Dashboard([COUNT]), "takes a list of panels"),  # pyright: ignore[reportArgumentType]
        (lambda: Dashboard([panel("A", COUNT), panel("a", COUNT)]), "two panels have the name 'a'"),
    ],
)
def test_mistakes_are_reported_where_they_are_made(make: Callable[[], Any], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        make()
