"""What a hook leaves of a result is checked after it, and what the last hook leaves is what the model receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Worker, after_tool_call, tool
from rxworker.errors import HookError
from rxworker.events import ToolOutput, ToolStart, ToolStop
from rxworker.hooks import ToolResultContext, chain
from rxworker.messages import Audio, Image, Text, ToolResult
from rxworker.testing import ScriptedModel, call

BROKEN: dict[str, tuple[Callable[[ToolResultContext], Any], str]] = {
    "a text": (lambda c: setattr(c, "result", "done"), "which is not a ToolResult"),
    "of another call": (
        lambda c: setattr(c, "result", ToolResult("y", "done")),
        "the result is for the call 'y' instead of 'call_1_1'",
    ),
    "a number": (
        lambda c: setattr(c, "result", ToolResult(c.call.id, 21)),  # pyright: ignore[reportArgumentType]
        "the content of the result is 21",
    ),
    "texts": (
        lambda c: setattr(c, "result", ToolResult(c.call.id, ("a",))),  # pyright: ignore[reportArgumentType]
        "which is neither a text nor content blocks",
    ),
    "no text": (lambda c: c.set_content(None), "the content of the result is None"),  # pyright: ignore[reportArgumentType]
}


@tool
async def read(path: str) -> Any:
    """Read a file."""
    if path == "song":
        return Audio("audio/wav", "AAAA")
    return f"secret of {path}"


def fine(context: ToolResultContext) -> None:
    del context


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_result_ends_the_run_and_its_hook_is_named(what: str) -> None:
    change, why = BROKEN[what]

    def spoil(context: ToolResultContext) -> None:
        change(context)

    hooks = [after_tool_call(spoil), after_tool_call(fine, name="last")]
    for made, name in ((hooks, "spoil"), ([chain(*hooks, name="all")], "all/spoil")):
        model = ScriptedModel([call("read", path="a"), "Done."])
        with pytest.raises(HookError) as failed:
            await Worker(model, tools=[read], hooks=made).run("Read.")
        assert failed.value.hook == name
        assert why in str(failed.value)
        assert len(model.requests) == 1


async def test_a_result_that_a_failed_check_leaves_is_withheld() -> None:
    def spoil(context: ToolResultContext) -> None:
        context.result = ToolResult("y", "secret")

    model = ScriptedModel([call("read", path="a"), "Done."])
    hooks = [after_tool_call(spoil, on_failure="skip")]
    await Worker(model, tools=[read], hooks=hooks).run("Read.")
    [result] = model.requests[1].conversation.messages[-1].tool_results
    assert result.text == "The result is withheld: the hook 'spoil', which checks it, failed."


async def test_the_blocks_that_a_tool_may_return_pass_the_hooks() -> None:
    model = ScriptedModel([call("read", path="song"), "Done."])
    await Worker(model, tools=[read], hooks=[after_tool_call(fine)]).run("Read.")
    [result] = model.requests[1].conversation.messages[-1].tool_results
    assert result.content == (Audio("audio/wav", "AAAA"),)


async def test_half_a_character_that_a_hook_leaves_does_not_reach_a_request() -> None:
    for given, left in (
        ("half \ud83d", "half ?"),
        ((Text("half \ud83d"), Image(url="https://a")), (Text("half ?"), Image(url="https://a"))),
    ):

        def cut(context: ToolResultContext, given: Any = given) -> None:
            context.result = ToolResult(context.call.id, given)

        model = ScriptedModel([call("read", path="a"), "Done."])
        run = Worker(model, tools=[read], hooks=[after_tool_call(cut)]).run("Read.")
        outputs: list[ToolOutput] = []
        run.events.subscribe(lambda e, seen=outputs: seen.append(e) if isinstance(e, ToolOutput) else None)
        await run
        [result] = model.requests[1].conversation.messages[-1].tool_results
        assert result.content == left
        assert [output.result.content for output in outputs] == [left]


async def test_a_hook_cannot_change_the_arguments_in_the_records() -> None:
    def change(context: ToolResultContext) -> None:
        context.call.input["path"] = "b"  # type: ignore[index]

    model = ScriptedModel([call("read", path="a"), "Done."])
    run = Worker(model, tools=[read], hooks=[after_tool_call(change)]).run("Read.")
    events: list[object] = []
    run.events.subscribe(events.append)
    result = await run
    assert [e.call.input for e in events if isinstance(e, ToolStart)] == [{"path": "a"}]
    assert any(isinstance(e, ToolStop) for e in events)
    assert result.conversation.messages[1].tool_calls[0].input == {"path": "a"}
