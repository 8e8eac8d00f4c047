"""One test for each way to hand rxworker something wrong: the message says what, and the worker works afterwards."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

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
from rxworker.hooks import Hook, HookPoint, ToolCallContext, ToolResultContext
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


NOT_FOUND: Json = {"error": {"type": "not_found_error", "message": "model: a-model"}}
NO_KEY: Json = {"error": {"type": "authentication_error", "message": "invalid key"}}


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (ServedResponse.from_status(404, body=NOT_FOUND), "not_found", "model's name 'a-model' and the base_url"),
        (ServedResponse.from_status(401, body=NO_KEY), "authentication", "check the key: .*_API_KEY"),
        (ServedResponse.from_html("<h1>Please log in</h1>", status=200), "unknown", "and no stream: Please log in"),
        (ServedResponse.from_reply(say("Hello"), cut_at=150), "transport", "was cut"),
    ],
)
async def test_an_answer_that_is_not_a_stream(
    make_provider: MakeProvider, answer: ServedResponse, kind: str, says: str
) -> None:
    error = await refused(make_provider, answer)
    assert isinstance(error, TransportError) is (kind == "transport")
    assert (error.kind if isinstance(error, ProviderError) else kind) == kind
    assert re.search(says, str(error))


async def test_a_refused_connection(make_provider: MakeProvider) -> None:
    async with ReplayServer([AGAIN]) as server:
        gone = server.base_url
    worker = Worker(Client(make_provider(gone), retry=Retry(retries=0)))
    with pytest.raises(TransportError, match="Is the server running, and is the address right"):
        await worker.run("hi")
    async with ReplayServer([AGAIN]) as server:
        worker.model = Client(make_provider(server.base_url))
        await works_afterwards(worker)


@pytest.mark.parametrize("frames", [[], [b"\n\n"], [b": nothing\n\n"], [b'data: {"type": "mess']])
async def test_an_answer_with_an_empty_body_or_half_a_frame(
    make_event_stream_provider: MakeProvider, frames: list[bytes]
) -> None:
    error = await refused(make_event_stream_provider, ServedResponse.from_frames(frames))
    assert isinstance(error, TruncatedError)
    assert error.retryable
    assert "ended before" in str(error)


@pytest.mark.parametrize("frames", [[], [b"\n\n"], [b'{"model": "m", "mess']])
async def test_lines_that_come_to_nothing(frames: list[bytes]) -> None:
    def ollama(base_url: str) -> Provider:
        return Ollama("a-model", base_url=base_url)

    error = await refused(ollama, ServedResponse.from_frames(frames, "application/x-ndjson"))
    assert isinstance(error, TruncatedError)


async def test_an_answer_without_content_is_an_empty_answer(make_provider: MakeProvider) -> None:
    async with ReplayServer(["", AGAIN]) as server:
        worker = Worker(make_provider(server.base_url))
        assert (await worker.run("hi")).text == ""
        await works_afterwards(worker)


# what the model asks for


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (call("broken", text="do"), "RuntimeError: cannot do"),
        (call("note", text=5), "$.text"),
        (call("fly"), "There is no tool called 'fly'. These are the tools: note, broken."),
        *((Reply(tool_calls=(Call("note", text),)), "") for text in ('{"text": "a', "[1]", "nonsense", "\ud83d")),
        (Reply(tool_calls=(Call("note", '{"text": NaN}'),)), ""),
        *((Reply(tool_calls=(Call(name, {}),)), "") for name in ("a b", "x" * 500, "note\n", "../note")),
    ],
)
async def test_a_call_that_fails(asked: Reply, says: str) -> None:
    worker = await heard(asked, "sorry")
    (result,) = results_of(worker)
    assert result.is_error
    assert says in result.text


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


# what hooks do


async def broken_by(hook: Hook[Any], reply: Reply) -> HookError:
    is_sent = hook.point is not HookPoint.ON_MESSAGE_SEND  # else the reply is not asked for
    model = ScriptedModel([*([reply] if is_sent else []), AGAIN])
    worker = Worker(model, tools=[note], hooks=[hook])
    run = worker.run("go")
    with pytest.raises(HookError) as caught:
        await run
    assert lint(await records_of(run)) == []
    worker.hooks.clear()
    await works_afterwards(worker)
    return caught.value


SPOILS: dict[str, Callable[[Any, Any], object]] = {
    "append": lambda context, nonsense: context.messages.append(nonsense),
    "add": lambda context, nonsense: context.add_message(nonsense),
    "messages": lambda context, nonsense: setattr(context, "messages", None),
    "call": lambda context, nonsense: setattr(context, "call", nonsense),
    "result": lambda context, nonsense: setattr(context, "result", nonsense),
}
POINTS: dict[str, Any] = {"call": before_tool_call, "result": after_tool_call}


@pytest.mark.parametrize("nonsense", ["text", None, 5, {"role": "user"}])
@pytest.mark.parametrize("place", SPOILS)
async def test_a_hook_that_makes_nonsense(place: str, nonsense: object) -> None:
    def spoil(context: Any) -> None:
        SPOILS[place](context, nonsense)

    error = await broken_by(POINTS.get(place, on_message_send)(spoil), call("note", text="a"))
    assert "hook 'spoil'" in str(error)
    assert place != "append" or (repr(nonsense) in str(error) and "not a Message" in str(error))


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


def plain(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *(({"model": model}, "neither a provider") for model in ("claude", None, 5, object())),
        ({"model": Anthropic}, r"Anthropic is a class: .* Anthropic\('name'\)"),
        ({"tools": [plain]}, "decorate it with @tool"),
        ({"hooks": [object()]}, "is not a hook"),
    ],
)
def test_what_a_worker_cannot_be_made_of(given: dict[str, Any], says: str) -> None:
    arguments: dict[str, Any] = {"model": ScriptedModel([]), **given}
    with pytest.raises(ConfigurationError, match=says):
        Worker(**arguments)


@pytest.mark.parametrize("given", [None, 5, b"hi", [], [5], {"role": "user"}, [Message.user("a"), "b"]])
async def test_an_input_of_a_wrong_type(given: Any) -> None:
    worker = Worker(ScriptedModel([AGAIN]))
    with pytest.raises(ConfigurationError, match="the input of a run is a text, a message"):
        worker.run(given)
    await works_afterwards(worker)


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
