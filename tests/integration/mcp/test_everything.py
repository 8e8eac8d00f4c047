"""Tools of an MCP server that is not ours.

The npm package ``server-everything``, over its standard input and output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from rxworker import Approve, Deny, Finished, Paused, Worker
from rxworker.events import Record, RunAbort, ToolProgress
from rxworker.messages import Image, Message, Text, ToolCall, ToolResult
from rxworker.providers import Anthropic, OpenAIChat
from rxworker.testing import ReplayServer, Reply, ScriptedModel, call, lint, say
from rxworker.testing.reply import Call
from rxworker.tools import Tool, Toolbox, mcp_client, mcp_tools
from rxworker.tools.run import run_call
from rxworker.worker import Decision
from tests.integration.npm import node_with

stdio = pytest.importorskip("mcp.client.stdio")

HERE = Path(__file__).parent
SERVER = "@modelcontextprotocol/server-everything/dist/index.js"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the server is started. One that still does something when its input ends is soon terminated."""
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 0.1)
    return [*node_with(HERE, SERVER, "RXWORKER_MCP"), "stdio"]


async def run_with(tools: Sequence[Tool], *replies: Reply) -> list[ToolResult]:
    """The results of what a model calls, one response for each reply."""
    run = Worker(ScriptedModel([*replies, say("Done.")]), tools=tools).run("go")
    result = await run
    assert lint([record async for record in run]) == []
    return [r for message in result.conversation.messages for r in message.tool_results]


async def test_its_tools_are_called(command: list[str]) -> None:
    async with mcp_tools(command) as tools:
        metas = {tool.meta.name: tool.meta for tool in tools}
        assert len(metas) >= 10
        echo = metas["echo"]
        assert echo.description
        properties: Any = echo.input_schema["properties"]
        assert properties["message"]["type"] == "string"
        text, image, error, resource = await run_with(
            tools,
            call("echo", message="hello"),
            call("get-tiny-image"),
            call("get-sum", a="x"),
            call("get-resource-reference", resourceType="Text", resourceId=1),
        )
        assert (text.text, text.is_error) == ("Echo: hello", False)
        [picture] = [part for part in image.content if isinstance(part, Image)]
        assert picture.media_type == "image/png"
        assert picture.data
        assert any(isinstance(part, Text) for part in image.content)
        assert error.is_error
        assert "a" in error.text
        assert "Resource 1" in resource.text
        # Many side by side.
        calls = tuple(Call("get-sum", {"a": n, "b": n}) for n in range(20))
        results = await run_with(tools, Reply(tool_calls=calls))
        assert [f" {2 * n}." in result.text for n, result in enumerate(results)] == [True] * 20
        # A question that could belong to two calls is cancelled.
        asking = (Call("trigger-elicitation-request"), Call("trigger-elicitation-request"))
        results = await run_with(tools, Reply(tool_calls=asking))
        assert ["User cancelled" in each.text for each in results] == [True, True]


async def test_its_resources_and_prompts_are_read(command: list[str]) -> None:
    async with mcp_client(command) as client:
        listed = await client.resources()
        assert all(each.uri.startswith("demo://resource/static/") for each in listed)
        [document] = await client.read_resource(listed[0].uri)
        assert isinstance(document, Text)
        templates = {each.uri_template for each in await client.resource_templates()}
        text = "demo://resource/dynamic/text/{resourceId}"
        assert text in templates
        [dynamic] = await client.read_resource(text, {"resourceId": "7"})
        assert isinstance(dynamic, Text)
        assert "Resource 7" in dynamic.text
        prompts = {prompt.name: prompt for prompt in await client.prompts()}
        arguments = prompts["args-prompt"].arguments or []
        assert ("city", True) in [(each.name, each.required) for each in arguments]
        [asked] = await client.get_prompt("args-prompt", {"city": "Brest"})
        assert asked == Message.user("What's weather in Brest?")
        given = {"resourceType": "Text", "resourceId": "7"}
        about, resource = await client.get_prompt("resource-prompt", given)
        assert "7" in about.text
        assert "Resource 7" in resource.text


