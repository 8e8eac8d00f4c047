"""The turn loop against a server that is not ours, in all protocols.

Where it differs from the services, the tests say so. Its Ollama calls thinking ``reasoning_content``, as compatible
servers of OpenAI's protocol do, counts no tokens, and knows no ids of calls. Its Gemini ends a response with calls with
``FUNCTION_CALL``, which is not a finish reason of Google's.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rxworker import Finished, Run, Worker, tool
from rxworker.errors import ProviderError, RxWorkerError
from rxworker.events import AttemptRetract, BlockAbort, Opaque, Record, Status, ThinkingDelta, ToolStart
from rxworker.messages import StopKind, StopReason, Thinking
from rxworker.providers import Anthropic, Gemini, Ollama, OpenAIChat, OpenAIResponses, Options, Provider
from rxworker.testing import lint
from rxworker.transport import Client, Retry

pytestmark = pytest.mark.aimock

MakeProvider = Callable[[str], Provider]
NO_PAUSE = Retry(first=0.0)


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: Name of the city.
    """
    return f"{city}: 17 °C"


def anthropic(base_url: str) -> Provider:
    return Anthropic("a-model", api_key="k", base_url=base_url)


def openai_chat(base_url: str) -> Provider:
    return OpenAIChat("a-model", api_key="k", base_url=base_url)


def openai_responses(base_url: str) -> Provider:
    return OpenAIResponses("a-model", api_key="k", base_url=base_url)


def gemini(base_url: str) -> Provider:
    return Gemini("a-model", api_key="k", base_url=base_url)


def ollama(base_url: str) -> Provider:
    return Ollama("a-model", base_url=base_url)


def watch(run: Run[object]) -> list[Record]:
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    return records


async def test_it_answers_with_text(make_provider: MakeProvider, aimock: str) -> None:
    run = Worker(make_provider(aimock)).run("Please say hello.")
    records = watch(run)
    result = await run
    assert isinstance(result, Finished)
    assert result.text == "Hello from the mock, in more than one piece."
    counted = (0, 0) if result.conversation.messages[-1].provider == "ollama" else (12, 9)
    assert (result.usage.input_tokens, result.usage.output_tokens) == counted
    assert lint(records) == []


async def test_it_thinks_and_then_answers_with_text(make_event_stream_provider: MakeProvider, aimock: str) -> None:
    provider = make_event_stream_provider(aimock)
    run = Worker(provider).run("Please think first.")
    records = watch(run)
    assert (await run).text == "Forty-two."
    thoughts = [r.event.text for r in records if isinstance(r.event, ThinkingDelta)]
    # aimock sends none over Gemini's Interactions.
    expected = "" if provider.name == "gemini_interactions" else "Six times seven, so they say."
    assert "".join(thoughts) == expected
    assert lint(records) == []


async def test_what_is_not_thinking_of_ollamas_is_kept_as_something_unknown(aimock: str) -> None:
    run = Worker(Ollama("a-model", base_url=aimock)).run("Please think first.")
    records = watch(run)
    assert (await run).text == "Forty-two."
    unknown = [r.event.raw for r in records if isinstance(r.event, Opaque)]
    assert "Six time" in str(unknown)
    assert lint(records) == []


@pytest.mark.parametrize("make", [anthropic, openai_chat, openai_responses])
async def test_two_calls_and_an_answer(make: MakeProvider, aimock: str) -> None:
    """The server only answers when the results are where it looks for them, and the thinking is sealed."""
    provider = make(aimock)
    thinking = Options(thinking=1024) if provider.name == "anthropic" else Options()
    run = Worker(provider, tools=[get_weather], options=thinking).run("compare Kyoto and Oslo")
    records = watch(run)
    result = await run
    assert (result.text, result.turns) == ("Both are at 17 degrees.", 2)
    calls = [r.event.call for r in records if isinstance(r.event, ToolStart)]
    assert [(c.id, c.input) for c in calls] == [("call_kyoto", {"city": "Kyoto"}), ("call_oslo", {"city": "Oslo"})]
    (thought,) = (b for b in result.conversation.messages[1].content if isinstance(b, Thinking))
    assert thought.text == "Two cities: two calls."
    if provider.name == "anthropic":
        assert thought.signature == "sealed-by-the-mock"
    if provider.name == "openai_responses":
        assert "encrypted_content" in str(thought.echo)
    assert lint(records) == []


