"""A server with a dashboard, which a client reads over HTTP as JSON."""

import asyncio

import aiohttp

from rxworker import Worker
from rxworker.boards import Dashboard, panel
from rxworker.events import RunStop
from rxworker.panels import count, tokens
from rxworker.testing import ScriptedModel, say
from rxworker.ui.web import WebServer

BOARD = Dashboard([panel("Tokens", tokens), panel("Runs", count(RunStop))], title="Desk")


def make_worker() -> Worker:
    return Worker(ScriptedModel([say("Hello!")]))


async def main() -> None:
    async with WebServer(make_worker, port=0, dashboards=[BOARD]) as server, aiohttp.ClientSession(server.url) as http:
        async with http.post("api/runs", json={"input": "Hi"}) as response:
            assert response.status == 201
            run = await response.json()
        async with http.get(f"api/runs/{run['id']}/events") as response:
            await response.read()  # until the run has ended
        async with http.get("api/boards") as response:
            described = {board["title"]: board for board in (await response.json())["boards"]}
        desk = described["Desk"]
        async with http.get(f"api/boards/{desk['name']}") as response:
            values = {state["panel"]: state["value"] for state in await response.json()}
        async with http.get(f"api/boards/{desk['name']}?run={run['id']}") as response:
            of_the_run = {state["panel"]: state["value"] for state in await response.json()}
    print(sorted(described), values)
    assert values == of_the_run == {"tokens": 15, "runs": 1}


if __name__ == "__main__":
    asyncio.run(main())
