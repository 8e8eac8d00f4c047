"""What a hook holds back before a request does not go out with a later one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rxworker import Paused, Run, Worker, hook, on_message_send, on_turn_end, tool, worker_tool
from rxworker.errors import HookError, RunAbortedError, RxWorkerError
from rxworker.events import AttemptStart, ConversationReplace, Record, RunStart
from rxworker.hooks import Cancel, ContinueWithMessages, Hook, MessageSendContext, Pause, TurnEndContext
from rxworker.hooks.legacy import LegacyError
from rxworker.messages import Message, validate
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call

SECRET = "my password is hunter2"


@tool
async def read() -> str:
    """Read."""
    return "the result"


def holds_secret(context: MessageSendContext) -> bool:
    return any("hunter2" in message.text for message in context.messages)


@on_message_send(when=holds_secret)
def cancel(context: MessageSendContext) -> Cancel:
    return Cancel("a secret")


@on_message_send(when=holds_secret)
def fail(context: MessageSendContext) -> None:
    raise OSError("the scanner is gone")


@on_message_send(when=holds_secret, timeout=0.01)
async def hang(context: MessageSendContext) -> None:
    await asyncio.Event().wait()


@on_message_send(when=holds_secret)
def answer_oddly(context: MessageSendContext) -> Any:
    return True


@on_message_send(when=holds_secret)
def spoil(context: MessageSendContext) -> None:
    context.messages.append("no message")  # pyright: ignore[reportArgumentType] - as somebody may


@hook("OnMessageSend", when=holds_secret)
def legacy(context: MessageSendContext) -> LegacyError:
    return LegacyError("a secret")


HOOKS: list[Hook[Any]] = [cancel, fail, hang, answer_oddly, spoil, legacy]


def texts(worker: Worker) -> list[str]:
    return [message.text for message in worker.session.conversation.messages if message.text]


async def check(worker: Worker, model: ScriptedModel, run: Run[object]) -> None:
    """The records say what is kept, and the next run goes out without what was held back."""
    with pytest.raises((RunAbortedError, HookError)):
        await run
    assert run.state.conversation == worker.session.conversation
    records = [record async for record in worker_records(run)]
    assert fold_run(records).conversation == worker.session.conversation
    assert "hunter2" not in str(worker.session.conversation)
    assert validate(worker.session.conversation) == []
    await worker.run("Go on.")
    assert all("hunter2" not in str(request) for request in model.requests)


async def worker_records(run: Run[object]) -> AsyncIterator[Record]:
    try:
        async for record in run:
            yield record
    except RxWorkerError:
        return


@pytest.mark.parametrize("guard", HOOKS, ids=lambda h: h.name)
async def test_the_input_of_the_first_turn_is_retracted(guard: Hook[Any]) -> None:
    model = ScriptedModel(["Hello.", "Again."])
    worker = Worker(model, hooks=[guard])
    await worker.run("Hi.")
    await check(worker, model, worker.run(SECRET))
    assert texts(worker) == ["Hi.", "Hello.", "Go on.", "Again."]


@on_message_send(when=holds_secret)
def quote(context: MessageSendContext) -> None:
    context.add_message(f"The user said: {context.content}", "system")


@pytest.mark.unlogged
@pytest.mark.parametrize(
    ("given", "sent", "hooks"),
    [
        ([Message.user("One."), Message.assistant("Two."), Message.user(SECRET)], "", [cancel]),
        (SECRET, "", [quote, cancel]),  # what hooks have added
        ("Hi.", SECRET, [cancel]),  # what was sent into the run
    ],
)
async def test_all_of_the_first_turn_is_retracted(given: Any, sent: str, hooks: list[Hook[Any]]) -> None:
    model = ScriptedModel(["Again."])
    worker = Worker(model, hooks=hooks)
    run = worker.run(given)
    if sent:
        run.send(sent)
    await check(worker, model, run)
    assert texts(worker) == ["Go on.", "Again."]


async def test_what_was_sent_into_a_later_turn_is_retracted_and_the_rest_stays() -> None:
    model = ScriptedModel([call("read"), "Again."])
    worker = Worker(model, tools=[read], hooks=[cancel])
    run = worker.run("Hi.")

    def send(record: Any) -> None:
        if isinstance(record.event, AttemptStart):
            run.send(SECRET)
            watching.dispose()

    watching = run.subscribe(send, lambda _: None)
    await check(worker, model, run)
    assert [m.role for m in worker.session.conversation.messages[:3]] == ["user", "assistant", "user"]
    assert worker.session.conversation.messages[2].tool_results[0].text == "the result"
    assert texts(worker)[0] == "Hi."


async def test_what_sends_an_answer_back_is_retracted_when_it_is_held_back() -> None:
    @on_turn_end
    def again(context: TurnEndContext) -> ContinueWithMessages:
        return ContinueWithMessages.user(SECRET)

    model = ScriptedModel(["Hello."])
    worker = Worker(model, hooks=[again, cancel])
    with pytest.raises(RunAbortedError):
        await worker.run("Hi.")
    assert texts(worker) == ["Hi.", "Hello."]


async def test_what_is_added_when_a_run_is_resumed_is_retracted() -> None:
    """At the end of a turn, and behind results."""

    @on_turn_end
    def wait(context: TurnEndContext) -> Pause | None:
        return Pause("look at it") if context.turn == 1 else None

    @tool(requires_approval=True)
    async def delete() -> str:
        """Delete."""
        return "deleted"

    for first, hooks, kept in (("Hello.", [wait, cancel], "Hello."), (call("delete"), [cancel], "deleted")):
        model = ScriptedModel([first, "Again."])
        worker = Worker(model, tools=[delete], hooks=hooks)
        assert isinstance(await worker.run("Hi."), Paused)
        await check(worker, model, worker.resume(add=[Message.user(SECRET)]))
        assert texts(worker)[0] == "Hi."
        assert kept in str(worker.session.conversation)


async def test_the_input_of_an_inner_run_reaches_neither_its_next_run_nor_the_outer_one() -> None:
    inner_model = ScriptedModel(["Again."])
    inner = Worker(inner_model, hooks=[cancel])
    ask = worker_tool(inner, name="ask", description="Ask.")
    model = ScriptedModel([call("ask", task=SECRET), call("ask", task="Hi."), "Done."])
    worker = Worker(model, tools=[ask])
    await worker.run("Go.")
    assert worker.session.conversation.messages[2].tool_results[0].is_error
    assert [m.text for m in inner_model.requests[0].conversation.messages] == ["Hi."]


async def test_the_records_show_the_input_and_that_it_was_retracted() -> None:
    worker = Worker(ScriptedModel([]), hooks=[cancel])
    run = worker.run(SECRET)
    records = [record async for record in worker_records(run)]
    start = records[0].event
    assert isinstance(start, RunStart)
    assert (start.added, start.conversation.messages[0].text) == (1, SECRET)
    replaced = [r.event for r in records if isinstance(r.event, ConversationReplace)]
    assert [(event.conversation.messages, event.source) for event in replaced] == [((), "cancel")]


async def test_a_run_that_is_cancelled_while_a_hook_decides_keeps_its_input() -> None:
    @on_message_send
    async def slow(context: MessageSendContext) -> None:
        await asyncio.Event().wait()

    worker = Worker(ScriptedModel([]), hooks=[slow])
    run = worker.run("Hi.")
    await asyncio.sleep(0)
    await run.cancel()
    assert texts(worker) == ["Hi."]
