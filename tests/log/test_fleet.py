"""The fold of all runs of a log."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rxworker import Worker, tool
from rxworker.log import Fleet, MemoryLog, RunInfo, fork_run
from rxworker.log.fleet import Totals
from rxworker.log.leases import Leases
from rxworker.log.values import RunRow, StoredStatus
from rxworker.messages import Prices
from rxworker.messages.usage import Usage
from rxworker.providers.models import cost_of
from rxworker.testing import ScriptedModel, call, say

NOW = 1_000_000 * 60.0
PRICES = {"mine": Prices(1_000_000.0, 0.0)}


def info(
    run_id: str = "run-1", status: StoredStatus = "running", revision: int = 1, *, at: float = NOW, **values: object
) -> RunInfo:
    row = replace(RunRow(status), **values)
    return RunInfo(run_id, row, 1, 1, "host:1:a", at + 15, at, at, 0, revision, 0)


def test_costs_in_two_currencies_are_not_added() -> None:
    fleet = Fleet()
    tokens: dict[str, Any] = {"input_tokens": 9, "by_model": {"mine": (9, 0, 0, 0)}}
    for run, currency in (("a", "EUR"), ("b", "USD"), ("c", "EUR")):
        prices = {"mine": Prices(1.0, 2.0, currency=currency)}
        fleet.note(info(run, "finished", cost=1.0, prices=prices, **tokens))
    totals = one(fleet)[1]
    assert (totals.cost, fleet.costs.currency, totals.unpriced) == (2.0, "EUR", {"mine"})


def one(fleet: Fleet) -> tuple[dict[StoredStatus, int], Totals]:
    [group] = fleet.groups.values()
    return dict(+group.runs), group.totals


def test_costs_have_the_currency_of_the_first_prices_of_the_table() -> None:
    table = {"a": Prices(1.0, 2.0, currency="EUR"), "b": Prices(1.0, 2.0)}
    cost = cost_of({"b": Usage(1_000_000, 0), "a": Usage(1_000_000, 0)}, {}, table)
    assert (cost.known, cost.currency, cost.unpriced) == (1.0, "EUR", ("b",))


def test_a_run_contributes_its_differences() -> None:
    fleet = Fleet()
    fleet.note(info(input_tokens=5, turns=1))
    fleet.note(info(revision=3, input_tokens=9, turns=2, cost=0.5, tool_durations=(0, 2)))
    fleet.note(info(revision=2, input_tokens=1000))  # it comes too late
    failed = partial(info, turns=2, tool_errors=1)  # at first one of no duration
    fleet.note(failed(revision=4, input_tokens=9, cost=0.5, tool_durations=(0, 2)))
    for _ in range(2):
        fleet.note(failed(status="finished", revision=5, input_tokens=8, tool_durations=(0, 2, 1)))
    runs, totals = one(fleet)
    assert runs == {"finished": 1}
    assert (totals.ended, totals.failed, totals.turns) == (1, 0, 2)
    assert (totals.input_tokens, totals.cost, totals.tool_durations[:4]) == (9, 0.5, [0, 2, 1, 0])
    assert totals.tool_errors == 1
    assert fleet.open == []


def test_a_cancelled_run_has_not_failed_and_a_deleted_one_still_counts_in_the_totals() -> None:
    fleet = Fleet()
    fleet.note(info("run-1", "aborted", 1, cause="cancel", output_tokens=7))
    fleet.note(info("run-2", "aborted", 2, cause="error"))
    fleet.note(info("run-1", "deleted", 3))
    runs, totals = one(fleet)
    assert runs == {"aborted": 1}
    assert (totals.ended, totals.failed, totals.output_tokens) == (2, 1, 7)
    assert [each.run_id for each in fleet.newest()] == ["run-2"]


def read(tokens: int) -> dict[str, Any]:
    return {"input_tokens": tokens, "by_model": {"mine": (tokens, 0, 0, 0)}}


def test_what_a_run_has_taken_over_from_another_counts_once_also_if_that_comes_later() -> None:
    """A log lists the newest runs first."""
    infos = [
        info("run-1", "paused", 1, **read(10), turns=2, tool_durations=(3,)),
        info("run-1~2", "finished", 2, resumes="run-1", **read(15), turns=3, tool_durations=(5,)),
        info("run-9", "finished", 3, fork_of="run-1~2", **read(16), tool_durations=(6,)),
    ]
    for order in (infos, infos[::-1]):
        fleet = Fleet(prices=PRICES)
        for each in order:
            fleet.note(each)
        _, totals = one(fleet)
        assert (totals.input_tokens, totals.estimated_cost, totals.turns, totals.ended) == (16, 16.0, 3, 2)
        assert totals.tool_durations[0] == 3 + 2 + 1


def test_an_estimate_gives_way_to_a_cost_that_the_run_has_calculated() -> None:
    infos = [
        info("run-1", "paused", 1, **read(3)),
        info("run-1~2", "finished", 2, resumes="run-1", **read(4), cost=5.0),
    ]
    for order in (infos, infos[::-1]):
        fleet = Fleet(prices=PRICES)
        for each in order:
            fleet.note(each)
        assert one(fleet)[1].cost == 5.0


def test_what_a_nested_run_takes_counts_in_the_outer_one() -> None:
    fleet = Fleet()
    fleet.note(info("run-1", input_tokens=10, tool_calls=3, tool_durations=(3,)))
    fleet.note(info("run-2", outer="run-1", input_tokens=4, tool_calls=1, tool_durations=(1,)))
    runs, totals = one(fleet)
    assert runs == {"running": 1}
    assert (totals.input_tokens, totals.tool_calls, totals.tool_durations[0]) == (10, 3, 3)
    assert [each.run_id for each in fleet.open] == ["run-1"]
    assert [each.run_id for each in fleet.newest()] == ["run-1"]


def test_a_nested_run_that_goes_on_counts_in_the_outer_one_in_whatever_order_the_two_come() -> None:
    infos = [
        info("run-2", "paused", 1, outer="run-1", worker="inner", input_tokens=4),
        info("run-2~2", "finished", 2, outer="run-1~2", resumes="run-2", worker="inner", input_tokens=6),
    ]
    for order in (infos, infos[::-1]):
        fleet = Fleet()
        for each in order:
            fleet.note(each)
        assert fleet.groups == {}


def test_the_oldest_ended_runs_are_dropped_and_still_count() -> None:
    fleet = Fleet(most_runs=100)
    for n in range(1000):
        status: StoredStatus = "paused" if n < 50 else "finished"
        fleet.note(info(f"run-{n}", status, n, at=NOW + n))
    kept = [each.run_id for each in fleet.newest()]
    assert len(kept) <= 100
    assert kept[0] == "run-999"
    assert kept[-50:] == [f"run-{n}" for n in range(49, -1, -1)]
    assert one(fleet)[1].ended == 950


def test_groups_are_bounded() -> None:
    fleet = Fleet()
    for n in range(3000):
        fleet.note(info(f"run-{n}", revision=n, labels={"tenant": f"tenant {n}"}))
    assert len(fleet.groups) == 1001
    assert fleet.groups["", "other"].runs["running"] == 2000


STATUSES = st.sampled_from(["queued", "running", "paused", "finished", "aborted", "deleted"])


@given(
    steps=st.lists(st.tuples(st.integers(0, 4), STATUSES, st.integers(0, 9), st.booleans()), max_size=40),
    seed=st.integers(0, 100),
)
def test_counts_are_those_of_the_last_values_in_whatever_order_they_come(
    steps: list[tuple[int, StoredStatus, int, bool]], seed: int
) -> None:
    infos = [
        info(f"run-{run}", status, revision, input_tokens=tokens, worker="ab"[other])
        for revision, (run, status, tokens, other) in enumerate(steps, 1)
        if (run, "deleted") not in {each[:2] for each in steps[: revision - 1]}  # it stays so
    ]
    last = {each.run_id: each for each in infos}
    random.Random(seed).shuffle(infos)
    fleet = Fleet()
    newest: dict[str, int] = {}
    for each in infos:
        # A log gives newer information after older about the same run, also after a deletion.
        if each.revision > newest.get(each.run_id, 0):
            newest[each.run_id] = each.revision
            fleet.note(each)
    found: Counter[tuple[str, str]] = Counter()
    for group in fleet.groups.values():
        found.update({(group.worker, status): n for status, n in (+group.runs).items()})
    kept = [each for each in last.values() if each.status != "deleted"]
    assert +found == Counter((each.row.worker, each.status) for each in kept)
    assert sorted(each.run_id for each in fleet.newest()) == sorted(each.run_id for each in kept)


@pytest.mark.parametrize(
    ("seconds", "share", "expected"),
    [([], 0.95, None), ([0.3] * 99 + [7.0], 0.5, 0.35), ([900.0], 0.95, 500.0), ([0.01], 1.0, 0.01)],
)
def test_a_quantile_is_interpolated(seconds: list[float], share: float, expected: float | None) -> None:
    from rxworker.state.run_state import with_duration

    counts: tuple[int, ...] = ()
    for each in seconds:
        counts = with_duration(counts, each)
    totals = Totals()
    for at, count in enumerate(counts):
        totals.tool_durations[at] = count
    found = totals.tool_quantile(share)
    assert found == (None if expected is None else pytest.approx(expected, abs=0.01))


async def test_real_runs_are_counted_with_their_tools_and_forks() -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("no")

    @tool
    async def work() -> str:
        """Work."""
        return "done"

    fleet = Fleet()
    async with MemoryLog() as log:
        log.fleet(every=0.0).subscribe(fleet.note)
        model = ScriptedModel([call("fail") + call("work"), say("So.")])
        worker = Worker(model, tools=[fail, work], log=log, name="one")
        run = worker.run("Hi")
        await run
        taken = (await log.list())[0].row
        again = Worker(ScriptedModel([say("Other.")]), tools=[fail, work], log=log, name="one")
        forked = await again.recover(await fork_run(log, run.id, run.last_seq - 3)).started()
        await forked
    runs, totals = one(fleet)
    assert runs == {"finished": 2}
    assert totals.recovered == 0  # no process of the fork has ended
    assert (totals.ended, totals.tool_calls, totals.tool_errors) == (2, 2, 1)
    assert sum(totals.tool_durations) == 2
    assert totals.output_tokens < 2 * max(taken.output_tokens, 1)


def test_leases_are_looked_at_before_their_end_and_at_their_end() -> None:
    leases = Leases(5.0)
    held = replace(info(), lease_until=NOW + 15)
    leases.note([held], NOW)
    assert leases.next_due == NOW + 10
    assert leases.due(NOW + 9.9) == []
    assert leases.due(NOW + 10) == ["run-1"]
    leases.note([replace(held, lease_until=NOW + 25)], NOW + 10)
    assert leases.due(NOW + 16) == []  # the end of the lease before
    assert leases.due(NOW + 20) == ["run-1"]
    leases.note([replace(held, lease_until=NOW + 25)], NOW + 20)
    assert leases.due(NOW + 25) == ["run-1"]
    leases.note([replace(held, lease_until=NOW + 25)], NOW + 25)
    assert leases.next_due is None
    leases.note([replace(held, lease_until=NOW + 50)], NOW + 30)
    leases.note([replace(held, owner="")], NOW + 31)
    assert leases.due(NOW + 100) == []
