"""A tool may consist of a name, a description, a schema and a function."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxworker import Worker, before_tool_call
from rxworker.errors import ConfigurationError
from rxworker.hooks import ToolCallContext
from rxworker.messages import Json, JsonObject, ToolMeta, ToolResult
from rxworker.testing import ScriptedModel, call
from rxworker.tools import DescribedTool, Tool, Toolbox, ToolContext, ToolPolicy
from rxworker.tools.base import policy_of

SCHEMA: JsonObject = {"type": "object", "properties": {"text": {"type": "string"}}}


class ByAttributes:
    name = "echo"
    description = "Repeat a text."
    count = 0

    def __init__(self) -> None:
        self.input_schema = SCHEMA

    async def execute(self, input_json: str) -> str:
        assert isinstance(input_json, str)
        self.count += 1
        return str(json.loads(input_json)["text"])


class ByMethods:
    """As a trait of Rust has it."""

    def name(self) -> str:
        return "echo"

    def description(self) -> str:
        return "Repeat a text."

    def input_schema(self) -> JsonObject:
        return SCHEMA

    async def execute(self, input_json: str, context: ToolContext) -> JsonObject:
        return {"text": json.loads(input_json)["text"], "call": context.call_id}


class ByProperties:
    policy = ToolPolicy(effect="pure")

    @property
    def name(self) -> str:
        return "echo"

    @property
    def description(self) -> str:
        return "Repeat a text."

    @property
    def input_schema(self) -> JsonObject:
        return SCHEMA

    async def execute(self, input_json: str, context: ToolContext | None = None) -> ToolResult:
        assert context is not None
        return ToolResult.error("", json.loads(input_json)["text"])


@pytest.mark.parametrize(
    ("tool", "text", "is_error"),
    [
        (ByAttributes(), "hi", False),
        (ByMethods(), '{"text":"hi","call":"call_1_1"}', False),
        (ByProperties(), "hi", True),
    ],
    ids=["attributes", "methods", "properties"],
)
def test_an_object_with_the_four_members_is_a_tool(tool: Any, text: str, is_error: bool) -> None:
    model = ScriptedModel([call("echo", text="hi"), "Done."])
    worker = Worker(model, tools=[tool])
    [result] = worker.run_sync("?").conversation.messages[2].tool_results
    assert (result.text, result.is_error, result.tool_use_id) == (text, is_error, "call_1_1")
    assert model.requests[0].tools == (ToolMeta("echo", "Repeat a text.", SCHEMA),)


def test_its_policy_counts_and_hooks_reach_its_state() -> None:
    assert policy_of(Toolbox([ByProperties()]).get("echo")).effect == "pure"
    counts: list[Any] = []

    @before_tool_call
    def look(context: ToolCallContext) -> None:
        counts.append(getattr(context.tool, "count"))  # noqa: B009 - a `Tool` has no such member

    replies = [call("echo", text="a"), call("echo", text="b"), "Done."]
    Worker(ScriptedModel(replies), tools=[ByAttributes()], hooks=[look]).run_sync("?")
    assert counts == [0, 1]


def test_arguments_that_are_not_an_object_do_not_reach_it() -> None:
    tool = ByAttributes()
    model = ScriptedModel([call("echo"), "Done."])
    Worker(model, tools=[tool]).run_sync("?")
    result = model.requests[1].conversation.messages[-1].tool_results[0]
    assert (result.is_error, result.text) == (True, "The tool failed: KeyError: 'text'")


def with_member(name: str, value: Json | object) -> Any:
    made = ByAttributes()
    setattr(made, name, value)
    return made


async def no_parameter() -> str:
    return ""


ODD = [
    (with_member("name", 3), "name of the tool ByAttributes is 3; give a str"),
    (with_member("description", None), "description of the tool ByAttributes is None"),
    (with_member("input_schema", "{}"), "input_schema of the tool ByAttributes is '{}'"),
    (with_member("name", "not a name"), "cannot be the name of a tool"),
    (with_member("execute", no_parameter), "it takes the JSON text of the arguments"),
]


@pytest.mark.parametrize(("tool", "why"), ODD, ids=[why for _, why in ODD])
def test_a_member_of_another_type_is_refused(tool: Any, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Toolbox([tool])
    assert why in str(refused.value)


def test_it_is_found_by_its_name_and_removed() -> None:
    toolbox = Toolbox()
    toolbox.add(ByAttributes())
    with pytest.raises(ConfigurationError, match="two tools are called 'echo'"):
        toolbox.add(ByMethods())  # pyright: ignore[reportArgumentType] - its members are methods
    found: Tool = toolbox.remove("echo")
    assert found.meta.name == "echo"
    kept: DescribedTool = ByAttributes()
    assert kept.name == "echo"
