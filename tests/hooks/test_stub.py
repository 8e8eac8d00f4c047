from __future__ import annotations

import pytest

from rxworker import Worker, tool
from rxworker.hooks import Continue, Finish, HookContext, Hooks, Skip
from rxworker.testing import (
    NEVER,
    HookStub,
    ScriptedModel,
    abort_context,
    call,
    call_context,
    end_context,
    result_context,
    send_context,
)
from tests.hooks.asking import verdict_of


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"in {path}"


async def test_a_stub_answers_in_order_and_then_goes_on() -> None:
    stub = HookStub("before_tool_call", Skip("one"), None, Skip("three"))
    answers = [await stub(call_context("read")) for _ in range(4)]
    assert answers == [Skip("one"), None, Skip("three"), None]


async def test_a_stub_spies_on_a_run() -> None:
    before, after = HookStub("before_tool_call"), HookStub("after_tool_call", name="after")
    model = ScriptedModel([call("read", path="a") + call("read", path="b"), "Done."])
    await Worker(model, tools=[read], hooks=[before, after]).run("Read a and b.")
    assert before.contents == ['{"path":"a"}', '{"path":"b"}']
    assert after.contents == ["in a", "in b"]
    assert [context.tool_args for context in after.contexts] == [{"path": "a"}, {"path": "b"}]
    assert (before.name, after.name, before.call_count) == ("stub", "after", 2)


async def test_a_stub_may_answer_by_a_function() -> None:
    def only_a(context: HookContext) -> Skip | None:
        return None if context.content == '{"path":"a"}' else Skip()

    stub = HookStub("before_tool_call", only_a, only_a)
    assert await stub(call_context("read", path="a")) is None
    assert await stub(call_context("read", path="b")) == Skip()


async def test_a_stub_may_raise_or_hang() -> None:
    stub = HookStub("on_turn_end", OSError("x"), NEVER, timeout=0.01, on_failure="continue")
    hooks = Hooks([stub])
    for _ in range(2):
        verdict, _ = await verdict_of(hooks, stub.point, end_context("bye"), lambda _: None)
        assert verdict == Finish()
    assert (stub.call_count, stub.cancelled) == (2, 1)


@pytest.mark.parametrize(
    "context",
    [
        send_context("hi"),
        call_context("read"),
        result_context("read", "text"),
        end_context("bye"),
        abort_context(),
        abort_context("abort", "no"),
    ],
)
async def test_every_point_has_a_context_for_tests(context: HookContext) -> None:
    assert context.point is not None
    stub = HookStub(context.point)
    verdict, hook = await verdict_of(Hooks([stub]), stub.point, context, lambda _: None)
    assert hook == ""
    assert isinstance(verdict, Continue | Finish)
    assert [type(each) for each in stub.contexts] == [type(context)]
