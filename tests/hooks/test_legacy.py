"""The older hook system on this shape: a row of its documents each."""

from __future__ import annotations

from typing import Any

import pytest

from rxworker import Paused, Worker, before_tool_call, hook, on_message_send, tool
from rxworker.errors import HookError, RunAbortedError
from rxworker.hooks import HookContext, MessageSendContext, Pause, ToolCallContext, first_turn
from rxworker.hooks.base import AnyHook
from rxworker.hooks.legacy import (
    AddMessage,
    AddMessages,
    Complete,
    LegacyContinue,
    LegacyError,
    LegacyResult,
    LegacySkip,
    ModifyContent,
)
from rxworker.hooks.operator import from_operator
from rxworker.messages import Message
from rxworker.testing import HookStub, ScriptedModel, call

POINTS = ["OnMessageSend", "PreToolUse", "PostToolUse", "OnTurnCompleted"]


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"in {path}"


def answering(point: str, result: LegacyResult) -> AnyHook:
    @hook(point, name="older")
    async def answer(context: HookContext) -> LegacyResult:
        return result

    return answer


async def run_with(point: str, result: LegacyResult) -> tuple[Worker, ScriptedModel, HookStub]:
    """A run with a tool call, and with a hook behind the one that answers so."""
    model = ScriptedModel([call("read", path="a"), "Done."])
    behind = HookStub(point)
    worker = Worker(model, tools=[read], hooks=[answering(point, result), behind])
    await worker.run("Read a.")
    return worker, model, behind


def said(worker: Worker) -> list[str]:
    return [m.text for m in worker.session.conversation.messages if m.text]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("result", [LegacyContinue(), LegacySkip()])
async def test_continue_and_skip_go_on(point: str, result: LegacyResult) -> None:
    worker, _, behind = await run_with(point, result)
    assert said(worker) == ["Read a.", "Done."]
    assert behind.call_count >= 1


async def test_modify_content_changes_the_text_of_the_user_in_this_request() -> None:
    worker, model, behind = await run_with("OnMessageSend", ModifyContent("Read b."))
    assert model.requests[0].conversation.messages[0].text == "Read b."
    assert said(worker) == ["Read a.", "Done."]
    assert behind.contents[0] == "Read b."


async def test_modify_content_changes_the_arguments() -> None:
    worker, _, _ = await run_with("PreToolUse", ModifyContent('{"path":"b"}'))
    assert worker.session.conversation.messages[2].tool_results[0].text == "in b"


async def test_modify_content_changes_the_result() -> None:
    worker, _, _ = await run_with("PostToolUse", ModifyContent("***"))
    assert worker.session.conversation.messages[2].tool_results[0].text == "***"


async def test_modify_content_of_an_answer_that_was_shown_already_is_a_failure() -> None:
    with pytest.raises(HookError, match="cannot be changed at on_turn_end"):
        await run_with("OnTurnCompleted", ModifyContent("***"))


@pytest.mark.parametrize("point", POINTS[1:])
@pytest.mark.parametrize(
    ("result", "added"),
    [
        (AddMessage("note"), ["note"]),
        (AddMessage("note", "user"), ["note"]),
        (AddMessages((Message.system("a"), Message.user("b"))), ["a", "b"]),
    ],
)
async def test_messages_are_added_to_the_conversation_and_it_goes_on(
    point: str, result: LegacyResult, added: list[str]
) -> None:
    worker, _, behind = await run_with(point, result)
    assert [text for text in said(worker) if text in added] == added
    assert behind.call_count == 1


async def test_messages_added_before_a_request_are_sent_too() -> None:
    _, model, _ = await run_with("OnMessageSend", AddMessage("note", "user"))
    assert [m.text for m in model.requests[0].conversation.messages] == ["Read a.", "note"]


@pytest.mark.parametrize("point", POINTS)
async def test_error_ends_the_run_and_the_next_hook_is_not_called(point: str) -> None:
    behind = HookStub(point)
    model = ScriptedModel([call("read", path="a"), "Done."])
    worker = Worker(model, tools=[read], hooks=[answering(point, LegacyError("why")), behind])
    run = worker.run("Read a.")
    with pytest.raises(RunAbortedError, match="aborted by hook 'older': why"):
        await run
    assert behind.call_count == 0
    assert run.state.cause == "abort"


async def test_complete_ends_the_turn_and_the_next_hook_is_not_called() -> None:
    worker, _, behind = await run_with("OnTurnCompleted", Complete())
    assert (said(worker), behind.call_count) == (["Read a.", "Done."], 0)


async def test_complete_before_a_request_ends_the_run_without_a_result() -> None:
    with pytest.raises(RunAbortedError, match="a hook has completed the turn"):
        await run_with("OnMessageSend", Complete())


@pytest.mark.parametrize(
    ("point", "result"), [("PreToolUse", "This call was not run: older has finished the run."), ("PostToolUse", "in a")]
)
async def test_complete_at_the_tool_points_ends_the_run_well(point: str, result: str) -> None:
    worker, model, _ = await run_with(point, Complete())
    assert len(model.requests) == 1
    assert worker.session.conversation.messages[-1].tool_results[0].text == result


async def test_older_results_are_for_hooks_that_were_made_so() -> None:
    @before_tool_call
    def gate(context: ToolCallContext) -> Any:
        return LegacyError("no")

    model = ScriptedModel([call("read", path="a"), "Done."])
    with pytest.raises(HookError, match="where it may answer"):
        await Worker(model, tools=[read], hooks=[gate]).run("Read a.")


def test_a_hook_is_named_by_its_function_or_its_class() -> None:
    class Notice:
        def __call__(self, context: HookContext) -> AddMessage:
            return AddMessage("hi")

    def same(source: Any) -> Any:
        return source

    assert hook("PreToolUse")(Notice()).name == "Notice"
    assert hook("PreToolUse")(from_operator(same)).name == "same"


@pytest.mark.parametrize("result", [AddMessage("note", "user"), AddMessages((Message.user("note"),))])
async def test_a_message_added_before_a_request_is_added_once_in_a_run(result: LegacyResult) -> None:
    worker, model, behind = await run_with("OnMessageSend", result)
    assert said(worker).count("note") == 1
    assert [m.text for m in model.requests[1].conversation.messages].count("note") == 1
    assert behind.call_count == 2


async def test_a_message_added_before_a_request_is_not_added_again_after_a_pause() -> None:
    turns: list[int] = []

    @on_message_send
    def count(context: MessageSendContext) -> None:
        turns.append(context.turn)

    @before_tool_call
    def ask(context: ToolCallContext) -> Pause:
        turns.append(context.turn)
        return Pause()

    model = ScriptedModel([call("read", path="a"), "Done."])
    hooks = [answering("OnMessageSend", AddMessage("note", "user")), count, ask]
    worker = Worker(model, tools=[read], hooks=hooks)
    assert isinstance(await worker.run("Read a."), Paused)
    await worker.resume()
    assert said(worker).count("note") == 1
    assert turns == [1, 1, 2]


async def test_first_turn_is_a_condition_for_any_hook() -> None:
    stub = HookStub("on_message_send", when=first_turn)
    worker = Worker(ScriptedModel([call("read", path="a"), "Done.", "Bye."]), tools=[read], hooks=[stub])
    await worker.run("Read a.")
    assert stub.call_count == 1
    await worker.run("Bye.")
    assert stub.call_count == 2
