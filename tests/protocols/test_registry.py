"""A protocol that is added to the registry, and served by the web server."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import aiohttp
import msgspec
import pytest
from msgspec import Struct

from rxworker import Worker
from rxworker.errors import LocalProtocolError
from rxworker.messages import Message
from rxworker.protocols import UI_PROTOCOLS, RunRequest, UiProtocol, WatchedRun
from rxworker.protocols.common import data_line, pump
from rxworker.testing import ScriptedModel
from rxworker.ui.web import WebServer
from rxworker.views import Tracker
from rxworker.views.changes import BlockGrow, Change, ViewCut, ViewFinish


class Question(Struct, frozen=True):
    """The body of a request."""

    thread: str
    text: str


def read_question(data: bytes) -> RunRequest:
    try:
        question = msgspec.json.decode(data, type=Question)
    except msgspec.DecodeError as error:
        raise LocalProtocolError(f"this is not a question: {error}") from error
    return RunRequest(question.thread, (Message.user(question.text),))


def lines_of(change: Change) -> list[bytes]:
    match change:
        case BlockGrow():
            return [data_line({"text": change.text})]
        case ViewFinish():
            return [data_line({"done": True})]
        case ViewCut():
            return [data_line({"error": change.reason})]
        case _:
            return []


async def stream_lines(run: WatchedRun) -> AsyncGenerator[bytes, None]:
    tracker = Tracker()
    yield data_line({"run": run.id, "thread": run.conversation_id})
    async for batch in pump(run.batches, tracker.feed, tracker.close):
        for change in batch:
            for line in lines_of(change):
                yield line


async def body_of(response: aiohttp.ClientResponse, status: int = 200) -> list[str]:
    text = await response.text()
    assert response.status == status, text
    return text.split("\n\n")


async def test_a_protocol_in_the_registry_is_served_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UI_PROTOCOLS, "lines", UiProtocol("/api/lines", read_question, stream_lines))

    def make_worker() -> Worker:
        return Worker(ScriptedModel(["Hello!", "Bye!"]))

    async with WebServer(make_worker, port=0) as server, aiohttp.ClientSession(trust_env=False) as http:
        url = f"{server.url}api/lines"
        async with http.post(url, json={"thread": "t-1", "text": "hi"}) as response:
            assert response.content_type == "text/event-stream"
            run = response.headers["X-Rxworker-Run"]
            lines = await body_of(response)
        expected = [f'data: {{"run":"{run}","thread":"t-1"}}', 'data: {"done":true}']
        assert [lines[0], lines[-2]] == expected
        assert "".join(line[15:-2] for line in lines[1:-2]) == "Hello!"
        # The same run is watched under the protocol's name, and the conversation continues.
        async with http.get(f"{server.url}api/runs/{run}/lines") as response:
            assert await body_of(response) == lines
        async with http.post(url, json={"thread": "t-1", "text": "bye"}) as response:
            assert '"text":"Bye' in "".join(await body_of(response))
        async with http.post(url, json={"thread": "t-1"}) as response:
            [error] = await body_of(response, 400)
            assert "this is not a question" in error


@pytest.mark.parametrize("name", UI_PROTOCOLS)
async def test_every_protocol_watches_a_run_of_the_api(name: str) -> None:
    def make_worker() -> Worker:
        return Worker(ScriptedModel(["Hello!"]))

    async with WebServer(make_worker, port=0) as server, aiohttp.ClientSession(trust_env=False) as http:
        async with http.post(f"{server.url}api/runs", json={"input": "hi"}) as response:
            run = (await response.json())["id"]
        async with http.get(f"{server.url}api/runs/{run}/{name}") as response:
            assert "Hello" in "".join(await body_of(response))
