"""Tools of an MCP server of our own, in another process."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from rxworker import Worker
from rxworker.errors import ConfigurationError, TransportError
from rxworker.events import ToolProgress
from rxworker.messages import Audio, Document, Image, JsonObject, Text, ToolCall, ToolResult
from rxworker.testing import ScriptedModel, call, lint
from rxworker.tools import Toolbox, mcp_tools
from rxworker.tools.base import policy_of
from rxworker.tools.mcp import McpTool, content_of, legal_names, text_of
from rxworker.tools.run import run_call
from rxworker.tools.schema import inlined
from tests.runs import records_of

pytest.importorskip("mcp")

SERVER = Path(__file__).with_name("mcp_server.py")
COMMAND = [sys.executable, str(SERVER)]


@pytest_asyncio.fixture
async def tools(mcp_address: str) -> AsyncGenerator[dict[str, McpTool], None]:
    async with mcp_tools(url=mcp_address) as made:
        yield {tool.meta.name: tool for tool in made}


async def ask(tool: McpTool, **arguments: Any) -> ToolResult:
    return await run_call(Toolbox([tool]), ToolCall("1", tool.meta.name, arguments))


async def test_a_tool_is_as_the_server_describes_it(tools: dict[str, McpTool]) -> None:
    meta = tools["echo"].meta
    assert meta.description == "Say it again."
    assert meta.input_schema["required"] == ["text"]
    assert policy_of(tools["echo"]).effect == "write"


async def test_hints_of_a_server_about_its_tools_are_used_on_request(mcp_address: str) -> None:
    async with mcp_tools(url=mcp_address, trust_hints=True) as made:
        effects = {tool.meta.name: tool.policy.effect for tool in made}
    assert (effects["echo"], effects["fail"]) == ("pure", "write")


async def test_texts_pictures_and_failures_come_back(tools: dict[str, McpTool]) -> None:
    assert (await ask(tools["echo"], text="hi")).content == "hi"
    text, image = (await ask(tools["picture"])).content
    assert text == Text("Look:")
    assert isinstance(image, Image)
    assert image.media_type == "image/png"
    failed = await ask(tools["fail"])
    assert failed.is_error
    assert "the station is closed" in failed.text


async def test_arguments_that_do_not_fit_are_an_error(tools: dict[str, McpTool]) -> None:
    result = await ask(tools["echo"], text=1)
    assert result.is_error
    assert "text" in result.text
    no_object = await run_call(Toolbox([tools["echo"]]), ToolCall("1", "echo", "[1]"))
    assert "invalid arguments at $" in no_object.text


async def test_a_name_that_providers_do_not_take_is_changed(tools: dict[str, McpTool]) -> None:
    odd = tools["odd_name_with_signs"]
    assert odd.remote_name == "odd name.with/signs"
    assert (await ask(odd)).text == "nothing"


async def test_progress_is_shown(tools: dict[str, McpTool]) -> None:
    heard: list[object] = []
    counting = ToolCall("1", "count", {"to": 2})
    result = await run_call(Toolbox([tools["count"]]), counting, emit=heard.append)
    assert "2" in result.text
    shown = [event.progress for event in heard if isinstance(event, ToolProgress)]
    assert shown == [{"progress": 1.0, "total": 2.0}, {"progress": 2.0, "total": 2.0}]


async def test_a_worker_uses_them(mcp_address: str) -> None:
    async with mcp_tools(url=mcp_address, prefix="small_") as made:
        worker = Worker(ScriptedModel([call("small_echo", text="hi"), "Done."]), tools=made)
        run = worker.run("go")
        records = records_of(run)
        result = await run
    assert result.conversation.messages[2].tool_results[0].text == "hi"
    assert lint(records) == []


async def test_a_cancelled_call_is_cancelled_at_the_server(tools: dict[str, McpTool]) -> None:
    waits = asyncio.Event()

    def emit(event: object) -> None:
        if isinstance(event, ToolProgress):
            waits.set()

    toolbox = Toolbox(tools.values())
    task = asyncio.create_task(run_call(toolbox, ToolCall("1", "wait", {}), emit=emit))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await ask(tools["hear"])).text == "it has stopped"


async def test_after_the_block_a_call_is_an_error_result(mcp_address: str) -> None:
    async with mcp_tools(url=mcp_address, only=["echo"]) as made:
        (echo,) = made
    result = await ask(echo, text="hi")
    assert result.text == "The tool failed: the connection to its server is closed"


@pytest.mark.slow
async def test_the_block_may_be_left_in_another_task_after_which_a_call_is_an_error_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SMALL_SERVER_SAYS", "a secret of ours")
    block = mcp_tools(COMMAND, only=["echo", "odd name.with/signs"])
    echo, odd = await asyncio.create_task(enter(block))
    assert (await ask(echo, text="hi")).text == "hi"
    assert (await ask(odd)).text == "nothing"  # of the keys of this process the program has none
    await asyncio.create_task(leave(block))
    result = await ask(echo, text="hi")
    assert result.text == "The tool failed: the connection to its server is closed"


async def enter(block: Any) -> list[McpTool]:
    return await block.__aenter__()


async def leave(block: Any) -> None:
    await block.__aexit__(None, None, None)


async def test_a_server_that_goes_away_is_an_error_result() -> None:
    async with mcp_tools(COMMAND, env={"SMALL_SERVER_SAYS": "hello"}) as made:
        tools = {tool.meta.name: tool for tool in made}
        assert (await ask(tools["odd_name_with_signs"])).text == "hello"
        assert (await ask(tools["leave"])).is_error
        assert (await ask(tools["echo"], text="hi")).is_error


async def test_a_tool_that_is_not_there_is_named(mcp_address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no tool 'fly'; it has: .*echo"):
        async with mcp_tools(url=mcp_address, only=["fly"]):
            raise AssertionError


@pytest.mark.parametrize("command", [["no-such-program-anywhere"], [sys.executable, "-c", "print('no MCP')"]])
async def test_what_is_not_a_server_is_an_error(command: list[str]) -> None:
    with pytest.raises(TransportError, match="is not an MCP server that can be used"):
        async with mcp_tools(command):
            raise AssertionError


async def test_the_errors_of_a_server_name_it_without_its_arguments_and_its_query() -> None:
    with pytest.raises(TransportError, match="no-such-program") as command:
        async with mcp_tools(["no-such-program", "--token", "hunter2"]):
            raise AssertionError
    with pytest.raises(TransportError, match=r"http://127\.0\.0\.1:1/mcp is not an MCP") as url:
        async with mcp_tools(url="http://me:hunter2@127.0.0.1:1/mcp?key=hunter2"):
            raise AssertionError
    assert "hunter2" not in f"{command.value} {url.value}"


async def test_a_silent_server_is_given_up() -> None:
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(TransportError, match=r"within 0\.2 seconds"):
        async with mcp_tools(silent, connect_timeout=0.2):
            raise AssertionError


@pytest.mark.parametrize("given", [{}, {"command": ["a"], "url": "http://127.0.0.1:1/"}, {"command": "a b"}])
async def test_what_cannot_be_meant_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="command"):
        async with mcp_tools(**given):
            raise AssertionError


async def test_without_the_package_the_error_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def none(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "mcp":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", none)
    with pytest.raises(ConfigurationError, match=r'pip install "/path/to/the/checkout\[mcp\]"'):
        async with mcp_tools(["a"]):
            raise AssertionError


async def test_a_redirect_takes_the_headers_to_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    taken: list[str] = []

    async def take(request: web.Request) -> web.Response:
        taken.append(str(request.headers))
        return web.Response(status=404)

    thief, honest = web.Application(), web.Application()
    thief.router.add_route("*", "/mcp", take)
    async with TestServer(thief, host="127.0.0.1") as other:

        async def redirect(_: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(other.make_url("/mcp"))

        honest.router.add_route("*", "/mcp", redirect)
        async with TestServer(honest, host="127.0.0.1") as server:
            address = str(server.make_url("/mcp"))
            with pytest.raises(TransportError):
                async with mcp_tools(url=address, headers={"x-api-key": "a secret"}):
                    raise AssertionError
    assert taken == []


# Without a server.


def result(*content: object, **more: Any) -> Any:
    return SimpleNamespace(content=content, structured_content=None, is_error=False, **more)


def part(kind: str, **more: Any) -> Any:
    return SimpleNamespace(type=kind, **more)


def test_every_sort_of_content_becomes_something_to_read() -> None:
    pdf = part("resource", resource=part("", uri="a.pdf", mime_type="application/pdf", blob="QQ=="))
    image = part("resource", resource=part("", uri="a.png", mime_type="image/png", blob="QQ=="))
    other = part("resource", resource=part("", uri="a.zip", mime_type=None, blob="QQ=="))
    sound = part("audio", data="QQ==", mime_type="audio/wav")
    link = part("resource_link", title=None, name="a", uri="x:/a", description="About a")
    assert content_of(result(pdf, image, other, sound, link)) == (
        Document("application/pdf", "QQ==", title="a.pdf"),
        Image("image/png", "QQ=="),
        Text("[a file, of an unknown type, at a.zip, which cannot be shown]"),
        Text("[a sound, audio/wav, which cannot be shown]"),
        Text("[a](x:/a): About a"),
    )
    assert content_of(result(sound), audio=True) == (Audio("audio/wav", "QQ=="),)
    assert text_of(result(part("text", text="a"), image, part("text", text="b"))) == "a\nb"


def test_a_value_without_content_is_json() -> None:
    only = SimpleNamespace(content=[], structured_content={"a": 1}, is_error=False)
    assert content_of(only) == '{"a":1}'  # pyright: ignore[reportArgumentType]


def test_no_two_names_are_the_same() -> None:
    names = legal_names(["a b", "a.b", "a_b", "", "x" * 70, "x" * 80])
    assert names == ["a_b", "a_b_2", "a_b_3", "tool", "x" * 64, "x" * 62 + "_2"]


def test_references_are_written_out_and_what_has_no_end_allows_anything() -> None:
    schema: JsonObject = {
        "type": "object",
        "$defs": {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "at": {"$ref": "#/$defs/At"}}},
            "At": {"type": "string"},
        },
        "properties": {
            "node": {"$ref": "#/$defs/Node", "description": "The first."},
            "far": {"$ref": "https://example.org/schema"},
            "lost": {"$ref": "#/$defs/Nowhere"},
            "all": {"type": "array", "items": [{"$ref": "#/$defs/At"}]},
        },
    }
    node: JsonObject = {
        "type": "object",
        "properties": {"next": {}, "at": {"type": "string"}},
        "description": "The first.",
    }
    assert inlined(schema) == {
        "type": "object",
        "properties": {"node": node, "far": {}, "lost": {}, "all": {"type": "array", "items": [{"type": "string"}]}},
    }


def test_a_schema_that_would_grow_without_measure_is_cut() -> None:
    definitions: JsonObject = {
        f"D{n}": {"properties": {k: {"$ref": f"#/$defs/D{n + 1}"} for k in "ab"}} for n in range(60)
    }
    schema: JsonObject = {"$ref": "#/$defs/D0", "$defs": definitions}
    assert len(str(inlined(schema))) < 1_000_000
