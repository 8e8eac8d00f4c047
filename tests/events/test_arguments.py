"""The arguments of a tool call, from text or by path."""

from __future__ import annotations

import pytest

from rxworker.events import InputValueDelta
from rxworker.events.arguments import assemble_arguments, member_path, parse_arguments, parse_path
from rxworker.messages import Json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        ("null", {}),
        (" null\n", {}),
        ("nul", "nul"),
        ('"null"', '"null"'),
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1', '{"a": 1'),
        ("[1]", "[1]"),
        ("free text", "free text"),
        ('{"a": "\ud800"}', '{"a": "\ud800"}'),
        ("[" * 5000, "[" * 5000),
    ],
)
def test_text_is_an_object_or_stays_text(text: str, value: Json) -> None:
    assert parse_arguments(text) == value


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("$", ()),
        ("$.a", ("a",)),
        ("$.a.b[0].c", ("a", "b", 0, "c")),
        ("$[2][3]", (2, 3)),
        ("$['a b'][\"c\"]", ("a b", "c")),
        ("a.b", ("a", "b")),
        ("$['it\\'s'].a", ("it's", "a")),
        ('$["a\\"b"][0]', ('a"b', 0)),
        ('$["a]\'b.c"]', ("a]'b.c",)),
        ('$["a\\c"]', ("a\\c",)),
        ('$[""].a', ("", "a")),
        ("$.a[" + "9" * 18 + "]", ("a", int("9" * 18))),
        ("$.a[" + "9" * 5000 + "]", ("a", "9" * 5000)),  # more than Python reads as a number
    ],
)
def test_a_path_is_names_and_positions(path: str, segments: tuple[str | int, ...]) -> None:
    assert parse_path(path) == segments


@pytest.mark.parametrize("name", ["a", "", "it's", 'a"b', 'it\'s "it"', "a\\", "\\\"']", "[0]", "$.a", "é\n"])
def test_the_path_of_a_member_leads_to_it_whatever_its_name(name: str) -> None:
    assert parse_path(member_path(name)) == (name,)


def values(*deltas: tuple[str, Json]) -> list[InputValueDelta]:
    """One delta for each path and value; a path that ends in ``+`` appends."""
    return [InputValueDelta(0, path.removesuffix("+"), value, append=path.endswith("+")) for path, value in deltas]


def test_values_find_their_places() -> None:
    deltas = values(("$.a.b[0].c", 1), ("$.a.b[1].c", None), ("$.d", True), ("$.a.x", 2.5))
    assert assemble_arguments(deltas) == {"a": {"b": [{"c": 1}, {"c": None}], "x": 2.5}, "d": True}


def test_texts_append_also_when_others_come_between() -> None:
    deltas = values(("$.a", "he"), ("$.b+", "x"), ("$.a+", "l"), ("$.a+", "lo"))
    assert assemble_arguments(deltas) == {"a": "hello", "b": "x"}


def test_a_later_value_replaces_an_earlier_one() -> None:
    assert assemble_arguments(values(("$.a", "x"), ("$.a", 1))) == {"a": 1}
    assert assemble_arguments(values(("$.a", 1), ("$.a", "x"))) == {"a": "x"}


def test_a_far_position_costs_nothing() -> None:
    assert assemble_arguments(values(("$.a[999999999]", 1))) == {"a": [1]}


def test_the_root_may_come_whole() -> None:
    assert assemble_arguments(values(("$", {"a": 1}), ("$.b", 2))) == {"a": 1, "b": 2}


def test_what_is_not_an_object_means_no_arguments() -> None:
    assert assemble_arguments(values(("$[0]", 1))) == {}
    assert assemble_arguments([]) == {}


def test_a_very_deep_path_is_cut() -> None:
    assert assemble_arguments(values(("$" + ".a" * 5000, 1)))
