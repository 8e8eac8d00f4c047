"""What fits of an odd frame is read, and what does not is told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from rxworker.providers.malformed import read_loosely


class Inner(Struct):
    name: str | None = None
    number: int | None = None


class Outer(Struct, rename="camel"):
    one_inner: Inner | None = None
    inners: list[Inner] | None = None
    words: str | list[str] | None = None
    anything: Any = None


class Strict(Struct, forbid_unknown_fields=True):
    name: str = ""


# an object, what is read of it, what is left
ROWS: list[tuple[Any, Outer, Any]] = [
    ({}, Outer(), {}),
    ({"oneInner": {"name": "a", "number": "7"}}, Outer(Inner("a", 7)), {}),
    ({"oneInner": {"name": [1], "number": 7}}, Outer(Inner(None, 7)), {"oneInner": {"name": [1]}}),
    ({"oneInner": "a"}, Outer(), {"oneInner": "a"}),
    ({"one_inner": {"name": "a"}}, Outer(), {}),
    ({"inners": [None, {"name": "a"}]}, Outer(inners=[Inner("a")]), {}),
    ({"inners": [3, {"name": "a"}]}, Outer(inners=[Inner("a")]), {"inners": [3]}),
    (
        {"inners": [{"name": {}, "number": 1}, {"name": 5}]},
        Outer(inners=[Inner(None, 1), Inner()]),
        {"inners": [{"name": 5}]},
    ),
    ({"inners": {"name": "a"}}, Outer(), {"inners": {"name": "a"}}),
    ({"words": ["a", 3, "b"]}, Outer(words=["a", "b"]), {"words": [3]}),
    ({"words": {"a": 1}, "anything": [1]}, Outer(anything=[1]), {"words": {"a": 1}}),
    ({"unknown": 1, "words": "a"}, Outer(words="a"), {}),
]


@pytest.mark.parametrize(("raw", "taken", "left"), ROWS)
def test_a_struct_is_read_field_by_field(raw: Any, taken: Outer, left: Any) -> None:
    assert read_loosely(raw, Outer) == (taken, left)


def test_names_that_are_forbidden_are_reported() -> None:
    assert read_loosely({"name": "a", "mood": "good", "quiet": None}, Strict) == (Strict("a"), {"mood": "good"})
