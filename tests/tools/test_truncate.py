"""A bound on what a call sends to the model."""

from __future__ import annotations

from typing import Any

import pytest

from rxworker import Worker, after_tool_call, tool
from rxworker.errors import ConfigurationError
from rxworker.hooks import ToolResultContext
from rxworker.messages import Document, Image, Text, ToolCall, ToolMeta, ToolResult
from rxworker.testing import ScriptedModel
from rxworker.testing import call as say_call
from rxworker.tools import Toolbox, ToolContext, ToolPolicy
from rxworker.tools.results import truncate
from rxworker.tools.run import run_call

LIMIT = 100_000
LARGE = 20_000_000


async def result_of(function: Any, **policy: Any) -> ToolResult:
    made = tool(name="go", **policy)(function)
    return await run_call(Toolbox([made]), ToolCall("1", "go", {}))


def test_text_within_the_limit_stays_the_same_object() -> None:
    text = "a" * 10
    assert truncate(text, 10) is text
    blocks = (Text("a"), Image(data="b" * 10))
    assert truncate(blocks, 100) == blocks


def test_text_beyond_it_keeps_its_beginning_and_its_end() -> None:
    text = "".join(str(n % 10) for n in range(1000))
    assert truncate(text, 100) == (
        f"{text[:75]}\n[900 of 1,000 characters were left out here. To read them, call the tool again for a smaller "
        f"part.]\n{text[-25:]}"
    )


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_limit_of_a_few_characters_is_kept(limit: int) -> None:
    content = truncate("abcdef", limit)
    assert isinstance(content, str)
    head, _, rest = content.partition("\n[")
    assert len(head + rest.partition("]\n")[2]) == limit


def test_no_limit_keeps_everything() -> None:
    assert truncate("a" * LARGE, None) == "a" * LARGE


async def test_a_result_of_twenty_megabytes_is_cut_by_default() -> None:
    def plain() -> str:
        return "a" * LARGE

    async def value() -> list[str]:
        return ["a" * 1000] * 20_000

    async def fails() -> None:
        raise ValueError("a" * LARGE)

    async def returns_result() -> ToolResult:
        return ToolResult("", "a" * LARGE, is_error=True)

    async def raw() -> bytes:
        return b"a" * LARGE

    for function in (plain, value, fails, returns_result, raw):
        result = await result_of(function)
        assert len(result.text) < LIMIT + 200
        assert "characters were left out here" in result.text


async def test_the_policy_sets_the_limit() -> None:
    async def go() -> str:
        return "a" * 1000

    assert len((await result_of(go, max_output=None)).text) == 1000
    assert (await result_of(go, max_output=1000)).text == "a" * 1000
    assert (await result_of(go, max_output=8)).text.startswith("aaaaaa\n[992 of 1,000")


async def test_it_holds_for_tools_of_another_make() -> None:
    class Other:
        meta = ToolMeta("go", "", {"type": "object"})
        policy = ToolPolicy(max_output=8)

        async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
            return "a" * 1000

    assert "[992 of" in (await run_call(Toolbox([Other()]), ToolCall("1", "go", {}))).text


def test_blocks_share_the_limit() -> None:
    content = truncate((Text("a" * 60), Text("b" * 60), Text("c"), Text("d")), 100)
    assert isinstance(content, tuple)
    first, second, last = (block.text for block in content if isinstance(block, Text))
    assert first == "a" * 60
    assert second.startswith("b" * 30 + "\n[20 of 60")
    assert last == "[2 more blocks were left out here. To read them, call the tool again for a smaller part.]"


def test_many_small_blocks_are_bounded_too() -> None:
    content = truncate((Text(""),) * 1_000_000, 1_000)
    assert len(content) < 100


def test_a_picture_is_never_cut_but_replaced() -> None:
    small, large = Image("image/png", "a" * 1_000), Image("image/png", "a" * 12_000)
    content = truncate((small, large, Text("see")), 100)
    assert content == (
        small,
        Text("[image/png of 9,000 bytes was left out: it is too large for the result of a tool]"),
        Text("see"),
    )


def test_pictures_and_documents_share_a_limit_of_their_own() -> None:
    paper = Document("application/pdf", "a" * 6_000)
    content = truncate((paper, paper, Image(url="data:image/png;base64," + "a" * 6_000)), 100)
    assert content[0] is paper
    assert [type(block) for block in content[1:]] == [Text, Text]


def test_a_picture_elsewhere_takes_no_room() -> None:
    content = (Image(url="https://example.org/a.png"),)
    assert truncate(content, 1) == content


def test_a_document_of_text_counts_as_text() -> None:
    assert truncate((Document("text/plain", "a" * 4_000),), 100) == (
        Text("[text/plain of 3,000 bytes was left out: it is too large for the result of a tool]"),
    )


def test_what_else_a_text_carries_counts_too() -> None:
    content = truncate((Text("a", citations=({"x": "y" * 1000},)), Text("b", echo={"x": "y"})), 100)
    assert content[0] == Text("a")
    assert content[1] == Text("b", echo={"x": "y"})


async def test_hooks_see_what_the_model_would_read() -> None:
    seen: list[int] = []

    @after_tool_call
    async def look(event: ToolResultContext) -> None:
        seen.append(len(event.result.text))

    @tool(effect="pure")
    async def early() -> str:
        return "a" * LARGE

    @tool
    async def late() -> str:
        return "a" * LARGE

    model = ScriptedModel([say_call("early") + say_call("late"), "Done."])
    result = await Worker(model, tools=[early, late], hooks=[look]).run("?")
    sent = [len(it.text) for it in result.conversation.messages[2].tool_results]
    assert seen == sent
    assert max(sent) < LIMIT + 200


async def test_it_holds_for_a_tool_that_a_hook_runs() -> None:
    seen: list[int] = []

    @tool
    async def read() -> str:
        return "a" * LARGE

    @after_tool_call
    async def look(event: ToolResultContext) -> None:
        seen.append(len((await event.run_tool("read")).text))

    model = ScriptedModel([say_call("read"), "Done."])
    await Worker(model, tools=[read], hooks=[look]).run("?")
    assert seen[0] < LIMIT + 200


@pytest.mark.parametrize("limit", [0, -1, 1.5, "many"])
def test_a_limit_that_makes_no_sense_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_output"):
        tool(max_output=limit)
