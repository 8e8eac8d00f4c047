"""A worker over real HTTP, in all protocols: what is sent, what is watched, and how runs end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Finished, Limits, Run, Worker, tool
from rxworker.errors import ProviderError, RxWorkerError, TransportError, TruncatedError
from rxworker.events import AttemptRetract, AttemptStart, BlockAbort, Error, Record, TextDelta, ThinkingDelta, ToolStart
from rxworker.messages import ToolCall
from rxworker.providers import Anthropic, Ollama, OpenAIChat, Options, Provider
from rxworker.testing import Call, ReplayServer, Reply, ServedResponse, call, cut, fail, lint, say, stall, think
from rxworker.testing.server import AnswerLike
from rxworker.transport import Client, Retry

MakeProvider = Callable[[str], Provider]
NO_PAUSE = Retry(first=0.0)
# Where each protocol has its settings, and what it calls the most tokens of an answer.
OPTIONS = {
    "anthropic": (None, "max_tokens"),
    "openai_chat": (None, "max_tokens"),
    "openai_responses": (None, "max_output_tokens"),
    "gemini": ("generationConfig", "maxOutputTokens"),
    "gemini_interactions": ("generation_config", "max_output_tokens"),
    "ollama": ("options", "num_predict"),
}


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: Name of the city.
    """
    return f"{city}: 17 °C"


WEATHER = (
    think("Two cities.", "sealed-42")
    + say("Let me look.")
    + call("get_weather", city="Kyoto")
    + call("get_weather", city="Oslo")
)


def watch(run: Run[object]) -> list[Record]:
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    return records


async def until(run: Run[object], kind: type[object]) -> None:
    async for record in run:
        if isinstance(record.event, kind):
            return


def sent(server: ReplayServer, number: int) -> Any:
    return server.requests[number].body


async def test_two_calls_and_an_answer(make_provider: MakeProvider) -> None:
    answers = [WEATHER, think("Warm.") + say("Both 17 °C.")]
    async with ReplayServer(answers) as server:
        worker = Worker(make_provider(server.base_url), tools=[get_weather], system="Be brief.")
        run = worker.run("Weather in Kyoto and Oslo?")
        records = watch(run)
        result = await run
        assert len(server.requests) == 2
    assert isinstance(result, Finished)
    assert (result.text, result.turns) == ("Both 17 °C.", 2)
    assert result.usage.total_tokens == 30
    assert lint(records) == []
    calls = result.conversation.messages[1].tool_calls
    assert [c.input for c in calls] == [{"city": "Kyoto"}, {"city": "Oslo"}]
    thoughts = [r.event.text for r in records if isinstance(r.event, ThinkingDelta)]
    assert "".join(thoughts) == "Two cities.Warm."


async def test_the_second_request_to_anthropic_carries_the_seal_and_the_results() -> None:
    async with ReplayServer([WEATHER, "Both 17 °C."]) as server:
        provider = Anthropic("m", api_key="k", base_url=server.base_url)
        await Worker(provider, tools=[get_weather], system="Be brief.").run("Weather?")
        first, second = sent(server, 0), sent(server, 1)
    assert (first["system"], second["system"]) == ("Be brief.", "Be brief.")
    assert [t["name"] for t in second["tools"]] == ["get_weather"]
    asked, said, results = second["messages"]
    assert asked == first["messages"][0]
    assert said["role"] == "assistant"
    thinking, text, kyoto, oslo = said["content"]
    assert thinking == {"type": "thinking", "thinking": "Two cities.", "signature": "sealed-42"}
    assert text == {"type": "text", "text": "Let me look."}
    assert (kyoto["type"], kyoto["input"]) == ("tool_use", {"city": "Kyoto"})
    assert results == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": kyoto["id"], "content": "Kyoto: 17 °C"},
            {"type": "tool_result", "tool_use_id": oslo["id"], "content": "Oslo: 17 °C"},
        ],
    }


