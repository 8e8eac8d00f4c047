"""A hook that assigns something has an effect or fails: what does nothing could be a permission that was not given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Worker, after_tool_call, before_tool_call, hook, on_abort, on_message_send, on_turn_end, tool
from rxworker.errors import ConfigurationError, HookError
from rxworker.hooks import Hook, HookContext, HookPoint, ToolCallContext
from rxworker.messages import ToolCall
from rxworker.testing import ScriptedModel, abort_context, call, call_context, end_context, result_context, send_context
from rxworker.tools import ToolContext

CONTEXTS: dict[HookPoint, HookContext] = {
    HookPoint.ON_MESSAGE_SEND: send_context("hi"),
    HookPoint.BEFORE_TOOL_CALL: call_context("pay", euros=1000),
    HookPoint.AFTER_TOOL_CALL: result_context("pay", "paid"),
    HookPoint.ON_TURN_END: end_context("bye"),
    HookPoint.ON_ABORT: abort_context(),
}
CHANGEABLE = {
    HookPoint.ON_MESSAGE_SEND: {"messages", "system"},
    HookPoint.BEFORE_TOOL_CALL: {"call", "input"},
    HookPoint.AFTER_TOOL_CALL: {"result"},
    HookPoint.ON_TURN_END: set[str](),
    HookPoint.ON_ABORT: set[str](),
}
MISSPELT: list[tuple[HookPoint, str, str]] = [
    (HookPoint.BEFORE_TOOL_CALL, "inputs", "did you mean 'input'?"),
    (HookPoint.BEFORE_TOOL_CALL, "tool_arg", "did you mean 'tool_args'?"),
    (HookPoint.BEFORE_TOOL_CALL, "options", "here a hook may assign: call, input"),
    (HookPoint.BEFORE_TOOL_CALL, "_given", "has no attribute"),
    (HookPoint.ON_MESSAGE_SEND, "sytem", "did you mean 'system'?"),
    (HookPoint.ON_MESSAGE_SEND, "message", "did you mean 'messages'?"),
    (HookPoint.AFTER_TOOL_CALL, "results", "did you mean 'result'?"),
    (HookPoint.ON_TURN_END, "answer", "here a hook may assign: nothing"),
    (HookPoint.ON_ABORT, "reasons", "did you mean 'reason'?"),
]


@pytest.mark.parametrize(("point", "name", "says"), MISSPELT, ids=[name for _, name, _ in MISSPELT])
def test_an_unknown_attribute_is_refused_with_the_nearest_name(point: HookPoint, name: str, says: str) -> None:
    with pytest.raises(AttributeError) as refused:
        setattr(CONTEXTS[point], name, {"euros": 1})
    assert says in str(refused.value)


@pytest.mark.parametrize("point", CONTEXTS)
def test_each_attribute_of_a_context_can_be_assigned_or_names_the_remedy(point: HookPoint) -> None:
    context: Any = CONTEXTS[point]
    names = {name for name in dir(context) if not name.startswith("_")}
    for name in sorted(names):
        value = getattr(context, name)
        if name in CHANGEABLE[point]:
            setattr(context, name, value)
            continue
        with pytest.raises(AttributeError) as refused:
            setattr(context, name, value)
        assert f"{name!r} of a {type(context).__name__} cannot be assigned: " in str(refused.value)


def test_the_errors_name_the_method_that_does_it() -> None:
    for context, name, method in (
        (CONTEXTS[HookPoint.AFTER_TOOL_CALL], "content", "set_content("),
        (CONTEXTS[HookPoint.ON_TURN_END], "conversation", "rewrite_conversation("),
        (CONTEXTS[HookPoint.ON_MESSAGE_SEND], "variables", "set_variable("),
        (CONTEXTS[HookPoint.BEFORE_TOOL_CALL], "tool_args", "input"),
        (CONTEXTS[HookPoint.AFTER_TOOL_CALL], "tool_result", "set_content("),
    ):
        with pytest.raises(AttributeError, match=method.replace("(", r"\(")):
            setattr(context, name, "x")


def test_the_input_can_be_assigned() -> None:
    context = call_context("pay", euros=1000)
    context.input = {"euros": 1}
    assert context.call == ToolCall("call_1", "pay", {"euros": 1})
    context.check()


async def test_a_hook_with_a_misspelt_attribute_fails_and_the_call_does_not_run() -> None:
    paid: list[int] = []

    @tool
    async def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    @before_tool_call
    def cheap(context: ToolCallContext) -> None:
        context.inputs = {"euros": 1}  # pyright: ignore[reportAttributeAccessIssue]

    with pytest.raises(HookError, match="did you mean 'input'"):
        await Worker(ScriptedModel([call("pay", euros=1000)]), tools=[pay], hooks=[cheap]).run("?")
    assert paid == []


@tool
async def look() -> str:
    """Look."""
    return "nothing"


@pytest.mark.parametrize("name", ["call", "tool", "_given"])
async def test_a_hook_that_deletes_an_attribute_has_failed(name: str) -> None:
    @before_tool_call(on_failure="skip")
    def spoil(context: ToolCallContext) -> None:
        delattr(context, name)

    model = ScriptedModel([call("look"), "Done."])
    result = await Worker(model, tools=[look], hooks=[spoil]).run("Look.")
    [refused] = result.conversation.messages[-2].tool_results
    assert "the hook 'spoil', which checks it, failed" in refused.text


IMMUTABLE: list[tuple[Any, Callable[[Any], object], str]] = [
    (after_tool_call, lambda c: setattr(c.result, "content", "x"), "use context.set_content(text)"),
    (after_tool_call, lambda c: setattr(c.call, "input", {}), "change or assign context.input"),
    (before_tool_call, lambda c: setattr(c.call, "input", {}), "change or assign context.input"),
    (on_message_send, lambda c: setattr(c.messages[0], "content", ()), "another message"),
    (on_turn_end, lambda c: setattr(c.conversation, "messages", ()), "context.add_message("),
]


@pytest.mark.parametrize(("at", "assign", "instead"), IMMUTABLE, ids=[i for *_, i in IMMUTABLE])
async def test_a_hook_that_changes_what_is_immutable_learns_how_it_is_done(
    at: Any, assign: Callable[[Any], object], instead: str
) -> None:
    def change(context: Any) -> None:
        assign(context)

    worker = Worker(ScriptedModel([call("look"), "Done."]), tools=[look], hooks=[at(change)])
    with pytest.raises(HookError) as failed:
        await worker.run("Look.")
    assert instead in str(failed.value)


def test_a_context_of_a_tool_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        ToolContext().variable = {}  # pyright: ignore[reportAttributeAccessIssue]


def test_an_unknown_setting_of_a_hook_is_refused_with_the_nearest_name() -> None:
    def look(context: object) -> None: ...

    odd: dict[str, Any] = {"macher": "pay"}
    for make in (
        lambda: before_tool_call(look, **odd),
        lambda: after_tool_call(**odd),
        lambda: on_message_send(**odd),
        lambda: on_turn_end(**odd),
        lambda: on_abort(**odd),
        lambda: hook("PreToolUse", **odd),
        lambda: Hook(look, "before_tool_call", **odd),
        lambda: Hook(look, "before_tool_call").replace(**odd),
    ):
        with pytest.raises(ConfigurationError, match=r"'macher'; did you mean 'matcher'"):
            make()


def test_the_older_name_of_the_point_is_named() -> None:
    odd: dict[str, Any] = {"hook_type": "PreToolUse"}
    with pytest.raises(ConfigurationError, match=r'write @hook\("PreToolUse"\)'):
        hook(**odd)
    with pytest.raises(ConfigurationError, match="give the point"):
        hook()
