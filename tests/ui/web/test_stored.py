"""Servers over one log: each shows and steers the runs of the other, and continues them when it has ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rxworker import Worker, before_tool_call, tool, worker_tool
from rxworker.errors import (
    ConfigurationError,
    LeaseHeldError,
    LogError,
    RunCancelledError,
    RunHandedOverError,
    RunStatusError,
    RxWorkerError,
)
from rxworker.hooks import Pause, ToolCallContext
from rxworker.log import EventLog, MemoryLog, RunInfo, SQLiteLog, dismiss_run, permissions
from rxworker.log.values import RunRow
from rxworker.messages import Message
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, fail, say, stall
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.http.responses import ApiError
from rxworker.ui.web.runs.entry import ConversationEntry
from rxworker.ui.web.runs.store import RunStore
from rxworker.worker import QueuedWorker, work

from .conftest import Body, read_frames


@before_tool_call(name="permit", matcher="delete")
def permit(context: ToolCallContext) -> Pause:
    return Pause("Deleting cannot be undone.")


LEASE = 1.0
"""Longer than a process of a busy machine may stand still."""


cables = {"out": False}
"""Whether the model fails."""


class Site:
    """A server of a process of its own, as far as the log knows, and a client of it."""

    def __init__(self, log: EventLog, gate: asyncio.Event, settings: Settings, *, queues: bool = False) -> None:
        self.log = log
        self.deleted: list[str] = []
        self._gate = gate
        self.http = aiohttp.ClientSession(trust_env=False)
        make = (lambda: QueuedWorker("worker")) if queues else self.worker
        self.server = WebServer(make, port=0, settings=settings, log=log)

    def worker(self) -> Worker:
        """A worker of this process."""

        @tool(effect="idempotent")
        async def wait() -> str:
            """Wait for the test."""
            await self._gate.wait()
            return "waited"

        @tool
        async def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"deleted {path}"

        inner = Worker(ScriptedModel(answer), tools=[delete], hooks=[permit])
        asks = worker_tool(inner, name="asks", description="Ask.")
        return Worker(ScriptedModel(answer), tools=[wait, delete, asks], hooks=[permit])

    async def post(self, path: str, body: object) -> tuple[int, Any]:
        async with self.http.post(self.server.url + path, json=body) as response:
            return response.status, json.loads(await response.read())

    async def get(self, path: str) -> Any:
        async with self.http.get(self.server.url + path) as response:
            return json.loads(await response.read())

    async def begin(self, text: str, **more: str) -> Body:
        status, run = await self.post("api/runs", {"input": text, **more})
        assert status == 201, run
        return run

    async def frames(self, run_id: str, after: int = 0) -> list[dict[str, str]]:
        url = f"{self.server.url}api/runs/{run_id}/events"
        async with self.http.get(url, headers={"Last-Event-ID": str(after)}) as response:
            assert response.status == 200, await response.text()
            return read_frames(await response.text())

    async def listed(self, run_id: str) -> Body:
        """The run, when the server lists it."""
        async with asyncio.timeout(60):
            while True:
                for each in (await self.get("api/runs"))["runs"]:
                    if each["id"] == run_id:
                        return each
                await asyncio.sleep(0.01)


APPROVE = {"type": "approve"}
FAILING = "The cable is out."


def answer(request: Request) -> Reply:
    """What the model says depends on the conversation alone."""
    messages = request.conversation.messages
    last = messages[-1]
    if FAILING in last.text and cables["out"]:
        return fail("no cable", "bad_request")
    if last.tool_results:
        return say(f"So it is: {last.tool_results[-1].text}.")
    if "wait" in last.text:
        return say("I wait. ") + call("wait")
    if "asks" in last.text:
        return call("asks", task="delete it")
    if "delete" in last.text:
        return call("delete", path="a")
    return say(f"Message {len(messages)}: {last.text}")


class Sites:
    """Opens servers over one file."""

    def __init__(self, stack: AsyncExitStack, file: Path) -> None:
        self.gate = asyncio.Event()
        self._stack = stack
        self._file = file

    async def open(self, settings: Settings | None = None, *, queues: bool = False) -> tuple[Site, AsyncExitStack]:
        stack = await self._stack.enter_async_context(AsyncExitStack())
        log = await stack.enter_async_context(SQLiteLog(self._file, lease=LEASE))
        site = Site(log, self.gate, settings or Settings(), queues=queues)
        await stack.enter_async_context(site.http)
        await stack.enter_async_context(site.server)
        return site, stack


@pytest.fixture
async def sites(tmp_path: Path) -> AsyncGenerator[Sites, None]:
    async with AsyncExitStack() as stack:
        yield Sites(stack, tmp_path / "runs.db")


async def until_it(site: Site, run_id: str, is_so: Callable[[RunRow], bool]) -> None:
    """Wait for a change of a run in the log."""
    async with asyncio.timeout(60), aclosing(site.log.changes(every=0.0)) as changes:
        async for infos in changes:
            if any(info.run_id == run_id and is_so(info.row) for info in infos):
                return


async def until_closing(site: Site) -> None:
    with suppress(ApiError):
        while True:
            site.server.state.store.check_room(None)
            await asyncio.sleep(0.001)


def numbers_of(frames: list[dict[str, str]]) -> list[int]:
    return [int(frame["id"]) for frame in frames if "id" in frame]


def is_gapless(frames: list[dict[str, str]], first: int = 1) -> bool:
    """Whether each number comes once: a merged delta has the number of its last."""
    records = [json.loads(frame["data"]) for frame in frames if "id" in frame]
    before = first - 1
    for record in records:
        if record["seq"] - record.get("covers", 1) != before:
            return False
        before = record["seq"]
    return True


async def test_a_run_is_watched_and_listed_by_both_servers(sites: Sites) -> None:
    one, _ = await sites.open()
    two, _ = await sites.open()
    run = await one.begin("Please wait.")
    assert (await two.listed(run["id"]))["status"] == "running"
    watching = asyncio.gather(one.frames(run["id"]), two.frames(run["id"]))
    sites.gate.set()
    first, second = await watching
    assert numbers_of(first)[-1] == numbers_of(second)[-1]
    assert is_gapless(first)
    assert is_gapless(second)
    assert json.loads(second[-1]["data"])["status"] == "finished"
    seen = await two.get(f"api/runs/{run['id']}")
    assert (seen["status"], seen["title"], seen["conversation"]) == ("finished", "Please wait.", run["conversation"])


async def test_the_other_server_sends_and_cancels(sites: Sites) -> None:
    one, _ = await sites.open()
    two, _ = await sites.open()
    run = (await one.begin("Please wait."))["id"]
    status, _ = await two.post(f"api/runs/{run}/send", {"message": "One more thing."})
    assert status == 200
    status, told = await two.post(f"api/runs/{run}/cancel", {"reason": "lunch"})
    assert (status, told["status"], told["cause"]) == (200, "aborted", "cancel")
    assert "lunch" in told["reason"]
    status, told = await one.post(f"api/runs/{run}/send", {"message": "Too late."})
    assert (status, told["error"]["code"]) == (409, "conflict")


async def test_a_paused_run_is_decided_about_once_by_either(sites: Sites) -> None:
    one, _ = await sites.open()
    two, _ = await sites.open()
    run = (await one.begin("delete it"))["id"]
    await one.frames(run)
    seen = await two.get(f"api/runs/{run}")
    [pending] = seen["pause"]["pending"]
    body = {"decisions": {pending["id"]: {"type": "approve", "input": {"path": "b"}}}}
    status, resumed = await two.post(f"api/runs/{run}/resume", body)
    assert (status, resumed["resumes"], resumed["conversation"]) == (201, run, seen["conversation"])
    status, told = await one.post(f"api/runs/{run}/resume", body)
    assert (status, told["error"]["code"]) == (409, "conflict")
    frames = await one.frames(resumed["id"])
    assert any("deleted b" in f.get("data", "") for f in frames)
    assert (one.deleted, two.deleted) == ([], ["b"])


async def test_of_several_decisions_at_once_one_counts(sites: Sites) -> None:
    site, _ = await sites.open()
    run = (await site.begin("delete it"))["id"]
    await site.frames(run)
    body = {"decisions": {(await paused_at_delete(site, run))["pause"]["paused_at"]: APPROVE}}
    path = f"api/runs/{run}/resume"
    answers = await asyncio.gather(*[site.post(path, body) for _ in range(3)])
    first, *others = sorted(answers, key=lambda answer: answer[0])
    assert first[0] == 201
    for status, told in others:
        assert (status, told["error"]["code"]) == (409, "conflict")
        assert f"{run} was resumed already" in told["error"]["message"]
    await site.frames(first[1]["id"])
    assert site.deleted == ["a"]


async def test_a_dismissed_run_is_resumed_by_neither(sites: Sites) -> None:
    one, _ = await sites.open()
    two, _ = await sites.open()
    run = (await one.begin("delete it"))["id"]
    await one.frames(run)
    status, told = await two.post(f"api/runs/{run}/cancel", {"reason": "no"})
    assert (status, told["status"], told["pause"]) == (200, "aborted", None)
    status, told = await one.post(f"api/runs/{run}/resume", {"decisions": {}})
    assert (status, told["error"]["code"]) == (409, "not_paused")
    assert (await one.get(f"api/runs/{run}"))["cause"] == "cancel"


async def test_a_conversation_is_continued_by_the_other_server(sites: Sites) -> None:
    one, _ = await sites.open()
    two, _ = await sites.open()
    first = await one.begin("One.")
    await one.frames(first["id"])
    await two.listed(first["id"])
    second = await two.begin("Two.", conversation=first["conversation"])
    assert any("Message 3: Two." in f.get("data", "") for f in await two.frames(second["id"]))
    await one.listed(second["id"])
    third = await one.begin("Three.", conversation=first["conversation"])
    assert any("Message 5: Three." in f.get("data", "") for f in await one.frames(third["id"]))


async def test_a_server_that_closes_hands_over_and_its_clients_continue(sites: Sites) -> None:
    one, closing = await sites.open(Settings(writes_per_second=None))
    instance = (await one.get("api/info"))["instance"]
    run = await one.begin("Please wait.")
    await until_it(one, run["id"], lambda row: row.tool_calls == 1)
    [entry] = one.server.state.runs
    assert entry.here is not None
    closed = asyncio.create_task(closing.aclose())
    await until_closing(one)
    sites.gate.set()
    await closed
    with pytest.raises(RunHandedOverError):
        entry.here.result()
    two, _ = await sites.open()
    assert (await two.get("api/info"))["instance"] == instance
    after = (await two.get(f"api/runs/{run['id']}"))["seq"]
    frames = await two.frames(run["id"])
    assert is_gapless(frames)
    kinds = [json.loads(f["data"])["event"]["type"] for f in frames if "id" in f]
    assert {"hand_over", "run_recover"} <= {*kinds}
    assert kinds[-1] == "run_stop"
    assert after > 0


async def test_a_run_whose_process_has_died_is_recovered_by_the_other_server(sites: Sites) -> None:
    one, _ = await sites.open()
    run = (await one.begin("Please wait."))["id"]
    [entry] = one.server.state.runs
    assert entry.here is not None
    one.log.heartbeat.remove(run)  # it renews the claim no more, as if it had stopped
    two, _ = await sites.open()
    watching = asyncio.create_task(two.frames(run))
    await until_it(two, run, lambda row: row.recoveries == 1)
    sites.gate.set()
    frames = await watching
    assert is_gapless(frames)
    assert json.loads(frames[-1]["data"])["status"] == "finished"
    kinds = [json.loads(f["data"])["event"]["type"] for f in frames if "id" in f]
    assert kinds.count("run_recover") == 1


async def test_a_run_that_was_put_back_goes_on_for_its_watchers(sites: Sites) -> None:
    one, _ = await sites.open()
    run = (await one.begin("Please wait."))["id"]
    await until_it(one, run, lambda row: row.tool_calls == 1)
    await one.post(f"api/runs/{run}/cancel", {})
    assert (await one.get(f"api/runs/{run}"))["status"] == "aborted"
    assert json.loads((await one.frames(run))[-1]["data"])["status"] == "aborted"
    sites.gate.set()
    await one.log.requeue(run)
    await until_it(one, run, lambda row: row.status == "finished")
    frames = await one.frames(run)
    assert is_gapless(frames)
    kinds = [json.loads(f["data"])["event"]["type"] for f in frames if "id" in f]
    assert [kind for kind in kinds if kind.startswith("run_")] == [
        "run_start",
        "run_abort",
        "run_requeue",
        "run_recover",
        "run_stop",
    ]


async def test_a_run_is_annotated_and_both_servers_show_it(sites: Sites) -> None:
    """Its end and its streams remain as they were, and only what is about the run is taken."""
    one, _ = await sites.open()
    two, _ = await sites.open()
    run = (await one.begin("Tell me."))["id"]
    before = await one.frames(run)
    ended = json.loads([frame for frame in before if "id" in frame][-1]["data"])["time"]
    for body, code in (
        ({"name": "rating"}, "bad_request"),
        ({"name": "", "value": 1}, "bad_request"),
        ({"name": "rating", "value": 1, "seq": 10_000}, "no_record"),
        ({"name": "rating", "value": 1, "note": "x"}, "bad_request"),
    ):
        status, told = await two.post(f"api/runs/{run}/annotate", body)
        assert (status, told["error"]["code"]) == (400, code), told
    given = {"name": "rating", "value": "poor", "comment": "The wrong city.", "by": "anna"}
    status, shown = await two.post(f"api/runs/{run}/annotate", given)
    last = numbers_of(before)[-1]
    assert (status, shown["seq"], shown["status"]) == (200, last + 1, "finished")
    await until_it(one, run, lambda row: row.end == last)
    for site in (one, two):
        frames = await site.frames(run, after=last)
        event = json.loads(next(f for f in frames if "id" in f)["data"])["event"]
        assert (event["name"], event["data"]) == ("rxworker.annotation", given)
        assert (await site.get(f"api/runs/{run}"))["ended"] == ended
    waiting = (await one.begin("Please wait."))["id"]
    status, told = await one.post(f"api/runs/{waiting}/annotate", {"name": "rating", "value": 1})
    assert (status, told["error"]["code"]) == (409, "conflict")
    sites.gate.set()


async def test_a_run_is_forked_and_goes_on_in_a_new_conversation(sites: Sites) -> None:
    one, _ = await sites.open()
    assert (await one.get("api/info"))["can_fork"] is True
    run = await one.begin("Tell me.")
    frames = await one.frames(run["id"])
    answered = next(f for f in frames if "ompleted" in f.get("data", ""))
    status, fork = await one.post(f"api/runs/{run['id']}/fork", {"seq": int(answered["id"])})
    assert status == 201, fork
    assert fork["conversation"] != run["conversation"]
    await one.frames(fork["id"])
    assert (await one.get(f"api/runs/{fork['id']}"))["status"] == "finished"
    status, told = await one.post(f"api/runs/{run['id']}/fork", {"seq": 10_000})
    assert (status, told["error"]["code"]) == (400, "no_record")


async def test_a_failed_run_is_put_back_by_the_other_server_and_goes_on_under_its_id(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = await sites.open()
    two, _ = await sites.open()
    monkeypatch.setitem(cables, "out", True)
    run = (await one.begin(FAILING))["id"]
    failed = await one.frames(run)
    seen = await two.get(f"api/runs/{run}")
    assert (seen["status"], seen["cause"], seen["can_requeue"]) == ("aborted", "error", True)
    assert (await two.get("api/fleet"))["rows"][0]["can_requeue"] is True
    monkeypatch.setitem(cables, "out", False)
    for body in ({"Reason": "x"}, {"reason": 1}):  # a misspelt member puts nothing back
        assert (await two.post(f"api/runs/{run}/requeue", body))[0] == 400
    status, back = await two.post(f"api/runs/{run}/requeue", {"reason": "the cable is in"})
    assert (status, back["id"], back["status"], back["can_requeue"]) == (200, run, "running", False)
    await until_it(two, run, lambda row: row.status == "finished")
    for site in (one, two):
        frames = await site.frames(run, after=numbers_of(failed)[-1])
        kinds = [json.loads(f["data"])["event"]["type"] for f in frames if "id" in f]
        assert (kinds[0], kinds[-1]) == ("run_requeue", "run_stop")
        assert (await site.get(f"api/runs/{run}"))["can_requeue"] is False
    status, told = await two.post(f"api/runs/{run}/requeue", {})
    assert (status, told["error"]["code"]) == (409, "conflict")
    assert (await two.post("api/runs/none/requeue", {}))[0] == 404


async def test_a_deleted_run_leaves_the_list(sites: Sites) -> None:
    one, _ = await sites.open()
    run = (await one.begin("Hi"))["id"]
    await one.frames(run)
    await one.log.delete(run)
    async with asyncio.timeout(60):
        while any(entry.id == run for entry in one.server.state.runs):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    async with one.http.get(f"{one.server.url}api/runs/{run}/events") as response:
        assert response.status == 404


async def test_what_was_read_before_a_deletion_does_not_bring_the_run_back(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = await sites.open()
    run = (await one.begin("Hi"))["id"]
    await one.frames(run)
    listed = one.log.listed

    async def late(run_id: str) -> RunInfo | None:
        info = await listed(run_id)
        monkeypatch.undo()
        await one.log.delete(run_id)
        async with asyncio.timeout(60):
            while any(entry.id == run for entry in one.server.state.runs):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return info

    monkeypatch.setattr(one.log, "listed", late)
    async with one.http.get(f"{one.server.url}api/runs/{run}") as response:
        assert response.status == 404
    assert all(entry.id != run for entry in one.server.state.runs)


async def test_users_see_their_own_runs_after_a_restart(tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log, aiohttp.ClientSession() as http:

        def user(request: Any) -> str | None:
            return request.headers.get("X-User")

        for turn in range(2):
            async with WebServer(lambda: Worker(ScriptedModel(answer)), port=0, log=log, user=user) as server:
                headers = {"X-User": "ada"}
                if turn == 0:
                    async with http.post(server.url + "api/runs", json={"input": "Hi"}, headers=headers) as response:
                        assert response.status == 201
                for name, count in (("ada", 1), ("bob", 0)):
                    async with http.get(server.url + "api/runs", headers={"X-User": name}) as response:
                        assert len((await response.json())["runs"]) == count, (turn, name)


async def test_a_run_that_was_put_back_states_which_tool_no_process_has(sites: Sites) -> None:
    desk, _ = await sites.open(queues=True)

    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    run = Worker(ScriptedModel([]), tools=[pay], log=desk.log).run("Hi")
    with pytest.raises(RxWorkerError):
        await run  # it has no answer
    async with asyncio.timeout(60):
        while (await desk.listed(run.id)).get("can_requeue") is not True:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await desk.post(f"api/runs/{run.id}/requeue", {}))[0] == 200
        with pytest.raises(ConfigurationError):
            await Worker(ScriptedModel([]), log=desk.log).recover(run.id)
        while "lacks pay: start one" not in (await desk.listed(run.id))["reason"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_server_without_workers_queues_runs_and_steers_those_of_other_processes(sites: Sites) -> None:
    desk, _ = await sites.open(queues=True)
    run = (await desk.begin("Hello"))["id"]
    async with asyncio.timeout(60):
        while (waiting := await desk.listed(run))["cause"] != "queued":  # noqa: ASYNC110 - the list has no event
            await asyncio.sleep(0.01)
    assert waiting["status"] == "running"
    assert "waits for a process" in waiting["reason"]
    unwanted = (await desk.begin("Never mind"))["id"]
    status, told = await desk.post(f"api/runs/{unwanted}/cancel", {"reason": "a mistake"})
    assert (status, told["status"], told["cause"]) == (200, "aborted", "cancel")

    async with SQLiteLog(desk.log.path, lease=LEASE) as log:  # pyright: ignore
        there = Site(log, sites.gate, Settings())
        working = asyncio.create_task(work(log, lambda _: there.worker()))
        try:
            assert is_gapless(await desk.frames(run))
            told = await desk.get(f"api/runs/{run}")
            assert (told["status"], told["cause"], told["turns"]) == ("finished", "", 1)
            conversation = told["conversation"]
            again = (await desk.begin("delete it", conversation=conversation))["id"]
            await desk.frames(again)
            paused = await desk.get(f"api/runs/{again}")
            assert paused["pause"]["pending"][0]["name"] == "delete"
            decision = {paused["pause"]["pending"][0]["id"]: {"type": "approve"}}
            status, resumed = await desk.post(f"api/runs/{again}/resume", {"decisions": decision})
            assert status == 201, resumed
            await desk.frames(resumed["id"])
            assert there.deleted == ["a"]
            assert (await desk.get(f"api/runs/{resumed['id']}"))["status"] == "finished"
            messages = await desk.get(f"api/chat/{conversation}/messages")
            assert [message["role"] for message in messages] == ["user", "assistant"] * 2
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await there.http.close()


@asynccontextmanager
async def working(site: Site) -> AsyncGenerator[None]:
    """A process that takes queued runs, with the worker of a site."""
    task = asyncio.create_task(work(site.log, lambda _: site.worker()))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("decision", [APPROVE, {"type": "approve", "always": True}])
async def test_a_queued_run_that_resumes_another_one_is_watched_and_cancelled_before_a_process_takes_it(
    sites: Sites, decision: Body
) -> None:
    desk, _ = await sites.open(Settings(heartbeat=0.02), queues=True)
    there, _ = await sites.open()
    begun = await desk.begin("delete it")
    async with working(there):
        paused = await paused_at_delete(desk, begun["id"])
    await there.server.__aexit__(None, None, None)  # which would take it, too
    body = {"decisions": {paused["pause"]["paused_at"]: decision}}
    status, resumed = await desk.post(f"api/runs/{begun['id']}/resume", body)
    assert (status, resumed["status"], resumed["cause"]) == (201, "running", "queued")
    url, removal = f"api/runs/{resumed['id']}", f"api/conversations/{begun['conversation']}/delete"
    assert (await desk.post(removal, {}))[0] == 409
    async with asyncio.timeout(60), desk.http.get(f"{desk.server.url}{url}/events") as response:
        assert response.status == 200
        while not (await response.content.readline()).startswith(b":"):
            pass  # until a comment keeps it alive
        status, told = await desk.post(f"{url}/cancel", {"reason": "a mistake"})
        assert (status, told["status"], told["cause"]) == (200, "aborted", "cancel")
        assert "a mistake" in told["reason"]
        frames = read_frames((await response.read()).decode())
    assert is_gapless(frames)
    assert json.loads(frames[-1]["data"])["status"] == "aborted"
    async with working(there):
        await desk.frames((await desk.begin("Hello"))["id"])
    assert (there.deleted, (await desk.get(url))["status"]) == ([], "aborted")
    assert (await desk.post(removal, {}))[0] == 200


async def test_what_is_always_allowed_is_kept_by_the_log_until_it_is_revoked(sites: Sites) -> None:
    one, stack = await sites.open()
    run = await paused_at_delete(one, (await one.begin("delete"))["id"])
    forget, allowed = (f"api/conversations/{run['conversation']}/disallow", {"tool": "delete", "hook": "permit"})
    resumed = await always(one, run)
    await over(one, resumed["id"])
    two, _ = await sites.open()
    assert (await two.listed(resumed["id"]))["allowed"] == [allowed]
    await stack.aclose()
    again = {"conversation": run["conversation"]}
    after = await two.begin("delete", **again)
    await over(two, after["id"])
    assert (two.deleted, (await two.listed(after["id"]))["status"]) == (["a"], "finished")
    assert await two.post(forget, allowed) == (200, {"allowed": []})
    three, _ = await sites.open()
    assert (await three.listed(after["id"]))["allowed"] == []
    await paused_at_delete(three, (await three.begin("delete", **again))["id"])
    assert three.deleted == []


async def test_a_tool_is_not_always_allowed_if_that_cannot_be_stored(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: EventLog, run_id: str, command: object) -> int:
        raise LogError("the disk is full")

    site, _ = await sites.open()
    run = await paused_at_delete(site, (await site.begin("delete"))["id"])
    monkeypatch.setattr(SQLiteLog, "send", fail)
    decisions = {run["pause"]["paused_at"]: {"type": "approve", "always": True}}
    status, _ = await site.post(f"api/runs/{run['id']}/resume", {"decisions": decisions})
    assert status >= 500
    now = await site.get(f"api/runs/{run['id']}")
    assert (now["status"], now["allowed"], site.deleted) == ("paused", [], [])
    monkeypatch.undo()
    await always(site, run)


async def test_of_two_that_allow_a_call_always_at_once_the_one_that_fails_withdraws_nothing(sites: Sites) -> None:
    site, _ = await sites.open()
    run = await paused_at_delete(site, (await site.begin("delete"))["id"])
    decisions = {run["pause"]["paused_at"]: {"type": "approve", "always": True}}
    resume = f"api/runs/{run['id']}/resume", {"decisions": decisions}
    answers = await asyncio.gather(site.post(*resume), site.post(*resume))
    assert sorted(status for status, _ in answers) == [201, 409]
    [resumed] = [told["id"] for status, told in answers if status == 201]
    await over(site, resumed)
    assert [each["tool"] for each in (await site.listed(resumed))["allowed"]] == ["delete"]


async def test_a_tool_is_allowed_and_revoked_while_other_processes_run_the_conversation(sites: Sites) -> None:
    desk, _ = await sites.open(queues=True)
    async with SQLiteLog(desk.log.path, lease=LEASE) as log:  # pyright: ignore
        there = Site(log, sites.gate, Settings())
        working = asyncio.create_task(work(log, lambda _: there.worker()))
        try:
            run = await paused_at_delete(desk, (await desk.begin("delete"))["id"])
            again = {"conversation": run["conversation"]}
            resumed = await always(desk, run)
            await desk.frames(resumed["id"])
            after = (await desk.begin("delete", **again))["id"]
            await desk.frames(after)
            assert there.deleted == ["a", "a"]
            waiting = (await desk.begin("wait", **again))["id"]
            await until_it(desk, waiting, lambda row: row.turns == 1)
            forget = f"api/conversations/{run['conversation']}/disallow"
            allowed = {"tool": "delete", "hook": "permit"}
            assert await desk.post(forget, allowed) == (200, {"allowed": []})
            sites.gate.set()
            await desk.frames(waiting)
            await until_it(desk, waiting, lambda row: not row.allowed)
            assert (await desk.get(f"api/runs/{waiting}"))["allowed"] == []
            await paused_at_delete(desk, (await desk.begin("delete", **again))["id"])
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await there.http.close()


async def test_a_tool_is_revoked_while_a_run_of_this_process_goes_on(sites: Sites) -> None:
    site, _ = await sites.open()
    run = await paused_at_delete(site, (await site.begin("delete"))["id"])
    again = {"conversation": run["conversation"]}
    await over(site, (await always(site, run))["id"])
    waiting = (await site.begin("wait", **again))["id"]
    forget = f"api/conversations/{run['conversation']}/disallow"
    body = {"tool": "delete", "hook": "permit"}
    assert await site.post(forget, body) == (200, {"allowed": []})
    sites.gate.set()
    await site.frames(waiting)
    await until_it(site, waiting, lambda row: row.status == "finished" and not row.allowed)
    await paused_at_delete(site, (await site.begin("delete", **again))["id"])
    assert site.deleted == ["a"]


async def test_an_older_read_of_what_is_allowed_replaces_no_newer_one(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, _ = await sites.open()
    run = await paused_at_delete(site, (await site.begin("delete"))["id"])
    entry = site.server.state.runs.get(run["id"])
    assert entry is not None
    conversation = entry.conversation
    has_read, goes_on = asyncio.Event(), asyncio.Event()
    load = permissions.load_kept

    async def slowly(*args: Any) -> Any:
        monkeypatch.setattr(permissions, "load_kept", load)
        found = await load(*args)
        has_read.set()
        await goes_on.wait()
        return found

    monkeypatch.setattr(permissions, "load_kept", slowly)
    older = asyncio.create_task(conversation.refresh())
    await has_read.wait()
    resumed = await always(site, run)
    await over(site, resumed["id"])
    goes_on.set()
    await older
    assert conversation.allowed == (("delete", "permit"),)


async def over(site: Site, run_id: str) -> None:
    """Wait for the end of a run, which follows its last record, if it is one of this process."""
    await site.frames(run_id)
    entry = site.server.state.runs.get(run_id)
    if entry is not None and entry.here is not None:
        with suppress(RunHandedOverError):
            await entry.here


async def paused_at_delete(site: Site, run_id: str) -> Body:
    await over(site, run_id)
    paused = await site.get(f"api/runs/{run_id}")
    assert paused["pause"]["pending"][0]["name"] == "delete"
    return paused


async def always(site: Site, run: Body) -> Body:
    """Approve the call that the run paused at, and all later ones."""
    decisions = {run["pause"]["paused_at"]: {"type": "approve", "always": True}}
    status, resumed = await site.post(f"api/runs/{run['id']}/resume", {"decisions": decisions})
    assert status == 201, resumed
    assert resumed["allowed"] == [{"tool": "delete", "hook": "permit"}]
    return resumed


async def test_a_stored_run_that_the_program_adds_is_resumed_by_its_worker(sites: Sites) -> None:
    site, _ = await sites.open()
    worker = site.worker()
    worker.log, worker.name = site.log, "night"
    run = worker.run("delete")
    await run
    path = f"api/runs/{(await site.listed(run.id))['id']}"
    assert (await site.get(f"{path}/worker"))["worker"] is None
    decisions = {"decisions": [{"type": "approve"}]}
    assert (await site.post(f"{path}/resume", decisions))[0] == 404
    site.server.add(run)
    assert [each["name"] for each in (await site.get(f"{path}/worker"))["worker"]["tools"]][:2] == ["wait", "delete"]
    status, resumed = await site.post(f"{path}/resume", decisions)
    assert (status, resumed["worker"]) == (201, "night")
    await site.frames(resumed["id"])
    assert site.deleted == ["a"]


async def test_to_describe_the_worker_of_a_stored_run_begins_no_session_of_its_conversation(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, stack = await sites.open()
    run = await one.begin("hello")
    await over(one, run["id"])
    await stack.aclose()
    two, _ = await sites.open()
    made: list[Worker] = []

    def count() -> Worker:
        made.append(two.worker())
        return made[-1]

    monkeypatch.setitem(two.server.state.workers._makers, "worker", count)
    for _ in range(2):
        described = (await two.get(f"api/runs/{run['id']}/worker"))["worker"]
        assert described["name"] == "worker"
    await two.get("api/info")
    conversation = two.server.state.runs.conversation(run["conversation"])
    assert conversation is not None
    assert not conversation.has_session
    assert len(made) == 1  # for the first conversation


@pytest.mark.parametrize(
    ("decisions", "deleted"), [({"call_1_1": {"type": "approve"}}, ["a"]), ([{"type": "deny"}], [])]
)
async def test_a_run_inside_is_decided_about_at_its_own_address(
    sites: Sites, decisions: Any, deleted: list[str]
) -> None:
    site, _ = await sites.open()
    run = await site.begin("who asks?")
    await site.frames(run["id"])
    paused = await site.get(f"api/runs/{run['id']}")
    outer, inner = paused["pause"]["pending"]
    assert (outer["name"], outer["path"], outer["needs_decision"]) == ("asks", [], False)
    assert (inner["id"], inner["path"]) == ("call_1_1/call_1_1", ["call_1_1"])
    assert (inner["reason"], inner["needs_decision"]) == ("Deleting cannot be undone.", True)
    [nested] = [info.run_id for info in await site.log.list() if info.row.outer]
    for wrong in ({"call_9": {"type": "approve"}}, [None]):
        status, told = await site.post(f"api/runs/{nested}/resume", {"decisions": wrong})
        assert status == 400, told
    status, resumed = await site.post(f"api/runs/{nested}/resume", {"decisions": decisions})
    assert (status, resumed["id"]) == (201, f"{run['id']}~2")
    await site.frames(resumed["id"])
    assert site.deleted == deleted
    status, told = await site.post(f"api/runs/{nested}/resume", {"decisions": decisions})
    assert status == 409, told


@pytest.mark.parametrize("door", ["resume", "send", "delete"])
async def test_who_is_later_than_another_client_gets_a_conflict(
    sites: Sites, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may be a client of another server, of which this one has not heard yet."""
    site, _ = await sites.open()
    run = await site.begin("delete it")
    await site.frames(run["id"])
    [pending] = (await paused_at_delete(site, run["id"]))["pause"]["pending"]
    send_of = site.log.send

    async def send(run_id: str, command: Any) -> int:
        monkeypatch.setattr(site.log, "send", send_of)
        with suppress(RunStatusError):
            await dismiss_run(site.log, run_id, "another client was faster")
        return await send_of(run_id, command)

    if door == "delete":

        async def delete(_: str) -> None:
            raise LeaseHeldError(run["id"], "another process", 0.0)

        monkeypatch.setattr(site.log, "delete", delete)
        path, body = f"api/conversations/{run['conversation']}/delete", {}
    elif door == "send":
        monkeypatch.setattr(site.log, "send", send)
        entry = await site.server.state.runs.find(run["id"])
        monkeypatch.setattr(entry, "_check_running", lambda: None)
        path, body = f"api/runs/{run['id']}/send", {"message": "more"}
    else:
        monkeypatch.setattr(site.log, "send", send)
        path, body = f"api/runs/{run['id']}/resume", {"decisions": {pending["id"]: APPROVE}}
    status, told = await site.post(path, body)
    assert (status, told["error"]["code"]) in [(409, "conflict"), (409, "busy")]
    assert site.deleted == []


