"""Frames are the same however the bytes are cut."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxworker.errors import RemoteProtocolError
from rxworker.framing import SseDecoder
from rxworker.framing.sse import SseFrame, SseRun, _event_of, _name_of, datas_of, has_event

CASES = Path(__file__).parents[3] / "shared" / "recordings" / "framing_cases.json"

# name, bytes, (event, data) of each frame
TABLE: list[tuple[str, bytes, list[tuple[str, str]]]] = [
    ("lf", b"event: a\ndata: 1\n\ndata: 2\n\n", [("a", "1"), ("message", "2")]),
    ("split crlf", b"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", [("a", "1"), ("message", "2")]),
    ("lone cr", b"data: 1\r\rdata: 2\r\r", [("message", "1"), ("message", "2")]),
    ("cr then lf line", b"data: 1\r\n\ndata: 2\n\r\n", [("message", "1"), ("message", "2")]),
    ("bom", b"\xef\xbb\xbfdata: 1\n\n", [("message", "1")]),
    ("second bom is a field", b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n", [("message", "2")]),
    ("comments", b": hello\n\n: again\ndata: 1\n: end\n\n", [("message", "1")]),
    ("id and blank lines", b"id: 7\n\n\n\ndata: 1\n\n", [("message", "1")]),
    ("many data lines", b"data: {\ndata: }\n\n", [("message", "{\n}")]),
    ("utf-8", "data: 日本語 🦩\n\n".encode(), [("message", "日本語 🦩")]),
    ("line separators", "data: a\u2028b\u0085c\x0bd\n\n".encode(), [("message", "a\u2028b\u0085c\x0bd")]),
    ("event without data", b"event: x\n\ndata: 1\n\n", [("message", "1")]),
    ("data within a name", b"event: data: x\ndata: 1\n\n", [("data: x", "1")]),
    ("data within a line", b"event:a data: x\ndata: 1\n\n", [("a data: x", "1")]),
    ("data within data", b"event: a\ndata:{data: 1}\n\n", [("a", "{data: 1}")]),
    ("half a character in a name", b"event: \xe6\ndata: 1\n\n", [("\ufffd", "1")]),
    ("comment before", b": a\nevent: b\ndata: 1\n\n", [("b", "1")]),
    ("empty event name", b"event:\ndata: 1\n\n", [("message", "1")]),
    ("empty event name behind a space", b"event: \ndata: 1\n\n", [("message", "1")]),
    ("long event name", b"data: 1\n\nevent: " + b"n" * 65 + b"\ndata: 2\n\n", [("message", "1"), ("n" * 65, "2")]),
    ("empty data", b"data\n\ndata:\n\n", [("message", ""), ("message", "")]),
    ("one space", b"data:1\n\ndata:  2\n\n", [("message", "1"), ("message", " 2")]),
    ("cut inside the last frame", b"data: 1\n\nevent: b\ndata: 2", [("message", "1"), ("b", "2")]),
    ("cut inside a field name", b"data: 1\n\ndat", [("message", "1")]),
    ("nothing", b"", []),
]


def decode(chunks: list[bytes], stray: bool = False) -> list[SseFrame]:
    decoder = SseDecoder(stray)
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.finish()


def single(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def shown(frames: Sequence[SseFrame]) -> list[tuple[str, str]]:
    return [(frame.event, frame.data.decode()) for frame in frames]


@pytest.mark.parametrize(("name", "data", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_each_case_gives_its_frames_whole_byte_by_byte_and_cut_in_two(
    name: str, data: bytes, expected: list[tuple[str, str]]
) -> None:
    assert shown(decode([data])) == expected, name
    assert shown(decode(single(data))) == expected, name
    for cut in range(len(data) + 1):
        assert shown(decode([data[:cut], b"", data[cut:]])) == expected, (name, cut)


@pytest.mark.parametrize(("name", "data", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_trailing_data_gives_one_frame_more(name: str, data: bytes, expected: list[tuple[str, str]]) -> None:
    if data and not data.endswith((b"\n", b"\r")):
        return
    assert shown(decode([data + b"data: end\n\n"])) == [*expected, ("message", "end")], name


@given(st.lists(st.sampled_from(TABLE), max_size=6), st.data())
@settings(deadline=None)
def test_cases_in_a_row_give_the_same_frames_under_every_cut(
    rows: list[tuple[str, bytes, list[tuple[str, str]]]], data: st.DataObject
) -> None:
    whole = b"".join(row[1] for row in rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    for stray in (False, True):
        assert decode(chunks, stray) == decode(single(whole), stray) == decode([whole], stray)


@pytest.mark.skipif(not CASES.exists(), reason="the recordings are not beside the repository")
def test_the_shared_cases_pass_under_every_cut() -> None:
    cases: list[dict[str, Any]] = json.loads(CASES.read_text())
    for case in cases:
        data = base64.b64decode(case["raw_b64"])
        expected = [(frame["event"], frame["data"]) for frame in case["expected"]]
        for cut in range(len(data) + 1):
            assert shown(decode([data[:cut], data[cut:]])) == expected, (case["name"], cut)
        assert shown(decode(single(data))) == expected, case["name"]


def test_a_frame_is_delivered_at_the_cr_without_waiting_for_its_lf() -> None:
    decoder = SseDecoder()
    assert shown(decoder.feed(b"data: 1\r\n\r")) == [("message", "1")]
    assert decoder.feed(b"\ndata: 2\r\n") == []


def test_the_id_stays_and_the_retry_goes_with_one_frame() -> None:
    frames = decode([b"id: 7\nretry: 100\nretry: x\ndata: 1\n\ndata: 2\n\nid: a\0b\ndata: 3\n\n"])
    assert [(f.id, f.retry) for f in frames] == [("7", 100), ("7", None), ("7", None)]


def test_stray_lines_are_dropped_unless_they_are_requested() -> None:
    data = b'data: 1\n\nerror: {"a": 1}\n\n{\n  "error": {}\n}\n\nfoo: 1\ndata: 2\n\n'
    assert shown(decode([data])) == [("message", "1"), ("message", "2")]
    expected = [
        ("message", "1"),
        ("stray", 'error: {"a": 1}'),
        ("stray", '{\n  "error": {}\n}'),
        ("message", "2"),
        ("stray", "foo: 1"),
    ]
    assert shown(decode([data], stray=True)) == expected
    assert shown(decode(single(data), stray=True)) == expected


def test_stray_lines_at_the_end_are_delivered_by_finish() -> None:
    assert shown(decode([b'{\n  "error": 1\n}'], stray=True)) == [("stray", '{\n  "error": 1\n}')]


def test_a_large_frame_byte_by_byte_is_kept_in_pieces() -> None:
    """Were it joined each time, this would copy 31 GB."""
    data = b"data: " + b"x" * 250_000 + b"\n\n"
    frames = decode(single(data))
    assert [len(frame.data) for frame in frames] == [250_000]


def test_a_frame_of_very_many_data_lines_is_joined_once() -> None:
    frames = decode([b"data: x\n"] * 100_000 + [b"\n"])
    assert [len(frame.data) for frame in frames] == [199_999]


def test_very_many_comments_between_frames_do_no_harm() -> None:
    frames = decode([b": wait\n\ndata: 1\n\n" * 50_000])
    assert len(frames) == 50_000


def test_a_long_line_that_looks_like_many_fields_is_read_once() -> None:
    """It would take hours if each of them were looked at up to the end of the line."""
    line = b"data: " * 200_000
    decoder = SseDecoder()
    assert len(decoder.feed(b"data: 1\n\n" + line)) == 1
    [frame] = decoder.feed(b"\n\n")
    assert len(frame.data) == len(line) - len(b"data: ")


def test_the_names_of_a_hostile_server_are_not_all_remembered() -> None:
    decoder = SseDecoder()
    for number in range(1_000):
        decoder.feed(f"event: {number}\ndata: 1\n\n".encode())
        decoder.feed(f"event: {number}\ndata: 1\n\n".encode() * 2)
    assert _event_of.cache_info().currsize <= 64
    assert _name_of.cache_info().currsize <= 64


def test_frames_that_came_together_are_those_that_come_one_by_one() -> None:
    pieces = [b"event: a\ndata: 1\n\n", b"data: 2\n\n", b"event: error\ndata: 3\n\n"]
    one_by_one = [frame for piece in pieces for frame in SseDecoder().feed(piece)]
    together = SseDecoder().feed_run(b"".join(pieces))
    assert isinstance(together, SseRun)
    assert [*together] == [together[0], *together[1:]] == one_by_one
    assert SseDecoder().feed(b"".join(pieces)) == one_by_one
    assert datas_of(together) == datas_of(one_by_one) == [b"1", b"2", b"3"]
    assert has_event(together, "error")
    assert has_event(one_by_one, "error")
    assert not has_event(together, "b")
    assert not has_event(one_by_one, "b")


@pytest.mark.parametrize("data", [b"data: 1\r\r\n\r\ndata: 2\r\n\r\n", b"event: a\r\ndata: 1\r\n\r\ndata: 2\n\n"])
def test_line_ends_of_several_sorts_in_one_read_mean_what_they_mean_apart(data: bytes) -> None:
    apart = SseDecoder()
    assert SseDecoder().feed(data) == [frame for byte in data for frame in apart.feed(bytes((byte,)))]


def test_names_are_known_however_much_white_space_there_is() -> None:
    pieces = [b"data: 1\n\n", b"event:b\ndata:2\n\n", *[b"data:3\n\n"] * 8]
    together = SseDecoder().feed_run(b"".join(pieces))
    assert isinstance(together, SseRun)
    assert [frame.event for frame in together] == ["message", "b", *["message"] * 8]
    assert has_event(together, "b")
    assert not has_event(SseDecoder().feed_run(pieces[0] * 3), "b")


def test_a_read_that_ends_in_a_frame_gives_those_before_and_those_behind_together() -> None:
    frame = b"event: a\ndata: 1\n\n"
    for cut in range(1, len(frame)):
        if frame[:cut].endswith(b"\n"):
            continue  # whole lines are read at once
        decoder = SseDecoder()
        for data in (frame * 3 + frame[:cut], frame[cut:] + frame * 3):
            read = decoder.feed_run(data)
            assert isinstance(read, SseRun)
            assert [one.event for one in read] == ["a"] * (3 if data.startswith(frame) else 4)


@pytest.mark.parametrize("end", [b"\n\n", b"\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b""])
def test_what_has_begun_is_read_when_its_end_comes_in_whatever_way(end: bytes) -> None:
    begun = [b"data: 0\n\n: wait\nid: 7\nevent: b", b"", b"\ndata: 1", b"\nretry: 5\n", b"data: 2"]
    rest = [end, b"data: 3\n\n"]
    frames = decode([*begun, *rest])
    assert frames == decode(single(b"".join([*begun, *rest])))
    assert frames[1].retry == 5


def test_a_delay_that_no_frame_has_reported_yet_waits_for_the_next() -> None:
    frames = decode([b"data: 1\n\nretry: 5\n\ndata:", b" 2\n\ndata: 3\n\n"])
    assert [(frame.data, frame.retry) for frame in frames] == [(b"1", None), (b"2", 5), (b"3", None)]


def test_comments_without_an_empty_line_are_not_kept() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\n\nda") == [SseFrame(b"1")]
    decoder.feed(b"ta: 2\n\n")
    tracemalloc.start()
    try:
        for _ in range(20_000):
            assert decoder.feed(b": still here, and nothing to say yet\n") == []
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20_000
    assert decoder.feed(b"data: 3\n\n") == [SseFrame(b"3")]


def limited(chunks: list[bytes], limit: int | None) -> tuple[list[SseFrame], bool]:
    """The frames, and whether one was too large."""
    decoder = SseDecoder(stray=True, limit=limit)
    frames: list[SseFrame] = []
    try:
        for chunk in chunks:
            frames += decoder.feed(chunk)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            decoder.feed(b"data: late\n\n")
        return frames + decoder.finish(), True
    return frames + decoder.finish(), False


LIMITED = [
    *[row[1] for row in TABLE],
    b"data: 1\n\n: a long comment\ndata: 22\n\nretry: 5\n\n: silence\n\n: silence\n\ndata: 333\n\n",
    b"stray\nlines\nof some length\n\ndata: 1\n\n",
    b"event: a\ndata: 1\n: a comment within\n: and another\ndata: 2\n\ndata: 3\n\ndata: 4",
    b"event: a\r\ndata: 1\r\n: a comment\r\ndata: 2\r\n\r\n: c\r\n\r\n: c\r\n\r\ndata: 3\r\n\r\n",
]


@pytest.mark.parametrize("data", LIMITED)
def test_a_limit_means_the_same_under_every_cut(data: bytes) -> None:
    for limit in {*range(4, len(data), 1 + len(data) // 10), len(data) - 1, len(data)} - {-1, 0}:
        whole = limited([data], limit)
        assert limited(single(data), limit) == whole, limit
        for cut in range(1, len(data)):
            assert limited([data[:cut], data[cut:]], limit) == whole, (limit, cut)


@pytest.mark.parametrize("data", LIMITED)
def test_what_is_not_larger_than_the_limit_is_as_without_one(data: bytes) -> None:
    assert limited([data], len(data)) == limited([data], None)
    assert not limited([data], len(data))[1]


@pytest.mark.parametrize(
    "data",
    [
        b"data: 12345678901234567890\n\n",
        b"data: 1234567890\ndata: 1234567890\n\n",
        b": a comment that never seems to end\n\n",
        b"a stray line of this length\n\n",
        b"event: 12345678901234567890\n\n",
    ],
)
@pytest.mark.parametrize("ends", [True, False])
def test_a_line_or_frame_above_the_limit_is_refused_and_those_before_it_are_kept(data: bytes, ends: bool) -> None:
    frames, refused = limited([b"data: 1\n\n" + (data if ends else data.strip())], 20)
    assert refused or not ends
    assert frames == [SseFrame(b"1")]


def test_an_endless_line_holds_no_more_than_the_limit() -> None:
    decoder = SseDecoder(limit=1000)
    assert [decoder.feed(b"x" * 100) for _ in range(10)] == [[]] * 10
    with pytest.raises(RemoteProtocolError, match="more than 1000 bytes"):
        decoder.feed(b"x")


def test_the_usual_limit_is_far_above_a_picture() -> None:
    assert SseDecoder().limit == 64 * 1024 * 1024


@pytest.mark.parametrize("line", [b": PROCESSING\n\n", b": PROCESSING\r\n\r\n", b": x\n", b"\n"])
@pytest.mark.parametrize("before", [b"", b"retry: 5\n\n", b"data: 1\n"])
def test_comments_cost_little_and_change_nothing(line: bytes, before: bytes) -> None:
    decoder = SseDecoder()
    flood = line * 1000
    decoder.feed(before + line + flood)
    taken: list[bytes] = []

    def take(line: bytes, frames: list[SseFrame]) -> None:
        taken.append(line)
        plain(line, frames)

    plain = decoder._take_line
    decoder._take_line = take
    assert [decoder.feed(flood) for _ in range(10)] == [[]] * 10
    assert len(taken) < 100
    assert [frame.data for frame in decoder.feed(b"\n\ndata: 2\n\n")][-1:] == [b"2"]
