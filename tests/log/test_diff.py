"""Two stored runs, compared."""

from __future__ import annotations

from typing import Any

import pytest

from rxworker import Limits, Worker, tool
from rxworker.errors import LogError
from rxworker.events import ToolStart
from rxworker.hub.history import expand
from rxworker.log import EventLog, MemoryLog, diff_runs, fork_run
from rxworker.log.diff import diff_messages
from rxworker.log.format import records_of
from rxworker.messages import Message, Prices, ToolCall, ToolResult
from rxworker.testing import Call, Reply, ScriptedModel, call, say
from tests.log.victim import ByTurn

REPLIES = [say("Let me see.") + call("look", n=1), say("Done.")]


@tool(effect="idempotent")
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


async def run_of(log: EventLog, *replies: Reply, **options: Any) -> str:
    run = Worker(ByTurn(replies), tools=[look], log=log, **options).run("What is there?")
    await run
    return run.id


async def end_of(log: EventLog, run_id: str, kind: str) -> int:
    """The number of the first record of a kind that ends something."""
    entries = [entry async for entry in log.read(run_id)]
    return next(
        entry.last for entry in entries if entry.kind == kind and (kind != "status" or b"ompleted" in entry.body)
    )


async def test_the_same_run_twice_has_no_difference_although_ids_and_times_differ(log: MemoryLog) -> None:

    def with_id(name: str) -> Reply:
        return say("Let me see.") + Reply(tool_calls=(Call("look", {"n": 1}, name),))

    one = await run_of(log, with_id("call_x"), say("Done."))
    other = await run_of(log, with_id("call_y"), say("Done."), labels={"conversation": "c-1"})
    diff = await diff_runs(log, one, other)
    assert diff.is_equal
    assert diff.messages == ()
    info = await log.existing(one)
    assert diff.common == info.last_seq
    assert (diff.a, diff.b) == (info.row, (await log.existing(other)).row)


async def test_arguments_are_compared_whatever_their_names(log: MemoryLog) -> None:
    one = await run_of(log, call("look", n=1, id="x", seconds=1), say("Done."))
    other = await run_of(log, call("look", n=1, id="y", seconds=1), say("Done."))
    diff = await diff_runs(log, one, other)
    assert [(each.index, each.kind) for each in diff.messages] == [(1, "changed")]


async def test_a_fork_is_compared_with_its_source(log: MemoryLog) -> None:
    source = await run_of(log, *REPLIES, limits=Limits(prices=Prices(input=1.0, output=2.0)))
    seq = await end_of(log, source, "tool_stop")
    fork = await fork_run(log, source, seq)
    other = [REPLIES[0], say("It is different.") + call("look", n=2), say("Done.")]
    await Worker(ByTurn(other), tools=[look], log=log).recover(fork)
    diff = await diff_runs(log, source, fork)
    assert diff.common >= seq
    assert not diff.is_equal
    first_a, first_b = diff.first_a, diff.first_b
    assert first_a is not None
    assert first_b is not None
    assert first_b.seq == first_a.seq + 2  # behind the Fork and the RunRecover
    assert [(each.index, each.kind, each.b and each.b.text) for each in diff.messages] == [
        (3, "added", "It is different."),
        (4, "added", ""),
    ]
    assert (diff.a.turns, diff.a.tool_calls, diff.a.status) == (2, 1, "finished")
    assert (diff.b.turns, diff.b.tool_calls, diff.b.status) == (3, 2, "finished")
    assert (diff.a.input_tokens, diff.b.input_tokens) == (20, 30)
    assert diff.a.cost is not None


async def test_a_fork_that_goes_the_same_way_has_no_difference(log: MemoryLog) -> None:
    source = await run_of(log, *REPLIES)
    for kind in ("status", "tool_stop"):
        fork = await fork_run(log, source, await end_of(log, source, kind))
        await Worker(ByTurn(REPLIES), tools=[look], log=log).recover(fork)
        assert (await diff_runs(log, source, fork)).is_equal


async def test_a_run_that_ends_earlier_has_no_first_difference(log: MemoryLog) -> None:
    source = await run_of(log, *REPLIES)
    fork = await fork_run(log, source, seq := await end_of(log, source, "status"))
    diff = await diff_runs(log, fork, source)
    assert (diff.common, diff.first_a) == (seq, None)
    assert diff.first_b is not None
    assert isinstance(diff.first_b.event, ToolStart)
    with pytest.raises(LogError, match="no run"):
        await diff_runs(log, source, "run-9")


async def test_every_record_up_to_the_common_one_is_equal(log: MemoryLog) -> None:
    one = await run_of(log, say("Let me see.") + call("look", n=1), say("Done, and well."))
    other = await run_of(log, say("Let me see.") + call("look", n=1), say("Done, but ill."))
    diff = await diff_runs(log, one, other)
    both: list[list[Any]] = []
    for run in (one, other):
        found = records_of([entry async for entry in log.read(run)], run)
        both.append([each.event for record in found for each in expand(record)])
    at = diff.common
    assert [type(event) for event in both[0][:at]] == [type(event) for event in both[1][:at]]
    assert (both[0][at].text, both[1][at].text) == (", an", ", bu")


def test_messages_are_removed_added_and_changed() -> None:
    user, answer = Message.user("Hi"), Message.assistant("Hello.")
    called = Message.assistant(ToolCall("x", "look", {"n": 1}))
    result = Message("user", (ToolResult("x", "saw 1"),))
    wrong = Message("user", (ToolResult("other", "saw 1"),))

    def kinds(*messages: Message) -> list[tuple[int, str]]:
        return [(each.index, each.kind) for each in diff_messages((user, called, result), messages)]

    assert kinds(user, called, result) == []
    assert kinds(user) == [(1, "removed"), (2, "removed")]
    assert kinds(user, called, result, answer) == [(3, "added")]
    assert kinds(answer, called, result) == [(0, "changed")]
    assert kinds(user, called, wrong) == [(2, "changed")]  # it is the result of another call


async def test_the_model_that_spoke_is_not_a_difference_of_messages(log: MemoryLog) -> None:
    runs = [Worker(ScriptedModel(["Hello."], model=name), log=log).run("Hi") for name in ("a", "b")]
    for run in runs:
        await run
    diff = await diff_runs(log, runs[0].id, runs[1].id)
    assert diff.messages == ()
    assert not diff.is_equal  # the requests went to different models
