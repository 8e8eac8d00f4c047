"""Resources and prompts of an MCP server of our own, in another process."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from rxworker import Worker
from rxworker.errors import ConfigurationError, RemoteProtocolError, TransportError
from rxworker.messages import Audio, Document, Message, Text, ToolCall
from rxworker.testing import ScriptedModel, call, say
from rxworker.tools import McpClient, Toolbox, mcp_client
from rxworker.tools.run import run_call

pytest.importorskip("mcp")

COMMAND = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]


@pytest_asyncio.fixture
async def client(mcp_address: str) -> AsyncGenerator[McpClient, None]:
    async with mcp_client(url=mcp_address) as made:
        yield made


async def test_resources_become_content_of_messages(client: McpClient) -> None:
    tides, *_ = await client.resources()
    assert (tides.uri, tides.description) == ("note:///tides", "Of today.")
    assert await client.read_resource(tides.uri) == (Text("11:20"),)
    [chart] = await client.read_resource("note:///chart")
    assert chart == Document("application/pdf", "JVBERi0=", title="note:///chart")
    assert await client.read_resource("note:///horn") == (Audio("audio/wav", "UklGRg=="),)
    model = ScriptedModel(["At 11:20."])
    await Worker(model).run(Message.user("When?", *await client.read_resource(tides.uri)))
    assert model.requests[0].conversation.messages[0].text == "When?11:20"


async def test_a_template_is_filled_in(client: McpClient) -> None:
    [template] = await client.resource_templates()
    values = {"name": "Saint-Malo/Est", "day": "Sunday"}
    [text] = await client.read_resource(template.uri_template, values)
    assert text == Text("Saint-Malo/Est on Sunday")
    with pytest.raises(ConfigurationError, match="note:///"):
        await client.read_resource("note:///{", {})


async def test_a_list_that_has_changed_is_new(client: McpClient) -> None:
    before = [each.uri for each in await client.resources()]
    [publish] = await client.tools(only=["publish"])
    await run_call(Toolbox([publish]), ToolCall("1", "publish", {}))
    after = [each.uri for each in await client.resources()]
    assert set(after) - set(before) == {"note:///news"}


async def test_a_prompt_becomes_messages_for_a_run(client: McpClient) -> None:
    [prompt] = await client.prompts()
    assert [(each.name, each.required) for each in prompt.arguments or ()] == [("harbour", True), ("days", False)]
    messages = await client.get_prompt(prompt.name, {"harbour": "Brest"})
    assert messages == (
        Message.user("From Brest, 1 days. When?"),
        Message.user("11:20"),
        Message.assistant("At high tide."),
        Message.user(Audio("audio/wav", "UklGRg==")),
    )
    model = ScriptedModel(["Tomorrow."])
    assert (await Worker(model).run(messages)).text == "Tomorrow."
    assert model.requests[0].conversation.messages == messages


async def test_the_model_lists_and_reads_resources_itself(client: McpClient) -> None:
    model = ScriptedModel(
        [
            call("sea_list_resources"),
            call("sea_read_resource", uri="note:///harbour/Brest"),
            call("sea_read_resource", uri="note:///horn"),
            call("sea_read_resource", uri="note:///nowhere"),
            say("Done."),
        ]
    )
    result = await Worker(model, tools=client.resource_tools(prefix="sea_")).run("go")
    listed, read, horn, missing = [each for message in result.conversation.messages for each in message.tool_results]
    assert "note:///tides" in listed.text
    assert "note:///harbour/{name}{?day}" in listed.text
    assert (read.text, read.is_error) == ("Brest on today", False)
    assert "which cannot be shown" in horn.text
    assert missing.is_error
    assert "note:///nowhere" in missing.text


async def test_what_the_server_refuses_is_an_error(client: McpClient) -> None:
    with pytest.raises(RemoteProtocolError, match="note:///nowhere"):
        await client.read_resource("note:///nowhere")
    with pytest.raises(RemoteProtocolError, match="reports:"):
        await client.get_prompt("sail")
    with pytest.raises(RemoteProtocolError, match="reports:"):
        await client.get_prompt("fly")


async def test_a_server_that_goes_away_or_was_left_is_an_error() -> None:
    # Also of a program that is started; the other tests share a server.
    async with mcp_client(COMMAND) as client:
        [leave] = await client.tools(only=["leave"])
        await run_call(Toolbox([leave]), ToolCall("1", "leave", {}))
        with pytest.raises(TransportError):
            await client.read_resource("note:///tides")
    with pytest.raises(TransportError, match="is closed"):
        await client.resources()


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    program = """
import json, sys
for line in sys.stdin:
    given = json.loads(line)
    if given.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}},
                  "serverInfo": {"name": "slow", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": given["id"], "result": result}), flush=True)
    elif given.get("method") == "server/discover":
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": given["id"], "error": error}), flush=True)
"""
    async with mcp_client([sys.executable, "-c", program], request_timeout=60.0) as client:
        assert await client.tools() == []
        assert await client.prompts() == []
        client._connection.seconds = 0.1  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(TransportError, match=r"has not answered within 0\.1 seconds"):
            await client.resources()
