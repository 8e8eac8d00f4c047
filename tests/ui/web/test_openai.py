"""Workers as the models of OpenAI's APIs, with the official Python client, over each server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Union, cast

import aiohttp
import openai
import pytest
from openresponses_types import types as open_responses
from pydantic import BaseModel, TypeAdapter

from rxworker import Approve, Worker, before_tool_call, tool
from rxworker.hooks import Pause, ToolCallContext
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.messages import Image
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, fail, say, stall, think
from rxworker.ui.web import Settings, WebRequest, WebServer
from rxworker.worker import QueuedWorker

from .conftest import Desk, OpenDesk

FUNCTION = {
    "name": "open_tab",
    "description": "Open a tab.",
    "parameters": {"type": "object", "properties": {"url": {"type": "string"}}},
}
CHAT_TOOLS: Any = [{"type": "function", "function": FUNCTION}]
TOOLS: Any = [{"type": "function", **FUNCTION}]
HI: Any = [{"role": "user", "content": "hi"}]
TOKEN = "a-very-secret-token-0123456789"


@asynccontextmanager
async def client_of(desk: Desk, key: str = "none") -> AsyncGenerator[openai.AsyncOpenAI, None]:
    async with openai.AsyncOpenAI(base_url=f"{desk.server.url}v1", api_key=key, max_retries=0) as client:
        yield client


async def test_the_models_are_the_workers(open_desk: OpenDesk) -> None:
    async with client_of(await open_desk()) as client:
        assert [model.id async for model in await client.models.list()] == ["worker"]
        assert (await client.models.retrieve("worker")).owned_by == "rxworker"
        with pytest.raises(openai.NotFoundError, match="no worker"):
            await client.models.retrieve("nobody")


async def test_a_completion_is_the_text_of_a_run(open_desk: OpenDesk) -> None:
    desk = await open_desk(think("Well.") + say("Hello!"))
    async with client_of(desk) as client:
        given = await client.chat.completions.create(model="worker", messages=HI)
    choice = given.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Hello!", "stop")
    assert choice.message.model_extra == {"reasoning_content": "Well."}
    assert given.usage is not None
    assert (given.usage.prompt_tokens, given.usage.completion_tokens) == (10, 5)
    run = (await desk.get(f"api/runs/{given.id}"))[1]
    assert (run["title"], run["status"]) == ("hi", "finished")


async def test_a_completion_is_streamed_with_its_usage(open_desk: OpenDesk) -> None:
    async with client_of(await open_desk(say("Hello!"))) as client:
        stream = await client.chat.completions.create(
            model="worker", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "Hello!"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert [c.usage.total_tokens for c in chunks if c.usage] == [15]
    assert len({chunk.id for chunk in chunks}) == 1


async def test_the_whole_history_reaches_the_model(open_desk: OpenDesk) -> None:
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        asked.append(request)
        return say("Yes.")

    pixel = "data:image/png;base64,iVBORw0KGgo="
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "three"}, {"type": "image_url", "image_url": {"url": pixel}}],
        },
    ]
    async with client_of(await open_desk(script=script)) as client:
        await client.chat.completions.create(
            model="worker", messages=messages, max_completion_tokens=50, temperature=0.5, stop=["."]
        )
    conversation = asked[0].conversation
    assert conversation.system == "Be brief.\n\nBe kind."
    assert [message.text for message in conversation.messages] == ["one", "two", "three"]
    assert isinstance(conversation.messages[2].content[1], Image)
    options = asked[0].options
    assert (options.max_tokens, options.temperature, options.stop_sequences) == (50, 0.5, (".",))


async def test_tools_of_the_caller_are_passed_through(open_desk: OpenDesk) -> None:
    """The run that waits for them is continued, so that it remembers what it has done itself."""
    desk = await open_desk(say("I look. ") + call("wait", n=1) + call("open_tab", url="x"), say("Open."))
    desk.release.set()
    async with client_of(desk) as client:
        first = await client.chat.completions.create(model="worker", messages=HI, tools=CHAT_TOOLS)
        message = first.choices[0].message
        assert first.choices[0].finish_reason == "tool_calls"
        assert message.tool_calls is not None
        (asked,) = message.tool_calls
        assert asked.type == "function"
        assert (asked.function.name, json.loads(asked.function.arguments)) == ("open_tab", {"url": "x"})
        result = {"role": "tool", "tool_call_id": asked.id, "content": "done"}
        messages: Any = [*HI, message, result]
        second = await client.chat.completions.create(model="worker", messages=messages, tools=CHAT_TOOLS, stream=True)
        text = [c.choices[0].delta.content or "" async for c in second if c.choices]
    assert "".join(text) == "Open."
    results = [r.text for m in desk.sessions[-1].conversation.messages for r in m.tool_results]
    assert results == ["waited 1", "done"]


async def test_results_that_no_run_waits_for_are_part_of_the_history(open_desk: OpenDesk) -> None:
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        asked.append(request)
        return say("Yes.")

    messages: Any = [
        *HI,
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "open_tab", "arguments": '{"url":"x"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    async with client_of(await open_desk(script=script)) as client:
        await client.chat.completions.create(model="worker", messages=messages, tools=CHAT_TOOLS)
    results = [r for m in asked[0].conversation.messages for r in m.tool_results]
    assert [(r.tool_use_id, r.text, r.is_error) for r in results] == [("c1", "done", False)]


async def test_an_approval_of_the_server_is_named(open_desk: OpenDesk) -> None:
    async with client_of(await open_desk(call("delete", path="a"))) as client:
        given = await client.chat.completions.create(model="worker", messages=HI)
        assert "decision about delete" in (given.choices[0].message.content or "")
        response = await client.responses.create(model="worker", input="hi")
        assert response.error is not None
        assert (response.status, "about delete" in response.error.message) == ("failed", True)


BAD: Sequence[tuple[str, Any, int]] = [
    ("chat/completions", {"model": "nobody", "messages": HI}, 404),
    ("chat/completions", {"messages": HI}, 400),
    ("chat/completions", {"model": "worker", "messages": []}, 400),
    ("chat/completions", {"model": "worker", "messages": "hi"}, 400),
    ("chat/completions", {"model": "worker", "messages": HI, "n": 2}, 400),
    ("chat/completions", {"model": "worker", "messages": [{"role": "robot"}]}, 400),
    ("chat/completions", {"model": "worker", "messages": HI, "tools": [{"type": "x"}]}, 400),
    (
        "chat/completions",
        {"model": "worker", "messages": HI, "tools": [{"type": "function", "function": {"name": "wait"}}]},
        400,
    ),
    (
        "chat/completions",
        {"model": "worker", "messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        400,
    ),
    (
        "chat/completions",
        {"model": "worker", "messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
        400,
    ),
    ("chat/completions", {"model": "worker", "messages": HI, "max_tokens": 0}, 400),
    ("chat/completions", {"model": "worker", "messages": HI, "tool_choice": "maybe"}, 400),
    ("responses", {"model": "nobody", "input": "hi"}, 404),
    ("responses", {"model": "worker", "input": ""}, 400),
    ("responses", {"model": "worker", "input": [{"type": "item_reference"}]}, 400),
    ("responses", {"model": "worker", "input": "hi", "tools": [{"type": "web_search"}]}, 400),
    ("responses", {"model": "worker", "input": "hi", "previous_response_id": "no"}, 404),
    ("responses", {"model": "worker", "input": [{"type": "function_call_output"}]}, 400),
    ("responses", {"model": "worker", "input": [{"type": "item_reference", "id": "run-1.1.1.0"}]}, 404),
    ("responses", {"model": "worker", "input": "hi", "metadata": {"a": "x" * 513}}, 400),
    ("responses", {"model": "worker", "input": "hi", "background": True, "store": False}, 400),
    ("embeddings", {"model": "worker", "input": "hi"}, 404),
    ("models", {}, 405),
    ("chat/completions", "{", 400),
    ("responses", '{"model":"' + "x" * 3000, 413),
]


async def test_bad_requests_get_the_errors_of_the_protocol(open_desk: OpenDesk) -> None:
    desk = await open_desk(settings=Settings(max_body=2000))
    headers = {"Content-Type": "application/json"}
    for path, body, status in BAD:
        data = body if isinstance(body, str) else json.dumps(body)
        async with desk.http.post(desk.url(f"v1/{path}"), data=data, headers=headers) as answer:
            assert answer.status == status, (path, body, await answer.text())
            error = (await answer.json())["error"]
        assert error["message"], (path, body)
        assert error["type"] == "invalid_request_error", (path, body)
    assert (await desk.get("api/runs"))[1]["runs"] == []


async def test_the_key_is_the_token(open_desk: OpenDesk) -> None:
    desk = await open_desk(settings=Settings(token=TOKEN), always=say("Hello!"))
    async with client_of(desk, "wrong") as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()
    async with client_of(desk, TOKEN) as client:
        assert (await client.responses.create(model="worker", input="hi")).output_text == "Hello!"


async def test_a_failed_run_is_an_error(open_desk: OpenDesk) -> None:
    desk = await open_desk(always=say("Half") + fail("the model is out", retryable=False))
    async with client_of(desk) as client:
        with pytest.raises(openai.InternalServerError, match="the model is out"):
            # The client would try again, and the tools of the worker would do again what they have done.
            await client.with_options(max_retries=2).chat.completions.create(model="worker", messages=HI)
        assert len((await desk.get("api/runs"))[1]["runs"]) == 1
        with pytest.raises(openai.APIError, match="the model is out"):
            async for _ in await client.chat.completions.create(model="worker", messages=HI, stream=True):
                pass
        response = await client.responses.create(model="worker", input="hi")
        assert response.error is not None
        assert (response.status, response.error.message) == ("failed", "the model is out")
        stream = await client.responses.create(model="worker", input="hi", stream=True)
        kinds = [event.type async for event in stream]
        assert kinds[-2:] == ["response.output_item.done", "response.failed"]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_client_that_leaves_ends_its_run(open_desk: OpenDesk, streams: bool) -> None:
    desk = await open_desk(say("Hello") + stall(), settings=Settings(cancel_on_disconnect=0.0))
    body = {"model": "worker", "messages": HI, "stream": streams}
    request = asyncio.ensure_future(desk.http.post(desk.url("v1/chat/completions"), json=body))
    run = (await anext(aiter(first_runs(desk)))).id
    if streams:
        (await request).close()
    else:
        request.cancel()
    ended = await desk.ended(run)
    assert (ended["status"], ended["cause"]) == ("aborted", "cancel")


async def first_runs(desk: Desk) -> AsyncGenerator[Any, None]:
    """The runs of a desk, as they begin."""
    found: asyncio.Queue[Any] = asyncio.Queue()
    desk.server.state.all_runs.subscribe(found.put_nowait)
    while True:
        yield await found.get()


# Responses


async def test_a_response_has_the_items_of_all_turns(open_desk: OpenDesk) -> None:
    desk = await open_desk(think("Well.") + call("wait", n=1), say("Hello!"))
    desk.release.set()
    async with client_of(desk) as client:
        given = await client.responses.create(model="worker", input="hi", instructions="Be brief.", metadata={"a": "b"})
    assert (given.status, given.output_text, given.metadata) == ("completed", "Hello!", {"a": "b"})
    assert [item.type for item in given.output] == ["reasoning", "mcp_call", "message"]
    called = given.output[1]
    assert called.type == "mcp_call"
    assert (called.name, called.arguments, called.output) == ("wait", '{"n":1}', "waited 1")
    assert given.usage is not None
    assert given.usage.total_tokens == 30
    assert desk.sessions[-1].conversation.system == "Be brief."


async def test_a_response_continues_another(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("one"), say("two"))
    async with client_of(desk) as client:
        first = await client.responses.create(model="worker", input="hi")
        second = await client.responses.create(model="worker", input="more", previous_response_id=first.id)
        assert (second.output_text, second.previous_response_id) == ("two", first.id)
        forked = await client.responses.create(model="worker", input="other", previous_response_id=first.id)
    texts = [m.text for m in desk.sessions[-1].conversation.messages]
    assert texts == ["hi", "one", "other", forked.output_text]


async def test_a_response_waits_for_a_tool_of_its_client(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("open_tab", url="x"), say("Open."))
    async with client_of(desk) as client:
        first = await client.responses.create(model="worker", input="hi", tools=TOOLS)
        (asked,) = first.output
        assert asked.type == "function_call"
        assert (first.status, asked.name) == ("completed", "open_tab")
        output: Any = {"type": "function_call_output", "call_id": asked.call_id, "output": "done"}
        async with client.responses.stream(
            model="worker", input=[output], previous_response_id=first.id, tools=TOOLS
        ) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert (final.output_text, final.previous_response_id) == ("Open.", first.id)
    assert final.usage is not None
    assert final.usage.total_tokens == 15


async def test_a_response_in_the_background_is_read_and_cancelled(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("Hello") + stall())
    async with client_of(desk) as client:
        begun = await client.responses.create(model="worker", input="hi", background=True)
        assert (begun.status, begun.background) == ("queued", True)
        assert (await client.responses.retrieve(begun.id)).status == "in_progress"
        assert (await client.responses.cancel(begun.id)).status == "cancelled"
        assert (await client.responses.retrieve(begun.id)).status == "cancelled"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("no")
        for after in ("x", "9" * 5000):
            path = f"/responses/{begun.id}?stream=true&starting_after={after}"
            with pytest.raises(openai.BadRequestError):
                await client.get(path, cast_to=object)


async def test_every_number_is_a_place_to_continue_from(open_desk: OpenDesk) -> None:
    desk = await open_desk(think("Well.") + say("A ") + call("wait", n=1), say("Hello, you!"))
    desk.release.set()
    async with client_of(desk) as client:
        stream = await client.responses.create(model="worker", input="hi", stream=True)
        events = [event.model_dump(mode="json") async for event in stream]
        numbers = [event["sequence_number"] for event in events]
        assert numbers == list(range(len(events)))
        run = events[0]["response"]["id"]
        for after in numbers[:-1]:
            rest = await client.responses.retrieve(run, stream=True, starting_after=after)
            assert [event.model_dump(mode="json") async for event in rest] == events[after + 1 :]


async def test_the_numbers_are_the_same_in_another_process(tmp_path: Path) -> None:
    """A log, and a server that did not run it, as after a restart."""

    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    def make() -> Worker:
        replies = [call("look"), say("Hello, all of you!", chunk=2), say("Again.")]
        return Worker(ScriptedModel(replies, delay=0.001), tools=[look])

    async with (
        SQLiteLog(tmp_path / "runs.db") as log,
        WebServer(make, port=0, log=log) as server,
        client_at(server.url) as client,
    ):
        stream = await client.responses.create(
            model="worker", input="hi", stream=True, tools=TOOLS, metadata={"a": "b"}
        )
        events = [event.model_dump(mode="json") async for event in stream]
    run = events[0]["response"]["id"]
    async with (
        SQLiteLog(tmp_path / "runs.db") as log,
        WebServer(make, port=0, log=log) as server,
        client_at(server.url) as client,
    ):
        rest = await client.responses.retrieve(run, stream=True, starting_after=3)
        assert [event.model_dump(mode="json") async for event in rest] == events[4:]
        whole = (await client.responses.retrieve(run)).model_dump(mode="json")
        assert whole == events[-1]["response"]
        following = await client.responses.create(model="worker", input="more", previous_response_id=run)
        assert following.previous_response_id == run


@asynccontextmanager
async def client_at(url: str) -> AsyncGenerator[openai.AsyncOpenAI, None]:
    async with openai.AsyncOpenAI(base_url=f"{url}v1", api_key="none", max_retries=0) as client:
        yield client


async def test_secrets_of_the_environment_are_removed(open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret-0123456789")
    desk = await open_desk(always=say("The key is sk-very-secret-0123456789."))
    async with client_of(desk) as client:
        chat = await client.chat.completions.create(model="worker", messages=HI)
        response = await client.responses.create(model="worker", input="hi")
    assert "very-secret" not in f"{chat}{response}"


# Each request by itself


@asynccontextmanager
async def served(script: Any, **options: Any) -> AsyncGenerator[openai.AsyncOpenAI, None]:
    """A client of a server whose worker answers by a script."""

    def make() -> Worker:
        return Worker(ScriptedModel(script))

    async with WebServer(make, port=0, **options) as server, client_at(server.url) as client:
        yield client


async def test_each_request_has_its_own_settings_and_model() -> None:
    def make(name: str) -> Any:
        def script(request: Request) -> Reply:
            options = request.options
            return say(f"{name} {options.temperature} {options.max_tokens}")

        return lambda: Worker(ScriptedModel(script))

    makers = {"a": make("a"), "b": make("b")}
    async with WebServer(makers, port=0) as server, client_at(server.url) as client:
        create = client.responses.create
        first = await create(model="a", input="hi", temperature=0.5, max_output_tokens=9)
        assert (first.temperature, first.max_output_tokens) == (0.5, 9)
        second = await create(model="a", input="hi", previous_response_id=first.id)
        third = await create(model="b", input="hi", previous_response_id=second.id)
        texts = [given.output_text for given in (first, second, third)]
        assert texts == ["a 0.5 9", "a None None", "b None None"]
        assert (third.model, third.previous_response_id) == ("b", second.id)
        with pytest.raises(openai.NotFoundError):
            await create(model="c", input="hi", previous_response_id=first.id)


async def test_a_restarted_server_continues_with_the_tools_and_the_settings_of_its_client(tmp_path: Path) -> None:
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        asked.append(request)
        return call("open_tab", url="x") if len(asked) == 1 else say("Open.")

    path = tmp_path / "runs.db"
    async with SQLiteLog(path) as log, served(script, log=log) as client:
        first = await client.responses.create(model="worker", input="hi", tools=TOOLS)
        (asked_for,) = first.output
        assert asked_for.type == "function_call"
    output: Any = {"type": "function_call_output", "call_id": asked_for.call_id, "output": "done"}
    async with SQLiteLog(path) as log, served(script, log=log) as client:
        second = await client.responses.create(
            model="worker", input=[output], previous_response_id=first.id, tools=TOOLS, temperature=0.7
        )
        assert (second.output_text, second.previous_response_id) == ("Open.", first.id)
        assert [known.name for known in asked[1].tools] == ["open_tab"]
        assert asked[1].options.temperature == 0.7
    async with SQLiteLog(path) as log, served(script, log=log) as client:
        again = await client.responses.retrieve(second.id)
    assert (again.output_text, again.previous_response_id) == ("Open.", first.id)


async def test_results_find_their_run_without_its_id() -> None:
    """A client may send the whole history instead, as it does without ``store``."""

    def script(request: Request) -> Reply:
        return say("Open.") if request.conversation.messages[1:] else call("open_tab", url="x")

    async with served(script) as client:
        first = await client.responses.create(
            model="worker", input="hi", tools=TOOLS, parallel_tool_calls=False, store=False
        )
        assert first.model_extra is not None
        assert (first.model_extra["store"], first.parallel_tool_calls) == (False, False)
        made: Any = first.output[0].model_dump()
        output: Any = {"type": "function_call_output", "call_id": made["call_id"], "output": "ok"}
        history: Any = [*HI, made, output]
        second = await client.responses.create(model="worker", input=history, tools=TOOLS)
        assert second.output_text == "Open."
        assert second.usage is not None
        assert second.usage.input_tokens == 10  # the run was resumed, and its first request is not counted again
        with pytest.raises(openai.NotFoundError, match="not stored"):
            await client.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError, match="not stored"):
            await client.responses.create(model="worker", input="more", previous_response_id=first.id)


async def test_each_call_needs_its_result() -> None:
    script = [call("open_tab", url="a") + call("open_tab", url="b"), say("Open.")]
    async with served(script) as client:
        given = await client.chat.completions.create(model="worker", messages=HI, tools=CHAT_TOOLS)
        message = given.choices[0].message
        results: list[Any] = [
            {"role": "tool", "tool_call_id": asked.id, "content": "done"} for asked in message.tool_calls or ()
        ]
        history: Any = [*HI, message, results[1]]
        with pytest.raises(openai.BadRequestError, match="no tool output found"):
            await client.chat.completions.create(model="worker", messages=history)
        history = [*HI, message, *results]
        given = await client.chat.completions.create(model="worker", messages=history)
        assert given.choices[0].message.content == "Open."


async def test_a_person_decides_before_the_client_continues() -> None:
    @tool
    def delete(path: str) -> str:
        """Delete a file."""
        return f"deleted {path}"

    @before_tool_call(name="permit", matcher="delete")
    def permit(context: ToolCallContext) -> Pause:
        return Pause(f"Delete {context.call.id}?")

    def make() -> Worker:
        replies = [call("delete", path="a") + call("open_tab", url="x"), say("Done.")]
        return Worker(ScriptedModel(replies), tools=[delete], hooks=[permit])

    async with WebServer(make, port=0) as server, client_at(server.url) as client:
        first = await client.responses.create(model="worker", input="hi", tools=TOOLS)
        assert [item.type for item in first.output] == ["mcp_call"]
        output: Any = {"type": "function_call_output", "call_id": "call_1_2", "output": "ok"}

        async def continued() -> Any:
            return await client.responses.create(
                model="worker", input=[output], previous_response_id=first.id, tools=TOOLS
            )

        with pytest.raises(openai.ConflictError, match="has to decide about delete"):
            await continued()
        deleted = first.output[0]
        runs = server.state.runs
        resumed = await runs.resume(await runs.find_paused(first.id), {deleted.id or "": Approve()})
        assert resumed.here is not None
        await resumed.here
        second = await client.responses.retrieve(resumed.id)
        (offered,) = [item for item in second.output if item.type == "function_call"]
        assert offered.call_id == "call_1_2"
        assert (await continued()).output_text == "Done."


class Address(BaseModel):
    city: str


class Person(BaseModel):
    address: Address


async def test_a_format_with_references_is_written_out() -> None:
    """Clients make it of nested types, and some providers take no references."""
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        asked.append(request)
        return say('{"address":{"city":"Rome"}}')

    rome = Person(address=Address(city="Rome"))
    function = {"name": "send", "parameters": Person.model_json_schema()}
    async with served(script) as client:
        chat = await client.chat.completions.parse(
            model="worker",
            messages=HI,
            response_format=Person,
            tools=[openai.pydantic_function_tool(Person, name="send")],
        )
        assert chat.choices[0].message.parsed == rome
        tools: Any = [{"type": "function", **function}]
        given = await client.responses.parse(model="worker", input="hi", text_format=Person, tools=tools)
        assert given.output_parsed == rome
    for request in asked:
        assert request.options.output is not None
        assert "$ref" not in str(request.options.output.schema) + str(request.tools)


async def test_a_response_that_has_not_begun_is_queued_and_a_dismissed_one_is_cancelled() -> None:
    async with (
        MemoryLog() as log,
        WebServer(lambda: QueuedWorker("worker", log=log), port=0, log=log) as server,
        client_at(server.url) as client,
    ):
        begun = await client.responses.create(model="worker", input="hi", background=True)
        assert (await client.responses.retrieve(begun.id)).status == "queued"
        assert (await client.responses.cancel(begun.id)).status == "cancelled"
    async with served([call("open_tab", url="x")]) as client:
        given = await client.responses.create(model="worker", input="hi", tools=TOOLS)
        assert given.status == "completed"
        assert (await client.responses.cancel(given.id)).status == "cancelled"
        assert (await client.responses.retrieve(given.id)).status == "cancelled"


async def test_too_many_runs_are_refused_and_requests_at_once_are_not_mixed() -> None:
    """A front end asks for the title of a chat while the answer still comes."""

    def script(request: Request) -> Reply:
        return say(request.conversation.messages[-1].text)

    async with served(script, settings=Settings(max_runs=3)) as client:

        async def ask(text: str) -> str:
            messages: Any = [{"role": "user", "content": text}]
            given = await client.chat.completions.create(model="worker", messages=messages)
            return given.choices[0].message.content or ""

        assert await asyncio.gather(*map(ask, "abc")) == ["a", "b", "c"]
    async with served(stalled, settings=Settings(max_runs=1)) as client:
        await client.responses.create(model="worker", input="hi", background=True)
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model="worker", input="hi")


def stalled(request: Request) -> Reply:
    del request
    return say("Hello") + stall()


async def test_a_user_has_the_responses_of_no_other() -> None:
    def user(request: WebRequest) -> str:
        return request.headers["Authorization"].removeprefix("Bearer ")

    def make() -> Worker:
        return Worker(ScriptedModel([say("Hello!")]))

    async with WebServer(make, port=0, user=user) as server, client_at(server.url) as client:
        other = client.with_options(api_key="other")
        first = await client.responses.create(model="worker", input="hi")
        reference: Any = {"type": "item_reference", "id": first.output[0].id}
        for body in ({"previous_response_id": first.id}, {"input": [reference]}):
            given: Any = {"model": "worker", "input": "hi", **body}
            with pytest.raises(openai.NotFoundError):
                await other.responses.create(**given)
        with pytest.raises(openai.NotFoundError):
            await other.responses.retrieve(first.id)
        assert (await client.responses.retrieve(first.id)).output_text == "Hello!"


# Open Responses

PIXEL = "data:image/png;base64,iVBORw0KGgo="
USER = {"type": "message", "role": "user"}
CASES: dict[str, Any] = {
    "basic": [{**USER, "content": "Say hello in three words."}],
    "system": [{"type": "message", "role": "system", "content": "Be a pirate."}, {**USER, "content": "Hello"}],
    "image": [
        {
            **USER,
            "content": [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}],
        }
    ],
    "turns": [
        {**USER, "content": "My name is Alice."},
        {"type": "message", "role": "assistant", "content": "Hello Alice."},
        {**USER, "content": "What is my name?"},
    ],
    "tool": [{**USER, "content": "Open a tab."}],
}
"""What the acceptance tests of https://www.openresponses.org/compliance send."""