async def test_the_second_request_to_chat_has_the_calls_and_a_message_for_each_result() -> None:
    async with ReplayServer([WEATHER, "Both 17 °C."]) as server:
        provider = OpenAIChat("m", api_key="k", base_url=server.base_url)
        await Worker(provider, tools=[get_weather], system="Be brief.").run("Weather?")
        second = sent(server, 1)
    system, asked, said, kyoto, oslo = second["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert asked == {"role": "user", "content": "Weather?"}
    assert (said["role"], said["content"]) == ("assistant", "Let me look.")
    assert said["reasoning_content"] == "Two cities."
    functions = [c["function"] for c in said["tool_calls"]]
    assert functions[0] == {"name": "get_weather", "arguments": '{"city":"Kyoto"}'}
    ids = [c["id"] for c in said["tool_calls"]]
    assert kyoto == {"role": "tool", "tool_call_id": ids[0], "content": "Kyoto: 17 °C"}
    assert oslo == {"role": "tool", "tool_call_id": ids[1], "content": "Oslo: 17 °C"}


async def test_options_are_sent(make_provider: MakeProvider) -> None:
    options = Options(max_tokens=50, temperature=0.5, extra={"metadata": {"user_id": "me"}})
    async with ReplayServer(["Hello"]) as server:
        provider = make_provider(server.base_url)
        await Worker(provider, options=options).run("hi")
        body = sent(server, 0)
    assert body["metadata"] == {"user_id": "me"}
    within, most = OPTIONS[provider.name]
    told = body[within] if within else body
    assert (told[most], told["temperature"]) == (50, 0.5)
    # Gemini says it in the address, which is the only one with another end for it.
    assert provider.name == "gemini" or body["stream"] is True


async def test_a_watcher_that_leaves_does_not_close_the_connection(make_provider: MakeProvider) -> None:
    async with ReplayServer(["Hello"]) as server:
        run = Worker(make_provider(server.base_url)).run("hi")
        run.subscribe(lambda _: None).dispose()
        async for _ in run:
            break
        assert (await run).text == "Hello"
        assert server.disconnects == 0


# Early enough that something is open in every protocol; some send a call whole.
BREAKS: list[tuple[AnswerLike, type[RxWorkerError]]] = [
    (ServedResponse.from_reply(think("Hm.") + say("Hello, world, again"), cut_after=4), TransportError),
    (say("Hello") + cut(), TruncatedError),
    (say("Hello") + fail("busy", "overloaded"), ProviderError),
    (ServedResponse.from_reply(WEATHER, cut_after=6), TransportError),
]


@pytest.mark.parametrize(("broken", "kind"), BREAKS)
async def test_an_answer_that_breaks_off_ends_the_run_and_the_worker_can_run_again(
    make_provider: MakeProvider, broken: AnswerLike, kind: type[RxWorkerError]
) -> None:
    async with ReplayServer([broken, "again"]) as server:
        worker = Worker(make_provider(server.base_url), tools=[get_weather], response_retry=Retry(retries=0))
        run = worker.run("hi")
        records = watch(run)
        with pytest.raises(kind):
            await run
        assert any(isinstance(r.event, BlockAbort) for r in records)
        assert any(isinstance(r.event, Error) for r in records)
        assert not any(isinstance(r.event, ToolStart) for r in records)
        assert lint(records) == []
        assert not any(m.tool_results for m in worker.session.conversation.messages)
        assert (await worker.run("and now?")).text == "again"
        assert len(server.requests) == 2


@pytest.mark.parametrize(("broken", "kind"), BREAKS)
async def test_an_answer_that_breaks_off_is_retracted_and_requested_again(
    make_provider: MakeProvider, broken: AnswerLike, kind: type[RxWorkerError]
) -> None:
    async with ReplayServer([broken, broken, "again"]) as server:
        worker = Worker(make_provider(server.base_url), tools=[get_weather], response_retry=NO_PAUSE)
        run = worker.run("hi")
        records = watch(run)
        assert (await run).text == "again"
        assert server.requests[0].body == server.requests[1].body == server.requests[2].body
    assert kind
    assert sum(isinstance(r.event, AttemptRetract) for r in records) == 2
    assert not any(isinstance(r.event, ToolStart) for r in records)
    assert lint(records) == []
    assert [m.role for m in worker.session.conversation.messages] == ["user", "assistant"]


@pytest.mark.parametrize("size", [500, 900, None])
async def test_the_calls_of_an_answer_that_is_cut_never_run(make_provider: MakeProvider, size: int | None) -> None:
    answer = WEATHER + cut() if size is None else ServedResponse.from_reply(WEATHER, cut_at=size)
    async with ReplayServer([answer]) as server:
        worker = Worker(make_provider(server.base_url), tools=[get_weather], response_retry=Retry(retries=0))
        run = worker.run("hi")
        records = watch(run)
        with pytest.raises(RxWorkerError):
            await run
    assert not any(isinstance(r.event, ToolStart) for r in records)
    assert lint(records) == []


async def test_garbage_in_the_middle_of_lines_is_passed_over() -> None:
    garbage = ServedResponse.from_reply(say("Hello"), garbage_after=1)
    async with ReplayServer([garbage]) as server:
        run = Worker(Ollama("m", base_url=server.base_url), response_retry=NO_PAUSE).run("hi")
        records = watch(run)
        assert (await run).text == "Hello"
    assert lint(records) == []


async def test_garbage_in_the_middle_ends_the_answer_or_is_passed_over(
    make_event_stream_provider: MakeProvider,
) -> None:
    """A frame that is not text at all is kept as something unknown; half a JSON object is an error."""
    make_provider = make_event_stream_provider
    garbage = ServedResponse.from_reply(say("Hello"), garbage_after=2)
    half = ServedResponse.from_frames([b"data: {\n\n", b"data: {}\n\n"])
    async with ReplayServer([garbage, half, "again"]) as server:
        worker = Worker(make_provider(server.base_url), response_retry=NO_PAUSE)
        run = worker.run("hi")
        records = watch(run)
        assert (await run).text == "Hello"
        client = Client(make_provider(server.base_url), retry=NO_PAUSE)
        assert (await Worker(client).run("hi")).text == "again"
    assert lint(records) == []


async def test_a_429_before_the_answer_leaves_no_trace_in_the_records(make_provider: MakeProvider) -> None:
    async def records_after(*answers: AnswerLike) -> list[object]:
        async with ReplayServer(list(answers)) as server:
            client = Client(make_provider(server.base_url), retry=NO_PAUSE)
            run = Worker(client).run("hi")
            records = watch(run)
            await run
            assert len(server.requests) == len(answers)
        assert lint(records) == []
        assert sum(isinstance(r.event, AttemptStart) for r in records) == 1
        return [type(record.event) for record in records]

    busy = ServedResponse.from_status(429, headers={"retry-after-ms": "1"}, body={"error": "slow down"})
    assert await records_after(busy, "Hello") == await records_after("Hello")


async def test_a_server_with_one_slow_answer_does_not_hold_up_another_worker(make_provider: MakeProvider) -> None:
    async with ReplayServer([say("Hello") + stall(), "quick"]) as server:
        provider = make_provider(server.base_url)
        slow = Worker(provider).run("hi")
        await until(slow, TextDelta)
        assert (await Worker(provider).run("hi")).text == "quick"
        await slow.cancel()


async def test_hundreds_of_calls_in_one_response(make_provider: MakeProvider) -> None:
    many = Reply(tool_calls=tuple(Call("get_weather", {"city": str(n)}) for n in range(300)))
    async with ReplayServer([many, "done"]) as server:
        worker = Worker(make_provider(server.base_url), tools=[get_weather], limits=Limits(max_tool_calls=None))
        run = worker.run("go")
        records = watch(run)
        result = await run
    results = result.conversation.messages[2].tool_results
    assert [r.text for r in results] == [f"{n}: 17 °C" for n in range(300)]
    assert lint(records) == []


async def test_calls_with_one_id_each_get_a_result(make_provider: MakeProvider) -> None:
    twins = Reply(
        tool_calls=(Call("get_weather", {"city": "Kyoto"}, "same"), Call("get_weather", {"city": "Oslo"}, "same"))
    )
    async with ReplayServer([twins, "done"]) as server:
        result = await Worker(make_provider(server.base_url), tools=[get_weather]).run("go")
    calls = [b for b in result.conversation.messages[1].content if isinstance(b, ToolCall)]
    results = result.conversation.messages[2].tool_results
    assert [r.tool_use_id for r in results] == [c.id for c in calls]
    assert [r.text for r in results] == ["Kyoto: 17 °C", "Oslo: 17 °C"]


async def test_a_huge_answer_streams_through(make_provider: MakeProvider) -> None:
    text = "word " * 40_000
    async with ReplayServer([say(text, chunk=200)]) as server:
        result = await Worker(make_provider(server.base_url)).run("hi")
    assert result.text == text
