"""Every route of the server, as a user who knows the ids of another one."""

from __future__ import annotations

import json

import aiohttp
import pytest

from rxworker import Worker, tool
from rxworker.log import MemoryLog
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.api import routes_of
from rxworker.ui.web.guard import CHAT
from rxworker.ui.web.http.request import WebRequest

from .conftest import BODIES

SECRET = "ada-knows-what-bob-does-not"
ADA, BOB = {"X-User": "ada@acme"}, {"X-User": "bob@acme"}


def user(request: WebRequest) -> str | None:
    return request.headers.get("X-User")


@pytest.mark.parametrize("is_stored", [False, True])
async def test_no_route_shows_or_steers_what_is_of_another_user(is_stored: bool) -> None:
    """It walks the routes of the server, so that a new one is tried as well."""
    paid: list[str] = []

    @tool(requires_approval=True)
    def pay(what: str) -> str:
        """Pay."""
        paid.append(what)
        return "paid"

    def answer(request: Request) -> Reply:
        text = request.conversation.messages[-1].text
        return call("pay", what=SECRET) if SECRET in text else say("Hello.")

    def make() -> Worker:
        return Worker(ScriptedModel(answer), tools=[pay])

    tried: set[str] = set()
    settings = Settings(max_runs_per_user=50, max_runs=50)
    async with (
        MemoryLog() as log,
        WebServer(make, port=0, user=user, log=log if is_stored else None, settings=settings) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        async with http.post("api/runs", json={"input": SECRET}, headers=ADA) as response:
            run = await response.json()
        async with http.get(f"api/runs/{run['id']}/events", headers=ADA) as response:
            assert SECRET in await response.text()
        async with http.post("api/links", json={"run": run["id"]}, headers=ADA) as response:
            link = (await response.json())["link"]["id"]

        def named(text: str) -> str:
            return text.replace("CONVERSATION", run["conversation"]).replace("RUN", run["id"])

        for route in routes_of(server.state):
            for id_ in (run["id"], run["conversation"], link, f"resp_{run['id']}"):
                path = route.path.lstrip("/").replace("{id}", id_).replace("{seq}", "1")
                path = path.replace("{name}", "usage").replace("{path:.+}", "main.js")
                query = {"run": run["id"]} if "boards" in path else {}
                body = json.loads(named(json.dumps(BODIES.get(route.path, {}))))
                body = None if route.method == "GET" else body
                async with http.request(route.method, path, headers=BOB, json=body, params=query) as response:
                    tried.add(route.path)
                    is_stream = response.content_type == "text/event-stream"
                    shown = await response.content.readany()
                    shown += b"" if is_stream else await response.read()
                    assert response.status < 500, (route.path, shown)
                    # Each user has chats of their own, under ids that they choose.
                    is_own = "{id}" not in route.path or route.name in CHAT
                    assert is_own or response.status in (401, 403, 404), (path, shown)
                    assert SECRET.encode() not in shown, path
                    assert b"ada@acme" not in shown, path
                if "{id}" not in route.path:
                    break
        assert tried >= set(BODIES)
        async with http.ws_connect("api/ws", headers=BOB) as socket:
            await socket.send_json({"type": "watch", "run": run["id"]})
            while (told := await socket.receive_json())["type"] != "gone":
                assert SECRET not in json.dumps(told)
        # Ada's run still waits, under its title, and her link holds.
        assert paid == []
        async with http.get("api/runs", headers=ADA) as response:
            [own] = (await response.json())["runs"]
        assert (own["id"], own["status"], own["title"]) == (run["id"], "paused", run["title"])
        async with http.get("api/links", headers=ADA) as response:
            assert [one["id"] for one in (await response.json())["links"]] == [link]
