"""A response that ends for the sake of a call, and has none, is requested again; if it stays so, the run fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rxworker import Worker, tool
from rxworker.errors import ProviderError
from rxworker.events import AttemptRetract, Event, Record
from rxworker.messages import StopKind, StopReason
from rxworker.operators import committed, events, text_deltas
from rxworker.providers import Anthropic, Bedrock, Gemini, Ollama, OpenAIChat, Provider
from rxworker.state import fold_run
from rxworker.testing import ReplayServer, Reply, ScriptedModel, call, lint, say
from rxworker.testing.server import ServedResponse
from rxworker.transport import Client, Retry

QUICK = Retry(retries=2, first=0.0)
CALLED = StopReason(StopKind.TOOL_USE)

PROVIDERS: dict[str, tuple[Callable[[str], Provider], Reply]] = {
    "anthropic": (lambda url: Anthropic("m", api_key="k", base_url=url), Reply(stop=CALLED)),
    "openai_chat": (lambda url: OpenAIChat("m", api_key="k", base_url=url), Reply(stop=CALLED)),
    "bedrock": (lambda url: Bedrock("m", api_key="k", region="us-east-1", base_url=url), Reply(stop=CALLED)),
    "gemini": (
        lambda url: Gemini("m", api_key="k", base_url=url),
        Reply(stop=StopReason(StopKind.MALFORMED, detail="Malformed function call: look(")),
    ),
    "ollama": (lambda url: Ollama("m", base_url=url), Reply(stop=StopReason(StopKind.TOOL_USE, "tool_calls"))),
}
LINE = b'{"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "tool_calls"}\n'


def answers_of(name: str) -> Any:
    if name == "ollama":  # which has no such word of its own
        return ServedResponse.from_frames([LINE], "application/x-ndjson")
    return PROVIDERS[name][1]


@pytest.mark.parametrize("text", ["", "Let me look. "])
@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_response_that_lost_its_call_is_requested_again(name: str, text: str) -> None:
    lost = answers_of(name)
    if isinstance(lost, Reply):
        lost = replace(lost, text=text)
    async with ReplayServer([lost, "Hello!"]) as server:
        client = Client(PROVIDERS[name][0](server.base_url), retry=Retry(retries=0))
        run = Worker(client, response_retry=QUICK).run("hi")
        seen: list[Event] = []
        kept: list[str] = []
        run.pipe(events()).subscribe(seen.append)
        run.events.pipe(committed(), text_deltas()).subscribe(kept.append)
        result = await run
    assert (result.text, "".join(kept), len(server.requests)) == ("Hello!", "Hello!", 2)
    (retract,) = (event for event in seen if isinstance(event, AttemptRetract))
    assert "the model lost its call" in retract.reason
    assert lint(seen) == []
    assert [message.text for message in result.conversation.messages] == ["hi", "Hello!"]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_call_that_stays_lost_is_an_error_of_its_own(name: str) -> None:
    async with ReplayServer([answers_of(name)] * 3) as server:
        worker = Worker(Client(PROVIDERS[name][0](server.base_url), retry=Retry(retries=0)), response_retry=QUICK)
        with pytest.raises(ProviderError, match="the model lost its call") as caught:
            await worker.run("hi")
        assert len(server.requests) == 3
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("server", "lost_call", True)


async def test_a_session_goes_on_after_a_call_was_lost() -> None:
    lost = Reply("Half.", stop=StopKind.MALFORMED)
    worker = Worker(ScriptedModel([lost, "Hello!"]), response_retry=Retry(retries=0))
    with pytest.raises(ProviderError, match="lost its call"):
        await worker.run("hi")
    assert (await worker.run("Go on.")).text == "Hello!"


async def test_a_malformed_response_with_a_whole_call_answers_it() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    cut = replace(call("look"), stop=StopReason(StopKind.MALFORMED))
    result = await Worker(ScriptedModel([cut]), tools=[look], response_retry=QUICK).run("hi")
    (answer,) = [found for message in result.conversation.messages for found in message.tool_results]
    assert answer.is_error


async def test_what_a_retracted_response_took_is_counted() -> None:
    lost, records = Reply(stop=StopKind.MALFORMED), list[Record]()
    run = Worker(ScriptedModel([lost, say("Hello!")]), response_retry=QUICK).run("hi")
    run.subscribe(records.append)
    result = await run
    once = await Worker(ScriptedModel([say("Hello!")])).run("hi")
    assert result.usage.input_tokens == 2 * (once.usage.input_tokens or 0)
    assert fold_run(records).conversation == result.conversation
