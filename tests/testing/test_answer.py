from pathlib import Path

import pytest

from rxworker.testing import ServedResponse
from rxworker.testing.server import split_frames


@pytest.mark.parametrize(
    ("data", "lines", "count"),
    [
        (b"", False, 0),
        (b"data: 1\n\ndata: 2\n\n", False, 2),
        (b"data: 1\r\n\r\ndata: 2", False, 2),
        (b'{"a":1}\n{"b":2}\n', True, 2),
    ],
)
def test_frames_joined_are_the_recording(data: bytes, lines: bool, count: int) -> None:
    frames = split_frames(data, lines=lines)

    assert b"".join(frames) == data
    assert len(frames) == count


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.sse", "text/event-stream; charset=utf-8"),
        ("a.ndjson", "application/x-ndjson"),
        ("a.json", "application/json"),
        ("a.bin", "application/octet-stream"),
    ],
)
def test_a_recordings_ending_states_what_it_is(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"data: 1\n\n")

    answer = ServedResponse.from_recording(tmp_path / name, pace=0.5)

    assert answer.headers == {"content-type": kind}
    assert answer.pace == 0.5