RESPONSE = TypeAdapter(open_responses.ResponseResource)
KINDS: list[Any] = [k for n, k in vars(open_responses).items() if n.endswith("StreamingEvent")]
EVENT: TypeAdapter[Any] = TypeAdapter(cast("Any", Union)[tuple(KINDS)])


@pytest.mark.parametrize("case", CASES)
async def test_responses_follow_the_schema_of_open_responses(case: str) -> None:
    def script(request: Request) -> Reply:
        del request
        return think("Well.") + (call("open_tab", url="x") if case == "tool" else say("Hello!"))

    body = {"model": "worker", "input": CASES[case], "tools": TOOLS}
    async with (
        WebServer(lambda: Worker(ScriptedModel(script)), port=0) as server,
        aiohttp.ClientSession(f"{server.url}v1/", trust_env=False) as http,
    ):
        async with http.post("responses", json=body) as answer:
            response = RESPONSE.validate_json(await answer.read(), strict=True)
        async with http.post("responses", json={**body, "stream": True}) as answer:
            assert answer.content_type == "text/event-stream"
            *frames, done = (await answer.text()).strip().split("\n\n")
    kind = "function_call" if case == "tool" else "message"
    assert response.status == "completed"
    assert [item.type for item in response.output] == ["reasoning", kind]
    assert done == "data: [DONE]"
    for frame in frames:
        name, _, data = frame.partition("\ndata: ")
        assert EVENT.validate_json(data, strict=True).type == name.removeprefix("event: ")
