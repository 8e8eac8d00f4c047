from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.messages.json_reader import JsonReader

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats(-1e6, 1e6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans(), st.data())
def test_however_the_text_is_cut_the_value_is_the_same(value: object, ascii_only: bool, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=data.draw(st.sampled_from([None, 1])))
    reader = JsonReader()
    place = 0
    while place < len(text):
        size = data.draw(st.integers(1, 5))
        reader.feed(text[place : place + size])
        place += size
        assert not reader.is_broken
    reader.finish()
    assert reader.is_complete
    assert reader.value == value


@given(VALUES, st.integers(0, 200))
def test_a_cut_text_is_a_part_of_the_value_and_never_broken(value: object, end: int) -> None:
    reader = JsonReader()
    for character in json.dumps(value)[:end]:
        reader.feed(character)
    assert not reader.is_broken


@pytest.mark.parametrize(
    "text",
    ['{"a" 1}', "[1 2]", '{"a": }', "[,1]", "}", '{"a": 1]', "nul ", '{"a": 1, }', "[1,]", "{1: 2}", "1 2", '"a" "b"'],
)
def test_text_that_is_not_json_is_reported_and_raises_nothing(text: str) -> None:
    reader = JsonReader()
    reader.feed(text)
    reader.finish()
    assert reader.is_broken


def test_an_open_string_is_shown_as_it_grows() -> None:
    reader = JsonReader()
    shown: list[object] = []
    for piece in ('{"text": "H', "ell", "o \\", "n wor", "ld \\u00", 'e9"', "}"):
        if reader.feed(piece):
            shown.append(json.loads(json.dumps(reader.value)))
    assert shown[0] == {"text": "H"}
    assert {"text": "Hello \n wor"} in shown
    assert shown[-1] == {"text": "Hello \n world é"}


def test_half_a_surrogate_pair_is_not_shown() -> None:
    reader = JsonReader()
    for piece in ('["a', "\\ud83d", "\\ude00", "b", '"]'):
        reader.feed(piece)
        json.dumps(reader.value).encode()
    assert reader.value == ["a😀b"]


def test_a_long_string_is_joined_only_as_often_as_its_length_grows_by_an_eighth() -> None:
    def changes(length: int) -> int:
        reader = JsonReader()
        reader.feed('{"t": "')
        return sum(reader.feed("x") for _ in range(length))

    assert changes(20_000) < 120
    assert changes(20_000) - changes(10_000) < 10
