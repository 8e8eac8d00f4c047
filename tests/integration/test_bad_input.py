"""One test for each way to hand rxworker something wrong: the message says what, and the worker works afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from rxworker import Run, Worker, after_tool_call, before_tool_call, on_message_send, tool
from rxworker.errors import (
    ConfigurationError,
    HookError,
    LocalProtocolError,
    ProviderError,
    RxWorkerError,
    TransportError,
    TruncatedError,
)
from rxworker.events import Record, TextDelta
from rxworker.hooks import MessageSendContext, ToolCallContext, ToolResultContext
from rxworker.hooks.decorate import HookLike
from rxworker.messages import Conversation, Json, Message, ToolResult, repair
from rxworker.providers import Anthropic, Gemini, Ollama, OpenAIChat, OpenAIResponses, Options, Provider, Request
from rxworker.testing import (
    Call,
    ReplayServer,
    Reply,
    ScriptedModel,
    ServedResponse,
    anthropic_frames,
    call,
    lint,
    say,
    stall,
)
from rxworker.testing.server import AnswerLike
from rxworker.transport import Client, Retry

MakeProvider = Callable[[str], Provider]
AGAIN = "I am still here."


@tool
async def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


@tool
def broken(text: str) -> str:
    """Break."""
    raise RuntimeError(f"cannot {text}")


async def works_afterwards(worker: Worker) -> None:
    """The conversation is one that a provider accepts, and another run answers."""
    assert repair(worker.session.conversation) == worker.session.conversation
    assert (await worker.run("are you there?")).text == AGAIN


async def refused(make_provider: MakeProvider, answer: AnswerLike) -> RxWorkerError:
    """What a run ends with that gets this answer."""
    async with ReplayServer([answer, AGAIN]) as server:
        model = Client(make_provider(server.base_url), retry=Retry(retries=0))
        worker = Worker(model, response_retry=Retry(retries=0))
        run = worker.run("hi")
        with pytest.raises(RxWorkerError) as caught:
            await run
        assert lint(await records_of(run)) == []
        await works_afterwards(worker)
    return caught.value


async def records_of(run: Run[object]) -> list[Record]:
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    return records


async def heard(*replies: Reply | str, hooks: list[HookLike] | None = None) -> Worker:
    """A worker after a run with these replies; it still works."""
    model = ScriptedModel([*replies, AGAIN])
    worker = Worker(model, tools=[note, broken], hooks=hooks or [])
    run = worker.run("go")
    await run
    assert lint(await records_of(run)) == []
    results = worker.session.conversation.messages
    await works_afterwards(worker)
    worker.session.conversation = worker.session.conversation.with_messages(results)
    return worker


def results_of(worker: Worker) -> list[ToolResult]:
    return [r for message in worker.session.conversation.messages for r in message.tool_results]


# what the other side refuses


async def test_an_unknown_model(make_provider: MakeProvider) -> None:
    body: Json = {"error": {"type": "not_found_error", "message": "model: a-model"}}
    error = await refused(make_provider, ServedResponse.from_status(404, body=body))
    assert isinstance(error, ProviderError)
    assert error.kind == "not_found"
    assert "check the model's name 'a-model' and the base_url" in str(error)


async def test_a_wrong_key(make_provider: MakeProvider) -> None:
    body: Json = {"error": {"type": "authentication_error", "message": "invalid key"}}
    error = await refused(make_provider, ServedResponse.from_status(401, body=body))
    assert isinstance(error, ProviderError)
    assert error.kind == "authentication"
    assert "check the key: " in str(error)
    assert "_API_KEY" in str(error)


async def test_a_refused_connection(make_provider: MakeProvider) -> None:
    async with ReplayServer([AGAIN]) as server:
        gone = server.base_url
    worker = Worker(Client(make_provider(gone), retry=Retry(retries=0)))
    with pytest.raises(TransportError, match="Is the server running, and is base_url right"):
        await worker.run("hi")
    async with ReplayServer([AGAIN]) as server:
        worker.model = Client(make_provider(server.base_url))
        await works_afterwards(worker)


async def test_html_instead_of_json(make_provider: MakeProvider) -> None:
    error = await refused(make_provider, ServedResponse.from_html("<h1>Please log in</h1>", status=200))
    assert "HTTP 200 and no stream: Please log in" in str(error)


async def test_half_a_frame(make_provider: MakeProvider) -> None:
    error = await refused(make_provider, ServedResponse.from_reply(say("Hello"), cut_at=150))
    assert isinstance(error, TransportError)
    assert "was cut" in str(error)


async def test_half_a_frame_at_a_proper_end(make_event_stream_provider: MakeProvider) -> None:
    answer = ServedResponse.from_frames([b'data: {"type": "mess'])
    error = await refused(make_event_stream_provider, answer)
    assert isinstance(error, TruncatedError)
    assert "ended before" in str(error)


@pytest.mark.parametrize("frames", [[], [b"\n\n"], [b'{"model": "m", "mess']])
async def test_lines_that_come_to_nothing(frames: list[bytes]) -> None:
    def ollama(base_url: str) -> Provider:
        return Ollama("a-model", base_url=base_url)

    error = await refused(ollama, ServedResponse.from_frames(frames, "application/x-ndjson"))
    assert isinstance(error, TruncatedError)


@pytest.mark.parametrize("frames", [[], [b"\n\n"], [b": nothing\n\n"]])
async def test_an_answer_with_an_empty_body(make_event_stream_provider: MakeProvider, frames: list[bytes]) -> None:
    error = await refused(make_event_stream_provider, ServedResponse.from_frames(frames))
    assert isinstance(error, TruncatedError)
    assert error.retryable


async def test_an_answer_without_content_is_an_empty_answer(make_provider: MakeProvider) -> None:
    async with ReplayServer(["", AGAIN]) as server:
        worker = Worker(make_provider(server.base_url))
        assert (await worker.run("hi")).text == ""
        await works_afterwards(worker)


# what the model asks for


async def test_a_tool_that_raises() -> None:
    worker = await heard(call("broken", text="do"), "sorry")
    (result,) = results_of(worker)
    assert result.is_error
    assert "RuntimeError: cannot do" in result.text


async def test_arguments_that_do_not_fit() -> None:
    worker = await heard(call("note", text=5), "sorry")
    (result,) = results_of(worker)
    assert result.is_error
    assert "$.text" in result.text


@pytest.mark.parametrize("text", ['{"text": "a', "[1]", "nonsense", '{"text": NaN}', "\ud83d"])
async def test_arguments_that_are_not_a_json_object(text: str) -> None:
    worker = await heard(Reply(tool_calls=(Call("note", text),)), "sorry")
    (result,) = results_of(worker)
    assert result.is_error


async def test_arguments_that_are_not_json_over_http(make_provider: MakeProvider) -> None:
    cut_off = Reply(tool_calls=(Call("note", '{"text": "a'),))
    async with ReplayServer([cut_off, "sorry", AGAIN]) as server:
        worker = Worker(make_provider(server.base_url), tools=[note])
        await worker.run("go")
        (result,) = results_of(worker)
        assert result.is_error
        # Gemini sends a value, of which only the type can be wrong.
        assert "JSON" in result.text or "Expected `object`" in result.text
        await works_afterwards(worker)


async def test_an_unknown_tool() -> None:
    worker = await heard(call("fly"), "sorry")
    (result,) = results_of(worker)
    assert "There is no tool called 'fly'. These are the tools: note, broken." in result.text


@pytest.mark.parametrize("name", ["a b", "x" * 500, "note\n", "../note"])
async def test_a_tool_name_that_cannot_be(name: str) -> None:
    worker = await heard(Reply(tool_calls=(Call(name, {}),)), "sorry")
    (result,) = results_of(worker)
    assert result.is_error


# what hooks do


def run_ends_with(error: RxWorkerError, *parts: str) -> None:
    for part in parts:
        assert part in str(error)


async def broken_by(hook: HookLike, *replies: Reply | str) -> tuple[HookError, Worker]:
    model = ScriptedModel([*replies, AGAIN])
    worker = Worker(model, tools=[note], hooks=[hook])
    run = worker.run("go")
    with pytest.raises(HookError) as caught:
        await run
    assert lint(await records_of(run)) == []
    worker.hooks.clear()
    await works_afterwards(worker)
    return caught.value, worker


@pytest.mark.parametrize("nonsense", ["text", None, 5, {"role": "user"}])
async def test_a_hook_that_puts_nonsense_into_the_messages(nonsense: object) -> None:
    def spoil(context: MessageSendContext) -> None:
        messages: list[Any] = context.messages
        messages.append(nonsense)

    error, _ = await broken_by(on_message_send(spoil))
    run_ends_with(error, "hook 'spoil'", repr(nonsense), "not a Message")


async def test_a_hook_that_replaces_the_messages_by_nonsense() -> None:
    def spoil(context: Any) -> None:
        context.messages = None

    error, _ = await broken_by(on_message_send(spoil))
    run_ends_with(error, "hook 'spoil'")


@pytest.mark.parametrize("nonsense", ["text", None, 5])
async def test_a_hook_that_adds_nonsense_to_the_conversation(nonsense: Any) -> None:
    def spoil(context: MessageSendContext) -> None:
        context.add_message(nonsense)

    error, _ = await broken_by(on_message_send(spoil))
    run_ends_with(error, "hook 'spoil'")


@pytest.mark.parametrize("nonsense", ["text", None, 5])
async def test_a_hook_that_makes_nonsense_of_a_call(nonsense: Any) -> None:
    def spoil(context: ToolCallContext) -> None:
        context.call = nonsense

    error, _ = await broken_by(before_tool_call(spoil), call("note", text="a"))
    run_ends_with(error, "hook 'spoil'")


@pytest.mark.parametrize("nonsense", ["text", None, 5])
async def test_a_hook_that_makes_nonsense_of_a_result(nonsense: Any) -> None:
    def spoil(context: ToolResultContext) -> None:
        context.result = nonsense

    error, _ = await broken_by(after_tool_call(spoil), call("note", text="a"))
    run_ends_with(error, "hook 'spoil'")


@pytest.mark.parametrize("when", [before_tool_call, after_tool_call])
async def test_a_hook_that_adds_a_message_between_calls_and_results(when: Any) -> None:
    def remark(context: ToolCallContext | ToolResultContext) -> None:
        context.add_message(Message.user("by the way"))

    model = ScriptedModel([call("note", text="a") + call("note", text="b"), "done", AGAIN])
    worker = Worker(model, tools=[note], hooks=[when(remark)])
    await worker.run("go")
    sent = model.requests[1].conversation
    assert repair(sent) == sent
    assert [r.text for r in sent.messages[2].tool_results] == ["noted a", "noted b"]
    assert sum(m.text == "by the way" for m in sent.messages) == 2
    worker.hooks.clear()
    await works_afterwards(worker)


# who watches and who calls


def test_a_worker_used_after_its_loop_closed(make_provider: MakeProvider) -> None:
    with ReplayServer(["one", AGAIN]) as server:
        worker = Worker(make_provider(server.base_url))
        assert worker.run_sync("hi").text == "one"
        asyncio.run(works_afterwards(worker))


def test_a_run_abandoned_by_its_loop(make_provider: MakeProvider) -> None:
    with ReplayServer([say("Hel") + stall(), AGAIN]) as server:
        worker = Worker(make_provider(server.base_url))

        async def leave() -> None:
            async for record in worker.run("hi"):
                if isinstance(record.event, TextDelta):
                    return

        asyncio.run(leave())
        asyncio.run(works_afterwards(worker))


@pytest.mark.parametrize(
    ("make", "name"),
    [(Anthropic, "ANTHROPIC"), (OpenAIChat, "OPENAI"), (OpenAIResponses, "OPENAI"), (Gemini, "GEMINI")],
)
async def test_a_missing_key(make: Any, name: str) -> None:
    worker = Worker(make("a-model"))
    with pytest.raises(ConfigurationError, match=f"{name}_API_KEY, or pass api_key="):
        await worker.run("hi")
    worker.model = ScriptedModel([AGAIN])
    await works_afterwards(worker)


@pytest.mark.parametrize("key", ["with space", "line\nend", "schlüssel", "\x00"])
async def test_a_key_that_cannot_be_sent(key: str) -> None:
    worker = Worker(Anthropic("a-model", api_key=key))
    with pytest.raises(ConfigurationError, match="copy it again") as caught:
        await worker.run("hi")
    assert key not in str(caught.value)


def test_a_class_instead_of_a_provider() -> None:
    given: Any = Anthropic
    with pytest.raises(ConfigurationError, match=r"Anthropic is a class: .* Anthropic\('name'\)"):
        Worker(given)


@pytest.mark.parametrize("given", ["claude", None, 5, object()])
def test_something_else_instead_of_a_model(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="neither a provider"):
        Worker(given)


@pytest.mark.parametrize("given", [None, 5, b"hi", [], [5], {"role": "user"}, [Message.user("a"), "b"]])
async def test_an_input_of_a_wrong_type(given: Any) -> None:
    worker = Worker(ScriptedModel([AGAIN]))
    with pytest.raises(ConfigurationError, match="the input of a run is a text, a message"):
        worker.run(given)
    await works_afterwards(worker)


def test_a_function_that_is_not_a_tool() -> None:
    def plain(text: str) -> str:
        return text

    given: Any = plain
    with pytest.raises(ConfigurationError, match="decorate it with @tool"):
        Worker(ScriptedModel([]), tools=[given])


def test_something_that_is_not_a_hook() -> None:
    with pytest.raises(ConfigurationError, match="is not a hook"):
        Worker(ScriptedModel([]), hooks=[cast("Any", object())])


def test_a_run_where_no_loop_runs() -> None:
    with pytest.raises(LocalProtocolError, match="run_sync"):
        Worker(ScriptedModel([])).run("hi")


@pytest.mark.parametrize("parallel", [0, -1])
async def test_no_room_for_any_tool(parallel: int) -> None:
    with pytest.raises(ConfigurationError, match="from 1 up"):
        await Worker(ScriptedModel([call("note", text="a")]), tools=[note], parallel=parallel).run("go")


async def test_a_conversation_that_no_provider_accepts(make_provider: MakeProvider) -> None:
    dangling = Conversation((Message.user(ToolResult("nobody", "asked")), Message.assistant()))
    async with ReplayServer([AGAIN]) as server:
        worker = Worker(make_provider(server.base_url), conversation=dangling)
        assert (await worker.run("hi")).text == AGAIN
        sent: Any = server.requests[0].body
    said = sent.get("messages") or sent.get("input") or sent.get("contents")
    assert [m.get("role", m.get("type")) for m in said] in (["user"], ["user_input"])


async def test_lone_surrogates_in_a_text(make_provider: MakeProvider) -> None:
    async with ReplayServer([AGAIN]) as server:
        worker = Worker(make_provider(server.base_url))
        with pytest.raises(ConfigurationError, match="half of a surrogate pair"):
            worker.run("half of an emoji: \ud83d")
        with pytest.raises(LocalProtocolError, match="half of a surrogate pair"):
            await worker.model.stream(Request(Conversation((Message.user("\ud83d"),))))
        await works_afterwards(worker)


async def test_options_that_contradict_each_other() -> None:
    worker = Worker(Anthropic("claude-haiku-4-5", api_key="k"), options=Options(thinking=2000, max_tokens=1000))
    with pytest.raises(ConfigurationError, match="must be less than max_tokens"):
        await worker.run("hi")


async def test_an_answer_in_the_wrong_protocol() -> None:
    body = anthropic_frames(say("Hello"))
    answer = ServedResponse.from_frames(body)
    async with ReplayServer([answer]) as server:
        model = Client(OpenAIChat("a-model", base_url=server.base_url), retry=Retry(retries=0))
        with pytest.raises(RxWorkerError, match="ended before"):
            await Worker(model, response_retry=Retry(retries=0)).run("hi")
