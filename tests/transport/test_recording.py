"""A recorded answer in place of a connection."""

from __future__ import annotations

from pathlib import Path

import pytest
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, TruncatedError
from rxworker.operators import text_deltas
from rxworker.providers import Anthropic
from rxworker.testing import anthropic_frames, say
from rxworker.transport import Client, RecordingTransport, from_recording

BODY = b"".join(anthropic_frames(say("Hello")))


@pytest.mark.parametrize("chunk", [None, 1, 7])
def test_a_client_plays_a_recording_without_a_loop_a_key_or_a_network(tmp_path: Path, chunk: int | None) -> None:
    (tmp_path / "hello.sse").write_bytes(BODY)
    provider = Anthropic("a-model", api_key="none")
    client = Client(provider, transport=from_recording(tmp_path / "hello.sse", chunk=chunk))
    for _ in range(2):
        heard: list[str] = []
        client.stream("hi").pipe(text_deltas()).subscribe(heard.append)
        assert "".join(heard) == "Hello"


async def test_a_recording_that_ends_early_is_an_error() -> None:
    client = Client(Anthropic("a-model", api_key="k"), transport=RecordingTransport(BODY[:-60]))
    with pytest.raises(TruncatedError):
        await client.stream("hi").pipe(ops.to_list())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing\.sse: No such file"):
        from_recording(tmp_path / "nothing.sse")
