"""The Grafana dashboard shows metrics and labels that a server has."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rxworker.events import Record, RunStart
from rxworker.log import Fleet, MemoryLog, RunRow, StoredStatus, entries_of
from rxworker.messages import Conversation, Message
from rxworker.ui.web.metrics import metrics_of

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "examples" / "grafana" / "rxworker.json").read_text("utf-8")
)
EXPRESSIONS: list[str] = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]
OF_TARGETS = {"job", "instance"}
"""Labels that Prometheus adds."""
METRIC = re.compile(r"\b((?:rxworker|process)_\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")


async def labels_of_metrics() -> dict[str, set[str]]:
    """The names of the metrics of a server, and the names of their labels."""
    fleet = Fleet()
    async with MemoryLog() as log:
        statuses: list[StoredStatus] = ["finished", "queued"]
        for status in statuses:
            claim = await log.claim(f"run-{status}", create=True)
            start = RunStart(Conversation((Message.user("Hi"),)), 1)
            entries = entries_of([Record(1, claim.run, 0, 0, time.time(), start)], 1)
            row = RunRow(status, worker="clerk", labels={"tenant": "acme"})
            await log.append(claim, entries, after=0, row=row)
        for info in await log.list():
            fleet.note(info)
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics_of(fleet, 0)[0].decode()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


@pytest.mark.parametrize("expression", EXPRESSIONS)
async def test_an_expression_uses_metrics_and_labels_that_exist(expression: str) -> None:
    known = await labels_of_metrics()
    found = METRIC.findall(expression)
    assert found
    for name, matchers in found:
        assert name in known
        assert {*re.findall(r"(\w+)(?==~?\")", matchers)} <= known[name], name
    groups = {label.strip() for group in GROUPING.findall(expression) for label in group.split(",")}
    for name, _ in found:
        assert groups <= known[name] | OF_TARGETS, name
    # Every server reports the values of the whole log.
    if "rxworker_server_clients" not in expression:
        assert expression.count("max") == len(found)


def test_every_metric_of_runs_is_shown() -> None:
    shown = {name for expression in EXPRESSIONS for name, _ in METRIC.findall(expression)}
    assert {name for name in shown if name.startswith("rxworker")} == {
        "rxworker_cost_total",
        "rxworker_input_tokens_total",
        "rxworker_output_tokens_total",
        "rxworker_processes",
        "rxworker_queue_depth",
        "rxworker_queue_oldest_seconds",
        "rxworker_runs",
        "rxworker_runs_ended_total",
        "rxworker_runs_failed_total",
        "rxworker_runs_recovered_total",
        "rxworker_runs_recovering",
        "rxworker_server_clients",
        "rxworker_tool_calls_total",
        "rxworker_tool_errors_total",
        "rxworker_tool_seconds_bucket",
        "rxworker_turns_total",
    }


def test_the_dashboard_can_be_imported() -> None:
    assert DASHBOARD["schemaVersion"] == 39
    assert [each["name"] for each in DASHBOARD["__inputs"]] == ["DS_PROMETHEUS"]
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["worker", "tenant"]
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
