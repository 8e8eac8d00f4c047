"""The shared state: what each operation does to it, and which places there are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.errors import LocalProtocolError
from rxworker.events import Record, SharedStateChange
from rxworker.messages import Json
from rxworker.state import RunState, apply_change, fold_run
from rxworker.state.shared_state import MAX_SHARED_STATE, change_to, checked_json

STATE: dict[str, Any] = {"a": {"b": [1, 2]}, "c/d~": None, "": 0}


@pytest.mark.parametrize(
    ("path", "op", "after"),
    [
        ("", "replace", "x"),
        ("/a", "replace", {**STATE, "a": "x"}),
        ("/new", "add", {**STATE, "new": "x"}),
        ("/a/b/0", "replace", {**STATE, "a": {"b": ["x", 2]}}),
        ("/a/b/2", "add", {**STATE, "a": {"b": [1, 2, "x"]}}),
        ("/a/b/-", "add", {**STATE, "a": {"b": [1, 2, "x"]}}),
        ("/c~1d~0", "replace", {**STATE, "c/d~": "x"}),
        ("/", "replace", {**STATE, "": "x"}),
        ("/c~1d~0/e", "add", {**STATE, "c/d~": {"e": "x"}}),
    ],
)
def test_a_place_is_set_and_the_state_before_stays(path: str, op: Any, after: Any) -> None:
    state = checked_json(STATE)
    made, change = change_to(state, path, "x")
    assert (made, change) == (after, SharedStateChange(op, path, "x"))
    assert state == STATE
    assert apply_change(state, change) == after


@pytest.mark.parametrize("path", ["/x/y", "/a/b/3", "/a/b/-1", "/a/b/01", "/a/b/x", "/a/b/-/z", "a"])
def test_a_place_that_is_not_there_is_an_error_and_in_a_fold_no_change(path: str) -> None:
    with pytest.raises(LocalProtocolError, match="has no place"):
        change_to(checked_json(STATE), path, "x")
    assert apply_change(STATE, SharedStateChange("add", path, "x")) == STATE


@pytest.mark.parametrize("path", ["/nothing", "/a/b/2", "/a/b/-"])
def test_only_what_is_there_is_removed(path: str) -> None:
    with pytest.raises(LocalProtocolError, match="has no place"):
        change_to(checked_json(STATE), path, None, removes=True)
    assert change_to(STATE, "/a/b/0", None, removes=True)[0] == {**STATE, "a": {"b": [2]}}
    assert change_to(STATE, "/a", None, removes=True)[0] == {"c/d~": None, "": 0}


@pytest.mark.parametrize("value", [object(), {1: {2}, "x": float}, "x" * MAX_SHARED_STATE, "\ud800"])
def test_what_has_no_json_form_or_is_too_long_is_refused(value: object) -> None:
    with pytest.raises(LocalProtocolError, match="share"):
        checked_json(value)


keys = st.sampled_from(["", "/a", "/a/0", "/a/-", "/b", "/b/c", "/b/c/1"])
values = st.recursive(
    st.none() | st.integers(0, 3),
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.sampled_from("abc"), v, max_size=2),
)


@given(st.lists(st.tuples(keys, values, st.booleans())))
def test_the_records_fold_to_the_state_that_was_set(steps: list[tuple[str, Any, bool]]) -> None:
    state: Any = None
    records: list[Record] = []
    for path, value, removes in steps:
        try:
            state, change = change_to(state, path, value, removes=removes)
        except LocalProtocolError:
            continue
        records.append(Record(len(records) + 1, "r", 1, 1, 0.0, change))
    assert fold_run(records, RunState()).shared_state == state


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    value: Json = 1
    for _ in range(100):
        value = [value]
    assert checked_json(value) == value
    with pytest.raises(LocalProtocolError, match="within one another"):
        checked_json({"a": value})
