"""Streams captured from servers that we ran: each decodes to its events, however its bytes are cut.

A folder ``tests/recordings/<provider>/<case>`` holds ``request.json``, the raw ``stream`` and ``events.jsonl``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rxworker import Worker, tool
from rxworker.events import ResponseEvent
from rxworker.messages import Thinking
from rxworker.providers import PROVIDERS, Anthropic, OpenAIChat
from rxworker.testing import ReplayServer, ServedResponse, lint
from rxworker.testing.server import split_frames

OWN = Path(__file__).parents[1] / "recordings"
CASES = sorted(path.parent for path in OWN.glob("*/*/stream"))
each_case = pytest.mark.parametrize("case", CASES, ids=lambda p: f"{p.parent.name}-{p.name}")
LLAMA = [OWN / name / "llama-server-tool-parallel" for name in ("anthropic", "openai_chat")]


def decode(case: Path, chunks: Iterable[bytes]) -> list[ResponseEvent]:
    make: Any = PROVIDERS[case.parent.name]
    decoder = make("a-model").decoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [*events, *decoder.finish()]


def events_of(case: Path) -> list[ResponseEvent]:
    lines = (case / "events.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=ResponseEvent) for line in lines]


@each_case
def test_it_decodes_to_its_events_whole_and_byte_by_byte(case: Path) -> None:
    whole = (case / "stream").read_bytes()
    expected = events_of(case)
    assert decode(case, [whole]) == expected
    assert decode(case, [whole[at : at + 1] for at in range(len(whole))]) == expected
    assert lint(expected) == []


@each_case
@given(data=st.data())
@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_decodes_to_its_events_under_any_cut(case: Path, data: st.DataObject) -> None:
    whole = (case / "stream").read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    chunks = [whole[a:b] for a, b in itertools.pairwise([0, *cuts, len(whole)])]
    assert decode(case, chunks) == events_of(case)


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"{city}: 17 °C"


@pytest.mark.parametrize("case", LLAMA, ids=lambda p: p.parent.name)
async def test_the_calls_of_llama_server_run(case: Path) -> None:
    """Its Anthropic blocks start without ``input``, and the first stops after the second has begun."""
    answer = ServedResponse.from_frames(split_frames((case / "stream").read_bytes()))
    async with ReplayServer([answer, "Both 17 °C."]) as server:
        make = Anthropic if case.parent.name == "anthropic" else OpenAIChat
        worker = Worker(make("tiny", base_url=server.base_url), tools=[get_weather])
        result = await worker.run("Compare the weather in Oslo and Lima.")
    calls = result.conversation.messages[1].tool_calls
    assert [c.input for c in calls] == [{"city": "Oslo"}, {"city": "Lima"}]
    assert result.text == "Both 17 °C."


def test_the_thinking_of_llama_server_has_an_empty_seal() -> None:
    case = OWN / "anthropic" / "llama-server-thinking"
    answer = ServedResponse.from_frames(split_frames((case / "stream").read_bytes()))
    with ReplayServer([answer]) as server:
        worker = Worker(Anthropic("tiny", base_url=server.base_url))
        result = worker.run_sync("Think about Rome.")
    (thinking,) = (b for b in result.conversation.messages[1].content if isinstance(b, Thinking))
    assert (thinking.text, thinking.signature) == ("The user names Rome, a city.\n", "")


def test_a_conversation_that_is_too_long_for_llama_server_is_named_so() -> None:
    body: Any = {
        "error": {
            "code": 400,
            "message": "request (9009 tokens) exceeds the available context size (1024 tokens), try increasing it",
            "type": "exceed_context_size_error",
        }
    }
    for make in (Anthropic, OpenAIChat):
        error = make("tiny").error(400, {}, msgspec.json.encode(body))
        assert error.kind == "context_length"
        assert "shorten it" in str(error)
