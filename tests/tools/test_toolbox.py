from __future__ import annotations

import copy
from typing import Any

import pytest

from rxworker import Worker, before_tool_call, tool
from rxworker.errors import ConfigurationError, HookError
from rxworker.hooks import ToolCallContext
from rxworker.messages import ToolMeta
from rxworker.testing import ScriptedModel, call
from rxworker.tools import Toolbox, ToolContext


@tool
def look(where: str) -> str:
    """Look somewhere."""
    return where


@tool
def fly() -> None: ...


class Echo:
    """A tool that is not a function."""

    meta = ToolMeta("echo", "Say it again.", {"type": "object"})

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        return f"{context.tool} {input_json!r}"


class App:
    @tool
    def look(self) -> None: ...


def test_tools_are_found_by_name() -> None:
    echo = Echo()
    toolbox = Toolbox([look, echo])
    assert toolbox.get("look") is look
    assert toolbox.get("echo") is echo
    assert toolbox.get("other") is None


def test_the_model_sees_them_in_order() -> None:
    toolbox = Toolbox([look, Echo(), fly])
    assert toolbox.names == ("look", "echo", "fly")
    assert [meta.description for meta in toolbox.metas] == ["Look somewhere.", "Say it again.", ""]
    assert len(toolbox) == 3
    assert [made.meta.name for made in toolbox] == ["look", "echo", "fly"]


def test_tools_come_and_go() -> None:
    toolbox = Toolbox([look])
    toolbox.add(fly)
    assert toolbox.remove("look") is look
    assert toolbox.names == ("fly",)
    assert "look" not in toolbox


def test_what_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(ConfigurationError, match="no tool 'fly' to remove; there are: look"):
        Toolbox([look]).remove("fly")


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ConfigurationError, match=r"two tools are called 'look': .*\.look and .*\.App\.look;"):
        Toolbox([look, App().look])


def test_a_refused_tool_leaves_the_toolbox_as_it_was() -> None:
    toolbox = Toolbox([look])
    with pytest.raises(ConfigurationError):
        toolbox.add(fly, look)
    assert toolbox.names == ("look",)


def plain(where: str) -> str:
    return where


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (plain, r"\.plain is not a tool: decorate it with @tool"),
        (App, r"\.App is not a tool"),
        ("look", r"builtins\.str is not a tool: it needs an execute method, and a meta or a name"),
        (App.look, r"\.App\.look is a method without its object: take it from one, such as app\.look"),
    ],
)
def test_what_is_not_a_tool_is_refused_with_a_hint(thing: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Toolbox([thing])


async def test_a_hook_cannot_edit_the_schema_that_the_model_is_sent() -> None:
    class Shelf:
        @tool
        async def find(self, title: str) -> str:
            return title

    mine, other = Shelf(), Shelf()
    before = copy.deepcopy(mine.find.meta.input_schema)

    @before_tool_call
    async def edit(event: ToolCallContext) -> None:
        schema: Any = event.tool.meta.input_schema
        schema["properties"]["title"]["type"] = "integer"

    model = ScriptedModel([call("find", title="a"), "Done."])
    with pytest.raises(HookError, match="cannot be changed"):
        await Worker(model, tools=[mine.find], hooks=[edit]).run("?")
    assert mine.find.meta.input_schema == before
    assert other.find.meta.input_schema == before
    assert all(meta.input_schema == before for it in model.requests for meta in it.tools)
