"""The runs that have made a value of a panel."""

from __future__ import annotations

import random
from typing import Any

from msgspec.structs import replace

from rxworker.boards import Dashboard, Panel, panel
from rxworker.boards.dashboard import Fold
from rxworker.boards.stored import Makers
from rxworker.events import Record, RunStart, RunStop, TextDelta, ToolStart
from rxworker.messages import Conversation, Prices
from rxworker.panels import RUNS, cost, count, label_of, model_of, run_of, tokens, tool_of
from tests.boards.test_selection import record_some

PRICES = {"small": Prices(1.0, 2.0), "large": Prices(3.0, 4.0)}
PANELS = [
    panel("All", count(ToolStart)),
    panel("Stops", count(RunStop), view="line"),
    panel("Cost", cost(PRICES), view="bar", group=model_of),
    panel("Tokens", tokens, view="bar", group=run_of),
    panel("Tenants", count(RunStart), view="bar", group=label_of("tenant", "none")),
    panel("Tools", count(ToolStart), view="bar", group=tool_of),
    panel("Tools of tenants", count(ToolStart), view="bar", group=(label_of("tenant", "none"), tool_of)),
]


def values(shown: Panel, records: list[Record]) -> dict[str, Any]:
    [state] = Dashboard([shown]).at(records)
    return state.value if isinstance(state.value, dict) else {"": state.value}


def makers_of(shown: Panel, records: list[Record], group: str = "") -> Makers:
    fold = Fold(Dashboard([shown]))
    makers = Makers(fold, group)
    for record in sorted(records, key=lambda each: each.time):
        fold.take(record)
    return makers


async def test_a_value_is_that_of_the_runs_that_made_it_and_each_of_them_is_needed() -> None:
    records = await record_some()
    chance = random.Random(1)
    times = sorted(chance.uniform(1000.0, 1100.0) for _ in records)
    records = [replace(each, time=time) for each, time in zip(records, times, strict=True)]
    for shown in PANELS:
        for group, value in values(shown, records).items():
            made = {each.run for each in makers_of(shown, records, group).newest()}
            assert made
            assert values(shown, [each for each in records if each.run_id in made])[group] == value
            for run in made:
                left = [each for each in records if each.run_id in made - {run}]
                assert values(shown, left).get(group) != value, (shown.name, group)


async def test_each_run_is_named_once_with_its_last_record_and_the_newest_first() -> None:
    records = await record_some()
    records = [replace(each, time=1000.0 + at) for at, each in enumerate(records)]
    deltas = [each for each in records if isinstance(each.event, TextDelta)]
    found = makers_of(panel("Texts", count(TextDelta)), records).newest()
    assert [each.run for each in found] == [*dict.fromkeys(each.run_id for each in reversed(deltas))]
    assert (found[0].seq, found[0].time) == (deltas[-1].seq, deltas[-1].time)
    assert sum(each.values for each in found) == len(deltas)
    assert makers_of(panel("Texts", count(TextDelta)), records).newest(2) == found[:2]


async def test_the_first_of_two_groups_leads_to_the_runs_of_all_its_groups() -> None:
    records = await record_some()
    _, _, _, _, tenants, _, both = PANELS
    calls = {each.run_id for each in records if isinstance(each.event, ToolStart)}
    for tenant in values(tenants, records):
        of_tenant = {each.run for each in makers_of(tenants, records, tenant).newest()}
        assert {each.run for each in makers_of(both, records, tenant).newest()} == of_tenant & calls
    assert calls


async def test_a_row_of_a_table_leads_to_its_run() -> None:
    records = await record_some()
    table = RUNS.panels[-1]
    for run in {each.run_id for each in records}:
        assert [each.run for each in makers_of(table, records, run).newest()] == [run]


def test_a_group_does_not_lead_to_the_runs_of_one_whose_name_begins_alike() -> None:
    start = [RunStart(Conversation(), labels={"tenant": name}) for name in ("acme: eu", "acme", "acme · eu")]
    records = [Record(1, f"run-{at}", 1, 1, float(at), event) for at, event in enumerate(start)]
    assert [each.run for each in makers_of(PANELS[4], records, "acme").newest()] == ["run-1"]
