"""The gauges of the page about dashboards, with records that its own runs do not have."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from reactivex.scheduler import HistoricalScheduler
from reactivex.subject import Subject

from rxworker.events import Event, Record, ToolStart, ToolStop
from rxworker.messages import ToolCall, ToolResult

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "dashboards.md"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the blocks of the page define, up to the gauge of tools."""
    module = ModuleType("dashboards_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S):
        exec(block, module.__dict__)  # the page is ours
        if hasattr(module, "slow_tools"):
            break
    return module


@pytest.mark.parametrize("ids", [("a", "b"), ("same", "same")])
def test_the_gauge_of_tools_measures_calls_that_run_side_by_side(
    page: ModuleType, ids: tuple[str, str]
) -> None:
    records: Subject[Record] = Subject()
    shown: list[float] = []
    records.pipe(page.slow_tools(HistoricalScheduler())).subscribe(shown.append)

    def emit(time: float, event: Event) -> None:
        records.on_next(Record(1, "r", 1, 1, time, event))

    for call_id in ids:
        emit(0.0, ToolStart(ToolCall(call_id, "look", {})))
    for call_id, seconds in zip(ids, (0.2, 1.0), strict=True):
        emit(1.0, ToolStop(ToolResult(call_id, "", name="look"), seconds))
    emit(1.0, ToolStop(ToolResult("skipped", "", is_error=True, name="look")))
    assert shown == pytest.approx([0.2, 0.96])
