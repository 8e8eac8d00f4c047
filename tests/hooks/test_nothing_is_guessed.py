"""What is not understood is refused when it is registered or returned; it never counts as permission."""

from __future__ import annotations

from typing import Any

import pytest

from rxworker import Answer, Worker, after_tool_call, before_tool_call, on_message_send, on_turn_end, tool
from rxworker.errors import ConfigurationError, HookError
from rxworker.hooks import Abort, Cancel, ContinueWithMessages, Hooks, Pause, Skip
from rxworker.messages import Message, ToolCall, ToolMeta, ToolResult
from rxworker.testing import ScriptedModel, call
from rxworker.tools import Toolbox, ToolContext, ToolPolicy

RAN: list[str] = []


@tool
async def note(text: str) -> str:
    """Note."""
    RAN.append(text)
    return text


class Raw:
    meta = ToolMeta("raw", "", {"type": "object"})

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        return "ran"


def with_members(**members: object) -> Any:
    made = Raw()
    for name, value in members.items():
        setattr(made, name, value)
    return made


POLICIES: dict[str, tuple[object, str]] = {
    "a dict": ({"requires_approval": True}, "the policy of tool 'raw' is {'requires_approval'"),
    "a word": ("requires_approval", "the policy of tool 'raw' is 'requires_approval'"),
    "the class": (ToolPolicy, "the policy of tool 'raw' is <class"),
    "an unknown effect": (ToolPolicy(effect="none"), "effect='none': give one of"),  # pyright: ignore[reportArgumentType]
    "retries of a write": (ToolPolicy(retries=2), "only a tool that may be repeated"),
    "no time": (ToolPolicy(timeout=0), "give a number above 0"),
    "a word for yes": (ToolPolicy(requires_approval="no"), "requires_approval='no': give True"),  # pyright: ignore[reportArgumentType]
    "nothing for yes": (ToolPolicy(requires_approval=None), "requires_approval=None: give True"),  # pyright: ignore[reportArgumentType]
    "a number for alone": (ToolPolicy(barrier=1), "barrier=1: give True"),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("what", POLICIES)
def test_an_invalid_policy_is_refused_and_not_replaced_by_the_usual_one(what: str) -> None:
    policy, why = POLICIES[what]
    with pytest.raises(ConfigurationError) as refused:
        Toolbox([with_members(policy=policy)])
    assert why in str(refused.value)


def test_a_reconcile_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the reconcile of tool 'raw' is 'done'"):
        Toolbox([with_members(reconcile="done")])
    Toolbox([with_members(reconcile=None, policy=None)])


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("before_tool_calls", "before_tool_call"),
        ("before_toolcall", "before_tool_call"),
        ("befor_tool_call", "before_tool_call"),
        ("after_tool_cal", "after_tool_call"),
        ("on_message_sent", "on_message_send"),
        ("on_turn_ends", "on_turn_end"),
        ("on_aborts", "on_abort"),
        ("beforeToolCall", "before_tool_call"),
        ("BeforeToolCall", "before_tool_call"),
        ("_after_tool_call", "after_tool_call"),
        ("PreToolUse", "before_tool_call"),
        ("pre_tool_use", "before_tool_call"),
        ("onTurnCompleted", "on_turn_end"),
    ],
)
def test_a_misspelt_method_beside_a_right_one_is_refused(name: str, point: str) -> None:
    class Gate:
        def on_abort(self, context: object) -> None: ...
        def before_tool_call(self, context: object) -> None: ...

    setattr(Gate, name, Gate.before_tool_call)
    with pytest.raises(ConfigurationError, match=f"{name!r}; did you mean {point!r}"):
        Hooks([Gate()])  # pyright: ignore[reportArgumentType]


def test_other_methods_are_the_objects_own() -> None:
    class Gate:
        turn_end_count = 0

        def before_tool_call(self, context: object) -> None: ...
        def before(self, context: object) -> None: ...
        def on_turn_start(self, context: object) -> None: ...
        def on_message(self, context: object) -> None: ...
        def call_tool(self, context: object) -> None: ...

    assert Hooks([Gate()]).list() == [("Gate", "before_tool_call")]


