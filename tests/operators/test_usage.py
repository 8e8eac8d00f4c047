"""`usage_changes`: what each snapshot adds to the one before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxworker import Worker, worker_tool
from rxworker.events import AttemptStart, ConversationCompact, Event, Record, Usage
from rxworker.messages import Prices
from rxworker.operators import UsageChange, usage_changes
from rxworker.testing import ScriptedModel, call, say
from tests.seen import through


def record(event: Event, *path: str, run_id: str = "r", attempt: int = 1) -> Record:
    return Record(seq=1, run_id=run_id, turn=1, attempt=attempt, time=0.0, event=event, path=path)


def changes_of(*records: Record) -> list[UsageChange]:
    return through(records, usage_changes())


def test_a_snapshot_adds_what_is_new_in_it() -> None:
    changes = changes_of(record(AttemptStart("house", "small")), record(Usage(10, 1)), record(Usage(10, 7)))
    assert [(c.tokens, c.output_tokens) for c in changes] == [(11, 1), (6, 6)]
    assert {(c.provider, c.model) for c in changes} == {("house", "small")}


def test_a_snapshot_without_a_change_is_left_out() -> None:
    assert len(changes_of(record(Usage(10, 1)), record(Usage(10, 1)))) == 1


def test_another_attempt_begins_at_nothing_also_when_its_start_was_missed() -> None:
    missed = changes_of(record(Usage(10)), record(Usage(10), attempt=2))
    begun = changes_of(record(Usage(10)), record(AttemptStart(), attempt=2), record(Usage(10), attempt=2))
    assert [c.tokens for c in missed] == [c.tokens for c in begun] == [10, 10]


def test_runs_and_runs_inside_them_are_kept_apart() -> None:
    changes = changes_of(record(Usage(10)), record(Usage(20), "c"), record(Usage(30), run_id="s"), record(Usage(11)))
    assert [c.tokens for c in changes] == [10, 20, 30, 1]


def test_a_summary_of_a_conversation_is_paid_for_as_well() -> None:
    summary = ConversationCompact(2, model="small", usage=Usage(100, 20))
    changes = changes_of(record(Usage(10)), record(summary), record(Usage(11)))
    assert [(c.tokens, c.model) for c in changes] == [(10, ""), (120, "small"), (1, "")]
    assert changes_of(record(ConversationCompact(2))) == []


PRICES = Prices(input=3.0, output=15.0, cache_read=0.3)
counts = st.integers(0, 1_000_000)
snapshots = st.builds(Usage, input_tokens=counts, output_tokens=counts, cache_read_tokens=st.none() | counts)


@given(st.lists(snapshots, min_size=1))
def test_changes_add_up_to_the_last_snapshot(usages: list[Usage]) -> None:
    changes = changes_of(*map(record, usages))
    assert sum(c.tokens for c in changes) == usages[-1].total_tokens
    assert sum(c.cost(PRICES) for c in changes) == pytest.approx(PRICES.cost(usages[-1]))


async def test_the_changes_of_a_run_add_up_to_its_usage() -> None:
    inner = Worker(ScriptedModel([say("Nothing.", usage=Usage(7, 3))]))
    ask = worker_tool(inner, name="ask", description="Ask somebody.")
    run = Worker(ScriptedModel([call("ask", task="?"), "Nothing."]), tools=[ask]).run("?")
    total = await run.pipe(usage_changes(), ops.map(tokens_of), ops.sum())
    assert total == (await run).usage.total_tokens == 40


def tokens_of(change: UsageChange) -> int:
    return change.tokens
