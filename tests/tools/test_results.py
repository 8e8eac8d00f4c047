from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker import tool
from rxworker.errors import ExecutionFailedError, InvalidArgumentError, ToolError, ToolTimeoutError
from rxworker.messages import Document, Image, Text, ToolCall, ToolMeta, ToolResult
from rxworker.messages.content import ResultContent
from rxworker.tools import Progress, Toolbox, ToolContext
from rxworker.tools.results import to_content
from rxworker.tools.run import run_call

PICTURE = Image(url="https://example.org/a.png")
PAPER = Document(url="https://example.org/a.pdf")


class Place(msgspec.Struct):
    city: str


@dataclasses.dataclass
class Day:
    number: int


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        (None, ""),
        (0, "0"),
        (False, "false"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Place("Oslo"), '{"city":"Oslo"}'),
        ([Day(1)], '[{"number":1}]'),
        ([], "[]"),
        (["a", "b"], '["a","b"]'),
        (PICTURE, (PICTURE,)),
        (Text("a"), (Text("a"),)),
        ([PICTURE, PAPER], (PICTURE, PAPER)),
        ((PICTURE,), (PICTURE,)),
        (["see", PICTURE], (Text("see"), PICTURE)),
    ],
)
def test_results_become_content(value: object, content: ResultContent) -> None:
    assert to_content(value, "go") == content


def test_content_stays_as_it_is() -> None:
    content = to_content(["see", PICTURE], "go")
    assert to_content(content, "go") == content


def circle() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    ("value", "kind"), [(object(), "object"), ({1: object()}, "dict"), ([complex(1)], "list"), (circle(), "list")]
)
def test_a_value_without_json_form_is_named_by_its_type(value: object, kind: str) -> None:
    with pytest.raises(ExecutionFailedError, match=f"returned a {kind}, which has no JSON form") as caught:
        to_content(value, "go")
    assert caught.value.tool == "go"
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"caf\xc3\xa9", "café"),
        (bytearray(b"abc"), "abc"),
        (memoryview(b"abc"), "abc"),
        (b"\xff\xfe", "[2 bytes, not UTF-8 text, in base64: //4=]"),
        ({"out": b"done", "all": [b"a"]}, '{"out":"done","all":["a"]}'),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        ({"mean": math.nan, "most": [math.inf, 1.5]}, '{"mean":"NaN","most":["Infinity",1.5]}'),
        (Day(2**70), '{"number":1180591620717411303424}'),
        ((1, (2.5, None)), "[1,[2.5,null]]"),
        ({1: "a"}, '{"1":"a"}'),
        ({3}, "[3]"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (Path("a/b"), "a/b"),
        ({"at": Path("a/b")}, '{"at":"a/b"}'),
    ],
)
def test_values_that_json_has_not_become_text(value: object, text: str) -> None:
    assert to_content(value, "go") == text


def test_many_bytes_that_are_not_text_are_described() -> None:
    assert to_content(b"\xff" * 4_000, "go") == (
        "[4,000 bytes, not UTF-8 text, left out; a tool can return them as an Image or a Document]"
    )


async def called(function: Callable[[], object], **policy: Any) -> ToolResult:
    made = tool(**policy)(function) if policy else tool(function)
    return await run_call(Toolbox([made]), ToolCall("call_1", made.meta.name, {}))


@pytest.mark.parametrize("policy", [{}, {"timeout": 5.0}])
async def test_a_returned_tool_result_is_the_result(policy: dict[str, Any]) -> None:
    def fail() -> ToolResult:
        return ToolResult("", ("no such page", PICTURE), is_error=True)  # type: ignore[arg-type]

    async def work() -> ToolResult:
        return ToolResult("other id", "found", name="other")

    async def stream() -> AsyncIterator[object]:
        yield Progress(1)
        yield ToolResult("", "gone", is_error=True)

    assert await called(fail, **policy) == ToolResult("call_1", (Text("no such page"), PICTURE), True, "fail")
    assert await called(work, **policy) == ToolResult("call_1", "found", False, "work")
    assert await called(stream, **policy) == ToolResult("call_1", "gone", True, "stream")


async def test_a_returned_error_result_is_not_formatted_nor_retried() -> None:
    calls: list[int] = []

    @tool(effect="pure", retries=3)
    async def go() -> ToolResult:
        calls.append(1)
        return ToolResult("", "no", is_error=True)

    toolbox = Toolbox([go], error_formatter=lambda error: "formatted")
    assert (await run_call(toolbox, ToolCall("1", "go", {}))).text == "no"
    assert calls == [1]


async def test_a_tool_of_another_make_may_return_a_tool_result_too() -> None:
    class Other:
        meta = ToolMeta("other", "", {"type": "object"})

        async def execute(self, input_json: str | bytes, context: ToolContext, /) -> ToolResult:
            return ToolResult("x", "failed", is_error=True)

    result = await run_call(Toolbox([Other()]), ToolCall("1", "other", {}))
    assert result == ToolResult("1", "failed", True, "other")


async def test_a_tool_error_without_a_name_reads_as_its_message() -> None:
    seen: list[ToolError] = []

    def format_error(error: ToolError) -> str:
        seen.append(error)
        return error.message

    @tool
    def go() -> None:
        raise ToolError("the shelf is empty")

    result = await run_call(Toolbox([go]), ToolCall("1", "go", {}))
    assert result.text == "The tool failed: the shelf is empty"
    assert result.is_error
    await run_call(Toolbox([go], error_formatter=format_error), ToolCall("1", "go", {}))
    assert [(error.tool, error.message) for error in seen] == [("go", "the shelf is empty")]


@pytest.mark.parametrize("kind", [ExecutionFailedError, InvalidArgumentError, ToolTimeoutError])
async def test_its_subclasses_need_no_name_either(kind: type[ToolError]) -> None:
    @tool
    async def go() -> None:
        raise kind("there is none")

    assert "there is none" in (await run_call(Toolbox([go]), ToolCall("1", "go", {}))).text
