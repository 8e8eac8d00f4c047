"""Published streams over HTTP: the list, the newest value, server-sent events and the WebSocket.

Who may see which, and what a cursor of another time means.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import reactivex
from msgspec import Struct
from reactivex.subject import Subject

from rxworker import Worker
from rxworker.boards import Published, publish
from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.hub import Latest
from rxworker.testing import ScriptedModel
from rxworker.ui.web import Settings, WebRequest, WebServer, make_app, sockets
from rxworker.ui.web import server as server_module
from rxworker.ui.web.streams import streams

from .conftest import OpenDesk

Message = dict[str, Any]


class Cost(Struct):
    tool: str
    dollars: float


def user_of(request: WebRequest) -> str | None:
    return request.headers.get("X-User")


@asynccontextmanager
async def serving(
    *published: Published[Any], **options: Any
) -> AsyncGenerator[tuple[WebServer, aiohttp.ClientSession], None]:
    workers = Worker(ScriptedModel(["Hello!"]))
    async with (
        aiohttp.ClientSession(trust_env=False) as http,
        WebServer(lambda: workers, port=0, streams=published, **options) as server,
    ):
        yield server, http


async def read_frame(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The next frame of server-sent events."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(10):
        while (line := (await response.content.readline()).decode().rstrip("\n")) or not fields:
            name, _, value = line.partition(": ")
            fields[name] = value
    return fields


async def next_of(socket: aiohttp.ClientWebSocketResponse, kind: str) -> Message:
    while True:
        message: Message = await socket.receive_json(timeout=10)
        if message["type"] == kind:
            return message


# HTTP


async def test_the_list_has_each_stream_with_its_schema(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    desk.server.state.publish(publish("cost by tool", Subject[Cost](), type=Cost, keep=3))
    status, answer = await desk.get("api/streams")
    assert status == 200
    assert answer["instance"] == desk.server.state.instance
    [stream] = answer["streams"]
    assert stream.pop("epoch") > 0
    assert stream == {
        "name": "cost by tool",
        "schema": {
            "title": "Cost",
            "type": "object",
            "properties": {"tool": {"type": "string"}, "dollars": {"type": "number"}},
            "required": ["tool", "dollars"],
        },
        "keep": 3,
        "seq": 0,
        "status": "running",
        "reason": "",
    }


async def test_a_stream_has_its_newest_item(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    source = Subject[Cost]()
    stream = publish("cost by tool", source)
    served = desk.server.state.publish(stream)
    status, answer = await desk.get("api/streams/cost%20by%20tool")
    assert (status, answer["item"]) == (200, None)
    source.on_next(Cost("search", 0.5))
    status, answer = await desk.get("api/streams/cost%20by%20tool")
    assert answer["item"]["value"] == {"tool": "search", "dollars": 0.5}
    assert answer["cursor"] == f"{stream.epoch}-1"
    assert answer["stream"]["schema"]["title"] == "Cost"
    served.dispose()
    assert (await desk.get("api/streams/cost%20by%20tool"))[0] == 404


async def test_items_arrive_as_server_sent_events_and_continue_after_the_last_id(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    source = Subject[int]()
    stream = publish("count", source, keep="all")
    desk.server.state.publish(stream)
    source.on_next(10)
    async with desk.http.get(desk.url("api/streams/count/events")) as response:
        assert response.content_type == "text/event-stream"
        assert "retry" in await read_frame(response)
        first = await read_frame(response)
        source.on_next(20)
        second = await read_frame(response)
    assert [first["id"], second["id"]] == [f"{stream.epoch}-{n}" for n in (1, 2)]
    assert second["data"].endswith('"value":20}')
    source.on_next(30)
    source.on_completed()
    headers = {"Last-Event-ID": second["id"]}
    frames = await desk.frames("api/streams/count/events", headers=headers)
    assert [frame.get("id") for frame in frames] == [None, f"{stream.epoch}-3", None]
    assert frames[-1] == {"event": "end", "data": '{"status":"finished","reason":""}'}
    headers = {"Last-Event-ID": frames[1]["id"]}
    assert (await desk.get("api/streams/count/events", headers=headers))[0] == 204


@pytest.mark.parametrize(("after", "status"), [("7", 400), ("x-1", 400), ("{epoch}-3", 400), ("{epoch}-2", 204)])
async def test_a_cursor_is_one_of_the_stream(open_desk: OpenDesk, after: str, status: int) -> None:
    desk = await open_desk()
    stream = publish("count", reactivex.of(1, 2))
    desk.server.state.publish(stream)
    cursor = after.format(epoch=stream.epoch)
    found, answer = await desk.get("api/streams/count/events", params={"after": cursor})
    assert found == status
    if status == 400:
        assert answer["error"]["code"] == "bad_cursor"


async def test_a_cursor_of_an_earlier_process_begins_with_what_is_kept(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    before = publish("count", reactivex.range(1, 9), keep="all")
    after = publish("count", reactivex.range(1, 4), keep="all")
    desk.server.state.publish(after)
    assert before.epoch != after.epoch
    headers = {"Last-Event-ID": f"{before.epoch}-2"}
    frames = await desk.frames("api/streams/count/events", headers=headers)
    assert [frame.get("id") for frame in frames[1:-1]] == [f"{after.epoch}-{n}" for n in (1, 2, 3)]


async def test_an_error_of_the_observable_is_the_end_of_the_events(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    source = Subject[int]()
    desk.server.state.publish(publish("count", source))
    source.on_next(1)
    source.on_error(ValueError("the sum is not a number"))
    frames = await desk.frames("api/streams/count/events")
    assert frames[-1] == {"event": "end", "data": '{"status":"aborted","reason":"the sum is not a number"}'}
    assert (await desk.get("api/streams/count"))[1]["stream"]["status"] == "aborted"


async def test_what_is_sent_has_no_secrets_of_the_environment(
    open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-0123456789abcdef"
    monkeypatch.setenv("DOORS_API_KEY", secret)
    desk = await open_desk()
    source = Subject[str]()
    desk.server.state.publish(publish("text", source))
    source.on_next(f"the key is {secret}")
    texts = [str(await desk.get("api/streams")), str(await desk.get("api/streams/text"))]
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch_stream", "stream": "text"})
        texts.append(str(await next_of(socket, "items")))
        source.on_error(ValueError(secret))
        texts.append(str(await next_of(socket, "stream_end")))
    texts.append(str(await desk.frames("api/streams/text/events")))
    texts.append(str(await desk.get("api/streams")))
    assert secret not in "".join(texts)
    assert "***" in texts[1]


# the WebSocket


async def test_streams_and_runs_share_a_websocket(open_desk: OpenDesk) -> None:
    desk = await open_desk("Hello!")
    sources = {name: Subject[int]() for name in ("one", "two")}
    streams = {name: publish(name, source, keep="all") for name, source in sources.items()}
    for stream in streams.values():
        desk.server.state.publish(stream)
    run = (await desk.begin())["id"]
    async with desk.socket() as socket:
        for name in sources:
            await socket.send_json({"type": "watch_stream", "stream": name})
            sources[name].on_next(5)
            message = await next_of(socket, "items")
            assert (message["stream"], message["epoch"]) == (name, streams[name].epoch)
            assert [(item["seq"], item["value"]) for item in message["items"]] == [(1, 5)]
        await socket.send_json({"type": "watch", "run": run})
        assert (await next_of(socket, "end"))["run"] == run
        await socket.send_json({"type": "unwatch_stream", "stream": "one"})
        await socket.send_json({"type": "watch_stream", "stream": "three"})
        assert (await next_of(socket, "stream_gone"))["stream"] == "three"
        sources["one"].on_next(6)  # is not sent any more
        sources["two"].on_next(7)
        sources["two"].on_completed()
        assert (await next_of(socket, "items"))["stream"] == "two"
        end = {"type": "stream_end", "stream": "two", "status": "finished", "reason": ""}
        assert await next_of(socket, "stream_end") == end
    async with desk.socket() as socket:
        after = f"{streams['two'].epoch}-1"
        await socket.send_json({"type": "watch_stream", "stream": "two", "after": after})
        assert [item["value"] for item in (await next_of(socket, "items"))["items"]] == [7]
        await socket.send_json({"type": "watch_stream", "stream": "two", "after": "none"})
        refused = await next_of(socket, "error")
        assert (refused["code"], refused["stream"]) == ("bad_cursor", "two")


async def test_a_client_chooses_its_delivery(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    desk.server.state.publish(publish("count", reactivex.range(1, 6), keep="all"))
    numbers: dict[str, list[str | None]] = {}
    for delivery in ("coalesce", "latest", "reliable", "drop_oldest"):
        frames = await desk.frames("api/streams/count/events", params={"delivery": delivery})
        numbers[delivery] = [frame["data"][-2:-1] for frame in frames[1:-1]]
    every = ["1", "2", "3", "4", "5"]
    assert numbers == {"coalesce": every, "latest": ["5"], "reliable": every, "drop_oldest": every}
    status, answer = await desk.get("api/streams/count/events", params={"delivery": "fast"})
    assert status == 400
    assert "coalesce, reliable, latest or drop_oldest" in answer["error"]["message"]


async def test_a_stream_has_a_delivery_of_its_own() -> None:
    stream = publish("count", reactivex.range(1, 6), keep="all", delivery=Latest())
    async with serving(stream) as (server, http), http.get(f"{server.url}api/streams/count/events") as response:
        text = await response.text()
    assert text.count("id: ") == 1


async def test_each_item_is_encoded_once_for_all_clients(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    source = Subject[int]()
    desk.server.state.publish(publish("count", source))
    entry = desk.server.state.published.find("count", None)
    async with desk.socket() as socket:
        opened = [desk.http.get(desk.url("api/streams/count/events")) for _ in range(5)]
        responses = [await each for each in opened]
        await socket.send_json({"type": "watch_stream", "stream": "count"})
        for response in responses:
            await read_frame(response)
        for n in range(3):
            source.on_next(n)
            for response in responses:
                assert f'"value":{n}}}' in (await read_frame(response))["data"]
            await next_of(socket, "items")
        for response in responses:
            response.close()
    assert entry.item.count == 3


# who may see what


async def test_a_stream_is_seen_by_its_user_alone() -> None:
    mine = publish("cost", reactivex.of(1), user="ann")
    ours = publish("team", reactivex.of(2), user=lambda name: name.startswith("acme/"))
    other = publish("cost", reactivex.of(3), user="bob")
    async with serving(mine, ours, other, user=user_of) as (server, http):

        async def seen_by(user: str) -> list[int]:
            headers = {"X-User": user}
            async with http.get(f"{server.url}api/streams", headers=headers) as response:
                names = [stream["name"] for stream in (await response.json())["streams"]]
            values: list[int] = []
            for name in ("cost", "team"):
                url = f"{server.url}api/streams/{name}"
                async with http.get(url, headers=headers) as response:
                    assert (response.status == 200) == (name in names)
                    if response.status == 200:
                        values.append((await response.json())["item"]["value"])
                async with http.get(f"{url}/events", headers=headers) as response:
                    assert (response.status == 200) == (name in names)
                async with http.ws_connect(f"{server.url}api/ws", headers=headers) as socket:
                    await socket.send_json({"type": "watch_stream", "stream": name})
                    kind = "items" if name in names else "stream_gone"
                    assert (await next_of(socket, kind))["stream"] == name
            return values

        assert await seen_by("ann") == [1]
        assert await seen_by("bob") == [3]
        assert await seen_by("acme/ann") == [2]
        assert await seen_by("eve") == []


async def test_streams_need_the_token_of_the_server() -> None:
    settings = Settings(token="a long secret")
    async with serving(publish("cost", reactivex.of(1)), settings=settings) as (server, http):
        for path in ("", "/cost", "/cost/events"):
            async with http.get(f"{server.url}api/streams{path}") as response:
                assert response.status == 401


async def test_what_would_be_seen_by_all_or_by_none_is_refused() -> None:
    worker = Worker(ScriptedModel([]))
    free, owned = publish("a", reactivex.of(1)), publish("a", reactivex.of(1), user="ann")
    with pytest.raises(ConfigurationError, match="needs a user"):
        make_app(worker, user=user_of, streams=[free])
    with pytest.raises(ConfigurationError, match="the server has none"):
        make_app(worker, streams=[owned])
    with pytest.raises(ConfigurationError, match="already"):
        make_app(worker, streams=[free, free])
    with pytest.raises(ConfigurationError, match="publish\\(name, observable\\)"):
        make_app(worker, streams=[reactivex.of(1)])  # type: ignore[list-item] # pyright: ignore


def test_a_stream_of_another_event_loop_is_refused_and_one_without_begins_with_the_server() -> None:
    async def make() -> Published[int]:
        return publish("a", reactivex.of(1))

    elsewhere, later = asyncio.run(make()), publish("b", reactivex.of(2))

    async def serve() -> None:
        async with serving(later) as (server, http):
            with pytest.raises(LocalProtocolError, match="another one"):
                server.publish(elsewhere)
            assert later.hub.loop is asyncio.get_running_loop()
            async with http.get(f"{server.url}api/streams") as response:
                assert [each["name"] for each in (await response.json())["streams"]] == ["b"]

    asyncio.run(serve())


async def test_a_server_that_stops_waits_for_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CLOSE_SECONDS", 3600)
    monkeypatch.setattr(sockets, "CLOSE_SECONDS", 3600)
    source = Subject[int]()
    stream = publish("count", source)
    async with serving(stream) as (server, http):
        response = await http.get(f"{server.url}api/streams/count/events")
        socket = await http.ws_connect(f"{server.url}api/ws")
        await socket.send_json({"type": "watch_stream", "stream": "count"})
        source.on_next(1)
        await next_of(socket, "items")
        assert "retry" in await read_frame(response)
        assert "id" in await read_frame(response)
        closing = asyncio.ensure_future(server.__aexit__(None, None, None))
        await socket.receive()
        await socket.close()
        async with asyncio.timeout(60):
            await closing
        assert stream.hub.watching == 0
        assert not stream.hub.ended


# Durable Streams


async def durable(server: WebServer, http: aiohttp.ClientSession, **params: str) -> tuple[int, list[int], str]:
    """A read: its status, the values, and the offset to continue from."""
    async with http.get(f"{server.url}streams/count", params=params) as response:
        items: list[Message] = await response.json() if response.status == 200 else []
        values: list[int] = [item["value"] for item in items]
        return response.status, values, response.headers.get("Stream-Next-Offset", "")


async def test_a_stream_is_a_durable_stream() -> None:
    source = Subject[int]()
    stream = publish("count", source, keep=2)
    async with serving(stream) as (server, http):
        for n in (1, 2, 3):
            source.on_next(n)
        status, values, offset = await durable(server, http)
        assert (status, values) == (200, [2, 3])
        assert offset == f"{stream.epoch:016d}_{3:016d}"
        waiting = asyncio.ensure_future(durable(server, http, offset=offset, live="long-poll"))
        async with http.get(f"{server.url}streams/count", params={"offset": offset, "live": "sse"}) as response:
            while b"streamNextOffset" not in await response.content.readline():
                pass
            source.on_next(4)
            status, values, offset = await waiting
            assert (status, values) == (200, [4])
            source.on_completed()
            text = await response.text()
        assert '"value":4' in text
        assert '"streamClosed":true' in text
        async with http.head(f"{server.url}streams/count") as response:
            assert response.headers["Stream-Closed"] == "true"
            assert response.headers["Stream-Next-Offset"] == offset
        earlier = f"{stream.epoch - 1:016d}_{1:016d}"
        assert (await durable(server, http, offset=earlier))[0] == 410
        later = f"{stream.epoch:016d}_{9:016d}"
        assert (await durable(server, http, offset=later))[0] == 410
        async with http.get(f"{server.url}streams/other") as response:
            assert response.status == 404


async def test_a_server_that_stops_cancels_a_long_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CLOSING_SECONDS", 3600)
    stream = publish("count", Subject[int]())
    async with serving(stream) as (server, http):
        waiting = asyncio.ensure_future(durable(server, http, offset="-1", live="long-poll"))
        watched: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_change() -> None:
            if stream.hub.watching and not watched.done():
                watched.set_result(None)

        stream.hub.add_callback(on_change)
        await watched
        await server.__aexit__(None, None, None)
        # It would have been answered without items.
        with pytest.raises(aiohttp.ClientError):
            await waiting


# slow clients


@pytest.mark.aiohttp
async def test_a_client_that_reads_late_receives_every_item_and_delays_no_other(open_desk: OpenDesk) -> None:
    desk = await open_desk(settings=Settings(writes_per_second=None))
    source = Subject[str]()
    desk.server.state.publish(publish("text", source, keep="all"))
    host, _, port = desk.server.url.removeprefix("http://").rstrip("/").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(b"GET /api/streams/text/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    async with desk.http.get(desk.url("api/streams/text/events")) as fast:
        await read_frame(fast)
        text = "x" * 200_000  # more than the buffers of a connection hold
        for n in range(60):
            source.on_next(f"{n} {text}")
            data = b""
            while not data.startswith(b"data"):
                data = await fast.content.readuntil(b"\n")
            assert f'"value":"{n} ' in data[:80].decode()
        source.on_completed()
    numbers: list[int] = []
    body = bytearray()
    while piece := await reader.read(1 << 20):
        body += piece
    numbers = [int(found) for found in re.findall(rb"id: \d+-(\d+)\n", bytes(body))]
    assert numbers == list(range(1, 61))
    assert b"event: end" in body
    writer.close()
