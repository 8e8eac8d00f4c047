"""``rxworker runs send | cancel | decide | requeue | prune``, on runs in a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import pytest

from rxworker import Deny, Run, Worker, tool, worker_tool
from rxworker.cli import main
from rxworker.errors import ConfigurationError
from rxworker.log import EventLog, RunInfo, SQLiteLog
from rxworker.testing import ScriptedModel, call, say
from rxworker.tools import ToolContext
from rxworker.worker import submit, work
from tests.log.victim import ByTurn

Rxworker = Callable[..., str]
PAID: list[int] = []


@tool(requires_approval=True)
def pay(euros: int) -> str:
    """Pay."""
    PAID.append(euros)
    return f"paid {euros}"


def make_worker(_: RunInfo | None = None) -> Worker:
    return Worker(ScriptedModel([call("pay", euros=3), say("Done.")]), tools=[pay])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    PAID.clear()
    return tmp_path / "runs.db"


@pytest.fixture
def rxworker(path: Path, capsys: pytest.CaptureFixture[str]) -> Rxworker:
    """Runs ``rxworker runs`` on the file; returns what it prints."""

    def run(*args: str, code: int = 0) -> str:
        assert main(["runs", "--log", f"sqlite:{path}", *args]) == code, capsys.readouterr()
        done = capsys.readouterr()
        return (done.err if code else done.out).strip()

    return run


def stored(path: Path, *statuses: str) -> list[str]:
    """Runs of these statuses."""

    async def one(log: EventLog, status: str) -> str:
        if status == "queued":
            return await submit(log, "Go")
        worker = make_worker()
        worker.log = log
        if status == "finished":
            worker.model = ScriptedModel([say("Done.")])
        run = worker.run("Go")
        if status == "aborted":
            await run.cancel()
        elif status == "cut-off":
            await run.hand_over()
        else:
            await run
        return run.id

    async def main() -> list[str]:
        async with SQLiteLog(path) as log:
            return [await one(log, status) for status in statuses]

    return asyncio.run(main())


def worked(
    path: Path,
    *runs: str,
    make: Callable[[RunInfo], Worker] | None = None,
    ends: Collection[str] = ("finished", "aborted"),
) -> None:
    """Let a process of the queue work until these runs have ended."""

    def usual(_: RunInfo) -> Worker:
        return Worker(ScriptedModel([say("Done.")]), tools=[pay])

    async def main() -> None:
        async with SQLiteLog(path) as log, asyncio.timeout(60):
            task = asyncio.create_task(work(log, make or usual))
            async for _ in log.changes(every=0.0):
                infos = [await log.info(run) for run in runs]
                if all(info and info.status in ends for info in infos):
                    break
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_a_run_that_waits_for_approval_is_decided_about(rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, "paused")
    assert "call_1_1: pay(euros=3)" in rxworker("decide", run, code=2)
    assert rxworker("decide", run, "--approve", "call_1_1") == f"{run}~2"
    assert PAID == []
    worked(path, f"{run}~2")
    assert PAID == [3]
    assert "already" in rxworker("decide", run, "--deny", "call_1_1", code=1)
    assert "resumed" in rxworker("list", "--status", "resumed")
    assert f"(as {run}~2)" in rxworker("list", "--status", "resumed")
    assert rxworker("list", "--status", "paused") == "no runs"


def with_a_clerk(_: object = None) -> Worker:
    """A worker whose clerk waits for an approval in the background, beside an order that another program delivers."""

    @tool(background=True)
    async def order(context: ToolContext) -> str:
        context.later()

    inner = Worker(ByTurn([call("pay", euros=5), say("Paid.")]), tools=[pay])
    asks = worker_tool(inner, name="clerk", description="Pay.", background=True)
    replies = [call("clerk", task="?") + call("order"), *[say("Done.")] * 4]
    return Worker(ByTurn(replies), tools=[asks, order])


def with_what_waits(path: Path, leave: Callable[[Run[object]], Awaitable[object]]) -> str:
    async def main() -> str:
        async with SQLiteLog(path) as log:
            worker = with_a_clerk()
            worker.log = log
            run = worker.run("Go")
            async for _ in run:
                if run.state.waiting is not None:
                    break
            await leave(run)
            return run.id

    return asyncio.run(main())


def test_what_waits_in_the_background_of_a_run_that_goes_on_is_decided_about(rxworker: Rxworker, path: Path) -> None:
    run = with_what_waits(path, lambda run: run.hand_over(seconds=0.0))
    assert "clerk" in rxworker("decide", run, code=2)
    assert rxworker("decide", run, "--approve", "call_1_1/call_1_1") == run
    assert "already" in rxworker("decide", run, "--deny", "call_1_1/call_1_1", code=1)
    rxworker("deliver", run, "call_1_2", "--text", "a parcel")
    worked(path, run, make=with_a_clerk)
    assert PAID == [5]


def test_a_run_that_is_paused_for_something_else_goes_on_while_its_background_waits(
    rxworker: Rxworker, path: Path
) -> None:
    async def pause(run: Run[object]) -> None:
        run.pause(reason="A break.")
        await run

    run = with_what_waits(path, pause)
    rxworker("deliver", run, "call_1_2", "--text", "a parcel")
    rxworker("decide", run, "--continue")
    worked(path, f"{run}~2", make=with_a_clerk, ends=("paused",))
    assert "--approve ID" in rxworker("decide", f"{run}~2", "--continue", code=2)
    assert PAID == []


def test_a_denial_has_its_reason(rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, "paused")
    rxworker("decide", run, "--deny", "call_1_1", "--reason", "too dear")
    worked(path, f"{run}~2")
    assert PAID == []
    assert "too dear" in rxworker("show", f"{run}~2")


CANCELLED = {
    "queued": "is cancelled",
    "paused": "is cancelled",
    "cut-off": "the next one, ends it",
    "finished": "has ended (finished)",
    "aborted": "has ended (aborted)",
}


@pytest.mark.parametrize("status", CANCELLED)
def test_a_run_of_each_status_is_cancelled(status: str, rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, status)
    code = 1 if status in ("finished", "aborted") else 0
    assert CANCELLED[status] in rxworker("cancel", run, "--reason", "a mistake", code=code)
    if status == "cut-off":
        worked(path, run)
    if not code:
        assert "a mistake" in rxworker("show", run) or status == "paused"
        assert run in rxworker("list", "--status", "cancelled")
        assert run in rxworker("list", "--status", "aborted")
        assert rxworker("list", "--status", "failed") == "no runs"
    assert PAID == []


SENT = {"queued": 0, "cut-off": 0, "paused": 0, "finished": 1, "aborted": 1}


@pytest.mark.parametrize("status", SENT)
def test_a_message_is_sent_to_a_run_that_reads_it(status: str, rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, status)
    answer = rxworker("send", run, "And be brief.", code=SENT[status])
    if SENT[status]:
        assert "has ended" in answer
        return
    if status == "paused":
        rxworker("decide", run, "--deny", "call_1_1")
        run = f"{run}~2"
    worked(path, run)
    assert "user: And be brief." in rxworker("show", run)


def test_a_message_that_waits_is_replaced_and_withdrawn(rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, "queued")
    first, second = (rxworker("send", run, text).strip().rpartition(" ")[2] for text in ("one", "two"))
    assert rxworker("send", run, "ONE", "--replaces", first, "--when", "end").strip().endswith(first)
    rxworker("withdraw", run, second)
    rxworker("send", run, "three", "--when", "soon", code=2)
    worked(path, run)
    shown = rxworker("show", run)
    assert "user: ONE" in shown
    assert "user: one" not in shown
    assert "user: two" not in shown


def test_a_result_is_delivered_to_a_run_that_sleeps(rxworker: Rxworker, path: Path) -> None:
    @tool(at_end="wake")
    async def order(context: ToolContext) -> str:
        context.later()

    def make(_: RunInfo | None = None) -> Worker:
        return Worker(ByTurn([call("order"), say("It is ordered."), say("It is here.")]), tools=[order])

    async def begin() -> str:
        async with SQLiteLog(path) as log:
            worker = make()
            worker.log = log
            return (await worker.run("Go")).run_id

    run = asyncio.run(begin())
    assert "background: order() as call_1_1, waits for a delivery" in rxworker("show", run)
    assert "--text" in rxworker("deliver", run, "call_1_1", code=2)
    assert "--json" in rxworker("deliver", run, "call_1_1", "--json", "{", code=2)
    kept = rxworker("deliver", run, "call_1_7", "--text", "b")
    assert kept.startswith(f"kept for {run}, which is paused, until a call call_1_7 goes into the background; ")
    assert kept.strip().endswith("the run has call_1_1 there now")
    assert rxworker("deliver", run, "call_1_1", "--json", '{"a": 1}').startswith(f"delivered to {run}, which is paused")
    assert "has a command" in rxworker("deliver", run, "call_1_1", "--text", "b", code=1)
    worked(path, f"{run}~2", make=make)
    assert '{"a":1}' in rxworker("show", f"{run}~2")


def test_a_run_that_waits_is_listed_given_a_signal_and_woken(rxworker: Rxworker, path: Path) -> None:
    @tool(effect="idempotent")
    async def ship(context: ToolContext) -> str:
        return f"{await context.until(signal='paid')}, {await context.until(3600.0)}"

    async def begin() -> str:
        async with SQLiteLog(path) as log:
            return (await Worker(ScriptedModel([call("ship")]), tools=[ship], log=log).run("Go")).run_id

    def make(_: RunInfo) -> Worker:
        return Worker(ScriptedModel([say("Done.")]), tools=[ship])

    run = asyncio.run(begin())
    assert "waiting" in rxworker("list", "--status", "waiting")
    assert "(ship waits for the signal paid) Go" in rxworker("list")
    assert rxworker("signal", run, "paid", '{"euros": 3}') == f"{run} has the signal paid"
    worked(path, f"{run}~2", make=make, ends=("paused",))
    rxworker("wake", f"{run}~2")
    assert "the first one counts" in rxworker("wake", f"{run}~2", code=1)
    worked(path, f"{run}~3", make=make)
    assert "{'euros': 3}, None" in rxworker("show", f"{run}~3")


def test_a_run_that_was_resumed_is_cancelled_where_it_goes_on(rxworker: Rxworker, path: Path) -> None:
    async def resume(run_id: str) -> None:
        async with SQLiteLog(path) as log:
            worker = Worker(ScriptedModel([say("Done.")]), tools=[pay], log=log)
            await worker.decide(run_id, {"call_1_1": Deny()}).hand_over()

    (run,) = stored(path, "paused")
    asyncio.run(resume(run))
    assert rxworker("cancel", run).startswith(f"{run}~2 is cut-off")
    worked(path, f"{run}~2")
    assert "cancelled" in rxworker("list", "--status", "aborted")


def test_a_run_whose_decision_waits_is_cancelled(rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, "paused")
    rxworker("decide", run, "--approve", "call_1_1")
    assert "ends it" in rxworker("cancel", run, "--reason", "a mistake")
    worked(path, f"{run}~2")
    assert f"{run}~2" in rxworker("list", "--status", "aborted")
    assert PAID == []


@pytest.mark.parametrize("status", ["queued", "cut-off", "finished", "aborted"])
def test_a_run_that_is_not_paused_is_not_decided_about(status: str, rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, status)
    error = rxworker("decide", run, "--approve", "call_1_1", code=1)
    assert f"{run} is {status.replace('aborted', 'cancelled')}, not paused" in error


def test_a_decision_is_made_once_and_for_a_call_that_waits(rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, "paused")
    assert "--approve ID" in rxworker("decide", run, "--continue", code=2)
    rxworker("decide", run, "--deny", "call_1_1")
    assert "was decided about already" in rxworker("decide", run, "--approve", "call_1_1", code=1)
    worked(path, f"{run}~2")
    error = rxworker("decide", run, "--approve", "call_1_1", code=1)
    assert f"was decided about already, and goes on as {run}~2" in error


def test_an_empty_message_is_not_sent(rxworker: Rxworker, path: Path) -> None:
    (run,) = stored(path, "queued")
    assert "empty" in rxworker("send", run, " ", code=2)


def test_an_aborted_run_is_put_back(rxworker: Rxworker, path: Path) -> None:
    aborted, finished = stored(path, "aborted", "finished")
    assert rxworker("requeue", aborted).startswith(f"{aborted} is queued for a process")
    assert "finished" in rxworker("requeue", finished, code=1)

    async def lacking() -> None:
        async with SQLiteLog(path) as log:
            with pytest.raises(ConfigurationError, match="lacks pay"):
                await Worker(ScriptedModel([]), log=log).recover(aborted)

    asyncio.run(lacking())
    assert f"({aborted} cannot be continued by a worker that lacks pay" in rxworker("list")
    worked(path, aborted)
    assert "lacks" not in rxworker("list")
    assert aborted in rxworker("list", "--status", "finished")


def test_a_run_is_annotated_with_json_or_a_text(rxworker: Rxworker, path: Path) -> None:
    finished, queued = stored(path, "finished", "queued")
    assert rxworker("annotate", finished, "rating", "5") == f"{finished} has a new annotation: rating 5"
    rxworker("annotate", finished, "verdict", "not 5", "--comment", "Why not?", "--by", "anna", "--seq", "1")
    assert "queued" in rxworker("annotate", queued, "rating", "5", code=1)
    assert "records 1 to" in rxworker("annotate", finished, "rating", "5", "--seq", "99", code=1)
    assert 'annotation by anna: verdict "not 5" Why not?' in rxworker("show", finished)
    lines = [json.loads(line) for line in rxworker("replay", finished, "--speed", "0").splitlines()[-2:]]
    assert [line["event"]["data"] for line in lines] == [
        {"name": "rating", "value": 5},
        {"name": "verdict", "value": "not 5", "comment": "Why not?", "by": "anna", "seq": 1},
    ]


def test_a_moment_is_noted(rxworker: Rxworker, path: Path) -> None:
    stored(path, "finished")
    assert rxworker("mark-time", "deploy 12", "--at", "2026-01-01T00:00:00").endswith("2026-01-01T00:00:00 deploy 12")
    assert "1 to 200" in rxworker("mark-time", " ", code=1)


def test_old_runs_are_deleted(rxworker: Rxworker, path: Path) -> None:
    stored(path, "queued", "finished", "aborted", "paused", "finished")
    assert "give --max-age, --max-runs or --max-bytes" in rxworker("prune", code=2)
    assert rxworker("prune", "--max-age", "30d") == "0 runs deleted"
    assert rxworker("prune", "--max-bytes", "1G") == "0 runs deleted"
    assert rxworker("prune", "--max-runs", "3") == "1 run deleted"
    assert rxworker("prune", "--max-age", "0s") == "2 runs deleted"
    assert len(rxworker("list").splitlines()) == 2
    for option, value in (("--max-age", "soon"), ("--max-runs", "-1"), ("--max-bytes", "1Z")):
        assert option in rxworker("prune", f"{option}={value}", code=2)
    assert "such as 30d" in rxworker("prune", "--max-age=soon", code=2)
    assert "such as 5G" in rxworker("prune", "--max-bytes=1Z", code=2)


@pytest.mark.parametrize("action", ["send", "withdraw", "deliver", "cancel", "decide", "requeue", "annotate"])
def test_a_run_that_is_not_there_is_named(action: str, rxworker: Rxworker, path: Path) -> None:
    stored(path, "finished")
    more = {
        "send": ["Hi"],
        "withdraw": ["a"],
        "deliver": ["a", "--text", "b"],
        "decide": ["--deny", "x"],
        "annotate": ["rating", "1"],
    }.get(action, [])
    assert "no run 'run-9'" in rxworker(action, "run-9", *more, code=1)