ODD: list[tuple[Any, Any, str]] = [
    (before_tool_call, True, "answered True"),
    (before_tool_call, False, "answered False"),
    (before_tool_call, "skip", "answered 'skip'"),
    (before_tool_call, Skip, "answered <class"),
    (before_tool_call, (), "answered ()"),
    (before_tool_call, Cancel("no"), "answered Cancel"),
    (on_message_send, Skip(), "answered Skip"),
    (after_tool_call, Pause(), "answered Pause"),
    (after_tool_call, Answer("x"), "answered Answer"),
    (on_turn_end, Abort("no"), "answered Abort"),
    (on_turn_end, Answer("x"), "answered Answer"),
    (before_tool_call, Skip(None), "the reason None, which is not a string"),  # pyright: ignore[reportArgumentType]
    (before_tool_call, Skip(5), "the reason 5, which is not a string"),  # pyright: ignore[reportArgumentType]
    (before_tool_call, Abort(None), "the reason None, which is not a string"),  # pyright: ignore[reportArgumentType]
    (before_tool_call, Pause(None), "the reason None, which is not a string"),  # pyright: ignore[reportArgumentType]
    (after_tool_call, Abort(b"no"), "the reason b'no', which is not a string"),  # pyright: ignore[reportArgumentType]
    (on_message_send, Cancel(None), "the reason None, which is not a string"),  # pyright: ignore[reportArgumentType]
    (
        before_tool_call,
        Answer(ToolResult.error("x", "it failed")),  # pyright: ignore[reportArgumentType]
        "write Answer(result.content, is_error=result.is_error)",
    ),
    (on_turn_end, ContinueWithMessages(("again",)), "with 'again', which is not a Message"),  # pyright: ignore[reportArgumentType]
    (on_turn_end, ContinueWithMessages("again"), "with 'again', which is not a list of messages"),  # pyright: ignore[reportArgumentType]
    (on_turn_end, ContinueWithMessages((Message.user(ToolResult("x", "y")),)), "no tool calls"),
    (on_turn_end, ContinueWithMessages((Message.assistant(ToolCall("x", "note", {})),)), "no tool calls"),
]


@pytest.mark.parametrize(("point", "verdict", "why"), ODD, ids=[repr(v)[:40] for _, v, _ in ODD])
async def test_an_invalid_verdict_ends_the_run_and_nothing_runs(point: Any, verdict: Any, why: str) -> None:
    RAN.clear()

    def odd(context: object) -> Any:
        return verdict

    replies = [call("note", text="a"), "Done."] if point is not on_turn_end else ["Done.", "Again."]
    model = ScriptedModel(replies)
    with pytest.raises(HookError) as failed:
        await Worker(model, tools=[note], hooks=[point(odd)]).run("Go.")
    assert why in str(failed.value)
    assert failed.value.hook == "odd"
    assert ([] if point is not after_tool_call else ["a"]) == RAN
    assert len(model.requests) <= 1


async def test_a_result_that_a_hook_replaces_keeps_the_name_of_its_tool() -> None:
    """Some providers find the call by it."""

    @after_tool_call
    def other(context: Any) -> None:
        context.result = ToolResult.success(context.call.id, "other")

    model = ScriptedModel([call("note", text="a"), "Done."])
    await Worker(model, tools=[note], hooks=[other]).run("Go.")
    [result] = model.requests[1].conversation.messages[-1].tool_results
    assert (result.text, result.name) == ("other", "note")


async def test_half_a_character_in_a_reason_does_not_reach_a_request() -> None:
    @before_tool_call
    def refuse(context: object) -> Skip:
        return Skip("half \ud83d")

    model = ScriptedModel([call("note", text="a"), "Done."])
    await Worker(model, tools=[note], hooks=[refuse]).run("Go.")
    [result] = model.requests[1].conversation.messages[-1].tool_results
    assert result.text == "half ?"