async def test_progress_is_shown_and_a_cancelled_call_ends(command: list[str]) -> None:
    async with mcp_tools(command, only=["trigger-long-running-operation"]) as tools:
        slow = call("trigger-long-running-operation", duration=60, steps=600)
        run = Worker(ScriptedModel([slow]), tools=tools).run("go")
        async for record in run:
            if isinstance(record.event, ToolProgress):
                break
        await run.cancel()
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    assert lint(records) == []
    assert isinstance(records[-1].event, RunAbort)


async def test_an_image_reaches_both_providers(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with mcp_tools(command, only=["get-tiny-image"]) as tools:
        for make in (Anthropic, OpenAIChat):
            with ReplayServer([call("get-tiny-image"), say("A picture.")]) as server:
                provider = make("a-model", api_key="none", base_url=server.base_url)
                assert (await Worker(provider, tools=tools).run("show")).text == "A picture."
                body = str(server.requests[1].body)
            assert "iVBORw0KGgo" in body
            assert "image/png" in body


QUESTIONS: list[tuple[Reply, list[Decision], str]] = [
    (
        call("trigger-elicitation-request"),
        [Approve({"name": "Ada", "titledMultipleSelectEnum": ["fish-2"]})],
        "- Name: Ada",
    ),
    (call("trigger-elicitation-request"), [Deny()], "User declined"),
    (call("trigger-url-elicitation", url="https://example.org/x"), [Approve()], "User completed"),
    (
        call("trigger-url-elicitation", url="https://example.org/x", errorPath=True),
        [Approve(), Deny()],
        "User declined",
    ),
    (
        call("trigger-url-elicitation", url="https://example.org/x", errorPath=True),
        [Deny()],
        "the user has not visited the address that the server requires",
    ),
]


async def test_its_questions_pause_the_run_until_they_are_answered(command: list[str]) -> None:
    async with mcp_tools(command) as tools:
        for reply, decisions, expected in QUESTIONS:
            worker = Worker(ScriptedModel([reply, say("Done.")]), tools=tools)
            run: Any = worker.run("go")
            result: Any = await run
            for decision in decisions:
                assert isinstance(result, Paused)
                assert result.reason.startswith("mcp-servers/everything (")
                run = worker.resume(cast("Paused[object]", result), decisions=[decision])
                result = await run
            assert isinstance(result, Finished)
            [answer] = [r for m in result.conversation.messages for r in m.tool_results]
            assert expected in answer.text
            assert lint([record async for record in run]) == []


@pytest.mark.slow
async def test_a_call_that_waits_with_a_closed_connection_is_lost_and_not_made_again(command: list[str]) -> None:
    worker = Worker(ScriptedModel([call("trigger-elicitation-request"), say("Done.")]))
    async with mcp_tools(command) as tools:
        worker.tools.add(*tools)
        paused: Any = await worker.run("go")
        assert isinstance(paused, Paused)
    async with mcp_tools(command) as tools:
        other = Worker(ScriptedModel([say("Done.")]), tools=tools)
        result = await other.resume(cast("Paused[object]", paused), decisions=[Approve({"name": "Ada"})])
    [answer] = [r for m in result.conversation.messages for r in m.tool_results]
    assert answer.is_error
    assert "the call cannot go on, and it was not made again" in answer.text


async def test_updates_of_its_resources_are_a_stream(command: list[str]) -> None:
    async with mcp_client(command) as client:
        uri = (await client.resources())[0].uri
        seen: asyncio.Queue[object] = asyncio.Queue()
        watching = client.watch_resource(uri).subscribe(seen.put_nowait, seen.put_nowait)
        [first] = cast("tuple[Text]", await seen.get())
        tools = {tool.meta.name: tool for tool in await client.tools()}
        toggle = ToolCall("1", "toggle-subscriber-updates", {})
        await run_call(Toolbox(tools.values()), toggle)  # sends an update at once
        assert await seen.get() == (first,)
        watching.dispose()
