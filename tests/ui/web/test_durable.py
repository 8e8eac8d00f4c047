"""Runs as Durable Streams, over each store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from rxworker import Approve, Paused, Worker, before_tool_call, tool
from rxworker.events import Record, RunStop, TextDelta
from rxworker.hooks import Pause, ToolCallContext
from rxworker.log import EventLog, MemoryLog, SQLiteLog
from rxworker.log.format import Entry, entries_of
from rxworker.log.values import RunInfo, RunRow
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols import decode_record
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.ui_messages import UiMessageEncoder
from rxworker.testing import ScriptedModel, call, say
from rxworker.ui.web import Settings, WebRequest, WebServer
from rxworker.ui.web.guard import Guard
from rxworker.ui.web.http.request import get
from rxworker.ui.web.runs.store import RunStore
from rxworker.ui.web.server import add_security_headers, aiohttp_route, guarded
from rxworker.ui.web.streams import durable
from rxworker.ui.web.streams.durable import START, LogStream, answer_stream, run_stream
from rxworker.ui.web.streams.streams import Streams
from tests.log.processes import stored
from tests.whole import one_of

Client = TestClient[Any, Any]
VIEWS = ["", "/ag-ui", "/ui"]


@pytest.fixture(params=one_of(["sqlite", "memory"]))
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[EventLog, None]:
    opened = SQLiteLog(tmp_path / "runs.db") if request.param == "sqlite" else MemoryLog()
    async with opened:
        yield opened


@pytest.fixture
async def client(log: EventLog) -> AsyncGenerator[Client, None]:
    async with served(log) as client:
        yield client


@asynccontextmanager
async def served(log: EventLog, *, long_poll: float = 0.2, events: float = durable.EVENTS) -> AsyncGenerator[Client]:
    settings = Settings()
    streams = Streams(settings, RunStore(settings))

    async def handle(request: WebRequest) -> web.Response | None:
        view = request.path.partition("/stream")[2]
        source = run_stream(log, request.params["id"], view, request.query)
        return await answer_stream(request, source, streams)

    app = web.Application(middlewares=[guarded(Guard(settings), settings)])
    app.on_response_prepare.append(add_security_headers)
    app.add_routes([aiohttp_route(get(f"/runs/{{id}}/stream{view}", handle)) for view in VIEWS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "LONG_POLL", long_poll)
        patch.setattr(durable, "EVENTS", events)
        async with TestClient(TestServer(app)) as client:
            yield client


@tool
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


async def a_run(log: EventLog) -> str:
    """A run with a tool, over."""
    model = ScriptedModel([say("Let me see. " * 20) + call("pay", euros=3), "Paid, and done."])
    run = Worker(model, tools=[pay], log=log).run("Pay 3, please")
    await run
    return run.id


def offset(epoch: int, number: int) -> str:
    return f"{epoch:016d}_{number:016d}"


def events_of(text: str) -> list[tuple[str, Any]]:
    """The server-sent events: types and data."""
    found: list[tuple[str, Any]] = []
    for frame in text.split("\n\n"):
        if frame:
            kind, *data = frame.split("\n")
            joined = "\n".join(line.removeprefix("data:") for line in data)
            found.append((kind.removeprefix("event: "), json.loads(joined)))
    return found


async def begin(log: EventLog, run_id: str, texts: int = 3) -> tuple[Any, int]:
    """A run that goes on: its claim, and the number of its last record."""
    claim = await log.claim(run_id, create=True)
    await log.append(claim, texts_of(run_id, claim.epoch, 0, texts), after=0)
    return claim, texts


def texts_of(run_id: str, epoch: int, after: int, count: int) -> list[Entry]:
    records = [Record(after + n, run_id, 1, 1, 0.0, TextDelta(0, f"{after + n} ")) for n in range(1, count + 1)]
    return entries_of(records, epoch)


async def end(log: EventLog, claim: Any, after: int) -> None:
    record = Record(after + 1, claim.run_id, 0, 0, 0.0, RunStop())
    entries = entries_of([record], claim.epoch)
    await log.append(claim, entries, after=after, row=RunRow(status="finished"))


# Reads


async def test_a_run_is_a_closed_stream_of_its_records(client: Client, log: EventLog) -> None:
    run = await a_run(log)
    records = await stored(log, run)
    response = await client.get(f"/runs/{run}/stream")
    assert response.status == 200
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Stream-Next-Offset"] == offset(1, len(records))
    assert response.headers["Stream-Up-To-Date"] == "true"
    assert response.headers["Stream-Closed"] == "true"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    got = [decode_record(json.dumps(message)) for message in await response.json()]
    assert got == records


async def test_every_offset_is_followed_by_the_next_record(log: EventLog) -> None:
    run = await a_run(log)
    records = await stored(log, run)
    for after in range(1, len(records) + 1):
        page = await LogStream(log, run).read(offset(1, after))
        assert [decode_record(message) for message in page.messages] == records[after:]
        assert (page.is_up_to_date, page.is_closed) == (True, True)


@pytest.mark.parametrize("view", ["/ag-ui", "/ui"])
async def test_a_projection_goes_on_after_every_offset(log: EventLog, view: str) -> None:
    run = await a_run(log)
    encoder = UiMessageEncoder(run) if view == "/ui" else AgUiEncoder(run, run, snapshot=True)
    parts = [encoder.feed(record) for record in await stored(log, run)]
    assert encoder.is_over
    for after in range(len(parts) + 1):
        at = offset(1, after) if after else START
        page = await run_stream(log, run, view).read(at)
        wanted = [encode_lenient(part) for some in parts[after:] for part in some]
        assert list(page.messages) == wanted
        assert page.is_closed


@pytest.mark.product(2)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [1, 700])
async def test_pages_joined_are_the_stream(
    client: Client, log: EventLog, view: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await a_run(log)
    whole = await (await client.get(f"/runs/{run}/stream{view}")).json()
    monkeypatch.setattr(durable, "PAGE_BYTES", size)
    joined, at, pages = list[Any](), "-1", 0
    while True:
        response = await client.get(f"/runs/{run}/stream{view}", params={"offset": at})
        joined += await response.json()
        at, pages = response.headers["Stream-Next-Offset"], pages + 1
        if "Stream-Closed" in response.headers:
            break
        assert "Stream-Up-To-Date" not in response.headers
    assert joined == whole
    assert pages > 2
    async with served(log, long_poll=20.0) as patient:
        query = {"offset": "-1", "live": "sse"}
        text = await (await patient.get(f"/runs/{run}/stream{view}", params=query)).text()
    assert [part for kind, some in events_of(text) if kind == "data" for part in some] == whole


async def test_now_is_the_end(client: Client, log: EventLog) -> None:
    _, last = await begin(log, "run-1")
    response = await client.get("/runs/run-1/stream", params={"offset": "now"})
    assert await response.json() == []
    assert response.headers["Stream-Next-Offset"] == offset(1, last)
    assert response.headers["Cache-Control"] == "no-store"
    assert "Stream-Closed" not in response.headers
    assert "ETag" not in response.headers


async def test_a_client_that_has_the_page_gets_a_304_until_the_stream_changes(client: Client, log: EventLog) -> None:
    claim, last = await begin(log, "run-1")
    first = await client.get("/runs/run-1/stream")
    again = {"If-None-Match": f'"other", {first.headers["ETag"]}'}
    assert (await client.get("/runs/run-1/stream", headers=again)).status == 304
    await end(log, claim, last)
    assert (await client.get("/runs/run-1/stream", headers=again)).status == 200


async def test_a_head_has_the_end_and_no_body(client: Client, log: EventLog) -> None:
    claim, last = await begin(log, "run-1")
    response = await client.head("/runs/run-1/stream")
    assert response.status == 200
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Stream-Next-Offset"] == offset(1, last)
    assert response.headers["Cache-Control"] == "no-store"
    assert "Stream-Closed" not in response.headers
    await end(log, claim, last)
    response = await client.head("/runs/run-1/stream")
    assert response.headers["Stream-Closed"] == "true"
    assert response.headers["Stream-Next-Offset"] == offset(1, last + 1)


# Refusals


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
async def test_it_is_read_only(client: Client, method: str) -> None:
    response = await client.request(method, "/runs/run-1/stream")
    assert response.status == 405
    assert response.headers["Allow"] == "GET,HEAD"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "query",
    [
        "offset=",
        "offset=1",
        "offset=1_2",
        "offset=-2",
        "offset=-1&offset=-1",
        f"offset={offset(1, 1)},",
        "offset=" + "\u0661" * 16 + "_" + "\u0661" * 16,
        "live=long-poll",
        "live=sse",
        "live=ever&offset=-1",
    ],
)
async def test_malformed_parameters_get_a_400(client: Client, log: EventLog, query: str) -> None:
    await begin(log, "run-1")
    assert (await client.get(f"/runs/run-1/stream?{query}")).status == 400


@pytest.mark.parametrize(
    ("query", "remedy"),
    [
        ("offset=1_2", "give -1, now or a Stream-Next-Offset of this stream"),
        ("offset=-1&live=ever", "give long-poll or sse"),
    ],
)
async def test_the_error_of_a_malformed_parameter_names_what_it_may_be(
    client: Client, log: EventLog, query: str, remedy: str
) -> None:
    await begin(log, "run-1")
    answer = await client.get(f"/runs/run-1/stream?{query}")
    assert (await answer.json())["error"]["message"].endswith(remedy)


@pytest.mark.parametrize("query", ["", "?offset=-1&live=long-poll", "?offset=now&live=sse"])
@pytest.mark.parametrize("view", VIEWS)
async def test_an_unknown_run_gets_a_404(client: Client, query: str, view: str) -> None:
    assert (await client.get(f"/runs/run-9/stream{view}{query}")).status == 404
    assert (await client.head(f"/runs/run-9/stream{view}")).status == 404


async def test_a_deleted_run_gets_a_404(client: Client, log: EventLog) -> None:
    run = await a_run(log)
    await log.delete(run)
    assert (await client.get(f"/runs/{run}/stream")).status == 404
    assert (await client.head(f"/runs/{run}/stream")).status == 404


async def test_a_server_over_a_log_serves_the_runs_of_a_user_without_secrets(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-live-0123456789abcdefXYZ"
    monkeypatch.setenv("DESK_API_KEY", secret)

    def make() -> Worker:
        return Worker(ScriptedModel([say(f"The key is {secret}.")]))

    async with (
        WebServer(make, port=0, log=log, user=lambda request: request.query["user"]) as server,
        aiohttp.ClientSession(trust_env=False) as http,
    ):
        async with http.post(f"{server.url}api/runs?user=ann", json={"input": "Hi"}) as response:
            run = (await response.json())["id"]
        for view in VIEWS:
            stream = f"{server.url}runs/{run}/stream{view}"
            async with http.get(f"{stream}?user=ann&offset=-1&live=sse") as response:
                text = await response.text()
                assert response.status == 200
                assert '"streamClosed":true' in text
                assert "The" in text
                assert secret not in text
            async with http.get(f"{stream}?user=bob") as response:
                assert response.status == 404
            async with http.post(f"{stream}?user=ann", json={}) as response:
                assert response.status == 405


async def test_a_server_without_a_log_has_none() -> None:
    async with (
        WebServer(lambda: Worker(ScriptedModel(["Hello!"])), port=0) as server,
        aiohttp.ClientSession(trust_env=False) as http,
        http.get(f"{server.url}runs/run-1/stream") as response,
    ):
        assert response.status == 404
        assert "give the server a log" in (await response.json())["error"]["message"]


@pytest.mark.parametrize("at", [offset(1, 4), offset(2, 3), offset(0, 1), offset(1, 0)])
@pytest.mark.parametrize("view", VIEWS)
async def test_an_offset_that_the_run_does_not_have_gets_a_410(
    client: Client, log: EventLog, at: str, view: str
) -> None:
    await begin(log, "run-1")
    response = await client.get(f"/runs/run-1/stream{view}", params={"offset": at})
    assert response.status == 410


async def test_a_record_that_a_later_owner_has_replaced_is_gone(client: Client) -> None:
    async with MemoryLog(lease=0.0) as log, served(log) as client:
        await begin(log, "run-1")
        claim = await log.claim("run-1")
        await log.append(claim, texts_of("run-1", claim.epoch, 3, 2), after=3)
        # As if the first owner had written more records, which were lost with its machine.
        response = await client.get("/runs/run-1/stream", params={"offset": offset(1, 4)})
        assert response.status == 410
        response = await client.get("/runs/run-1/stream", params={"offset": offset(1, 3)})
        assert [message["seq"] for message in await response.json()] == [4, 5]
        assert response.headers["Stream-Next-Offset"] == offset(2, 5) > offset(1, 3)


# Live


async def test_a_long_poll_waits_for_the_next_records(log: EventLog) -> None:
    claim, last = await begin(log, "run-1")
    async with served(log, long_poll=60.0) as client:
        query = {"offset": offset(1, last), "live": "long-poll"}
        waiting = asyncio.create_task(client.get("/runs/run-1/stream", params=query))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await log.append(claim, texts_of("run-1", 1, last, 2), after=last)
        response = await waiting
        assert response.status == 200
        assert [message["seq"] for message in await response.json()] == [last + 1, last + 2]
        assert int(response.headers["Stream-Cursor"]) > 0


async def test_a_long_poll_ends_without_records(client: Client, log: EventLog) -> None:
    _, last = await begin(log, "run-1")
    query = {"offset": "now", "live": "long-poll", "cursor": "99999999"}
    response = await client.get("/runs/run-1/stream", params=query)
    assert response.status == 204
    assert response.headers["Stream-Next-Offset"] == offset(1, last)
    assert response.headers["Stream-Up-To-Date"] == "true"
    assert int(response.headers["Stream-Cursor"]) > 99999999


async def test_a_long_poll_of_an_ended_run_does_not_wait(log: EventLog) -> None:
    run = await a_run(log)
    async with served(log, long_poll=60.0) as client:
        query = {"offset": "now", "live": "long-poll"}
        response = await client.get(f"/runs/{run}/stream", params=query)
        assert response.status == 204
        assert response.headers["Stream-Closed"] == "true"


async def test_a_long_poll_of_a_run_that_is_deleted_gets_a_404(log: EventLog) -> None:
    claim, _ = await begin(log, "run-1")
    await log.release(claim)
    async with served(log, long_poll=60.0) as client:
        query = {"offset": "now", "live": "long-poll"}
        waiting = asyncio.create_task(client.get("/runs/run-1/stream", params=query))
        await asyncio.sleep(0.05)
        await log.delete("run-1")
        assert (await waiting).status == 404


@pytest.mark.parametrize("offset", ["now", "-1"])
async def test_a_run_that_is_deleted_while_it_is_read_gets_a_404(
    log: EventLog, offset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, _ = await begin(log, "run-1")
    await log.release(claim)
    async with served(log) as client:
        info = log.info

        async def found_and_deleted(run_id: str) -> RunInfo | None:
            found = await info(run_id)
            monkeypatch.setattr(log, "info", info)
            await log.delete(run_id)
            return found

        monkeypatch.setattr(log, "info", found_and_deleted)
        assert (await client.get("/runs/run-1/stream", params={"offset": offset})).status == 404


@pytest.mark.parametrize("view", VIEWS)
async def test_events_follow_a_run_to_its_end(log: EventLog, view: str) -> None:
    async with served(log, long_poll=60.0) as client:
        model = ScriptedModel(["An old pond. " * 10], delay=0.005)
        run = Worker(model, log=log).run("A poem")
        while await log.info(run.id) is None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        query = {"offset": "-1", "live": "sse"}
        response = await client.get(f"/runs/{run.id}/stream{view}", params=query)
        assert response.headers["Content-Type"] == "text/event-stream"
        events = events_of(await response.text())
        assert await run
        *controls, last = [data for kind, data in events if kind == "control"]
        assert controls
        assert all(control["streamCursor"] for control in controls)
        assert last["streamClosed"] is True
        assert "streamCursor" not in last
        data = [part for kind, some in events if kind == "data" for part in some]
        assert data == await (await client.get(f"/runs/{run.id}/stream{view}")).json()


async def test_a_reader_that_has_all_records_of_an_ended_run_waits_no_longer(log: EventLog) -> None:
    """It may have read the last record before it was known that the run has ended."""
    run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
    await run
    source = LogStream(log, run.id)
    async with asyncio.timeout(60):
        assert await source.wait(offset(1, run.last_seq))
    assert (await source.read(offset(1, run.last_seq))).is_closed


async def test_events_end_after_a_while_with_the_offset_to_continue_from(log: EventLog) -> None:
    _, last = await begin(log, "run-1")
    async with served(log, long_poll=0.01, events=0.3) as client:
        query = {"offset": "now", "live": "sse"}
        response = await client.get("/runs/run-1/stream", params=query)
        events = events_of(await response.text())
    assert len(events) >= 3  # at the beginning, after each pause, and at the end
    for kind, data in events:
        assert kind == "control"
        assert (data["streamNextOffset"], data["upToDate"]) == (offset(1, last), True)


async def test_events_end_when_the_log_is_closed(log: EventLog) -> None:
    await begin(log, "run-1")
    async with served(log, long_poll=60.0) as client:
        query = {"offset": "-1", "live": "sse"}
        response = await client.get("/runs/run-1/stream", params=query)
        await response.content.readuntil(b"upToDate")
        await log.close()
        async with asyncio.timeout(60):
            await response.read()


async def test_a_paused_run_is_closed_and_its_continuation_is_another_stream(client: Client, log: EventLog) -> None:
    @before_tool_call(name="permit")
    def permit(context: ToolCallContext) -> Pause:
        return Pause("Paying cannot be undone.")

    model = ScriptedModel([call("pay", euros=3), "Paid."])
    worker = Worker(model, tools=[pay], hooks=[permit], log=log)
    paused = await worker.run("Pay 3, please")
    (info,) = await log.list()
    response = await client.get(f"/runs/{info.run_id}/stream/ag-ui")
    assert response.headers["Stream-Closed"] == "true"
    assert isinstance(paused, Paused)
    decisions = {call.id: Approve() for call in paused.pending}
    resumed = worker.resume(paused, decisions=decisions)
    await resumed
    assert resumed.id != info.run_id
    response = await client.get(f"/runs/{resumed.id}/stream/ag-ui")
    assert response.headers["Stream-Closed"] == "true"
