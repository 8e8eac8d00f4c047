"""Boards as HTML, and in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import pytest
from reactivex import operators as ops

from rxworker.boards import Dashboard, Panel, PanelState, View, above, panel
from rxworker.boards.dashboard import Board
from rxworker.boards.drawing import board_html
from rxworker.errors import ConfigurationError
from rxworker.events import Record, TextDelta
from rxworker.messages import JsonObject
from rxworker.operators.kernel import Source
from rxworker.panels import RUNS, USAGE
from rxworker.ui import jupyter
from tests.boards.test_ready_panels import RECORDS

HOSTILE = '<script>alert("1")</script>\'&\u202e\ud800'


def number_of(record: Record) -> int:
    return record.seq


def drawn(shown: Panel, state: PanelState) -> ElementTree.Element:
    return ElementTree.fromstring(board_html(HOSTILE, [shown], [state]))


def made(view: View) -> Panel:
    return panel(HOSTILE, ops.map(number_of), view=view, name="p", unit=HOSTILE)


ROWS = [{HOSTILE: HOSTILE, "n": 1}, {"n": 2.5}]
SPANS = [{"lane": HOSTILE, "from": 1.0, "to": 4.0}, {"lane": "b", "from": 2.0, "to": 2.0}]
POINTS = {"": [(1.0, 2.0), (3.0, -4.0)], HOSTILE: [(1.0, 1.0)]}


@pytest.mark.parametrize(
    ("view", "value", "points"),
    [
        ("number", 2.5, {}),
        ("number", None, {}),
        ("number", {HOSTILE: 2.5, "b": 0}, {}),
        ("bar", {HOSTILE: 2.5, "b": -1}, {}),
        ("bar", {"b": 0}, {}),
        ("line", 2.5, POINTS),
        ("area", {HOSTILE: 1.0}, POINTS),
        ("text", HOSTILE, {}),
        ("state", {"a": HOSTILE}, {}),
        ("table", ROWS, {}),
        ("table", [], {}),
        ("heat", ROWS, {}),
        ("lane", SPANS, {}),
        ("lane", [], {}),
    ],
)
def test_every_view_is_drawn_and_nothing_in_it_is_markup(
    view: View, value: Any, points: dict[str, list[tuple[float, float]]]
) -> None:
    alerts = {HOSTILE: 1.0}
    tree = drawn(made(view), PanelState("p", 1.0, value, points, alerts, HOSTILE))
    tags = {element.tag for element in tree.iter()}
    assert tags <= {*["div", "b", "span", "small", "table", "tr", "td", "th", "svg", "polyline", "rect"]}
    for element in tree.iter():
        assert not any(name.startswith("on") or name == "href" for name in element.attrib)
    assert "alert(" in "".join(tree.itertext())


def test_a_heat_map_has_colours_by_the_sizes_of_its_numbers() -> None:
    def styles(*rows: JsonObject) -> list[str]:
        cells = drawn(made("heat"), PanelState("p", value=[*rows])).iter("td")
        return [cell.attrib.get("style", "").removeprefix("background:#3b82f6") for cell in cells]

    assert styles({"hour": "7", "a": 4, "b": 1}, {"hour": "8", "a": 0}) == ["", "ff", "40", "", "", ""]
    assert styles({"a": float("nan"), "b": float("inf"), "c": 10**400, "d": True, "e": 1e308}) == [*[""] * 4, "ff"]


def test_lines_bars_and_lanes_have_the_places_of_their_values() -> None:
    line = drawn(made("line"), PanelState("p", value=1, points={"": [(10.0, 0.0), (20.0, 4.0)]}))
    [polyline] = line.iter("polyline")
    assert polyline.attrib["points"] == "0.0,46.0 300.0,2.0"
    bars = drawn(made("bar"), PanelState("p", value={"a": 4, "b": 1}))
    styles = [each.attrib.get("style", "") for each in bars.iter("div")]
    assert [each.split(";")[1] for each in styles if "height" in each] == ["width:100.0%", "width:25.0%"]
    lanes = drawn(made("lane"), PanelState("p", value=SPANS))
    assert [(each.attrib["x"], each.attrib["width"]) for each in lanes.iter("rect")] == [
        ("0.0", "300.0"),
        ("100.0", "1.0"),
    ]


def test_a_firing_alert_is_marked_and_a_long_table_is_cut() -> None:
    value = {str(number): number for number in range(50)}
    text = board_html("Desk", [made("bar")], [PanelState("p", value=value, alerts={"3": 1.0})])
    assert text.count("(!)") == 2
    assert "and 30 more" in text


@pytest.mark.parametrize("dashboard", [USAGE, RUNS])
def test_the_ready_dashboards_are_drawn(dashboard: Dashboard) -> None:
    tree = ElementTree.fromstring(board_html(dashboard.title, dashboard.panels, dashboard.at(RECORDS)))
    text = "".join(tree.itertext())
    assert all(each.title in text for each in dashboard.panels)
    assert "has stopped" not in text


class Notebook:
    """What IPython shows."""

    def __init__(self) -> None:
        self.drawings: list[str] = []
        self.updated = asyncio.Event()

    def display(self, bundle: Mapping[str, str], **_: object) -> Notebook:
        self.drawings.append(bundle["text/html"])
        return self

    def update(self, bundle: Mapping[str, str], *, raw: bool) -> None:
        assert raw
        self.display(bundle)
        self.updated.set()


async def test_a_board_is_drawn_again_when_panels_change(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook, source = Notebook(), Source[Record]()

    def display(_: str) -> object:
        return notebook.display

    monkeypatch.setattr(jupyter, "_display", display)
    panels = [panel("One", ops.map(number_of), alert=above(40)), panel("Two", ops.map(number_of))]
    board: Board = Dashboard(panels).show(source, every=0)
    stop = jupyter.display_board(board)
    source.on_next(Record(42, "a", 1, 1, 5.0, TextDelta(0, "x")))
    async with asyncio.timeout(30):
        await notebook.updated.wait()
    first, last = notebook.drawings  # both panels at once
    assert "42" not in first
    assert last.count(">42<") == 2
    assert last == board._repr_mimebundle_()["text/html"]
    stop()
    notebook.updated.clear()
    seen = asyncio.Event()
    board.changes.subscribe(lambda _: seen.set())
    source.on_next(Record(43, "a", 1, 1, 6.0, TextDelta(0, "x")))
    async with asyncio.timeout(30):
        await seen.wait()
    await asyncio.sleep(0)
    assert len(notebook.drawings) == 2


async def test_outside_a_notebook_it_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="display_board"):
        jupyter.display_board(USAGE.show(Source[Record]()))
