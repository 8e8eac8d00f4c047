"""What it means when a hook fails, takes too long, or is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from rxworker import Worker, after_tool_call, before_tool_call, on_abort, on_message_send, tool
from rxworker.errors import HookError, RunCancelledError
from rxworker.events import HookVerdict
from rxworker.hooks import (
    Abort,
    Continue,
    Hook,
    HookContext,
    HookPoint,
    Hooks,
    MessageSendContext,
    Skip,
    ToolCallContext,
    ToolResultContext,
    Verdict,
    chain,
)
from rxworker.hooks.decorate import HookLike
from rxworker.messages import Message
from rxworker.operators import only
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
from rxworker.testing.hooks import HookAnswer
from tests.hooks.asking import verdict_of

CONTEXTS: list[HookContext] = [
    send_context("hi"),
    call_context("read"),
    result_context("read", "text"),
    end_context("bye"),
    abort_context(),
]


async def ask(context: HookContext, *hooks: HookLike) -> tuple[Verdict, list[tuple[str, str]]]:
    heard: list[HookVerdict] = []
    assert context.point is not None
    verdict, _ = await verdict_of(Hooks(hooks), context.point, context, heard.append)
    return verdict, [(event.hook, event.verdict) for event in heard]


def stub(context: HookContext, *answers: HookAnswer, **settings: Any) -> HookStub:
    assert context.point is not None
    return HookStub(context.point, *answers, **settings)


@pytest.mark.parametrize("context", CONTEXTS[:4], ids=lambda c: c.point.value)
async def test_a_failure_ends_the_run_unless_set_otherwise_and_is_reported(context: HookContext) -> None:
    heard: list[HookVerdict] = []
    assert context.point is not None
    with pytest.raises(HookError, match=f"hook 'stub' failed at {context.point.value}: OSError: x"):
        await verdict_of(Hooks([stub(context, OSError("x"))]), context.point, context, heard.append)
    assert [(event.hook, event.verdict) for event in heard] == [("stub", "Failed")]


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda c: c.point.value)
async def test_a_failure_that_does_not_matter_is_reported_and_the_next_hook_runs(context: HookContext) -> None:
    failing = stub(context, OSError("x"), on_failure="continue")
    after = stub(context, name="after")
    _, heard = await ask(context, failing, after)
    assert (heard, after.call_count) == ([("stub", "Failed")], 1)


async def test_skip_on_failure_refuses_the_call_and_hides_the_reason_from_the_model() -> None:
    context = call_context("delete")
    after = stub(context, name="after")
    failing = stub(context, OSError("the password is hunter2"), on_failure="skip")
    verdict, heard = await ask(context, failing, after)
    assert isinstance(verdict, Skip)
    assert "'stub'" in verdict.reason
    assert "hunter2" not in verdict.reason
    assert (heard, after.call_count) == ([("stub", "Failed"), ("stub", "Skip")], 0)


async def test_skip_on_failure_withholds_the_result() -> None:
    context = result_context("read", "the password is hunter2")
    verdict, heard = await ask(context, stub(context, OSError("x"), on_failure="skip"))
    assert (verdict, heard) == (Continue(), [("stub", "Failed")])
    assert context.result.is_error
    assert "hunter2" not in context.result.text


async def test_what_a_hook_changed_before_it_failed_is_undone_when_the_run_goes_on() -> None:
    @before_tool_call(on_failure="continue")
    def half(context: ToolCallContext) -> None:
        context.input["paths"].append("b")  # type: ignore[union-attr]
        raise OSError

    context = call_context("read", paths=["a"])
    await ask(context, half)
    assert context.input == {"paths": ["a"]}


async def test_a_request_is_as_it_was_but_for_what_stays_in_the_conversation() -> None:
    @on_message_send(on_failure="continue")
    def half(context: MessageSendContext) -> None:
        context.messages.insert(0, Message.user("gone"))
        context.system = "gone"
        context.add_message("stays", "user")
        raise OSError

    context = send_context("hi")
    await ask(context, half)
    assert [m.text for m in context.messages] == ["hi", "stays"]
    assert context.system is None


async def test_a_result_is_as_it_was() -> None:
    @after_tool_call(on_failure="continue")
    def half(context: ToolResultContext) -> None:
        context.set_content("***")
        raise OSError

    context = result_context("read", "text")
    await ask(context, half)
    assert context.content == "text"


@pytest.mark.parametrize("on_failure", ["abort", "skip", "continue"])
async def test_a_foreign_verdict_ends_the_run_whatever_a_failure_means(on_failure: Any) -> None:
    context = call_context("read")
    with pytest.raises(HookError, match="where it may answer"):
        await ask(context, stub(context, "yes", on_failure=on_failure))


# time


@pytest.mark.parametrize("context", CONTEXTS[:4], ids=lambda c: c.point.value)
async def test_a_hook_that_never_returns_has_failed_after_its_time_out(context: HookContext) -> None:
    hanging = stub(context, NEVER, timeout=0.01)
    with pytest.raises(HookError, match=r"hook 'stub' failed at .*: it took longer than 0.01 s"):
        await ask(context, hanging)
    assert hanging.cancelled == 1


async def test_what_a_time_out_means_is_what_a_failure_means() -> None:
    context = call_context("read")
    hanging = stub(context, NEVER, timeout=0.01, on_failure="skip")
    assert isinstance((await ask(context, hanging))[0], Skip)


async def test_an_answer_that_comes_too_late_does_not_count() -> None:
    @before_tool_call(timeout=0.01)
    async def stubborn(context: ToolCallContext) -> Abort:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Abort("late")

    with pytest.raises(HookError, match="took longer"):
        await ask(call_context("read"), stubborn)


async def test_a_time_out_of_the_hooks_own_is_a_failure_like_any_other() -> None:
    context = call_context("read")
    with pytest.raises(HookError, match="failed at before_tool_call: TimeoutError: mine"):
        await ask(context, stub(context, TimeoutError("mine"), timeout=60.0))


async def test_the_time_for_a_hook_counts_its_condition() -> None:
    async def never(context: HookContext) -> bool:
        return await asyncio.get_running_loop().create_future()

    context = call_context("read")
    with pytest.raises(HookError, match="took longer"):
        await ask(context, stub(context, when=never, timeout=0.01))


def test_only_the_end_has_a_time_out_of_its_own() -> None:
    stubs = {point: HookStub(point).timeout for point in HookPoint}
    assert stubs.pop(HookPoint.ON_ABORT) == 5.0
    assert set(stubs.values()) == {None}
    assert HookStub("on_abort", timeout=float("inf")).timeout is None


# cancelling


@tool
async def read(path: str) -> str:
    """Read a file."""
    return path


async def cancelled_while(hook: Hook[Any], asked: asyncio.Event) -> Worker:
    model = ScriptedModel([call("read", path="a"), "Done."])
    worker = Worker(model, tools=[read], hooks=[hook])
    run = worker.run("Read a.")
    await asked.wait()
    await run.cancel()
    with pytest.raises(RunCancelledError, match="cancelled by the caller"):
        await run
    return worker


@pytest.mark.parametrize("on_failure", ["abort", "skip", "continue"])
async def test_to_cancel_the_run_is_not_a_failure_of_the_hook(on_failure: Any) -> None:
    asked = asyncio.Event()

    @before_tool_call(on_failure=on_failure, timeout=60.0)
    async def wait(context: ToolCallContext) -> None:
        asked.set()
        await asyncio.Event().wait()

    worker = await cancelled_while(wait, asked)
    worker.hooks.clear()
    assert (await worker.run("Again.")).text == "Done."


async def test_a_hook_that_catches_its_cancellation_does_not_keep_the_run() -> None:
    asked, caught = asyncio.Event(), asyncio.Event()

    @before_tool_call
    async def stubborn(context: ToolCallContext) -> Skip | None:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            caught.set()
        return None

    worker = await cancelled_while(stubborn, asked)
    assert caught.is_set()
    assert "path" not in str(worker.session.conversation.messages[-1].tool_results[0].content)


async def test_a_hook_that_does_not_end_when_cancelled_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.run.driver.GRACE", 0.01)
    asked, may_end = asyncio.Event(), asyncio.Event()

    @before_tool_call
    async def stubborn(context: ToolCallContext) -> None:
        asked.set()
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()

    worker = await cancelled_while(stubborn, asked)
    assert not may_end.is_set()  # the run has ended, and the hook has not
    assert worker.session.conversation.messages[-1].tool_results[0].is_error
    may_end.set()


async def test_nothing_begins_in_a_run_that_has_ended_without_its_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.run.driver.GRACE", 0.01)
    asked, may_end, ran = asyncio.Event(), asyncio.Event(), list[str]()

    @tool
    async def write(path: str) -> None:
        """Write a file."""
        ran.append(path)

    @before_tool_call
    async def stubborn(context: ToolCallContext) -> None:
        asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await may_end.wait()
        await may_end.wait()

    worker = Worker(ScriptedModel([call("write", path="a"), "Done."]), tools=[write], hooks=[stubborn])
    run = worker.run("Write a.")
    driver = run._driver.task
    await asked.wait()
    await run.cancel()
    last = run.last_seq
    may_end.set()
    await asyncio.wait([driver])
    assert (ran, run.last_seq) == ([], last)


async def cancelled_thing() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def test_something_cancelled_within_a_hook_is_its_failure() -> None:
    @before_tool_call(on_failure="continue")
    async def wait(context: ToolCallContext) -> None:
        await cancelled_thing()

    verdict, heard = await ask(call_context("read"), wait)
    assert (verdict, heard) == (Continue(), [("wait", "Failed")])


async def test_verdicts_and_failures_are_among_the_records_of_a_run() -> None:
    @before_tool_call(on_failure="continue")
    def metrics(context: ToolCallContext) -> None:
        raise OSError("the metrics server is gone")

    told: list[str] = []

    @on_abort
    def tell(context: HookContext) -> None:
        told.append(context.content)

    model = ScriptedModel([call("read", path="a"), "Done."])
    run = Worker(model, tools=[read], hooks=[metrics, tell]).run("Read a.")
    heard: list[HookVerdict] = []
    run.events.pipe(only(HookVerdict)).subscribe(heard.append)
    assert (await run).text == "Done."
    assert [(v.hook, v.point, v.verdict) for v in heard] == [("metrics", "before_tool_call", "Failed")]
    assert heard[0].call_id
    assert "the metrics server is gone" in heard[0].reason
    assert told == []


# what is not an Exception


class Odd(BaseException):
    """Neither an Exception nor known to asyncio."""


async def fail_with(error: BaseException, **settings: Any) -> tuple[list[str], list[HookVerdict]]:
    """A run with a hook that raises this before a call.

    Returns what the model read of the call, and what was decided.
    """

    @tool
    async def read() -> str:
        """Read."""
        return "text"

    @before_tool_call(name="broken", **settings)
    async def broken(context: ToolCallContext) -> None:
        raise error

    verdicts: list[HookVerdict] = []
    worker = Worker(ScriptedModel([call("read"), "Done."]), tools=[read], hooks=[broken])
    run = worker.run("Read.")
    run.events.pipe(only(HookVerdict)).subscribe(verdicts.append, lambda _: None)
    await run
    return [result.text for result in worker.session.conversation.messages[2].tool_results], verdicts


@pytest.mark.parametrize("seconds", [None, 5.0])
@pytest.mark.parametrize("error", [SystemExit(2), GeneratorExit(), Odd("x")], ids=repr)
async def test_what_is_not_an_exception_is_a_failure_with_its_cause(
    error: BaseException, seconds: float | None
) -> None:
    with pytest.raises(HookError, match=f"hook 'broken' failed .*{type(error).__name__}") as caught:
        await fail_with(error, timeout=seconds)
    assert caught.value.__cause__ is error
    results, verdicts = await fail_with(error, timeout=seconds, on_failure="skip")
    assert "which checks it, failed" in results[0]
    assert [v.verdict for v in verdicts] == ["Failed", "Skip"]
    results, _ = await fail_with(error, timeout=seconds, on_failure="continue")
    assert results == ["text"]


@pytest.mark.parametrize("error", [SystemExit(1), KeyError("x")], ids=repr)
async def test_a_condition_that_raises_is_a_failure_of_its_hook(error: BaseException) -> None:
    def raises(context: HookContext) -> bool:
        raise error

    context = call_context("read")
    with pytest.raises(HookError, match=f"hook 'stub' failed at before_tool_call: {type(error).__name__}"):
        await ask(context, stub(context, when=raises))


async def test_a_chain_and_on_abort_take_it_as_a_failure_too() -> None:
    def exits(context: HookContext) -> Any:
        raise SystemExit(1)

    context = call_context("read")
    with pytest.raises(HookError, match="hook 'c/exits' failed"):
        await ask(context, chain(Hook[Any](exits, "before_tool_call"), name="c"))
    _, heard = await ask(abort_context(), Hook[Any](exits, "on_abort"))
    assert heard == [("exits", "Failed")]


def test_an_interrupt_goes_through() -> None:
    def interrupted(context: HookContext) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(ask(call_context("read"), Hook[Any](interrupted, "before_tool_call")))


def test_a_hook_that_is_closed_in_the_middle_is_closed() -> None:
    hanging = HookStub("before_tool_call", NEVER)
    asking = ask(call_context("read"), hanging)
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        """As far as to where the hook hangs."""
        asking.send(None)

    loop.run_until_complete(begin())
    loop.close()
    asking.close()
    assert hanging.call_count == 1


# conditions


@pytest.mark.parametrize("given", [None, 0, 1, "", "yes", Skip, Skip("no"), []], ids=repr)
@pytest.mark.parametrize("later", [False, True])
async def test_a_condition_that_is_neither_true_nor_false_is_a_failure(given: Any, later: bool) -> None:
    async def when_later(context: HookContext) -> Any:
        return given

    def when(context: HookContext) -> Any:
        return given

    context = call_context("read")
    with pytest.raises(HookError, match="neither True nor False"):
        await ask(context, stub(context, Skip("no"), when=when_later if later else when))
    # A permission hook that cannot be asked permits nothing.
    skips = stub(context, when=when, on_failure="skip")
    assert isinstance((await ask(context, skips))[0], Skip)


# what functions may return by mistake


async def test_a_coroutine_that_was_not_awaited_is_an_error_and_is_closed() -> None:
    async def decide(context: HookContext) -> Skip:
        return Skip("no")

    async def forgets(context: HookContext) -> Any:
        return decide(context)

    context = call_context("read")
    with pytest.raises(HookError, match="answered <coroutine object") as caught:
        await ask(context, Hook[Any](forgets, "before_tool_call"))
    assert caught.value.kind == "verdict"
    assert type(caught.value) is HookError
