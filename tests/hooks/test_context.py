from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rxworker import Worker, after_tool_call, on_message_send, tool
from rxworker.errors import LocalProtocolError
from rxworker.events import ConversationReplace, HookMessage, MessageAdd, TextDelta, ToolStart
from rxworker.hooks import HookContext, MessageSendContext, ToolCallContext, ToolResultContext
from rxworker.messages import Conversation, Image, JsonObject, Message, Text, ToolCall, ToolResult
from rxworker.operators import only
from rxworker.testing import ScriptedModel, abort_context, call, call_context, end_context, result_context, send_context
from rxworker.testing.hooks import ContextFields
from rxworker.tools import Toolbox


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"{path}: nothing in it"


@tool
async def copy(path: str, to: str) -> str:
    """Copy a file."""
    return f"{path} -> {to}"


@tool(format="text")
async def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@pytest.mark.parametrize(
    ("context", "content", "tool_name", "tool_args", "tool_result"),
    [
        (send_context("hello"), "hello", None, None, None),
        (send_context(), "", None, None, None),
        (call_context("read", path="a"), '{"path":"a"}', "read", {"path": "a"}, None),
        (result_context("read", "text", path="a"), "text", "read", {"path": "a"}, "text"),
        (end_context("bye"), "bye", None, None, None),
        (abort_context(reason="why"), "why", None, None, None),
    ],
)
def test_each_point_has_its_content_and_the_tool_points_their_call(
    context: HookContext, content: str, tool_name: str | None, tool_args: object, tool_result: str | None
) -> None:
    assert context.content == content
    assert context.tool_name == tool_name
    assert context.tool_args == tool_args
    assert context.tool_result == tool_result


def test_the_content_of_a_request_is_the_last_text_of_the_user() -> None:
    picture = Image(url="https://example.org/a.png")
    context = send_context(
        Message.user("one"),
        Message.user("t", picture, "wo"),
        Message.assistant(ToolCall("c", "read", {})),
        Message.user(ToolResult("c", "text")),
    )
    context.set_content("TWO")
    assert context.content == "TWO"
    assert context.messages[1].content == (Text("TWO"), picture)
    assert context.message_history[1].text == "two"


def test_without_a_text_of_the_user_content_is_a_message_of_its_own() -> None:
    context = send_context(Message.assistant("hm"))
    context.set_content("hi")
    assert [m.text for m in context.messages] == ["hm", "hi"]


def test_the_content_of_a_call_is_its_arguments_as_json() -> None:
    context = call_context("read", path="a")
    context.set_content('{"path":"b"}')
    assert context.call.input == {"path": "b"}
    with pytest.raises(ValueError, match=r"not a JSON object but the text '\[\]'"):
        context.set_content("[]")


def shouting() -> ToolCallContext:
    call = ToolCall("call_1", "shout", "free text")
    return ToolCallContext(call=call, tool=shout, conversation=Conversation(), emit=print)


def test_the_content_of_a_call_with_free_text_is_the_text() -> None:
    context = shouting()
    context.set_content('{"text": "other"}')
    assert context.call.input == context.content == '{"text": "other"}'


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({}, "free text"),
        ({"text": "other text"}, "other text"),
        ({"text": 1}, {"text": 1}),
        ({"loud": True}, {"text": "free text", "loud": True}),
    ],
)
def test_free_text_is_a_member_of_the_input_and_what_is_changed_there_counts(change: JsonObject, left: object) -> None:
    context = shouting()
    assert context.input == context.tool_args == {"text": "free text"}
    context.input.update(change)
    context.check()
    assert context.call.input == left


def test_an_answer_cannot_be_changed() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be changed at on_turn_end"):
        end_context("bye").set_content("hi")
    with pytest.raises(LocalProtocolError, match="cannot be changed at on_abort"):
        abort_context().set_content("hi")


def test_variables_are_set_and_got_by_name() -> None:
    context = send_context("hi")
    context.set_variable("user", "Ada")
    assert (context.get_variable("user"), context.get_variable("x", 1)) == ("Ada", 1)
    assert context.variables == {"user": "Ada"}


