"""What a tool tells providers besides its schema, said with the decorator; and tools that take free text."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from rxworker import Worker, tool
from rxworker.errors import ConfigurationError
from rxworker.messages import CachePoint, Grammar, ToolCall, ToolMeta
from rxworker.providers import Anthropic
from rxworker.testing import Call, ReplayServer, Reply, ScriptedModel, call
from rxworker.tools import Toolbox, ToolContext
from rxworker.tools.run import run_call


@tool(
    strict=True,
    cache_control=CachePoint("1h"),
    defer_loading=True,
    allowed_callers=["direct", "programmatic"],
    input_examples=[{"a": 1}, {"a": 2}],
)
def twice(a: int) -> int:
    """Twice as much."""
    return 2 * a


@tool(format="text")
async def shout(text: str, context: ToolContext) -> str:
    """Say it louder."""
    return f"{text.upper()} {context.tool}"


def test_the_settings_are_in_the_meta() -> None:
    assert msgspec.structs.asdict(twice.meta) | {"input_schema": {}} == {
        "name": "twice",
        "description": "Twice as much.",
        "input_schema": {},
        "strict": True,
        "cache_control": CachePoint("1h"),
        "defer_loading": True,
        "allowed_callers": ("direct", "programmatic"),
        "input_examples": ({"a": 1}, {"a": 2}),
        "format": None,
        "native": None,
    }


async def test_a_worker_runs_a_tool_that_anthropic_defines() -> None:
    @tool(native={"type": "memory_20250818"})
    async def memory(command: str, path: str = "") -> str:
        """Mine."""
        return f"{command} {path}"

    async with ReplayServer([call("memory", command="view", path="/memories"), "Done."]) as server:
        model = Anthropic("m", api_key="k", base_url=server.base_url)
        result = await Worker(model, tools=[memory]).run("Look.")
        bodies: list[Any] = [request.body for request in server.requests]
    assert result.text == "Done."
    assert [body["tools"] for body in bodies] == [[{"type": "memory_20250818", "name": "memory"}]] * 2
    sent = bodies[1]["messages"][-1]["content"][0]
    assert (sent["type"], sent["content"]) == ("tool_result", "view /memories")


@pytest.mark.parametrize("native", [{}, {"name": "bash"}, "bash_20250124"])
def test_a_native_form_without_a_type_is_refused(native: Any) -> None:
    with pytest.raises(ConfigurationError, match="give the type by which its provider knows it"):

        @tool(native=native)
        def bash(command: str) -> str:
            return command


def test_a_caller_may_be_one_word() -> None:
    @tool(allowed_callers="programmatic")
    def f() -> None: ...

    assert f.meta.allowed_callers == ("programmatic",)


def test_an_example_that_the_tool_would_refuse_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"'f': .*'one'.* input_examples does not fit: .*\$\.a"):

        @tool(input_examples=[{"a": "one"}])
        def f(a: int) -> None: ...


@pytest.mark.parametrize("parameters", ["", "a: int", "a: str, b: str"])
def test_free_text_needs_one_parameter_for_it(parameters: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def f({parameters}): ...", names)
    with pytest.raises(ConfigurationError, match=r"'f' takes free text .* exactly one parameter"):
        tool(format="text")(names["f"])


def test_a_toolbox_refuses_free_text_without_a_parameter_for_it() -> None:
    class Odd:
        meta = ToolMeta("odd", "", {"type": "object"}, format=Grammar("a"))

        async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
            return str(input_json)

    with pytest.raises(ConfigurationError, match="'odd' takes free text"):
        Toolbox([Odd()])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hi", "HI shout"),
        ("", " shout"),
        ('{"text": "hi"}', '{"TEXT": "HI"} shout'),  # a text is a text, whatever it looks like
        ({"text": "hi"}, "HI shout"),
    ],
)
def test_a_text_is_the_argument_of_a_tool_that_takes_one(given: Any, said: str) -> None:
    result = asyncio.run(run_call(Toolbox([shout]), ToolCall("1", "shout", given)))
    assert (result.text, result.is_error) == (said, False)


def test_a_text_is_not_an_argument_of_any_other_tool() -> None:
    result = asyncio.run(run_call(Toolbox([twice]), ToolCall("1", "twice", "{1")))
    assert result.is_error
    assert "this is not a JSON object" in result.text


def test_a_worker_runs_a_tool_with_free_text() -> None:
    model = ScriptedModel([Reply(tool_calls=(Call("shout", "print(1)"),)), "Done."])
    said = Worker(model, tools=[shout]).run_sync("?").conversation
    assert said.messages[1].tool_calls[0].input == "print(1)"
    assert said.messages[2].tool_results[0].text == "PRINT(1) shout"
