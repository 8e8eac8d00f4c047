"""The turn loop against a server that is not ours, in both protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Finished, Run, Worker, tool
from rxworker.errors import ProviderError, RxWorkerError
from rxworker.events import AttemptRetract, BlockAbort, Record, ThinkingDelta, ToolStart
from rxworker.messages import Thinking
from rxworker.providers import Options, Provider
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


def watch(run: Run[Any]) -> list[Record]:
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    return records


async def test_it_says_something(make_provider: MakeProvider, aimock: str) -> None:
    run = Worker(make_provider(aimock)).run("Please say hello.")
    records = watch(run)
    result = await run
    assert isinstance(result, Finished)
    assert result.text == "Hello from the mock, in more than one piece."
    assert (result.usage.input_tokens, result.usage.output_tokens) == (12, 9)
    assert lint(records) == []


async def test_it_thinks_and_then_says_something(make_provider: MakeProvider, aimock: str) -> None:
    run = Worker(make_provider(aimock)).run("Please think first.")
    records = watch(run)
    assert (await run).text == "Forty-two."
    thoughts = [r.event.text for r in records if isinstance(r.event, ThinkingDelta)]
    assert "".join(thoughts) == "Six times seven, so they say."
    assert lint(records) == []


async def test_two_calls_and_an_answer(make_provider: MakeProvider, aimock: str) -> None:
    """The server only answers when the results are where it looks for them, and the thinking is sealed."""
    provider = make_provider(aimock)
    thinking = Options(thinking=1024) if provider.name == "anthropic" else Options()
    run = Worker(provider, tools=[get_weather], options=thinking).run("compare Kyoto and Oslo")
    records = watch(run)
    result = await run
    assert (result.text, result.turns) == ("Both are at 17 degrees.", 2)
    calls = [r.event.call for r in records if isinstance(r.event, ToolStart)]
    assert [(c.id, c.input) for c in calls] == [
        ("call_kyoto", {"city": "Kyoto"}),
        ("call_oslo", {"city": "Oslo"}),
    ]
    if provider.name == "anthropic":
        blocks = result.conversation.messages[1].content
        assert Thinking("Two cities: two calls.", "sealed-by-the-mock") in blocks
    assert lint(records) == []


async def test_a_429_is_waited_for_as_long_as_it_says(
    make_provider: MakeProvider, aimock: str
) -> None:
    waits: list[float] = []

    class Noted(Retry, frozen=True):
        def delay(
            self, error: Exception, attempt: int, chance: Callable[[], float] = float
        ) -> float | None:
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


async def test_an_answer_that_is_cut_is_an_error(make_provider: MakeProvider, aimock: str) -> None:
    worker = Worker(make_provider(aimock), retry=Retry(retries=0))
    run = worker.run("break off")
    records = watch(run)
    with pytest.raises(RxWorkerError) as caught:
        await run
    assert caught.value.retryable
    assert any(isinstance(r.event, BlockAbort) for r in records)
    assert lint(records) == []
    assert (await worker.run("say hello")).text.startswith("Hello")


async def test_an_answer_that_is_cut_is_asked_for_again(
    make_provider: MakeProvider, aimock: str
) -> None:
    run = Worker(make_provider(aimock), retry=NO_PAUSE).run("break off")
    records = watch(run)
    assert (await run).text == "This one is whole."
    assert sum(isinstance(r.event, AttemptRetract) for r in records) == 1
    assert lint(records) == []


async def test_a_refusal_says_what_to_do(make_provider: MakeProvider, aimock: str) -> None:
    with pytest.raises(ProviderError, match=r"who are you.* - check the key") as caught:
        await Worker(make_provider(aimock)).run("refuse")
    assert caught.value.status == 401


async def test_a_question_it_does_not_know_is_an_error_that_names_the_status(
    make_provider: MakeProvider, aimock: str
) -> None:
    client = Client(make_provider(aimock), retry=Retry(retries=0))
    with pytest.raises(ProviderError, match="answered with HTTP"):
        await Worker(client).run("what is this?")
