"""Lines are the same however the bytes are cut."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

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
