"""Runs are found by their titles and texts, filtered, sorted and listed in pages."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rxworker import Worker, tool, worker_tool
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.messages import Prices
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say, think
from rxworker.ui.web import Settings, WebServer

from .conftest import Desk, OpenDesk

PRICES = {"scripted-1": Prices(input=1.0, output=2.0)}


@tool
async def count(what: str) -> int:
    """Count.

    Args:
        what: What.
    """
    return len(what)


def answer(request: Request) -> Reply:
    message = request.conversation.messages[-1]
    match message.text:
        case "Delete it":
            return call("delete", path="a.txt")
        case "Wait":
            return call("wait", n=1)
        case "A haiku!":
            return say("An old silent pond.")
        case _:
            return say("Done.")


async def titles(desk: Desk, query: str) -> list[str]:
    status, found = await desk.get(f"api/runs?{query}")
    assert status == 200, found
    return [run["title"] for run in found["runs"]]


async def test_runs_are_found_by_texts_and_by_what_they_are(open_desk: OpenDesk) -> None:
    settings = Settings(prices=PRICES)
    desk = await open_desk(script=answer, settings=settings)
    haiku = await desk.begin("A haiku!")
    await desk.ended(haiku["id"])
    paused = await desk.begin("Delete it")
    assert (await desk.ended(paused["id"]))["status"] == "paused"
    rain = await desk.begin("And the weather?", conversation=haiku["conversation"])
    await desk.ended(rain["id"])
    assert await titles(desk, "q=POND") == ["A haiku!"]
    assert await titles(desk, "q=old+haiku") == ["A haiku!"]
    assert await titles(desk, "q=nothing") == []
    assert await titles(desk, "status=paused") == ["Delete it"]
    assert await titles(desk, "worker=other") == []
    assert await titles(desk, "min_cost=0") == ["And the weather?", "Delete it", "A haiku!"]
    assert await titles(desk, "min_cost=1") == []
    assert await titles(desk, f"since={rain['started']}") == ["And the weather?"]
    assert await titles(desk, f"sort=duration&limit=1&after={rain['id']}") != ["And the weather?"]
    assert await titles(desk, f"limit=2&after={rain['id']}") == ["Delete it", "A haiku!"]
    _, found = await desk.get("api/runs?q=silent")
    assert found["excerpts"] == {haiku["id"]: "An old silent pond."}
    _, page = await desk.get("api/runs?limit=2")
    assert (len(page["runs"]), page["is_more"]) == (2, True)


async def test_runs_are_found_by_the_tools_that_they_have_started(open_desk: OpenDesk) -> None:
    desk = await open_desk(script=answer)
    desk.release.set()
    await desk.ended((await desk.begin("Wait"))["id"])
    await desk.ended((await desk.begin("Speak"))["id"])
    assert await titles(desk, "tool=wait") == ["Wait"]
    assert await titles(desk, "tool=wai") == []


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_run_is_found_by_what_it_thought_and_by_what_runs_inside_it_did(*, is_stored: bool) -> None:
    inner = Worker(ScriptedModel([call("count", what="frogs"), "Seven."]), tools=[count])
    clerk = worker_tool(inner, name="clerk", description="Counts.")
    worker = Worker(
        ScriptedModel([call("clerk", task="Count."), think("A pond, I guess.") + say("Done.")]), tools=[clerk]
    )
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(MemoryLog()) if is_stored else None
        server = await stack.enter_async_context(WebServer(worker, port=0, log=log))
        http = await stack.enter_async_context(aiohttp.ClientSession(server.url, trust_env=False))
        run = await (await http.post("api/runs", json={"input": "How many?"})).json()
        await (await http.get(f"api/runs/{run['id']}/events")).read()
        for query in ("q=guess", "q=frogs", "tool=count"):
            found = await (await http.get(f"api/runs?{query}")).json()
            assert [each["id"] for each in found["runs"]] == [run["id"]], query


@pytest.mark.parametrize(
    ("query", "remedy"),
    [
        ("status=lost", "$.status`: give running, paused, finished or aborted"),
        ("status=null", "$.status`: give running, paused, finished or aborted"),
        ("sort=random", "$.sort`: give newest, cost or duration"),
        ("since=x", "$.since`"),
        ("since=null", "$.since`"),
        ("min_cost=nan", "$.min_cost`"),
        ("limit=0", ">= 1 - at `$.limit`"),
        ("limit=1001", "<= 1000 - at `$.limit`"),
        ("wroker=clerk", "there is no parameter 'wroker'; did you mean 'worker'?"),
    ],
)
async def test_a_query_that_is_not_valid_is_refused(open_desk: OpenDesk, query: str, remedy: str) -> None:
    desk = await open_desk()
    status, told = await desk.get(f"api/runs?{query}")
    assert (status, told["error"]["code"]) == (400, "bad_request")
    assert remedy in told["error"]["message"]


async def test_a_user_finds_no_run_of_another_and_a_server_more_than_it_keeps(tmp_path: Path) -> None:
    def who(request: Any) -> str:
        return request.headers.get("X-User", "ann")

    async with SQLiteLog(tmp_path / "runs.db") as log:
        server = WebServer(
            lambda: Worker(ScriptedModel(["A pond."])), port=0, settings=Settings(max_kept=1), user=who, log=log
        )
        desk = Desk([], Settings(), 0.0, None)
        desk.server = server
        async with desk.http, server:
            for text in ("one", "two"):
                await desk.ended((await desk.begin(text))["id"])
            assert await titles(desk, "q=pond") == ["two", "one"]
            _, found = await desk.get("api/runs?q=pond", headers={"X-User": "bob"})
            assert found["runs"] == []
