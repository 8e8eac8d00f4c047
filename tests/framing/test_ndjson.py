"""Lines are the same however the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.errors import RemoteProtocolError
from rxworker.framing import NdjsonDecoder

WHOLE = '{"a": "é"}\r\n\n  \n{"b": "日本"}\n{"c": 1}'.encode()
LINES = ['{"a": "é"}'.encode(), '{"b": "日本"}'.encode(), b'{"c": 1}']


def decode(chunks: list[bytes]) -> list[bytes]:
    decoder = NdjsonDecoder()
    return [line for chunk in chunks for line in decoder.feed(chunk)] + decoder.finish()


def test_lines_come_whole_and_byte_by_byte() -> None:
    assert decode([WHOLE]) == LINES
    assert decode([WHOLE[i : i + 1] for i in range(len(WHOLE))]) == LINES


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6))
def test_lines_are_the_same_under_every_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]
    assert decode([WHOLE[a:b] for a, b in itertools.pairwise(edges)]) == LINES


def test_a_line_without_its_end_comes_with_finish() -> None:
    decoder = NdjsonDecoder()
    assert decoder.feed(b'{"a": 1}') == []
    assert decoder.finish() == [b'{"a": 1}']
    assert decoder.finish() == []


def test_a_large_line_byte_by_byte_is_kept_in_pieces() -> None:
    assert [len(line) for line in decode([b"x"] * 250_000 + [b"\n"])] == [250_000]


def limited(chunks: list[bytes], limit: int) -> tuple[list[bytes], bool]:
    """The lines, and whether one was too large."""
    decoder = NdjsonDecoder(limit)
    lines: list[bytes] = []
    try:
        for chunk in chunks:
            lines += decoder.feed(chunk)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            decoder.feed(b"1\n")
        return lines + decoder.finish(), True
    return lines + decoder.finish(), False


@pytest.mark.parametrize("data", [WHOLE, b'1\n{"a": "a long line"}\n2\n', b"1\n" + b"x" * 20])
def test_a_limit_means_the_same_under_every_cut(data: bytes) -> None:
    longest = max(len(line) for line in data.split(b"\n"))
    for limit in range(1, len(data) + 1):
        whole = limited([data], limit)
        assert whole[1] is (limit < longest)
        assert limited([data[i : i + 1] for i in range(len(data))], limit) == whole
        for cut in range(1, len(data)):
            assert limited([data[:cut], data[cut:]], limit) == whole, (limit, cut)


def test_an_endless_line_holds_no_more_than_the_limit() -> None:
    decoder = NdjsonDecoder(1000)
    assert [decoder.feed(b"x" * 100) for _ in range(10)] == [[]] * 10
    with pytest.raises(RemoteProtocolError, match="more than 1000 bytes"):
        decoder.feed(b"x")
