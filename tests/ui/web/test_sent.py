"""The request of an attempt as it was sent.

Equal to what the service received, without secrets, and honest where it cannot be known.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp

from rxworker import Worker, on_message_send, tool, worker_tool
from rxworker.events import AttemptStart
from rxworker.hooks import MessageSendContext
from rxworker.log import EventLog, SQLiteLog
from rxworker.providers import Anthropic, Options
from rxworker.testing import ReplayServer, ScriptedModel, call, fail, say
from rxworker.transport import Retry, fallback
from rxworker.turn.context import KEPT_TURNS
from rxworker.ui.web import Settings, WebServer

from .conftest import Body, OpenDesk

KEY = "sk-not-to-be-shown-0123456789"
EXTRA: Any = {"mcp_servers": [{"url": "https://mcp.example", "authorization_token": KEY}]}


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"{key} is in the drawer"


@on_message_send(name="remind")
def remind(context: MessageSendContext) -> None:
    context.set_content(f"{context.content} Be brief.")


class Site:
    """A server whose workers call a service over HTTP, and a client of it."""

    def __init__(self, service: ReplayServer, log: EventLog, *names: str) -> None:
        model = Anthropic("claude-sonnet-4-6", api_key=KEY, base_url=service.base_url)

        def make() -> Worker:
            options = Options(temperature=0.5, extra=EXTRA)
            return Worker(model, tools=[look], hooks=[remind], options=options, response_retry=Retry(first=0.0))

        workers: Any = dict.fromkeys(names or ("clerk",), make)
        self.server = WebServer(workers, port=0, settings=Settings(), log=log)
        self.http = aiohttp.ClientSession(trust_env=False)

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.http.get(self.server.url + path) as response:
            return response.status, await response.json()


async def starts(site: Site, run_id: str) -> list[int]:
    """The numbers of the records with which attempts start."""
    entry = await site.server.state.runs.find(run_id)
    await entry.open()
    records: list[Any] = []
    entry.run.records.subscribe(records.append).dispose()
    return [one.seq for one in records if isinstance(one.event, AttemptStart)]


async def test_the_request_of_each_attempt_is_what_the_service_received(tmp_path: Path) -> None:
    failed = say("Half") + fail("overloaded", retryable=True)
    answers = [failed, call("look", key="C major"), "It is in the drawer."]
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(ReplayServer(answers))
        log = await stack.enter_async_context(SQLiteLog(tmp_path / "runs.db"))
        site = Site(service, log)
        await stack.enter_async_context(site.http)
        async with site.server:
            entry = site.server.state.runs.start("Where is it?")
            assert entry.here is not None
            await entry.here
            numbers = await starts(site, entry.id)
            assert len(numbers) == len(service.requests) == 3
            for seq, received in zip(numbers, service.requests, strict=True):
                status, sent = await site.get(f"api/runs/{entry.id}/requests/{seq}")
                assert (status, sent["doubts"], sent["model"]) == (200, [], "claude-sonnet-4-6")
                assert sent["url"] == f"{service.base_url}{received.path}"
                assert isinstance(received.body, dict)
                hidden = {"url": "https://mcp.example", "authorization_token": "***"}
                assert sent["body"] == {**received.body, "mcp_servers": [hidden]}
                assert KEY not in str(sent)
                assert "Be brief." in str(sent["body"]["messages"])
        # Another process knows the messages of the records alone, and what its own worker would do with them.
        other = Site(service, log)
        await stack.enter_async_context(other.http)
        async with other.server:
            _, sent = await other.get(f"api/runs/{entry.id}/requests/{numbers[-1]}")
            assert (sent["doubts"], sent["hooks"]) == (["process", "hooks"], ["remind"])
            assert "Be brief." not in str(sent["body"]["messages"])
            assert sent["body"]["temperature"] == 0.5
        # A server without this worker knows the conversation.
        stranger = Site(service, log, "porter")
        await stack.enter_async_context(stranger.http)
        async with stranger.server:
            _, sent = await stranger.get(f"api/runs/{entry.id}/requests/{numbers[-1]}")
            assert (sent["url"], sent["doubts"], list(sent["body"])) == ("", ["worker"], ["conversation"])


async def test_the_changes_of_hooks_are_kept_for_the_last_turns_of_a_run() -> None:
    def make() -> Worker:
        calls = [call("look", key=str(turn)) for turn in range(KEPT_TURNS)]
        model = ScriptedModel([*calls, say("In the drawer.")])
        return Worker(model, tools=[look], hooks=[remind])

    async with WebServer(make, port=0) as server, aiohttp.ClientSession(trust_env=False) as http:
        entry = server.state.runs.start("Where is it?")
        assert entry.here is not None
        await entry.here
        records: list[Any] = []
        entry.here.records.subscribe(records.append).dispose()
        numbers = [one.seq for one in records if isinstance(one.event, AttemptStart)]
        assert len(numbers) == KEPT_TURNS + 1
        for seq, doubts in ((numbers[0], ["hooks", "form"]), (numbers[1], ["form"])):
            async with http.get(f"{server.url}api/runs/{entry.id}/requests/{seq}") as response:
                sent = await response.json()
            assert sent["doubts"] == doubts
            assert ("Be brief." in str(sent["body"])) is ("hooks" not in doubts)


async def test_a_model_without_http_shows_what_it_was_given_and_other_records_are_not_requests(
    open_desk: OpenDesk,
) -> None:
    desk = await open_desk("Hello")
    run: Body = await desk.begin("hi")
    await desk.ended(run["id"])
    answers = [await desk.get(f"api/runs/{run['id']}/requests/{seq}") for seq in range(1, 4)]
    (found,) = [sent for status, sent in answers if status == 200]
    assert found["doubts"] == ["form"]
    assert found["body"]["conversation"]["messages"][0]["role"] == "user"
    assert {each["name"] for each in found["body"]["tools"]} == {"wait", "delete", "order", "sure"}
    assert [sent["error"]["code"] for status, sent in answers if status == 404] == ["no_request", "no_request"]
    for path, status in (("one/requests/1", 404), (f"{run['id']}/requests/x", 400)):
        assert (await desk.get(f"api/runs/{path}"))[0] == status


async def test_the_requests_of_runs_in_tools_and_of_several_models_are_not_pretended_to_be_known() -> None:
    def inner() -> Worker:
        return Worker(ScriptedModel(["Inside."]), system="Only you know.")

    research = worker_tool(inner, name="research", description="Look something up.")

    def outer() -> Worker:
        model = ScriptedModel([call("research", task="Tides"), "Done."])
        return Worker(fallback(model, ScriptedModel([])), tools=[research])

    async with WebServer(outer, port=0) as server, aiohttp.ClientSession(trust_env=False) as http:
        entry = server.state.runs.start("What are tides?")
        assert entry.here is not None
        await entry.here
        found: list[Any] = []
        for seq in range(1, entry.here.last_seq + 1):
            async with http.get(f"{server.url}api/runs/{entry.id}/requests/{seq}") as response:
                if response.status == 200:
                    found.append(await response.json())
        assert [sent["doubts"] for sent in found] == [["form"], ["nested"], ["form"]]
        conversation = found[1]["body"]["conversation"]
        assert conversation["system"] == "Only you know."
        assert "Tides" in str(conversation["messages"])
