"""Every recording decodes to what it says, however its bytes are cut."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rxworker.cli.decode import account_json
from rxworker.events import BlockAbort, BlockDelta, BlockStart, BlockStop, Error, ResponseEvent, ResponseStatus, Status
from rxworker.events.block import OpaqueMetadata, ToolResultMetadata
from rxworker.providers import PROVIDERS
from rxworker.state import BlockState
from rxworker.state.response import fold_response
from rxworker.views import summarise
from tests.over_recordings import provider_of
from tests.whole import IS_WHOLE

WITHOUT_NUMBERS = ("bedrock", "ollama")  # whose own numbers the recordings do not tell apart

"""Whether to cut recordings at every place, which takes minutes; a step of .ci/release does so."""
WINDOW = 5_000


def decode(path: Path, chunks: Iterable[bytes]) -> list[ResponseEvent]:
    """The events, the ids that are made among them being the same each time."""
    numbers = (UUID(int=number << 48) for number in itertools.count(1))
    with patch("rxworker.providers.takes.uuid4", lambda: next(numbers)):
        decoder = PROVIDERS[provider_of(path)]("a-model").decoder()
        events = [event for chunk in chunks for event in decoder.feed(chunk)]
        return [*events, *decoder.finish()]


@cache
def uncut(path: Path) -> list[ResponseEvent]:
    """The events of a recording that comes at once."""
    return decode(path, [path.read_bytes()])


def expected_of(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix(".expected.json").read_text())


def type_of(block: BlockState) -> str:
    """The type of a block, in the provider's words where it has some."""
    echoed = block.echo.get("type") if block.echo else None
    if isinstance(echoed, str):
        return echoed
    if isinstance(block.metadata, OpaqueMetadata):
        return block.metadata.kind
    if isinstance(block.metadata, ToolResultMetadata) and block.metadata.name:
        return block.metadata.name
    return block.block_type.value


def assert_balanced(events: Sequence[ResponseEvent]) -> None:
    opened: set[int] = set()
    for event in events:
        if isinstance(event, BlockStart):
            assert event.index not in opened
            opened.add(event.index)
        elif isinstance(event, BlockStop | BlockAbort):
            opened.remove(event.index)
        elif isinstance(event, BlockDelta):
            assert event.index in opened
    assert not opened


def test_a_recording_decodes_to_what_is_expected(recording: Path) -> None:
    expected = expected_of(recording)
    provider = PROVIDERS[provider_of(recording)]("a-model")
    events = uncut(recording)
    summary = summarise(events)
    said = account_json(summary, provider)
    # Of Bedrock's own tools, whose results are in the stream, the recordings list the calls, too.
    ran = {call.id for call in summary.server_tool_calls}
    expected["tool_calls"] = [call for call in expected["tool_calls"] if call["id"] not in ran]
    for key in ("text", "thinking", "tool_calls", "usage"):
        assert said[key] == expected[key], key
    stop = summary.stop_reason
    assert (stop.raw if stop else None) == expected["stop_reason"]
    assert summary.truncated is not expected["terminated"]
    assert (summary.refusal or None) == expected.get("refusal")
    assert summary.response_id == (expected.get("response_id") or None)
    if (error := expected["error"]) is not None:
        error = {"code": error.get("code") or error.get("type"), "message": error["message"]}
    assert said["error"] == error
    if "block_types" in expected:
        types = [type_of(block) for block in fold_response(events).blocks]
        assert types == expected["block_types"]
        assert types.count("redacted_thinking") == expected["redacted_thinking"]
    if "thinking_signatures" in expected:
        signatures = [block.signature for block in fold_response(events).blocks if block.signature is not None]
        assert signatures == expected["thinking_signatures"]
    if "server_tool_calls" in expected:
        calls = [{"id": c.id, "name": c.name, "input": c.input} for c in summary.server_tool_calls]
        assert calls == expected["server_tool_calls"]
    # The provider's own numbers.
    usage = summary.usage
    if provider_of(recording) not in WITHOUT_NUMBERS:
        assert (usage.raw if usage else None) == (expected.get("usage_raw") or None)
    if "reasoning_tokens" in expected:
        assert usage is not None
        assert usage.reasoning_tokens == expected["reasoning_tokens"]
    for number, choice in expected.get("other_choices", {}).items():
        starts = {e.index for e in events if isinstance(e, BlockStart) and e.choice == int(number)}
        text = "".join(getattr(e, "text", "") for e in events if isinstance(e, BlockDelta) and e.index in starts)
        stops = [e for e in events if isinstance(e, BlockStop) and e.index in starts]
        assert text == choice["text"]
        assert stops[-1].stop_reason is not None
        assert stops[-1].stop_reason.raw == choice["stop_reason"]
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[ResponseEvent]) == events


@pytest.mark.product(3)
def test_a_recording_gives_the_same_events_byte_by_byte(recording: Path) -> None:
    data = recording.read_bytes()
    pieces = [data[i : i + 1] for i in range(len(data))]
    assert decode(recording, pieces) == uncut(recording)


def places(size: int) -> list[int]:
    """Where to cut: a place, or with `IS_WHOLE` every place; the test with any cuts has more of them.

    Of a long recording, every place of its ends and many between.
    """
    if not IS_WHOLE:
        return [size // 2]
    if size <= 2 * WINDOW:
        return list(range(1, size))
    return [*range(1, WINDOW), *range(WINDOW, size - WINDOW, 97), *range(size - WINDOW, size)]


@pytest.mark.timeout(1200 if IS_WHOLE else 60)
def test_a_recording_gives_the_same_events_cut_in_two_at_any_place(recording: Path) -> None:
    whole = recording.read_bytes()
    for place in places(len(whole)):
        assert decode(recording, [whole[:place], whole[place:]]) == uncut(recording), place


@pytest.mark.product(3)
@given(st.data())
@settings(deadline=None, max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_recording_gives_the_same_events_under_any_cut(recording: Path, data: st.DataObject) -> None:
    whole = recording.read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    edges = [0, *cuts, len(whole)]
    chunks = [whole[a:b] for a, b in itertools.pairwise(edges)]
    assert decode(recording, chunks) == uncut(recording)


@pytest.mark.product(3)
@given(st.data())
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_recording_that_ends_early_is_balanced_and_ends_once(recording: Path, data: st.DataObject) -> None:
    whole = recording.read_bytes()
    end = data.draw(st.integers(0, len(whole)))
    events = decode(recording, [whole[:end]])
    assert_balanced(events)
    ends = [e for e in events if isinstance(e, Status) and e.status is not ResponseStatus.STARTED]
    assert ends == [events[-1]]
    failed = ends[0].status is ResponseStatus.FAILED
    assert failed is any(isinstance(event, Error) for event in events)
