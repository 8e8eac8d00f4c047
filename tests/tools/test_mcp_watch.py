"""The contents of a resource of an MCP server, again after each update."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from rxworker.errors import RemoteProtocolError, TransportError
from rxworker.messages import Text
from rxworker.tools import McpClient, mcp_client
from rxworker.tools.mcp_connection import Connection

pytest.importorskip("mcp")

from mcp import types
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourceUpdated

NOTE = "note:///a"


class Notes:
    """A server of the package, in revision 2026-07-28, whose note has a number."""

    def __init__(self, *, listens: bool = True) -> None:
        self.bus = InMemorySubscriptionBus()
        self.number = 0
        self.reading = asyncio.Event()
        self.may_read = asyncio.Event()
        self.may_read.set()
        handler = ListenHandler(self.bus) if listens else None
        self.server = Server(
            "notes", on_read_resource=self.read, on_list_resources=self.list, on_subscriptions_listen=handler
        )

    async def list(self, *_: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def read(self, _: object, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        number = str(self.number)
        self.reading.set()
        await self.may_read.wait()
        if number == "gone":
            raise ValueError(number)
        contents = types.TextResourceContents(uri=params.uri, text=number)
        return types.ReadResourceResult(contents=[contents], ttl_ms=60_000, cache_scope="private")

    async def update(self) -> None:
        self.number += 1
        await self.bus.publish(ResourceUpdated(uri=NOTE))

    @property
    def listeners(self) -> int:
        return len(self.bus._listeners)  # pyright: ignore[reportPrivateUsage]


class Watcher:
    """Collects what a stream emits, and how it ends."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[Any] = asyncio.Queue()

    def watch(self, client: McpClient, uri: str = NOTE) -> Any:
        put = self.seen.put_nowait
        return client.watch_resource(uri).subscribe(put, put, lambda: put("completed"))


async def open_client(notes: Notes) -> tuple[Connection, McpClient]:
    connection = Connection("memory", 20.0)
    await connection.open(notes.server)
    return connection, McpClient(connection)


async def test_the_content_is_emitted_at_once_and_after_each_update_until_it_is_disposed() -> None:
    notes, first, second = Notes(), Watcher(), Watcher()
    connection, client = await open_client(notes)
    watching, _ = first.watch(client), second.watch(client)
    for watcher in (first, second):
        assert await watcher.seen.get() == (Text("0"),)
    await notes.update()
    for watcher in (first, second):
        assert await watcher.seen.get() == (Text("1"),)
    watching.dispose()
    await asyncio.wait(set(connection.watching), return_when=asyncio.FIRST_COMPLETED)
    assert notes.listeners == 1
    await notes.update()
    assert await second.seen.get() == (Text("2"),)
    await connection.close()
    assert notes.listeners == 0
    assert first.seen.empty()


async def test_updates_during_a_reading_are_one_more_reading() -> None:
    notes, watcher = Notes(), Watcher()
    connection, client = await open_client(notes)
    watcher.watch(client)
    assert await watcher.seen.get() == (Text("0"),)
    notes.may_read.clear()
    notes.reading.clear()
    await notes.update()
    await notes.reading.wait()
    for _ in range(5):
        await notes.update()
    notes.may_read.set()
    assert await watcher.seen.get() == (Text("1"),)
    assert await watcher.seen.get() == (Text("6"),)
    await connection.close()
    assert isinstance(await watcher.seen.get(), TransportError)  # nothing waits forever
    assert watcher.seen.empty()


async def test_a_resource_that_cannot_be_read_or_watched_is_an_error() -> None:
    for notes in (Notes(listens=False), Notes()):
        watcher = Watcher()
        connection, client = await open_client(notes)
        notes.number = "gone"  # pyright: ignore[reportAttributeAccessIssue]
        watcher.watch(client)
        assert isinstance(await watcher.seen.get(), RemoteProtocolError)
        await connection.close()
        assert notes.listeners == 0
        watcher.watch(client)
        assert isinstance(await watcher.seen.get(), TransportError)


async def test_a_subscription_that_is_disposed_at_any_moment_is_gone_at_the_server() -> None:
    watcher = Watcher()
    for steps in range(40):
        notes, watcher = Notes(), Watcher()
        connection, client = await open_client(notes)
        watching = watcher.watch(client)
        for _ in range(steps):
            await asyncio.sleep(0)
        tasks = set(connection.watching)
        watching.dispose()
        if tasks:
            await asyncio.wait(tasks)
        assert (notes.listeners, connection.watching) == (0, set())
        await connection.close()
    assert not watcher.seen.empty()


OLD = """
import json, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
seen, number = [], 0
for line in sys.stdin:
    given = json.loads(line)
    method, params, key = given.get("method"), given.get("params", {}), given.get("id")
    if key is None:
        continue
    seen.append(method)
    result = {}
    if method == "initialize":
        can = {"resources": {"subscribe": True}, "tools": {}}
        server = {"name": "old", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": can, "serverInfo": server}
    elif method == "server/discover":
        send(id=key, error={"code": -32601, "message": "no"})
        continue
    elif method == "resources/read":
        result = {"contents": [{"uri": params["uri"], "text": str(number)}]}
    elif method == "tools/list":
        number += 1
        for uri in ("note:///a/part", "note:///ab"):
            send(method="notifications/resources/updated", params={"uri": uri})
        result = {"tools": []}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": [{"uriTemplate": each, "name": "x"} for each in seen]}
    elif method == "prompts/list":
        break
    send(id=key, result=result)
"""


async def test_before_2026_the_last_of_several_watchers_unsubscribes_and_a_server_that_ends_is_an_error() -> None:
    async with mcp_client([sys.executable, "-c", OLD]) as client:
        first, second = Watcher(), Watcher()
        one, two = first.watch(client), second.watch(client)
        for watcher in (first, second):
            assert await watcher.seen.get() == (Text("0"),)
        await client.tools()
        for watcher in (first, second):
            assert await watcher.seen.get() == (Text("1"),)
        one.dispose()
        await client.tools()
        assert await second.seen.get() == (Text("2"),)
        assert first.seen.empty()
        connection = client._connection  # pyright: ignore[reportPrivateUsage]
        two.dispose()
        await asyncio.wait(set(connection.watching))
        methods = [each.uri_template for each in await client.resource_templates()]
        assert [each for each in methods if "subscribe" in each] == [
            "resources/subscribe",
            "resources/subscribe",
            "resources/unsubscribe",
        ]
        second.watch(client)
        await second.seen.get()
        with pytest.raises(TransportError):
            await connection.request(lambda each: each.list_prompts())
        assert isinstance(await second.seen.get(), TransportError)
