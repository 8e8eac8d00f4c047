"""Recordings that were changed: nothing that is whole is lost, and whatever comes keeps the protocol."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rxworker.errors import RemoteProtocolError
from rxworker.events import ResponseEvent
from rxworker.framing.decoder import Limited
from rxworker.messages import StopKind
from rxworker.providers import PROVIDERS
from rxworker.testing import check_balanced
from rxworker.views import Summary, summarise
from tests.decoded import decoded
from tests.mutate import mixed, odd
from tests.over_recordings import provider_of

REASON = re.compile(
    rb'("(?:finish_reason|finishReason|stop_reason|done_reason)": ?)"(?:tool_calls|tool_use|STOP|stop)"'
)


def changed(data: bytes, change: Callable[[Any], Any]) -> bytes:
    """The stream with the JSON of each frame or line changed, one value a line as it was."""
    lines: list[bytes] = []
    for line in data.splitlines(keepends=True):
        text = line.strip()
        head = b"data: " if text.startswith(b"data:") else b""
        try:
            value = json.loads(text.removeprefix(b"data:"))
        except ValueError:
            lines.append(line)
            continue
        end = line[len(line.rstrip(b"\r\n")) :]
        lines.append(head + json.dumps(change(value)).encode() + end)
    return b"".join(lines)


def said(summary: Summary) -> tuple[object, ...]:
    calls = [(c.id, c.name, c.input, c.aborted) for c in summary.tool_calls]
    error = summary.error.code if summary.error else None
    return summary.text, summary.thinking, calls, summary.stop_reason, summary.truncated, error


@pytest.mark.product(3)
def test_another_order_and_what_is_new_change_nothing(recording: Path) -> None:
    data = recording.read_bytes()
    expected = said(summarise(decoded(provider_of(recording), data)))
    for seed in range(3):
        chance = random.Random(seed)
        mutant = changed(data, lambda value: mixed(chance, value))  # noqa: B023 - used at once
        assert said(summarise(decoded(provider_of(recording), mutant))) == expected


@pytest.mark.product(3)
def test_whatever_is_odd_keeps_the_protocol(recording: Path) -> None:
    data = recording.read_bytes()
    for seed in range(5):
        chance = random.Random(seed)
        mutant = changed(data, lambda value: odd(chance, value))  # noqa: B023 - used at once
        decoded(provider_of(recording), mutant)  # which looks at it


@pytest.mark.product(3)
def test_whole_calls_run_also_under_an_unknown_reason(recording: Path) -> None:
    data = recording.read_bytes()
    before = summarise(decoded(provider_of(recording), data))
    if before.stop_reason is None or before.stop_reason.kind is not StopKind.TOOL_USE:
        return
    after = summarise(decoded(provider_of(recording), REASON.sub(rb'\1"brand_new"', data)))
    assert after.tool_calls == before.tool_calls
    assert after.stop_reason is not None
    assert after.stop_reason.kind is StopKind.TOOL_USE


def limited(path: Path, chunks: list[bytes], limit: int) -> tuple[list[ResponseEvent], bool]:
    """The events, and whether a frame was too large."""
    decoder = PROVIDERS[provider_of(path)]("m").decoder()
    assert isinstance(decoder, Limited)
    decoder.limit = limit
    events: list[ResponseEvent] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
    except RemoteProtocolError:
        return [*events, *decoder.finish()], True
    return [*events, *decoder.finish()], False


@pytest.mark.product(3)
def test_a_limit_means_the_same_for_the_whole_decoder_under_every_cut(recording: Path) -> None:
    data = recording.read_bytes()
    longest = max(map(len, data.splitlines()))
    limit = longest - 1
    whole, refused = limited(recording, [data], limit)
    check_balanced(whole)
    assert refused
    for size in (100, limit):
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        events, refused = limited(recording, chunks, limit)
        assert said(summarise(events)) == said(summarise(whole))
        assert refused