@pytest.mark.parametrize("make", [gemini, ollama])
async def test_two_calls_without_ids_and_an_answer(make: MakeProvider, aimock: str) -> None:
    run = Worker(make(aimock), tools=[get_weather]).run("weigh Kyoto and Oslo")
    records = watch(run)
    result = await run
    assert (result.text, result.turns) == ("Both are at 17 degrees.", 2)
    calls = [r.event.call for r in records if isinstance(r.event, ToolStart)]
    assert [c.input for c in calls] == [{"city": "Kyoto"}, {"city": "Oslo"}]
    assert len({c.id for c in calls}) == 2
    assert lint(records) == []


async def test_whole_calls_run_also_under_a_finish_reason_that_is_not_googles(aimock: str) -> None:
    """The server says ``FUNCTION_CALL``, which Google does not: nothing speaks against calls that are whole."""
    run = Worker(gemini(aimock), tools=[get_weather]).run("compare Kyoto and Oslo")
    records = watch(run)
    await run
    assert StopReason(StopKind.TOOL_USE, "FUNCTION_CALL") in [
        r.event.stop_reason for r in records if isinstance(r.event, Status)
    ]
    assert len([r for r in records if isinstance(r.event, ToolStart)]) == 2
    assert lint(records) == []


async def test_a_429_is_waited_for_as_long_as_it_specifies(make_provider: MakeProvider, aimock: str) -> None:
    waits: list[float] = []

    class Noted(Retry, frozen=True):
        def delay(self, error: Exception, attempt: int, chance: Callable[[], float] = float) -> float | None:
            wait = super().delay(error, attempt, chance)
            waits.append(wait or 0.0)
            return 0.0

    client = Client(make_provider(aimock), retry=Noted())
    run = Worker(client).run("be busy")
    records = watch(run)
    assert (await run).text == "Now I have time."
    assert waits == [3.0]
    assert not any(isinstance(r.event, AttemptRetract) for r in records)
    assert lint(records) == []


@pytest.mark.product(3)
async def test_an_answer_that_is_cut_is_an_error(make_provider: MakeProvider, aimock: str) -> None:
    worker = Worker(make_provider(aimock), response_retry=Retry(retries=0))
    run = worker.run("break off")
    records = watch(run)
    with pytest.raises(RxWorkerError) as caught:
        await run
    assert caught.value.retryable
    assert any(isinstance(r.event, BlockAbort) for r in records)
    assert lint(records) == []
    assert (await worker.run("say hello")).text.startswith("Hello")


@pytest.mark.product(3)
async def test_an_answer_that_is_cut_is_requested_again(make_provider: MakeProvider, aimock: str) -> None:
    run = Worker(make_provider(aimock), response_retry=NO_PAUSE).run("break off")
    records = watch(run)
    assert (await run).text == "This one is whole."
    assert sum(isinstance(r.event, AttemptRetract) for r in records) == 1
    assert lint(records) == []


async def test_a_refusal_names_the_remedy(make_provider: MakeProvider, aimock: str) -> None:
    with pytest.raises(ProviderError, match=r"who are you.* - check the key") as caught:
        await Worker(make_provider(aimock)).run("refuse")
    assert caught.value.status == 401


async def test_a_question_it_does_not_know_is_an_error_that_names_the_status(
    make_provider: MakeProvider, aimock: str
) -> None:
    client = Client(make_provider(aimock), retry=Retry(retries=0))
    with pytest.raises(ProviderError, match="answered with HTTP"):
        await Worker(client).run("what is this?")
