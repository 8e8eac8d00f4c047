"""What a change at on_message_send guarantees: it is exactly what is sent, and only that."""

from __future__ import annotations

import pytest

from rxworker import Worker, on_message_send, tool
from rxworker.events import HookMessage
from rxworker.hooks import MessageSendContext
from rxworker.messages import Conversation, Message
from rxworker.testing import ScriptedModel, call, fail
from rxworker.transport import Retry


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"in {path}"


def texts(conversation: Conversation) -> list[str]:
    return [message.text for message in conversation.messages]


async def test_a_request_is_what_the_last_hook_left_of_it_message_for_message() -> None:
    left: list[tuple[Message, ...]] = []

    @on_message_send
    def trim(context: MessageSendContext) -> None:
        context.messages = [Message.user("first"), *context.messages[-2:]]

    @on_message_send
    def last(context: MessageSendContext) -> None:
        context.messages.append(Message.user("last"))
        context.system = "Be brief."
        left.append(tuple(context.messages))

    model = ScriptedModel([call("read", path="a"), "Done."])
    await Worker(model, tools=[read], hooks=[trim, last]).run("Read a.")
    assert [request.conversation.messages for request in model.requests] == left
    assert texts(model.requests[0].conversation) == ["first", "Read a.", "last"]
    assert {request.conversation.system for request in model.requests} == {"Be brief."}


async def test_the_conversation_and_the_next_request_know_nothing_of_it() -> None:
    turns = iter(["once"])

    @on_message_send
    def once(context: MessageSendContext) -> None:
        for text in turns:
            context.messages[:] = [Message.user(text)]
            context.system = text

    model = ScriptedModel([call("read", path="a"), "Done."])
    worker = Worker(model, tools=[read], system="Be kind.", hooks=[once])
    result = await worker.run("Read a.")
    assert texts(model.requests[0].conversation) == ["once"]
    assert texts(model.requests[1].conversation) == ["Read a.", "", ""]
    assert model.requests[1].conversation.system == "Be kind."
    assert texts(result.conversation) == ["Read a.", "", "", "Done."]


async def test_a_response_that_is_requested_again_has_the_same_request() -> None:
    asked: list[int] = []

    @on_message_send
    def number(context: MessageSendContext) -> None:
        asked.append(len(asked))
        context.messages.append(Message.user(f"number {len(asked)}"))

    model = ScriptedModel([fail("down", retryable=True), "Done."])
    worker = Worker(model, hooks=[number], response_retry=Retry(first=0.0))
    await worker.run("hi")
    assert asked == [0]
    assert model.requests[0] == model.requests[1]


async def test_a_list_that_is_changed_after_the_hook_changes_nothing() -> None:
    kept: list[list[Message]] = []

    @on_message_send
    def keep(context: MessageSendContext) -> None:
        kept.append(context.messages)

    def answer(_: object) -> str:
        kept[0].append(Message.user("too late"))
        return "Done."

    model = ScriptedModel(answer)
    await Worker(model, hooks=[keep]).run("hi")
    assert texts(model.requests[0].conversation) == ["hi"]


async def test_what_is_added_to_the_conversation_is_sent_now_and_later() -> None:
    @on_message_send
    def remind(context: MessageSendContext) -> None:
        if context.turn == 1:
            context.add_message("Be brief.", "system")

    model = ScriptedModel([call("read", path="a"), "Done."])
    worker = Worker(model, tools=[read], hooks=[remind])
    await worker.run("Read a.")
    for request in model.requests:
        assert texts(request.conversation)[:2] == ["Read a.", "Be brief."]
    assert texts(worker.session.conversation)[:2] == ["Read a.", "Be brief."]


async def test_arguments_that_are_changed_in_the_request_stay_in_the_conversation() -> None:
    @on_message_send
    def mask(context: MessageSendContext) -> None:
        for message in context.messages:
            for asked in message.tool_calls:
                assert isinstance(asked.input, dict)
                asked.input["path"] = "***"

    model = ScriptedModel([call("read", path="a"), "Done."])
    result = await Worker(model, tools=[read], hooks=[mask]).run("Read a.")
    assert model.requests[-1].conversation.messages[1].tool_calls[0].input == {"path": "***"}
    assert result.conversation.messages[1].tool_calls[0].input == {"path": "a"}


async def test_a_message_to_the_watchers_has_a_role() -> None:
    @on_message_send
    def speak(context: MessageSendContext) -> None:
        context.stream_message("as the user", "user")
        context.send_message("as usual")
        with pytest.raises(TypeError, match="'bot' is not a role: system, user, assistant"):
            context.send_message("x", "bot")  # pyright: ignore[reportArgumentType]

    run = Worker(ScriptedModel(["Hello."]), hooks=[speak]).run("Hi.")
    heard: list[tuple[str, str]] = []
    run.events.subscribe(lambda e: heard.append((e.role, e.content)) if isinstance(e, HookMessage) else None)
    await run
    assert heard == [("user", "as the user"), ("assistant", "as usual")]
