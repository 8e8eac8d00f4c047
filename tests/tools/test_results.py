from __future__ import annotations

import dataclasses

import msgspec
import pytest

from rxworker.errors import ExecutionFailedError
from rxworker.messages import Document, Image, ResultContent, Text
from rxworker.tools import to_content

PICTURE = Image(url="https://example.org/a.png")
PAPER = Document(url="https://example.org/a.pdf")


class Place(msgspec.Struct):
    city: str


@dataclasses.dataclass
class Day:
    number: int


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        (None, ""),
        (0, "0"),
        (False, "false"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Place("Oslo"), '{"city":"Oslo"}'),
        ([Day(1)], '[{"number":1}]'),
        ([], "[]"),
        (["a", "b"], '["a","b"]'),
        (PICTURE, (PICTURE,)),
        (Text("a"), (Text("a"),)),
        ([PICTURE, PAPER], (PICTURE, PAPER)),
        ((PICTURE,), (PICTURE,)),
        (["see", PICTURE], (Text("see"), PICTURE)),
    ],
)
def test_results_become_content(value: object, content: ResultContent) -> None:
    assert to_content(value, "go") == content


def test_content_stays_as_it_is() -> None:
    content = to_content(["see", PICTURE], "go")
    assert to_content(content, "go") == content


def circle() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    ("value", "kind"),
    [(object(), "object"), ({1: object()}, "dict"), ([complex(1)], "list"), (circle(), "list")],
)
def test_a_value_without_json_form_is_named_by_its_type(value: object, kind: str) -> None:
    with pytest.raises(
        ExecutionFailedError, match=f"returned a {kind}, which has no JSON form"
    ) as caught:
        to_content(value, "go")
    assert caught.value.tool == "go"
    assert caught.value.__cause__ is not None
