"""The reference of the web server says what the server does, line by line."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import fields

from rxworker import Worker, tool
from rxworker.hub import WatcherState
from rxworker.protocols.socket import PauseSummary, PendingCall, RunSummary
from rxworker.testing import ScriptedModel, call
from rxworker.ui.web import Settings, WebServer, make_app

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "web-server.md").read_text("utf-8")


ADDRESSES = PAGE.partition("\n## Addresses\n")[2].partition("\n## ")[0]


def test_the_settings_are_those_of_the_page_with_their_defaults() -> None:
    section = PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0]
    told: dict[str, object] = {}
    for names, defaults in re.findall(r"^- (`.+?`) \((.+?)\): ", section, re.MULTILINE):
        written = defaults.replace("8 MiB", "8388608").replace("`", "").split("; ")
        values = [ast.literal_eval(default) for default in written]
        told.update(zip(re.findall(r"`(\w+)`", names), values, strict=True))
    settings = Settings()
    assert told == {field.name: getattr(settings, field.name) for field in fields(Settings)}


def test_the_addresses_are_those_of_the_page() -> None:
    told = {
        (method, path.replace("...", "{path:.+}"))
        for method, path in re.findall(r"`(GET|POST|DELETE) (/[^\s`?]*)", ADDRESSES)
    }
    app = make_app(lambda: Worker(ScriptedModel(["Hello!"])))
    served = {
        (route.method, path_of(route.resource.get_info()))
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert {(m, re.sub(r"\{path.*\}", "...", p)) for m, p in served} == {
        (m, re.sub(r"\{path.*\}", "...", p)) for m, p in told
    }


def path_of(info: Any) -> str:
    return info.get("path") or info["formatter"]


Ask = Callable[..., Awaitable[tuple[int, Any]]]


@tool(requires_approval=True)
def remove(path: str) -> str:
    """Remove a file."""
    return f"{path} is gone"


@pytest.fixture
def gate() -> asyncio.Event:
    return asyncio.Event()


def make_worker(gate: asyncio.Event) -> Worker:
    @tool
    async def wait() -> str:
        """Wait for the test."""
        await gate.wait()
        return "waited"

    replies = [call("wait"), call("remove", path="a"), "Done.", call("wait"), "Bye."]
    return Worker(ScriptedModel(replies), tools=[wait, remove])


async def test_every_address_answers_as_the_page_describes(gate: asyncio.Event) -> None:
    def make() -> Worker:
        return make_worker(gate)

    settings = Settings(max_runs=1)
    async with WebServer(make, port=0, settings=settings) as server, aiohttp.ClientSession() as http:

        async def ask(method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
            async with http.request(method, server.url + path, json=body, **more) as response:
                text = await response.text()
                is_json = response.content_type == "application/json"
                return response.status, json.loads(text) if is_json else text

        await check_info(ask)
        # begin
        status, run = await ask("POST", "api/runs", {"input": "x" * 200})
        assert status == 201
        check_summary(run)
        assert (run["status"], run["title"]) == ("running", "x" * 120)
        conversation = {"input": "y", "conversation": run["conversation"]}
        assert await code_of(ask("POST", "api/runs", {"input": "y"})) == (429, "too_many_runs")
        path = f"api/runs/{run['id']}"
        # send, pause, and a conversation that is busy
        assert (await ask("POST", f"{path}/send", {"message": "hear me"}))[0] == 200
        assert await code_of(ask("POST", f"{path}/resume", {})) == (409, "not_paused")
        gate.set()
        _, told = await ask("GET", f"{path}/events")
        assert told.rstrip().endswith('event: end\ndata: {"status":"paused","reason":"remove requires approval"}')
        _, run = await ask("GET", path)
        check_summary(run)
        assert run["pause"]["pending"][0]["input"] == {"path": "a"}
        # resume
        decisions = {run["pause"]["pending"][0]["id"]: {"type": "approve", "input": {"path": "b"}}}
        status, resumed = await ask("POST", f"{path}/resume", {"decisions": decisions})
        assert (status, resumed["resumes"]) == (201, run["id"])
        _, told = await ask("GET", f"api/runs/{resumed['id']}/events")
        assert "b is gone" in told
        assert (await ask("GET", path))[1]["resumed_as"] == resumed["id"]
        # nothing follows
        seq = (await ask("GET", f"api/runs/{resumed['id']}"))[1]["seq"]
        events = f"api/runs/{resumed['id']}/events"
        assert (await ask("GET", f"{events}?after={seq}"))[0] == 204
        assert (await ask("GET", events, headers={"Last-Event-ID": str(seq)}))[0] == 204
        assert f"id: {seq}\n" in (await ask("GET", f"{events}?after={seq - 1}"))[1]
        # the next run of the conversation; pause and cancel
        gate.clear()
        status, run = await ask("POST", "api/runs", conversation)
        assert status == 201
        path = f"api/runs/{run['id']}"
        assert (await ask("POST", f"{path}/pause", {}))[0] == 200
        status, run = await ask("POST", f"{path}/cancel", {"when": "now", "reason": "enough"})
        assert (status, run["status"], run["cause"]) == (200, "aborted", "cancel")
        _, listed = await ask("GET", "api/runs")
        assert list(listed) == ["instance", "runs"]
        starts = [run["started"] for run in listed["runs"]]
        assert starts == sorted(starts, reverse=True)
        # chats
        assert (await ask("GET", "api/chat/nobody/stream"))[0] == 204
        status, told = await ask("POST", "api/chat?worker=nobody", chat())
        assert (status, told) == (404, "there is no worker of that name; there are: worker")
        assert await ask("GET", "api/chat/nobody/messages") == (200, [])
        assert (await ask("POST", "api/chat/nobody/stop"))[0] == 204
        assert await code_of(ask("GET", "api/nothing")) == (404, "not_found")
        assert await code_of(ask("PUT", "api/runs")) == (405, "wrong_method")


def chat() -> dict[str, Any]:
    return {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]}


async def check_info(ask: Ask) -> None:
    [line] = [line for line in ADDRESSES.splitlines() if line.startswith("- `GET /api/info`")]
    status, info = await ask("GET", "api/info")
    assert status == 200
    assert list(info) == [name for name in re.findall(r"`(\w+)`", line) if name in info]
    assert (await ask("GET", "api/info"))[1]["instance"] == info["instance"]


def check_summary(run: dict[str, Any]) -> None:
    def names(kind: type[Any]) -> list[str]:
        return [field.name for field in fields(kind)]

    assert list(run) == names(RunSummary)
    if run["pause"] is not None:
        assert list(run["pause"]) == names(PauseSummary)
        assert [list(pending) for pending in run["pause"]["pending"]] == [names(PendingCall)]
    assert all(list(watcher) == names(WatcherState) for watcher in run["watchers"])


async def code_of(answer: Awaitable[tuple[int, Any]]) -> tuple[int, str]:
    """The status and the code of a refusal, which is of one form."""
    status, told = await answer
    assert list(told) == ["error"]
    assert list(told["error"]) == ["code", "message"]
    assert told["error"]["message"]
    return status, told["error"]["code"]
