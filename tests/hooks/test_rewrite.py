"""Changing the conversation that is kept, for good, and what comes too late."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from rxworker import Worker, before_tool_call, on_message_send, on_turn_end, tool
from rxworker.errors import ConfigurationError, LocalProtocolError, RunAbortedError
from rxworker.events import ConversationReplace, Record
from rxworker.hooks import (
    Cancel,
    ContinueWithMessages,
    HookContext,
    Hooks,
    MessageSendContext,
    ToolCallContext,
    TurnEndContext,
)
from rxworker.messages import (
    Content,
    Conversation,
    Message,
    OpaqueBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    validate,
)
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, abort_context, call, call_context, result_context, send_context
from rxworker.views import Tracker


@tool
async def read(path: str) -> str:
    """Read."""
    return "the password is hunter2"


def masked_text(text: str) -> str:
    return text.replace("hunter2", "***")


def masked(block: Content) -> Content:
    match block:
        case Text(text=text):
            return replace(block, text=masked_text(text))
        case ToolResult(content=str(text)):
            return replace(block, content=masked_text(text))
        case ToolCall(input=dict(given)):
            return replace(block, input={k: masked_text(str(v)) for k, v in given.items()})
        case _:
            return block


def mask_message(message: Message) -> Message:
    return replace(message, content=tuple(map(masked, message.content)))


@on_message_send
def mask_before(context: MessageSendContext) -> None:
    context.rewrite_conversation(mask_message)


@on_turn_end
def mask_at_end(context: TurnEndContext) -> None:
    context.rewrite_conversation(mask_message)


async def records_of(worker: Worker, text: str) -> list[Record]:
    run = worker.run(text)
    records = [record async for record in run]
    assert fold_run(records) == run.state
    assert run.state.conversation == worker.session.conversation == (await run).conversation
    return records


async def test_a_mask_before_a_request_is_in_it_in_later_ones_and_in_the_conversation() -> None:
    model = ScriptedModel([call("read", path="hunter2"), "Done.", "Bye."])
    worker = Worker(model, tools=[read], hooks=[mask_before])
    records = await records_of(worker, "my password is hunter2")
    await worker.run("Bye.")
    assert all("hunter2" not in str(request.conversation) for request in model.requests)
    assert "hunter2" not in str(worker.session.conversation)
    assert validate(worker.session.conversation) == []
    assert model.requests[0].conversation.messages[0].text == "my password is ***"
    replaced = [r.event for r in records if isinstance(r.event, ConversationReplace)]
    assert [event.source for event in replaced] == ["mask_before", "mask_before"]


async def test_a_mask_at_the_end_is_in_the_result() -> None:
    worker = Worker(ScriptedModel(["It is hunter2."]), hooks=[mask_at_end])
    seen: list[str] = []

    @on_turn_end
    def behind(context: TurnEndContext) -> None:
        seen.append(context.text)

    worker.hooks.add(behind)
    result = await worker.run("What is it?")
    assert (result.text, worker.session.conversation.messages[1].text, seen) == (
        "It is ***.",
        "It is ***.",
        ["It is ***."],
    )


async def test_what_earlier_hooks_put_into_the_request_stays_and_is_changed_too() -> None:
    @on_message_send
    def stamp(context: MessageSendContext) -> None:
        context.messages.insert(0, Message.user("at noon, hunter2 was told:"))

    model = ScriptedModel(["Done."])
    worker = Worker(model, hooks=[stamp, mask_before])
    await worker.run("hunter2")
    sent = [message.text for message in model.requests[0].conversation.messages]
    assert sent == ["at noon, *** was told:", "***"]
    assert [m.text for m in worker.session.conversation.messages] == ["***", "Done."]


async def test_a_failed_hook_leaves_the_mask_in_the_request() -> None:
    @on_message_send(on_failure="continue")
    def half(context: MessageSendContext) -> None:
        context.add_message("hunter2 again", "user")
        context.rewrite_conversation(mask_message)
        context.messages.clear()
        raise OSError

    model = ScriptedModel(["Done."])
    worker = Worker(model, hooks=[half])
    await worker.run("hunter2")
    sent = [message.text for message in model.requests[0].conversation.messages]
    assert sent == ["***", "*** again"]


async def test_messages_may_be_taken_out_a_call_with_its_result() -> None:
    @on_message_send
    def forget(context: MessageSendContext) -> None:
        if len(context.messages) > 3:
            context.rewrite_conversation(lambda m: None if m.tool_calls or m.tool_results else m)

    model = ScriptedModel([call("read", path="a"), call("read", path="b"), "Done.", "Bye."])
    worker = Worker(model, tools=[read], hooks=[forget])
    await worker.run("Read.")
    await worker.run("Bye.")
    assert [m.text for m in worker.session.conversation.messages] == ["Read.", "Done.", "Bye.", "Bye."]


async def test_a_cancel_after_a_mask_retracts_the_input_and_keeps_the_mask() -> None:
    @on_message_send
    def second(context: MessageSendContext) -> Cancel | None:
        return Cancel("no") if len(context.messages) > 1 else None

    worker = Worker(ScriptedModel(["Done hunter2."]), hooks=[second, mask_before])
    await worker.run("Hi.")
    worker.hooks.remove("second")
    worker.hooks.add(second)
    with pytest.raises(RunAbortedError):
        await worker.run("And now?")
    assert [m.text for m in worker.session.conversation.messages] == ["Hi.", "Done ***."]


async def test_an_answer_that_was_changed_can_be_sent_back() -> None:
    @on_turn_end
    def again(context: TurnEndContext) -> ContinueWithMessages | None:
        return ContinueWithMessages.user("Again.") if context.turn == 1 else None

    model = ScriptedModel(["It is hunter2.", "Done."])
    worker = Worker(model, hooks=[mask_at_end, again])
    await worker.run("What?")
    sent = [message.text for message in model.requests[1].conversation.messages]
    assert sent == ["What?", "It is ***.", "Again."]


SIGNED = Message.assistant(Thinking("hunter2", signature="sealed"), OpaqueBlock("x", {"a": 1}), "Hi.")
CALLED = Message.assistant(ToolCall("1", "read", {}))
ANSWERED = Message("user", (ToolResult("1", "text"),))
SAID: tuple[Message, ...] = (Message.user("a"), SIGNED, Message.user("b"), CALLED, ANSWERED)


def only_at(kept: Message, left: Any) -> Any:
    def change(message: Message) -> Any:
        return left if message == kept else message

    return change


REFUSED: list[tuple[Any, str]] = [
    (only_at(CALLED, None), "answers no call"),
    (only_at(ANSWERED, None), "has no result"),
    (only_at(ANSWERED, Message.user("text")), "has no result"),
    (only_at(CALLED, Message.assistant(ToolCall("2", "read", {}))), "tool calls became others"),
    (only_at(CALLED, Message.assistant("Nothing.")), "tool calls became others"),
    (only_at(SAID[0], Message.assistant("a")), "its role user became assistant"),
    (only_at(SAID[0], Message.user()), "is empty"),
    (only_at(SIGNED, Message.assistant(Thinking("***", signature="sealed"), "Hi.")), "a Thinking"),
    (only_at(SIGNED, Message.assistant(OpaqueBlock("x", {"a": 2}), "Hi.")), "an? OpaqueBlock"),
]


@pytest.mark.parametrize(("change", "why"), REFUSED, ids=[why for _, why in REFUSED])
async def test_what_a_provider_would_refuse_is_refused(change: Any, why: str) -> None:
    said = Conversation(SAID)
    for context in (send_context(*SAID), TurnEndContext(conversation=said, emit=print)):
        with pytest.raises(LocalProtocolError, match=why):
            context.rewrite_conversation(change)
        assert context.message_history == SAID
        if isinstance(context, MessageSendContext):
            assert context.messages == list(SAID)


async def test_what_is_not_a_message_is_refused() -> None:
    with pytest.raises(TypeError, match=r"write Message.user\('...'\)"):
        send_context("a").rewrite_conversation(lambda message: message.text)  # pyright: ignore[reportArgumentType] - as somebody may


async def test_thoughts_may_be_taken_out() -> None:
    context = send_context(*SAID)
    context.rewrite_conversation(only_at(SIGNED, Message.assistant("Hi.")))
    assert context.messages[1] == context.message_history[1] == Message.assistant("Hi.")


async def test_no_change_emits_no_event() -> None:
    model = ScriptedModel(["Done."])
    records = await records_of(Worker(model, hooks=[mask_before, mask_at_end]), "Hi.")
    assert not [r for r in records if isinstance(r.event, ConversationReplace)]


@pytest.mark.parametrize("context", [call_context("read"), result_context("read", "text"), abort_context()])
def test_at_other_points_it_is_refused(context: HookContext) -> None:
    with pytest.raises(LocalProtocolError, match="at on_message_send and on_turn_end only"):
        context.rewrite_conversation(mask_message)


# what comes too late


async def kept_context() -> tuple[Worker, list[Record], TurnEndContext]:
    """The context of a run that has ended."""
    kept: list[TurnEndContext] = []

    @on_turn_end
    def keep(context: TurnEndContext) -> None:
        kept.append(context)

    worker = Worker(ScriptedModel(["Done."]), hooks=[keep])
    records = await records_of(worker, "Hi.")
    return worker, records, kept[0]


async def test_after_the_end_of_a_run_its_conversation_cannot_be_changed() -> None:
    worker, _, context = await kept_context()
    before = worker.session.conversation
    with pytest.raises(LocalProtocolError, match="this run has ended"):
        context.add_message("late", "user")
    with pytest.raises(LocalProtocolError, match="this run has ended"):
        context.rewrite_conversation(lambda m: Message(m.role, (Text("x"),)))
    assert worker.session.conversation == before == context.conversation


async def test_after_the_end_of_a_run_a_message_for_the_watchers_is_dropped_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, _, context = await kept_context()
    with caplog.at_level(logging.WARNING, "rxworker.hooks"):
        context.send_message("hunter2")
        context.send_system("hunter2")
        context.send_debug("hunter2", {})
    said = "hook keep sent a message after its run had ended: it is dropped"
    assert [record.getMessage() for record in caplog.records] == [said] * 3


# names


class NamedByMethod:
    def name(self) -> str:
        return "gate"

    def before_tool_call(self, context: ToolCallContext) -> None: ...


def test_a_name_that_is_a_method_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigurationError, match=r"the name of a hook is a text. It is a method"):
        Hooks([NamedByMethod()])
    with pytest.raises(ConfigurationError, match="name=5: the name of a hook is a text"):
        before_tool_call(name=5)(lambda _: None)  # pyright: ignore[reportArgumentType] - as somebody may


def test_a_name_may_be_a_property() -> None:
    class Named:
        @property
        def name(self) -> str:
            return "gate"

        def before_tool_call(self, context: ToolCallContext) -> None: ...

    assert Hooks([Named()]).list() == [("gate", "before_tool_call")]


async def test_clients_of_the_ui_protocols_keep_what_they_have_shown() -> None:
    model = ScriptedModel(["It is hunter2."])
    records = await records_of(Worker(model, hooks=[mask_before, mask_at_end]), "hunter2?")
    assert any(isinstance(record.event, ConversationReplace) for record in records)
    tracker = Tracker()
    kinds = [type(change).__name__ for record in records for change in tracker.feed(record)]
    assert (kinds[0], kinds[-1], tracker.is_over) == ("ViewBegin", "ViewFinish", True)
