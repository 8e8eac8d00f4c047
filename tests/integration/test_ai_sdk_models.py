"""A worker as a model of the AI SDK: its clients of Open Responses, of Responses and of Chat Completions, from npm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rxworker import Worker, tool
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say, think
from rxworker.ui.web import WebServer
from tests.whole import one_of

if TYPE_CHECKING:
    from conftest import Clients


@tool
def look() -> str:
    """Look."""
    return "nothing"


@pytest.mark.parametrize("client", one_of(["open-responses", "responses", "chat"]))
async def test_the_ai_sdk_talks_to_a_worker(clients: Clients, client: str) -> None:
    """The worker looks by itself, and the client opens two tabs.

    A second question has the history as each client sends it.
    """
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        asked.append(request)
        match len(asked):
            case 1:
                return think("Well.") + say("I look. ") + call("look")
            case 2:
                return call("open_tab", url="a") + call("open_tab", url="b")
            case _:
                return say("Open.")

    def make() -> Worker:
        return Worker(ScriptedModel(script), tools=[look])

    async with WebServer(make, port=0) as server:
        seen = await clients.ask("ask_model", address=f"{server.url}v1", client=client)
        runs = list(reversed(list(server.state.runs)))
    assert (seen["text"], seen["second"], seen["steps"]) == ("Open.", "Open.", 2)
    assert seen["made"] == ["a", "b"]
    assert seen["tokens"] == 45
    assert [run.resumes for run in runs] == [None, runs[0].id, None]
    results = [r.text for m in asked[2].conversation.messages for r in m.tool_results]
    assert results == ["nothing", "opened a", "opened b"]
    history = asked[3].conversation
    assert history.system == "Be brief."
    assert [m.text for m in history.messages if m.text] == ["go", "I look. ", "Open.", "again"]
    assert [r.text for m in history.messages for r in m.tool_results] == ["opened a", "opened b"]
