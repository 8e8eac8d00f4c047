from __future__ import annotations

import msgspec
import pytest

from rxworker.tools import ToolContext


class Place(msgspec.Struct):
    city: str


def test_progress_is_json() -> None:
    heard: list[object] = []
    context = ToolContext(report=heard.append)
    context.progress(Place("Oslo"))
    context.progress({1: (2, 3)})
    assert heard == [{"city": "Oslo"}, {"1": [2, 3]}]


def test_a_context_without_watchers_takes_progress() -> None:
    ToolContext().progress("half")


def test_progress_after_the_end_is_not_emitted() -> None:
    heard: list[object] = []
    context = ToolContext(report=heard.append)
    assert not context.cancelled
    context.close()
    context.progress("late")
    assert context.cancelled
    assert heard == []


def test_progress_without_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="progress of type object has no JSON form"):
        ToolContext(report=print).progress(object())


def test_the_idempotency_key_is_the_calls_id_unless_it_is_given() -> None:
    assert ToolContext("call_1").idempotency_key == "call_1"
    assert ToolContext("call_1", idempotency_key="run/call_1").idempotency_key == "run/call_1"