def test_a_message_is_added_by_its_text_and_role_under_the_name_of_the_hook() -> None:
    heard: list[HookMessage | MessageAdd | ConversationReplace] = []
    context = end_context("bye", received=heard)
    context.enter("teller")
    context.add_message("note this", "system")
    assert context.message_history[-1] == Message.system("note this")
    assert heard == [MessageAdd((Message.system("note this"),), "teller")]


def test_messages_to_the_watchers_have_the_name_of_the_hook_also_by_their_older_methods() -> None:
    heard: list[HookMessage | MessageAdd | ConversationReplace] = []
    context = send_context("hi", received=heard)
    context.enter("teller")
    for message, system, debug in (
        (context.send_message, context.send_system, context.send_debug),
        (context.stream_message, context.stream_system_message, context.stream_debug),
    ):
        message("m")
        system("s")
        debug("d", {"n": 1})
    told = [HookMessage("teller", "message", "m"), HookMessage("teller", "system", "s")]
    assert heard == [*told, HookMessage("teller", "debug", "d", {"n": 1})] * 2


def test_tools_are_listed_and_found_by_name() -> None:
    context = send_context("hi", toolbox=Toolbox([read, copy]))
    assert context.list_tool_names() == ["read", "copy"]
    assert [meta.name for meta in context.tools] == ["read", "copy"]
    assert context.get_tool("copy") is copy
    assert context.get_tool("fly") is None
    assert send_context("hi").list_tool_names() == []
    assert send_context("hi").get_tool("read") is None


async def test_without_a_worker_no_tool_can_be_run() -> None:
    with pytest.raises(LocalProtocolError, match="no worker here that could run the tool 'read'"):
        await send_context("hi").run_tool("read")


async def test_what_a_context_is_made_of_can_be_given_in_a_test() -> None:
    async def answer(name: str, args: object) -> ToolResult:
        return ToolResult("x", f"{name} {args}")

    around: ContextFields = {"call_tool": answer, "conversation": Conversation(system="Be brief.")}
    context = call_context("read", fields=around)
    assert (await context.run_tool("copy", {"path": "a"})).text == "copy {'path': 'a'}"
    assert context.conversation.system == "Be brief."


async def test_in_a_run_a_hook_has_the_workspace_the_tools_and_can_run_both(tmp_path: Path) -> None:
    seen: list[object] = []

    @after_tool_call(matcher="copy")
    async def look(context: ToolResultContext) -> None:
        seen.extend([context.workspace, context.list_tool_names()])
        seen.append((await context.run_tool("read", {"path": "b"})).text)
        seen.append((await context.run_tool("fly")).is_error)
        seen.append((await context.run_command("pwd")).output.strip().rpartition("/")[2])

    model = ScriptedModel([call("copy", path="a", to="b"), "Done."])
    worker = Worker(model, tools=[read, copy], hooks=[look], workspace=tmp_path)
    run = worker.run("Copy.")
    starts: list[ToolStart] = []
    notes: list[HookMessage] = []
    run.events.pipe(only(ToolStart)).subscribe(starts.append)
    run.events.pipe(only(HookMessage)).subscribe(notes.append)
    await run
    names = ["read", "copy"]
    assert seen == [tmp_path, names, "b: nothing in it", True, tmp_path.name]
    assert [start.call.name for start in starts] == ["copy"]
    assert [note.content for note in notes] == ["ran read", "ran fly"]
    assert [r.text for m in worker.session.conversation.messages for r in m.tool_results] == ["a -> b"]
    assert run.state.tool_calls == 1


async def test_a_hook_speaks_to_the_watchers_while_the_model_does() -> None:
    spoken: list[asyncio.Task[None]] = []
    first_words = asyncio.Event()

    @on_message_send
    def begin(context: MessageSendContext) -> None:
        async def speak() -> None:
            await first_words.wait()
            context.send_system("still writing")

        spoken.append(asyncio.create_task(speak()))

    run = Worker(ScriptedModel(["A long story. " * 20], delay=0.001), hooks=[begin]).run("Tell me.")
    heard: list[str] = []
    async for record in run:
        heard.append(type(record.event).__name__)
        if isinstance(record.event, TextDelta):
            first_words.set()
    await asyncio.gather(*spoken)
    told = heard.index("HookMessage")
    assert heard.index("AttemptStart") < told < heard.index("RunStop")
