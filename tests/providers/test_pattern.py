"""Patterns of frames that are alike: they take a row up to its end, however long it is, and nothing behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rxworker.providers.pattern import FEW, FIRST_WINDOW, WINDOW, Constant, Pattern, Varying

Make: TypeAlias = Callable[[bytes, int], bytes]

END = b"\n\n"
BEFORE, BEHIND = b'data: {"i":0,"100%":"', b'"}' + END
PARTS = (b'data: {"n":', b',"text":"', b'","100%":', b"}" + END)

BAD = [b"", b'"', b"\\", b"\\x", b"a\nb", b"\x01", b"\xff", b'a","b', b"\\ud83d"]
"""What no text is in JSON."""


def constant(text: bytes, _: int) -> bytes:
    return BEFORE + text + BEHIND


def varying(text: bytes, n: int) -> bytes:
    first, second, third, last = PARTS
    return first + b"%d" % n + second + text + third + b'"%s"' % (b"x" * (n % 7)) + last


KINDS = [
    pytest.param(constant, Constant(BEFORE, BEHIND, END), id="constant"),
    pytest.param(varying, Varying(PARTS, 1), id="varying"),
]

texts = st.lists(
    st.sampled_from([b"a", b" the", b"\\n", b'\\"', "日本".encode(), b"\\u00e9", b"%", b"x" * 300]),
    max_size=60,
)


def written(text: bytes) -> str:
    return str(json.loads(b'"' + text + b'"'))


@pytest.mark.parametrize(("make", "pattern"), KINDS)
@given(row=texts, tail=st.sampled_from([b"", b"data: {}\n\n", b'data: {"i":0,"100%":"', b"x" * 99]))
@example(row=[b"a"] * FEW, tail=b"")
@example(row=[b"a"] * (FEW + 1), tail=b"data: {}\n\n")
def test_a_row_is_taken_up_to_its_end(
    make: Make, pattern: Pattern, row: Sequence[bytes], tail: bytes
) -> None:
    whole = b"".join(make(text, n) for n, text in enumerate(row))
    assert pattern.take(b"::" + whole + tail, 2) == (
        [written(text) for text in row],
        2 + len(whole),
    )


@pytest.mark.parametrize(("make", "pattern"), KINDS)
@settings(deadline=None)
@given(before=texts, bad=st.sampled_from(BAD), behind=texts)
def test_a_row_ends_before_what_is_no_text(
    make: Make, pattern: Pattern, before: Sequence[bytes], bad: bytes, behind: Sequence[bytes]
) -> None:
    start = b"".join(make(text, n) for n, text in enumerate(before))
    rest = b"".join(make(text, n) for n, text in enumerate([bad, *behind]))
    assert pattern.take(start + rest, 0) == ([written(text) for text in before], len(start))


@pytest.mark.parametrize(("make", "pattern"), KINDS)
def test_a_long_row_is_taken_in_parts(make: Make, pattern: Pattern) -> None:
    data = b"".join(make(b"word %d " % n, n) for n in range(10_000))
    read: list[str] = []
    place = takes = 0
    while place < len(data):
        some, place = pattern.take(data, place)
        read += some
        takes += 1
    assert read == [f"word {n} " for n in range(10_000)]
    assert takes < len(data) / WINDOW + 2


@pytest.mark.parametrize(("make", "pattern"), KINDS)
def test_a_text_may_be_longer_than_a_window(make: Make, pattern: Pattern) -> None:
    long = b"long " * FIRST_WINDOW
    data = make(b"a", 1) + make(long, 2) + make(b"b", 3)
    read, end = pattern.take(data, 0)
    while end < len(data):
        more, end = pattern.take(data, end)
        assert more
        read += more
    assert read == ["a", long.decode(), "b"]


@pytest.mark.parametrize(("make", "pattern"), KINDS)
def test_half_a_frame_is_left(make: Make, pattern: Pattern) -> None:
    whole = make(b"a", 1) * 30
    for cut in range(len(make(b"b", 2))):
        assert pattern.take(whole + make(b"b", 2)[:cut], 0) == (["a"] * 30, len(whole))


@pytest.mark.parametrize(("make", "pattern"), KINDS)
def test_a_frame_by_itself_is_known(make: Make, pattern: Pattern) -> None:
    one = make(b"a \\n", 1)
    assert pattern.only(one) == "a \n"
    for other in (b"", one[:-1], one + b"x", one * 2, one * 30, b"x" + one):
        assert pattern.only(other) is None
    for bad in BAD:
        assert pattern.only(make(bad, 1)) is None
