"""`lineage`: which run and which call came out of which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxworker import Deny, Run, Worker, before_tool_call, tool, worker_tool
from rxworker.events import Event, PauseState, Record, RunPause, RunResume, RunStart, RunStop, TextDelta, ToolStart
from rxworker.hooks import Pause, ToolCallContext
from rxworker.messages import Conversation, ToolCall
from rxworker.operators import Link, lineage, merge_runs
from rxworker.testing import ScriptedModel, call
from tests.pauses import pause_of
from tests.seen import through


def record(run_id: str, event: Event, *path: str) -> Record:
    return Record(seq=1, run_id=run_id, turn=1, attempt=1, time=0.0, event=event, path=path)


def starts(call_id: str, name: str = "look") -> ToolStart:
    return ToolStart(ToolCall(call_id, name, {}))


def links_of(*records: Record) -> list[Link]:
    return through(records, lineage())


BEGIN = RunStart(Conversation())


def test_a_run_has_no_parent_and_its_calls_are_its_children() -> None:
    run, look = links_of(record("r", BEGIN), record("r", TextDelta(0, "")), record("r", starts("c")))
    assert (run.kind, run.parent) == ("run", None)
    assert (look.kind, look.name, look.place, look.parent) == ("call", "look", ("r", ("c",)), run.place)


def test_a_run_inside_a_run_is_of_its_call() -> None:
    links = links_of(
        record("r", BEGIN),
        record("r", starts("c", "ask")),
        record("r", BEGIN, "c"),
        record("r", starts("d"), "c"),
        record("r", BEGIN, "c", "d"),
        record("r", RunStop(), "c"),
        record("r", starts("e")),
    )
    assert [link.kind for link in links] == ["run", "call", "inner", "call", "inner", "call"]
    assert links[2].parent == links[1].place
    assert links[3].parent == links[2].place
    assert links[-1].parent == links[0].place


def test_a_call_that_starts_twice_is_reported_once() -> None:
    assert len(links_of(record("r", starts("c")), record("r", starts("c")))) == 1
    assert len(links_of(record("r", starts("c")), record("s", starts("c")))) == 2
    assert len(links_of(record("r", starts("c")), record("r", starts("c"), "d"))) == 2


def test_a_resumed_run_goes_on_from_the_one_that_was_paused() -> None:
    resume = RunResume(Conversation(), resumes="r")
    (link,) = links_of(record("r", RunPause(PauseState("ask", (), ()))), record("s", resume))
    assert (link.kind, link.run_id, link.parent) == ("resumed", "s", ("r", ()))


@given(st.lists(st.tuples(st.sampled_from("rs"), st.sampled_from(["run", "c", "d"])), max_size=20))
def test_parents_come_before_their_children(steps: list[tuple[str, str]]) -> None:
    """Calls nest deeper and deeper, in two runs at once."""
    paths: dict[str, tuple[str, ...]] = {}
    records: list[Record] = [record("r", BEGIN), record("s", BEGIN)]
    for run, step in steps:
        path = paths.get(run, ())
        if step == "run":
            paths[run] = path = (*path, f"c{len(path)}")
            records.append(record(run, starts(path[-1]), *path[:-1]))
            records.append(record(run, BEGIN, *path))
        else:
            records.append(record(run, starts(step), *path))
    told: set[object] = set()
    seen = through(records, lineage())
    for link in seen:
        assert link.parent is None or link.parent in told
        told.add(link.place)


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


async def links_in(*runs: Run) -> list[Link]:
    return await merge_runs(runs).pipe(lineage(), ops.to_list())


async def test_a_worker_within_a_worker_is_known() -> None:
    inner = Worker(ScriptedModel([call("look", where="here"), "Nothing."]), tools=[look])
    ask = worker_tool(inner, name="ask", description="Ask somebody.")
    outer = Worker(ScriptedModel([call("ask", task="Look."), "Nothing."]), tools=[ask])
    links = await links_in(outer.run("?"))
    assert [(link.kind, link.name, len(link.path)) for link in links] == [
        ("run", "", 0),
        ("call", "ask", 1),
        ("inner", "", 1),
        ("call", "look", 2),
    ]
    assert links[3].parent == links[2].place == links[1].place


@before_tool_call
def ask_first(context: ToolCallContext) -> Pause:
    return Pause("a person has to agree")


@pytest.mark.parametrize("denied", [False, True])
async def test_a_run_that_a_person_let_go_on_is_known(denied: bool) -> None:
    model = ScriptedModel([call("look", where="here"), "Nothing."])
    worker = Worker(model, tools=[look], hooks=[ask_first])
    first = worker.run("?")
    paused = await pause_of(first)
    decisions = {paused.pending[0].id: Deny()} if denied else None
    second = worker.resume(paused, decisions=decisions)
    links = await links_in(first, second)
    assert ("resumed", second.id, (first.id, ())) in [(x.kind, x.run_id, x.parent) for x in links]
