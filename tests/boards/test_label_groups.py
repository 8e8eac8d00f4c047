"""Panels that group by a label of the run: of sessions, after a pause, from a log, and on a server with users."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Run, Session, Worker, tool, worker_tool
from rxworker.boards import Dashboard, fold_log, log_records, panel
from rxworker.boards.panel import LabelGroup
from rxworker.errors import ConfigurationError
from rxworker.events import Fork, Record, RunResume, RunStart, RunStop, ToolStart, TurnStart
from rxworker.log import MemoryLog, fork_run
from rxworker.messages import Conversation, ToolCall
from rxworker.operators import merge_runs
from rxworker.panels import conversation_of, count, hour_of, label_of, tool_of, worker_of
from rxworker.testing import ScriptedModel, call
from rxworker.turn.arguments import LONGEST_LABEL, MAX_LABELS
from rxworker.ui.web import WebRequest, WebServer
from rxworker.ui.web.runs.entry import without_labels
from rxworker.worker import submit

BOARD = Dashboard(
    [
        panel("Runs", count(RunStop), view="bar", group=label_of("tenant")),
        panel("Calls", count(ToolStart), view="bar", group=label_of("tenant", default="none")),
    ],
    title="Tenants",
)


@tool(requires_approval=True)
def look(where: str) -> str:
    """Look."""
    return where


async def first_of(run: Run[object]) -> Any:
    record: Record = await run.pipe(ops.first())
    return record.event


async def test_runs_are_grouped_by_the_label_of_their_session_or_worker() -> None:
    shared = Worker(ScriptedModel(["Hi."] * 4), labels={"tenant": "globex"})
    runs = [Session(shared, labels={"tenant": "acme"}).run("Hello") for _ in range(2)]
    runs += [Session(shared).run("Hello"), Worker(ScriptedModel(["Hi."])).run("Hello")]
    records = await merge_runs(runs).pipe(ops.to_list())
    assert BOARD.at(records)[0].value == {"acme": 2, "globex": 1}
    # A panel that is computed anew knows no run that another one has seen the beginning of.
    assert BOARD.at([each for each in records if not isinstance(each.event, RunStart)])[0].value is None


async def test_a_resumed_run_has_the_labels_of_the_paused_one(log: MemoryLog) -> None:
    replies = [call("look", where="here"), "Done."]
    worker = Worker(ScriptedModel(replies), tools=[look], labels={"tenant": "acme"}, log=log)
    paused = worker.run("Hello")
    await paused
    # In another process, whose worker has other labels.
    other = Worker(ScriptedModel(replies[1:]), tools=[look], labels={"tenant": "x"}, log=log)
    session = Session(other, labels={"tenant": "y", "openai": "its request"})
    resumed = await session.decide(paused.id, None).started()
    await resumed
    # What is not in records belongs to the next run of a session, such as the request of its client.
    stored = await log.existing(resumed.id)
    assert stored.row.labels == {"tenant": "acme", "openai": "its request"}
    first = await first_of(resumed)
    assert isinstance(first, RunResume)
    assert first.labels == {"tenant": "acme"}
    runs, calls = await fold_log(BOARD, log)
    assert (runs.value, calls.value) == ({"acme": 1}, {"acme": 1})
    session = Session(Worker(ScriptedModel(replies), tools=[look]), labels={"tenant": "acme"})
    result: Any = await session.run("Hello")
    assert (await first_of(session.resume(result))).labels["tenant"] == "acme"


async def test_a_fork_counts_for_the_tenant_of_its_source_or_its_own(log: MemoryLog) -> None:
    worker = Worker(ScriptedModel(["Hi."] * 3), labels={"tenant": "acme"}, log=log)
    run = worker.run("Hello")
    await run
    await worker.recover(await fork_run(log, run.id, 1))
    labels = {"tenant": "globex", "conversation": "c-1"}
    other = await fork_run(log, run.id, 1, labels=labels)
    await worker.recover(other)
    assert (await fold_log(BOARD, log))[0].value == {"acme": 2, "globex": 1}
    board = BOARD.show(log_records(log))
    shown = board.changes.pipe(ops.filter(lambda _: board.states[0].value is not None))
    await shown.pipe(ops.first())
    assert board.states[0].value == {"acme": 2, "globex": 1}
    records = await log.records(other).pipe(ops.to_list())
    assert [each.event.labels for each in records if isinstance(each.event, Fork)] == [labels]


@pytest.mark.parametrize("labels", [{}, {"conversation": "c-1"}])
@pytest.mark.parametrize("is_logged", [False, True])
async def test_the_runs_of_a_session_are_of_one_conversation(labels: dict[str, str], *, is_logged: bool) -> None:
    board = Dashboard([panel("Runs", count(RunStop), view="bar", group=conversation_of)])
    async with MemoryLog() as log:
        replies = [call("look", where="here"), "Done.", "Hi.", "Hi."]
        worker = Worker(ScriptedModel(replies), tools=[look], log=log if is_logged else None)
        session = Session(worker, labels=labels)
        runs = [session.run("Hello")]
        paused: Any = await runs[0]
        runs += [session.resume(paused)]
        await runs[1]
        runs += [session.run("Hello"), Session(worker).run("Hello")]
        records = await merge_runs(runs).pipe(ops.to_list())
        for shown in (
            records,
            [without_labels(each) if isinstance(each.event, RunResume) else each for each in records],
        ):
            value: Any = board.at(shown)[0].value
            assert [*value.values()] == [2, 1]
            assert ("c-1" in value) is bool(labels)
        if is_logged:
            assert (await fold_log(board, log))[0].value == value


async def test_a_nested_run_counts_for_the_tenant_of_its_outer_run() -> None:
    inner = Worker(ScriptedModel(["In."]), labels={"tenant": "inner"})
    nested = worker_tool(inner, name="ask", description="Ask.")
    outer = Worker(ScriptedModel([call("ask", task="?"), "Out."]), tools=[nested])
    run = Session(outer, labels={"tenant": "acme"}).run("Hello")
    records = await run.pipe(ops.to_list())
    inner_labels = [each.event.labels for each in records if each.path and isinstance(each.event, RunStart)]
    assert inner_labels == [{"tenant": "inner"}]
    assert [state.value for state in BOARD.at(records)] == [{"acme": 1}, {"acme": 1}]


async def test_a_queued_run_has_its_tenant_in_its_first_record(log: MemoryLog) -> None:
    run = await submit(log, "Hello", kind="clerk", tenant="acme", labels={"desk": "1"})
    first: Any = await log.records(run).pipe(ops.first())
    assert first.event.labels == {"tenant": "acme", "desk": "1"}


async def test_records_have_the_user_of_a_server_and_nothing_that_the_server_notes() -> None:
    def user(request: WebRequest) -> str:
        return request.headers.get("X-User", "")

    def make(request: WebRequest) -> Worker:
        return Worker(ScriptedModel(["Hi."]), labels={"tenant": user(request).partition("/")[0]})

    async with (
        MemoryLog() as log,
        WebServer(make, port=0, user=user, log=log) as server,
        aiohttp.ClientSession(headers={"X-User": "acme/ann"}) as http,
    ):
        async with http.post(f"{server.url}api/runs", json={"input": "Hello"}) as response:
            run = (await response.json())["id"]
        first: Any = await log.records(run).pipe(ops.first())
        assert first.event.labels.keys() == {"tenant", "user", "conversation"}
        assert (await log.existing(run)).row.labels == first.event.labels


def test_a_group_keeps_the_newest_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LabelGroup.__call__.__globals__, "MAX_RUNS", 2)
    group = LabelGroup("tenant", None)

    def record(run: str, event: Any) -> Record:
        return Record(1, run, 0, 0, 0.0, event)

    for run in ("a", "b", "c"):
        assert group(record(run, RunStart(Conversation(), labels={"tenant": run}))) == run
    assert [group(record(run, RunStop())) for run in ("a", "b", "c")] == [None, "b", "c"]


def entry(run: str, event: Any, time: float = 0.0) -> Record:
    return Record(1, run, 0, 0, time, event)


async def test_a_run_and_those_inside_it_are_grouped_by_the_worker_of_the_run() -> None:
    def calls() -> ScriptedModel:
        return ScriptedModel([call("ask", task="?"), "Out."])

    nested = worker_tool(Worker(ScriptedModel(["In."] * 3), name="poet"), name="ask", description="Ask.")
    runs = [Worker(calls(), tools=[nested], name=name).run("Hello") for name in ("clerk", "desk")]
    records = await merge_runs(runs).pipe(ops.to_list())
    shown = panel("Turns", count(TurnStart, nested=True), view="bar", group=worker_of)
    assert Dashboard([shown]).at(records)[0].value == {"clerk": 3, "desk": 3}


TWO = [
    entry("a", RunStart(Conversation(), labels={"tenant": "acme"})),
    entry("b", RunStart(Conversation(), labels={"tenant": "globex · EU"})),
    entry("c", RunStart(Conversation())),
    *[entry(run, RunStop(), time) for run, time in (("a", 10.0), ("b", 3599.0), ("b", 3600.0), ("c", 9000.0))],
]
FIRST, SECOND = "1970-01-01T00:00Z/PT1H", "1970-01-01T01:00Z/PT1H"


def test_a_record_of_two_groups_has_both_names_and_without_one_of_them_none() -> None:
    shown = panel("Ends", count(RunStop), view="bar", group=(label_of("tenant"), hour_of))
    state = Dashboard([shown]).at(TWO)[0]
    assert state.value == {f"acme · {FIRST}": 1, f"globex EU · {FIRST}": 1, f"globex EU · {SECOND}": 1}


def test_a_label_is_known_where_another_group_has_few_records() -> None:
    start = ToolStart(ToolCall("1", "look", {}))
    shown = panel("Calls", count(ToolStart), view="bar", group=(tool_of, label_of("tenant")))
    assert Dashboard([shown]).at([*TWO[:3], entry("a", start, 1.0)])[0].value == {"look · acme": 1}


def test_a_table_of_two_groups_has_a_column_for_each() -> None:
    def pipeline(records: Observable[Record]) -> Observable[dict[str, int]]:
        return records.pipe(count(RunStop), ops.map(lambda number: {"ends": number}))

    def any_name(_: Record) -> str:
        return "x"

    group = (label_of("tenant"), hour_of, any_name, any_name)
    rows = Dashboard([panel("Ends", pipeline, view="table", group=group)]).at(TWO)[0].value
    assert rows == [
        {"tenant": tenant, "hour": hour, "any_name": "x", "any_name_3": "x", "ends": 1}
        for tenant, hour in (("acme", FIRST), ("globex EU", FIRST), ("globex EU", SECOND))
    ]


def test_long_names_of_two_groups_leave_room_for_each_other() -> None:
    def first(_: Record) -> str:
        return "a" * 300

    def second(record: Record) -> str:
        return record.run_id

    found: Any = Dashboard([panel("P", count(RunStop), view="bar", group=(first, second))]).at(TWO[-1:])[0].value
    assert [name.endswith("a · c") for name in found] == [True]


@pytest.mark.parametrize("group", [(), (hour_of, "tenant"), (3,)])
def test_what_is_not_a_tuple_of_groups_is_refused(group: Any) -> None:
    with pytest.raises(ConfigurationError, match="give a function of a record"):
        panel("P", count(RunStop), group=group)


@pytest.mark.parametrize(
    "labels",
    [
        {"tenant": "a" * (LONGEST_LABEL + 1)},
        {"a" * (LONGEST_LABEL + 1): "tenant"},
        {f"label {number}": "" for number in range(MAX_LABELS + 1)},
    ],
)
def test_labels_are_few_and_short(labels: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=f"of {MAX_LABELS}|of {LONGEST_LABEL}"):
        Worker(ScriptedModel([]), labels=labels)
    Worker(ScriptedModel([]), labels=dict([*labels.items()][1:]))
