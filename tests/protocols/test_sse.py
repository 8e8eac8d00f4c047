from __future__ import annotations

import pytest

from rxworker.errors import RemoteProtocolError
from rxworker.events import Record, TextDelta
from rxworker.framing import SseDecoder
from rxworker.protocols import (
    PING_COMMENT,
    decode_record,
    end_frame,
    read_last_event_id,
    record_frame,
    retry_frame,
    sse_frame,
)


def read(data: bytes) -> list[tuple[str, bytes, str | None]]:
    """What the library's own reader makes of it."""
    decoder = SseDecoder()
    return [(frame.event, frame.data, frame.id) for frame in decoder.feed(data)]


def test_a_reader_finds_the_records_their_numbers_and_the_end() -> None:
    records = [Record(n, "r", 1, 1, 0.5, TextDelta(0, f"{n}\r\n\u2028")) for n in range(1, 4)]
    body = retry_frame(1000) + PING_COMMENT.join(map(record_frame, records)) + end_frame("aborted", "a\nb")
    frames = SseDecoder().feed(body)
    assert [decode_record(frame.data) for frame in frames[:-1]] == records
    assert [frame.id for frame in frames[:-1]] == ["1", "2", "3"]
    assert (frames[-1].event, frames[-1].data) == ("end", b'{"status":"aborted","reason":"a\\nb"}')


@pytest.mark.parametrize("data", [b"a\nb", b"a\r\nb", b"a\rb"])
def test_data_of_several_lines_stays_within_its_frame(data: bytes) -> None:
    assert read(sse_frame(data)) == [("message", b"a\nb", None)]
    assert sse_frame(data).count(b"\n\n") == 1


@pytest.mark.parametrize("text", [None, ""])
def test_who_has_nothing_yet_begins_at_the_start(text: str | None) -> None:
    assert read_last_event_id(text) == 0


@pytest.mark.parametrize("text", ["-1", "x", "1.0", " 1", "1\n", "\u0661", "9" * 16, "0x1", "+1"])
def test_what_is_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        read_last_event_id(text)
