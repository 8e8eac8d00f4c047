"""All runs of a log on a page, as data and as metrics."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from reactivex import operators as ops
from yarl import URL

from rxworker import Worker, tool
from rxworker.boards import Dashboard, panel
from rxworker.boards.values import MAX_GROUPS
from rxworker.errors import ConfigurationError
from rxworker.events import Record, RunStart
from rxworker.log import Claim, EventLog, MemoryLog, mark_time
from rxworker.log.format import entries_of
from rxworker.log.values import RunRow, StoredStatus
from rxworker.messages import Conversation, Message, Prices
from rxworker.panels import count
from rxworker.panels import status as run_status
from rxworker.testing import ScriptedModel, call, say
from rxworker.ui.web import Settings, WebRequest, WebServer
from rxworker.ui.web.boards import fleet
from rxworker.ui.web.http.responses import ApiError
from rxworker.ui.web.streams import streams

TOKEN = "a-very-secret-token-0123456789"


class Client:
    def __init__(self, server: WebServer, http: aiohttp.ClientSession, log: EventLog) -> None:
        self.server = server
        self.http = http
        self.log = log

    async def store(
        self, run_id: str, status: StoredStatus = "finished", *, held: bool = False, **values: Any
    ) -> Claim:
        """Store a run with these last values."""
        claim = await self.log.claim(run_id, create=True)
        start = RunStart(Conversation((Message.user("Hi"),)), 1)
        entries = entries_of([Record(1, run_id, 0, 0, time.time(), start)], 1)
        await self.log.append(claim, entries, after=0, row=RunRow(status, **values))
        if not held:
            await self.log.release(claim)
        return claim

    async def get(self, path: str, **query: str) -> tuple[int, str]:
        url = URL(f"{self.server.url}{path}?{urlencode(query)}", encoded=True)
        async with self.http.get(url) as response:
            return response.status, await response.text()

    async def fleet(self, **query: str) -> dict[str, Any]:
        status, text = await self.get("api/fleet", **query)
        assert status == 200, text
        return json.loads(text)

    @asynccontextmanager
    async def answers(self, **query: str) -> AsyncGenerator[AsyncGenerator[dict[str, Any], None]]:
        """The answers after each change."""
        headers = {"Accept": "text/event-stream"}
        url = f"{self.server.url}api/fleet?{urlencode(query)}"

        async def read(response: aiohttp.ClientResponse) -> AsyncGenerator[dict[str, Any], None]:
            async for line in response.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

        async with self.http.get(url, headers=headers) as response:
            assert response.status == 200
            yield read(response)


@pytest.fixture
async def stack() -> AsyncGenerator[AsyncExitStack, None]:
    async with AsyncExitStack() as stack:
        yield stack


def make() -> Worker:
    return Worker(ScriptedModel(["Hello!"]))


async def opened(stack: AsyncExitStack, *, log: EventLog | None = None, **options: Any) -> Client:
    kept = log or MemoryLog()
    await stack.enter_async_context(kept)
    jar = aiohttp.CookieJar(unsafe=True)  # it has an address of this machine
    http = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar, trust_env=False))
    server = await stack.enter_async_context(WebServer(make, port=0, log=kept, **options))
    return Client(server, http, kept)


async def test_runs_are_counted_by_status_worker_tenant_and_owner(stack: AsyncExitStack) -> None:
    client = await opened(stack)
    await client.store("run-1", worker="clerk", input_tokens=10, labels={"tenant": "acme"})
    await client.store("run-2", "aborted", worker="clerk", cause="error", labels={"tenant": "acme"})
    await client.store("run-3", "queued", worker="coder")
    await client.store("run-4", "running", held=True, tool_durations=(0, 0, 0, 20))
    await client.store("run-5", "running")  # its process has ended
    found = await client.fleet()
    assert found["runs"] == {"finished": 1, "aborted": 1, "queued": 1, "running": 2}
    assert found["recovering"] == 1
    assert [(q["worker"], q["depth"]) for q in found["queues"]] == [("coder", 1)]
    assert [(o["owner"], o["runs"]) for o in found["owners"]] == [(client.log.owner, 1)]
    [acme] = [group for group in found["groups"] if group["tenant"] == "acme"]
    assert (acme["runs"], acme["taken"]["failed"]) == ({"finished": 1, "aborted": 1}, 1)
    [rest] = [group for group in found["groups"] if group["worker"] == ""]
    assert rest["taken"]["tool_p95"] == pytest.approx(0.0975, abs=0.001)
    assert {row["id"]: row["cause"] for row in found["rows"]} == {
        "run-5": "recovering",
        "run-4": "",
        "run-3": "",
        "run-2": "error",
        "run-1": "",
    }


@pytest.mark.parametrize(
    ("query", "runs"),
    [
        ({}, ["run-3", "run-2", "run-1"]),
        ({"status": "aborted"}, ["run-2"]),
        ({"worker": "clerk"}, ["run-2", "run-1"]),
        ({"tenant": "acme"}, ["run-1"]),
        ({"tenant": ""}, ["run-3", "run-2"]),
        ({"label": "tenant=acme"}, ["run-1"]),
        ({"label": "tenant"}, []),
        ({"q": "OVERLOADED"}, ["run-2"]),
        ({"q": "chairs"}, ["run-3"]),
        ({"q": "run-1"}, ["run-1"]),
        ({"q": "nothing"}, []),
        ({"worker": "clerk", "status": "finished"}, ["run-1"]),
        ({"limit": "2"}, ["run-3", "run-2"]),
        ({"status": "failed"}, []),
        ({"status": "cancelled"}, ["run-2"]),
        ({"since": "1e9"}, ["run-3", "run-2", "run-1"]),
        ({"since": "9e9"}, []),
        ({"until": "1e9"}, []),
        ({"since": "1e9", "until": "9e9", "q": "chairs"}, ["run-3"]),
    ],
)
async def test_runs_are_filtered(stack: AsyncExitStack, query: dict[str, str], runs: list[str]) -> None:
    client = await opened(stack)
    await client.store("run-1", worker="clerk", labels={"tenant": "acme"})
    await client.store("run-2", "aborted", worker="clerk", cause="cancel", reason="it is overloaded")
    await client.store("run-3", title="Order new Chairs")
    found = await client.fleet(**query)
    assert [row["id"] for row in found["rows"]] == runs
    assert found["is_more"] == ("limit" in query)


async def test_a_run_that_is_stored_later_than_it_began_is_in_its_place_and_has_its_time(stack: AsyncExitStack) -> None:
    client = await opened(stack)
    began = time.time() - 86_400
    await client.store("run-1")
    await client.store("run-2", began=began, ended=began + 1)
    rows = (await client.fleet())["rows"]
    assert [row["id"] for row in rows] == ["run-1", "run-2"]
    assert rows[1]["began"] == pytest.approx(began)


async def test_a_run_that_is_not_over_ran_until_now(stack: AsyncExitStack) -> None:
    client = await opened(stack)
    await client.store("run-1", "running", held=True)
    await client.store("run-2", "finished")
    now = str(time.time() + 60)
    assert [row["id"] for row in (await client.fleet(since=now))["rows"]] == ["run-1"]
    assert (await client.fleet(until="1e9"))["rows"] == []


@pytest.mark.parametrize("query", [{"status": "dead"}, {"limit": "0"}, {"limit": "x"}, {"since": "noon"}])
async def test_a_wrong_parameter_is_named(stack: AsyncExitStack, query: dict[str, str]) -> None:
    client = await opened(stack)
    status, text = await client.get("api/fleet", **query)
    assert status == 400
    assert next(iter(query)) in text


async def test_a_client_gets_an_answer_after_each_change(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "PAUSE", 0.01)
    client = await opened(stack)
    async with asyncio.timeout(60), client.answers(status="finished") as answers:
        assert (await anext(answers))["rows"] == []
        claim = await client.store("run-1", "running", held=True)
        found = await anext(answers)
        assert found["runs"] == {"running": 1}
        await client.log.append(claim, [], after=1, row=RunRow("finished"))
        while not found["rows"]:
            found = await anext(answers)
        assert found["runs"] == {"running": 0, "finished": 1}


async def test_the_answers_end_when_the_server_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CLOSE_SECONDS", 0.1)  # an answer to come is waited for
    stack = AsyncExitStack()
    client = await opened(stack)
    state = client.server.state
    async with asyncio.timeout(60), client.answers() as answers:
        assert (await anext(answers))["rows"] == []
        closing = asyncio.create_task(stack.aclose())
        with suppress(aiohttp.ClientError):  # it may be cut off
            assert [answer async for answer in answers] == []
        await closing
    with pytest.raises(ApiError, match="being stopped"):
        await state.fleet.ready()


async def test_a_run_that_is_older_than_the_list_is_opened(stack: AsyncExitStack) -> None:
    client = await opened(stack, settings=Settings(max_kept=1))
    for n in range(3):
        await client.store(f"run-{n}", title=f"Number {n}")
    status, text = await client.get("api/runs/run-0")
    assert (status, json.loads(text)["title"]) == (200, "Number 0")


async def test_the_metrics_are_those_of_the_fleet(stack: AsyncExitStack) -> None:
    client = await opened(stack)
    tenant = 'a "b"\n\\c'
    durations: dict[str, Any] = {"tool_calls": 3, "tool_seconds": 4.5, "tool_durations": (2, 0, 0, 1)}
    await client.store("run-1", input_tokens=7, cost=0.25, worker="clerk", labels={"tenant": tenant}, **durations)
    await client.store("run-2", "queued", worker="clerk")
    status, text = await client.get("metrics")
    assert status == 200
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    group = ("tenant", tenant), ("worker", "clerk")
    assert found["rxworker_input_tokens_total", *group] == 7
    assert found["rxworker_cost_total", *group] == 0.25
    assert found["rxworker_runs", ("status", "finished"), *group] == 1
    assert found["rxworker_queue_depth", ("worker", "clerk")] == 1
    assert found["rxworker_tool_seconds_bucket", ("le", "0.05"), *group] == 2
    assert found["rxworker_tool_seconds_bucket", ("le", "0.1"), *group] == 3
    assert found["rxworker_tool_seconds_count", *group] == 3
    assert found["rxworker_tool_seconds_sum", *group] == 4.5
    assert found["rxworker_server_clients",] == 0
    async with client.http.get(
        f"{client.server.url}metrics", headers={"Accept": "application/openmetrics-text"}
    ) as response:
        assert response.content_type == "application/openmetrics-text"
        assert (await response.text()).endswith("# EOF\n")


@pytest.mark.parametrize("path", ["api/fleet", "metrics", "fleet"])
async def test_the_token_is_needed(stack: AsyncExitStack, path: str) -> None:
    client = await opened(stack, settings=Settings(token=TOKEN))
    status, _ = await client.get(path)
    assert status == 401
    async with client.http.get(client.server.url + path, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
        assert response.status == 200


async def test_the_address_of_the_page_may_have_the_token(stack: AsyncExitStack) -> None:
    client = await opened(stack, settings=Settings(token=TOKEN))
    status, text = await client.get("fleet", token=TOKEN)  # redirected with a cookie
    assert (status, "<title>Fleet</title>" in text) == (200, True)
    assert (await client.get("api/fleet"))[0] == 200
    status, text = await client.get("static/fleet.html")
    assert status == 404


async def test_moments_are_noted_for_the_charts(stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_API_KEY", "sk-1234567890abcdef")
    client = await opened(stack)
    wrong = {"when": 1}, {"time": "now"}, {"time": 1e300}, {"time": -1}, {"by": "x" * 101}
    for body in ({}, {"text": " "}, {"text": "x" * 201}, *[{"text": "x", **each} for each in wrong]):
        async with client.http.post(f"{client.server.url}api/time-marks", json=body) as response:
            assert response.status == 400, body
    for at, text in ((60.0, "deploy 2"), (30.0, "deploy 1 with sk-1234567890abcdef")):
        async with client.http.post(f"{client.server.url}api/time-marks", json={"text": text, "time": at}) as response:
            assert response.status == 201
    await mark_time(client.log, "deploy 3", by="ci")
    marks = json.loads((await client.get("api/time-marks"))[1])["marks"]
    assert [mark["text"] for mark in marks] == ["deploy 1 with ***", "deploy 2", "deploy 3"]
    assert (marks[1], marks[2]["by"]) == ({"time": 60.0, "text": "deploy 2"}, "ci")
    marks = json.loads((await client.get("api/time-marks", since="40", until="100"))[1])["marks"]
    assert [mark["text"] for mark in marks] == ["deploy 2"]
    with pytest.raises(ConfigurationError, match="text"):
        await mark_time(client.log, 5)  # pyright: ignore[reportArgumentType] - what it refuses
    for at in (float("nan"), 1.8e12):  # the latter is in milliseconds
        with pytest.raises(ConfigurationError, match="not a time"):
            await mark_time(client.log, "deploy 4", time=at)
    with pytest.raises(ConfigurationError, match="101 characters"):
        await mark_time(client.log, "deploy 4", by="x" * 101)


def ann(_: WebRequest) -> str:
    return "ann"


@pytest.mark.parametrize("path", ["api/fleet", "metrics", "api/time-marks"])
async def test_users_do_not_see_the_runs_of_others(stack: AsyncExitStack, path: str) -> None:
    client = await opened(stack, user=ann)
    status, text = await client.get(path)
    assert (status, "has_users" in text) == (403, True)
    assert json.loads((await client.get("api/info"))[1])["has_fleet"] is False


@pytest.mark.parametrize("path", ["api/fleet", "metrics", "api/time-marks"])
async def test_a_server_without_a_log_reports_that(stack: AsyncExitStack, path: str) -> None:
    http = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))
    server = await stack.enter_async_context(WebServer(make, port=0))
    status, text = await Client(server, http, MemoryLog()).get(path)
    assert (status, "give the server a log" in text) == (404, True)


async def test_secrets_of_the_environment_are_not_shown(stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    client = await opened(stack)
    await client.store("run-1", title="my key is sk-ant-0123456789abcdef")
    _, text = await client.get("api/fleet")
    assert "0123456789abcdef" not in text
    assert "my key is" in text


async def test_costs_are_estimated_by_the_prices_of_the_server(stack: AsyncExitStack) -> None:
    """Those of runs whose workers know prices are exact; what another model took has no price."""
    prices = {"small": Prices(input=1.0, output=2.0, currency="EUR")}
    client = await opened(stack, settings=Settings(prices=prices))
    spent: dict[str, Any] = {"input_tokens": 3_000_000, "by_model": {"small": (1_000_000, 0, 0, 0)}}
    await client.store("run-1", worker="exact", cost=0.5, **spent)
    await client.store("run-2", worker="guess", **spent)
    await client.store("run-3", "running", worker="guess", resumes="run-2", **spent)
    await client.store("run-4", worker="none", by_model={"large": (1, 1, 0, 0)}, input_tokens=1)
    found = await client.fleet()
    rows = {row["id"]: (row["cost"], row["is_estimate"]) for row in found["rows"]}
    assert rows == {"run-1": (0.5, False), "run-2": (3.0, True), "run-3": (3.0, True), "run-4": (None, False)}
    groups = {each["worker"]: each["taken"] for each in found["groups"]}
    assert {name: (each["cost"], each["is_estimate"]) for name, each in groups.items()} == {
        "exact": (0.5, False),
        "guess": (3.0, True),
        "none": (0.0, False),
    }
    assert found["currency"] == "EUR"


@tool
def look(where: str) -> str:
    """Look."""
    if where == "there":
        raise OSError("too dark")
    return "nothing"


async def test_the_panels_of_dashboards_are_metrics_and_so_are_tools_and_models(stack: AsyncExitStack) -> None:
    def odd(record: Record) -> dict[str, float]:
        return {f"n{number}": float(number) for number in range(MAX_GROUPS + 50)}

    board = Dashboard(
        [
            panel("Begun", count(RunStart), unit="runs"),
            panel("Odd", ops.map(odd), view="bar"),
            panel("Broken", ops.map(lambda _: 1 / 0)),
            panel("Status", run_status, view="state"),
        ],
        title="Desk",
    )
    steps = [call("look", where="here") + call("look", where="there"), say("Done.")]
    prices = {"small": Prices(input=1.0, output=2.0)}
    async with MemoryLog() as log:
        model = ScriptedModel(steps, model="small")
        await Worker(model, tools=[look], log=log).run("Hi")
        settings = Settings(prices=prices)
        async with WebServer(Worker(model), port=0, log=log, dashboards=[board], settings=settings) as server:
            boards = server.state.boards
            begun = [boards.shown(), boards.metered()]
            assert begun == [[], ()]  # no part of a sum is reported
            for feed in boards.feeds.values():
                await feed.history.wait()
            async with aiohttp.ClientSession(trust_env=False) as http, http.get(f"{server.url}metrics") as response:
                text = await response.text()
    samples = [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]

    def of(name: str) -> dict[str, float]:
        found = [(labels, value) for each, labels, value in samples if each == f"rxworker_{name}"]
        return {next(iter(labels.values()), ""): value for labels, value in found}

    assert of("by_tool_calls_total") == {"look": 2}
    assert of("by_tool_errors_total") == {"look": 1}
    assert of("by_tool_seconds_total")["look"] > 0
    assert of("by_model_tokens_total")["small"] > 0
    assert of("by_model_cost_total")["small"] > 0
    assert of("first_token_seconds").keys() == {"median", "95 %"}
    panels = [(labels, value) for name, labels, value in samples if name == "rxworker_panel"]
    begun_labels = {"board": "desk", "panel": "begun", "group": "", "unit": "runs"}
    assert (begun_labels, 1) in panels
    assert {labels["panel"] for labels, _ in panels} == {"begun", "odd"}
    assert len([each for each, _ in panels if each["panel"] == "odd"]) == MAX_GROUPS + 1
