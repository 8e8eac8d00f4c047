"""Hooks that a hook runs with its context, and hooks that change the list while it is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from rxworker import Session, Worker, after_tool_call, before_tool_call, on_abort, on_turn_end, tool
from rxworker.decisions import Approve, ApproveAlways
from rxworker.errors import HookError, RunAbortedError
from rxworker.events import Event, HookMessage
from rxworker.hooks import Abort, Finish, Hooks, Pause, Skip, ToolCallContext, ToolResultContext, from_operator
from rxworker.hooks.base import AnyHook
from rxworker.hooks.context import HookContext
from rxworker.hooks.registry import chain
from rxworker.testing import ScriptedModel, call, call_context
from rxworker.tools.coroutines import pass_through
from rxworker.turn.result import Paused
from tests.pauses import pause_of


class Till:
    """A tool, and how often it ran."""

    def __init__(self) -> None:
        self.paid = 0

    def session(self, *hooks: AnyHook) -> Session:
        @tool
        def pay() -> str:
            self.paid += 1
            return "paid"

        return Session(Worker(ScriptedModel([call("pay"), "Done."]), tools=[pay], hooks=hooks))


def by_operator() -> AnyHook:
    @before_tool_call
    def permit(context: ToolCallContext) -> Pause:
        return Pause("The library wants it.")

    return before_tool_call(from_operator(Hooks([permit]).operator("before_tool_call"), name="library"))


def by_hand() -> AnyHook:
    @before_tool_call
    def permit(context: ToolCallContext) -> Pause:
        return Pause("The library wants it.")

    inner = chain(permit, name="inner")

    @before_tool_call
    async def library(context: ToolCallContext) -> Pause | None:
        verdict = await inner(context)
        return verdict if isinstance(verdict, Pause) else None

    return library


@pytest.mark.unlogged
@pytest.mark.parametrize("make", [by_operator, by_hand])
async def test_what_is_allowed_to_a_hook_of_hooks_is_allowed_to_no_other_hook(make: Callable[[], AnyHook]) -> None:
    @before_tool_call
    def permit(context: ToolCallContext) -> Pause:
        return Pause("We want it.")

    till = Till()
    session = till.session(make(), permit)
    paused = await pause_of(session.run("Hi"))
    assert paused.pause.hook == "library"
    again = await session.resume(paused, decisions=[ApproveAlways()])
    assert [*session.allowed] == [("pay", "library")]
    # The hook of the same name as the inner one has its turn.
    assert isinstance(again, Paused)
    assert again.pause.hook == "permit"
    assert till.paid == 0


async def test_the_hooks_after_a_hook_of_hooks_run_when_a_call_was_approved() -> None:
    @before_tool_call
    def check(context: ToolCallContext) -> Skip:
        return Skip("Not today.")

    till = Till()
    session = till.session(by_operator(), check)
    paused = await pause_of(session.run("Hi"))
    await session.resume(paused, decisions=[Approve()])
    assert till.paid == 0


async def test_the_hooks_after_one_that_has_removed_itself_run_when_a_call_was_approved() -> None:
    @before_tool_call
    def once(context: ToolCallContext) -> None:
        session.worker.hooks.remove("once")

    @before_tool_call
    def ask(context: ToolCallContext) -> Pause:
        return Pause("Really?")

    @before_tool_call
    def check(context: ToolCallContext) -> Skip:
        return Skip("Not today.")

    till = Till()
    session = till.session(once, ask, check)
    paused = await pause_of(session.run("Hi"))
    await session.resume(paused, decisions=[Approve()])
    assert till.paid == 0


async def test_a_verdict_has_the_name_of_the_outer_hook() -> None:
    @before_tool_call
    def inner(context: ToolCallContext) -> Abort:
        return Abort("No.")

    @on_turn_end
    def check(context: HookContext) -> Pause:
        return Pause("Wait.")

    outer = before_tool_call(from_operator(Hooks([inner]).operator("before_tool_call"), name="outer"))
    with pytest.raises(RunAbortedError) as raised:
        await Till().session(outer).run("Hi")
    assert raised.value.hook == "outer"
    end = on_turn_end(from_operator(Hooks([check]).operator("on_turn_end"), name="end"))
    paused = await pause_of(Session(Worker(ScriptedModel(["Hi."]), hooks=[end])).run("Hi"))
    assert paused.pause.hook == "end"
    assert paused.pause.spared == (("end", 0),)


async def test_the_result_of_an_after_hook_is_kept_when_the_run_may_not_finish() -> None:
    @after_tool_call
    def receipt(context: ToolResultContext) -> Finish:
        context.set_content("Receipt 7.")
        return Finish(final=True)

    run = Till().session(receipt).run("Hi", output=int)
    with pytest.raises(HookError, match="no value of its output type"):
        await run
    [result] = run.state.conversation.messages[-1].tool_results
    assert (result.content, result.is_error) == ("Receipt 7.", False)


async def test_an_abort_hook_that_was_abandoned_speaks_in_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.hooks.registry.GRACE", 0.0)
    said = asyncio.Event()

    @on_abort(timeout=0.01)
    async def first(context: HookContext) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await begun.wait()
        context.send_message("late")
        said.set()

    begun = asyncio.Event()

    @on_abort
    async def second(context: HookContext) -> None:
        begun.set()
        await said.wait()

    @before_tool_call
    def no(context: ToolCallContext) -> Abort:
        return Abort("No.")

    run = Till().session(no, first, second).run("Hi")
    with pytest.raises(RunAbortedError):
        await run
    seen: list[Event] = []
    run.events.subscribe(seen.append, lambda _: None)
    assert [event.hook for event in seen if isinstance(event, HookMessage)] == ["first"]


@pytest.mark.parametrize("is_chain", [False, True])
async def test_a_hook_that_was_abandoned_changes_nothing_that_the_hooks_after_it_see(
    is_chain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rxworker.hooks.registry.GRACE", 0.0)
    released, done = asyncio.Event(), asyncio.Event()

    @before_tool_call
    def inner(context: ToolCallContext) -> None:
        context.set_variable("inner", context.hook)

    async def stubborn(context: ToolCallContext) -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()
        context.input = {"path": "/"}
        if is_chain:  # the next hook of the chain runs, since this one has failed
            asyncio.get_running_loop().call_soon(done.set)
            raise ValueError
        await pass_through(Hooks([inner]).operator("before_tool_call"), context)
        done.set()

    async def last(context: ToolCallContext) -> Pause:
        released.set()
        await done.wait()
        await asyncio.sleep(0)
        return Pause(f"{context.get_variable('inner')}, then {context.hook}")

    failing = before_tool_call(stubborn, on_failure="continue", timeout=None if is_chain else 0.01)
    abandoned = chain(failing, inner, name="slow", on_failure="continue", timeout=0.01) if is_chain else failing
    context = call_context("read")
    answer = await pass_through(Hooks([abandoned, before_tool_call(last)]).operator("before_tool_call"), context)
    assert answer == Pause("slow/inner, then last" if is_chain else "inner, then last")
    names = ["slow/stubborn", "slow/inner"] if is_chain else ["stubborn"]
    assert (context.hook, context.reached, context.input) == ("last", [*names, "last"], {})
