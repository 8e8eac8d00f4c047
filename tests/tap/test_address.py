"""Runs at an address: of AG-UI, of the AI SDK, and of another server of rxworker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from rxworker import Worker
from rxworker.errors import HttpStatusError, RemoteProtocolError
from rxworker.events import Record, TextDelta
from rxworker.log import MemoryLog, Replica
from rxworker.messages import JsonObject
from rxworker.protocols.native import end_frame, record_frame, retry_frame
from rxworker.run.run import end_of
from rxworker.tap import tap
from rxworker.tap.sources import AGUI, UIMessages, ag_ui_events, json_events, remote_records
from rxworker.tap.sources.address import DELTAS
from rxworker.testing import ScriptedModel, call, think
from rxworker.testing.conformance import lint
from rxworker.ui.web import WebServer
from tests.runs import reached
from tests.tap.test_wire import figures, look, records_of


def worker() -> Worker:
    return Worker(ScriptedModel([think("Hm") + call("look", city="K"), "Done."]), tools=[look])


async def test_a_run_of_another_server_is_the_same_here() -> None:
    expected = worker().run("Go.")
    await expected
    chat: JsonObject = {
        "id": "chat-1",
        "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Go."}]}],
    }
    async with WebServer(lambda _: worker(), port=0) as server:
        runs = [
            tap(ag_ui_events(f"{server.url}ag-ui", "Go."), AGUI()),
            tap(json_events(f"{server.url}api/chat", chat), UIMessages(given="Go.")),
        ]
        for run in runs:
            await run
            assert figures(run.state) == figures(expected.state)
            assert lint(records_of(run)) == []


async def served(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]], use: Callable[[str], Awaitable[Any]]
) -> Any:
    app = web.Application()
    app.router.add_route("*", "/", handle)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        return await use(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    finally:
        await runner.cleanup()


async def test_records_go_on_after_the_last_one_when_the_connection_breaks() -> None:
    run = worker().run("Go.")
    await run
    records = records_of(run)
    asked: list[str | None] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        last = request.headers.get("Last-Event-ID")
        asked.append(last)
        if len(asked) == 3:
            return web.Response(status=503)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(retry_frame(0))
        after = int(last or 0)
        for record in records[after : after + 7]:
            await response.write(record_frame(record))
        if after + 7 >= len(records):
            await response.write(end_frame("finished"))
        elif len(asked) % 2:
            assert request.transport is not None
            request.transport.close()
        return response

    async def use(url: str) -> Any:
        again = tap(remote_records(url))
        await again
        return again

    again = await served(handle, use)
    assert figures(again.state) == figures(run.state)
    assert [type(each.event) for each in whole(records_of(again))] == [type(each.event) for each in whole(records)]
    assert asked[:5] == [None, "7", "14", "14", "21"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"data: [1]\n\n", 200, RemoteProtocolError),
        (b"no", 404, HttpStatusError),
        (b'data: {"seq"', 200, RemoteProtocolError),
    ],
)
async def test_an_answer_that_is_not_a_stream_ends_the_run(body: bytes, status: int, error: type[Exception]) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(
            body=body, status=status, content_type="text/event-stream" if status == 200 else "text/plain"
        )

    async def use(url: str) -> None:
        sources: list[Any] = [json_events(url), remote_records(url, headers={"Authorization": "Bearer secret"})]
        for source in sources:
            with pytest.raises(error) as raised:
                await tap(source, UIMessages())
            assert "secret" not in str(raised.value)

    await served(handle, use)


async def test_an_address_without_events_is_named() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(text="It works.")

    async def use(url: str) -> None:
        with pytest.raises(RemoteProtocolError, match="answered without a server-sent event"):
            await tap(json_events(url), UIMessages())
        with pytest.raises(RemoteProtocolError, match="answered without a record"):
            await tap(remote_records(url))

    await served(handle, use)


def whole(records: list[Record]) -> list[Record]:
    """The records with adjacent deltas as one, as a server sends them to a reader that is late."""
    made: list[Record] = []
    for record in records:
        last, event = made[-1] if made else None, record.event
        if (
            last is not None
            and isinstance(event, DELTAS)
            and type(event) is type(last.event)
            and last.path == record.path
        ):
            before: Any = last.event
            covers = record.covers + last.covers
            made[-1] = replace(record, event=replace(event, text=before.text + event.text), covers=covers)
        else:
            made.append(record)
    return made


@pytest.mark.parametrize("cut", range(2, 40, 3))
async def test_a_tap_that_is_started_again_has_every_record_once(cut: int) -> None:
    """A late reader is sent merged deltas, which are others than those that the first tap has stored."""
    answer = "A long answer, of which a late reader gets all at once, and an early one word by word. " * 2
    run = Worker(ScriptedModel([think("Hm, " * 9) + call("look", city="K"), answer]), tools=[look]).run("Go.")
    await run
    records = records_of(run)
    sent: list[list[Record]] = [records[:cut], whole(records)]

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"".join(record_frame(record) for record in sent.pop(0)))
        if sent:
            await asyncio.Event().wait()
        await response.write(end_frame("finished"))
        return response

    async def use(url: str) -> None:
        async with MemoryLog() as log:
            first = await tap(remote_records(url), log=log, run_id="r").started()
            for _ in range(cut * 7 % 50):
                await asyncio.sleep(0)
            await first.hand_over()
            await end_of(first)
            second = tap(remote_records(url), log=log, run_id="r")
            await second
            replica = Replica(log, "r")
            await replica.ended()
            assert figures(replica.state) == figures(run.state)
            assert lint(list(replica.hub.history.records(0))) == []

    await served(handle, use)


async def test_no_records_are_left() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(status=204)

    async def use(url: str) -> list[Record]:
        return [record async for record in remote_records(url)]

    assert await served(handle, use) == []


async def test_a_tap_that_is_cancelled_leaves_its_connection() -> None:
    gone = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"type":"text-delta","id":"1","delta":"Half"}\n\n')
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return response

    async def use(url: str) -> None:
        for begun in (True, False):
            gone.clear()
            run = await tap(json_events(url), UIMessages()).started()
            if begun:
                await reached(run, TextDelta)
            await run.cancel()
            await end_of(run)
            await asyncio.wait_for(gone.wait(), 30)

    await served(handle, use)
