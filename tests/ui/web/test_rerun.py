"""A stored run runs again with a worker of the server, when a client requests it."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from rxworker import Worker
from rxworker.log import EventLog, MemoryLog
from rxworker.testing import ScriptedModel
from rxworker.testing.lab import Outcome, rerun_stored
from rxworker.ui.web import WebServer
from rxworker.worker import QueuedWorker


def clerk(system: str = "Be brief.") -> Worker:
    return Worker(ScriptedModel([]), system=system)


async def ask(server: WebServer, run: str, body: object, **options: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession(trust_env=False) as http:
        answer = await http.post(f"{server.url}api/runs/{run}/rerun", json=body, **options)
        return answer.status, await answer.json()


async def stored(log: MemoryLog, user: str = "") -> str:
    labels = {"user": user} if user else {}
    run = Worker(ScriptedModel(["Hello."]), system="Be brief.", labels=labels).new_session(log=log).run("Hi")
    await run
    return run.id


@pytest.mark.parametrize(("worker", "status"), [("same", "same"), ("other", "differs"), (None, "same")])
async def test_it_compares_with_the_worker_that_is_named(worker: str | None, status: str) -> None:
    async with MemoryLog() as log:
        run = await stored(log)
        workers = {"same": clerk(), "other": clerk("Be kind.")}
        async with WebServer(workers, port=0, log=log, rerun=rerun_stored) as server:
            code, outcome = await ask(server, run, {} if worker is None else {"worker": worker})
            assert (code, outcome["run_id"], outcome["status"]) == (200, run, status)
            assert [info.run_id for info in await log.list()] == [run], "nothing is stored"


def returns_a_text(*_: object) -> str:
    return "same"


def returns_bob(_: object) -> str:
    return "bob"


@pytest.mark.parametrize(
    ("body", "options", "code", "text"),
    [
        ({"worker": "none"}, {}, 404, "there are: clerk, queued"),
        ({"worker": "queued"}, {}, 409, "other processes perform the runs of queued"),
        ({"wroker": "clerk"}, {}, 400, "wroker"),
        ({}, {"rerun": None}, 404, "give it log= and rerun="),
        ({}, {"rerun": returns_a_text}, 409, "rerun= returned 'same'"),
        ({}, {"user": returns_bob}, 404, "no such run"),
    ],
)
async def test_what_cannot_run_again_is_refused(body: object, options: Any, code: int, text: str) -> None:
    async with MemoryLog() as log:
        run = await stored(log, "ada")
        workers = {"clerk": clerk(), "queued": QueuedWorker("queued", log=log)}
        served: Any = {"rerun": rerun_stored, **options}
        async with WebServer(workers, port=0, log=log, **served) as server:
            answered, problem = await ask(server, run, body)
            assert answered == code
            assert text in problem["error"]["message"]


async def test_one_runs_at_a_time_also_when_a_client_has_left() -> None:
    begun, ends, running = asyncio.Event(), asyncio.Event(), list[str]()

    async def slow(log: EventLog, run: str, worker: Worker) -> Outcome:
        running.append(run)
        begun.set()
        await ends.wait()
        assert running == [run]
        running.remove(run)
        return Outcome(run, "same")

    async with MemoryLog() as log, WebServer(clerk(), port=0, log=log, rerun=slow) as server:
        request: Any = None
        first = asyncio.create_task(server.state.rerun("a", None, request))
        await begun.wait()
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(server.state.rerun("b", None, request))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert running == ["a"]
        ends.set()
        assert await second == Outcome("b", "same")


async def test_a_link_to_a_run_does_not_run_it_again() -> None:
    async with MemoryLog() as log:
        run = await stored(log)
        async with WebServer(clerk(), port=0, log=log, rerun=rerun_stored) as server:
            token = (await server.state.share(run=run)).token
            answered, problem = await ask(server, run, {}, headers={"Authorization": f"Bearer {token}"})
            assert (answered, problem["error"]["code"]) == (403, "not_shared")


async def test_a_server_without_workers_only_shows_runs() -> None:
    async with MemoryLog() as log, WebServer({}, port=0, log=log) as server, aiohttp.ClientSession() as http:
        assert (await (await http.get(f"{server.url}api/info")).json())["workers"] == []
        answer = await http.post(f"{server.url}api/runs", json={"input": "Hi"})
        assert (answer.status, (await answer.json())["error"]["code"]) == (404, "no_worker")