async def test_a_label_of_a_program_that_is_called_user_hides_no_run_after_a_restart(tmp_path: Path) -> None:
    """A server without users shows all runs of its log; one with users shows those of each."""

    def make() -> Worker:
        return Worker(ScriptedModel(answer), labels={"user": "ada"})

    async with SQLiteLog(tmp_path / "runs.db") as log, aiohttp.ClientSession() as http:
        run: Body = {}
        for turn in range(2):
            async with WebServer(make, port=0, log=log) as server:
                url = f"{server.url}api/runs"
                if turn == 0:
                    async with http.post(url, json={"input": "Hi"}) as response:
                        run = await response.json()
                    async with http.get(f"{url}/{run['id']}/events") as response:
                        await response.read()
                async with http.get(f"{url}/{run['id']}") as response:
                    assert response.status == 200
                more = {"input": "more", "conversation": run["conversation"]}
                async with http.post(url, json=more) as response:
                    assert response.status == 201
                    following = (await response.json())["id"]
                async with http.get(f"{url}/{following}/events") as response:
                    await response.read()
                async with http.get(url) as response:
                    listed = (await response.json())["runs"]
                    assert len(listed) == 2 + turn
                    assert {one["conversation"] for one in listed} == {run["conversation"]}


async def test_the_grace_of_a_stored_run_begins_again_when_its_last_watcher_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
    call_later = loop.call_later

    def noted(delay: float, act: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        timer = call_later(delay, act, *args)
        if delay == 1000.0:
            timers.append(timer)
        return timer

    monkeypatch.setattr(loop, "call_later", noted)
    async with MemoryLog() as log:
        worker = Worker(ScriptedModel([say("...") + stall()]), log=log)
        store = RunStore(Settings(grace=1000.0), log=log)
        conversation = ConversationEntry("c-1", "worker")
        conversation.begin(worker, log)
        run = conversation.run((Message.user("Hi"),))
        entry = store.keep(run, conversation, "Hi")
        for _ in range(2):
            entry.watching += 1
            await entry.open()
            entry.watching -= 1
            entry.settle()
        entry._close_idle()  # the replica of a run that nothing looks at is closed, and the run not forgotten
        assert [timer.cancelled() for timer in timers] == [True, True, False]
        timers[-1]._run()
        with pytest.raises(RunCancelledError, match="no watcher for 1000 seconds"):
            await run
        store.forget()
