from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.errors import ConfigurationError
from rxworker.hooks import Hook, Hooks
from rxworker.hooks.base import AnyHook


def hook(name: str, **settings: Any) -> AnyHook:
    return Hook(print, "before_tool_call", name=name, **settings)


def order(*hooks: AnyHook) -> str:
    return "".join(hook.name for hook in Hooks(hooks).at("before_tool_call"))


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        ([hook("a"), hook("b"), hook("c")], "abc"),
        ([hook("a"), hook("b", priority=1), hook("c", priority=2)], "cba"),
        ([hook("a", priority=-1), hook("b"), hook("c")], "bca"),
        ([hook("a"), hook("b"), hook("c", before="a")], "bca"),
        ([hook("a", after="c"), hook("b"), hook("c")], "bca"),
        ([hook("a", after=["b", "c"]), hook("b", after="c"), hook("c")], "cba"),
        # a constraint is kept also against a priority
        ([hook("a", priority=9, after="b"), hook("b"), hook("c", priority=1)], "cba"),
        # names that nobody has constrain nothing
        ([hook("a", after="x"), hook("b", before=["y"])], "ab"),
        # of several with one name, all
        ([hook("a", after="b"), hook("b"), hook("c"), hook("b")], "bcba"),
    ],
)
def test_constraints_come_first_then_priority_then_registration(hooks: list[AnyHook], expected: str) -> None:
    assert order(*hooks) == expected


def test_a_constraint_takes_effect_when_its_name_is_registered_and_ends_with_it() -> None:
    hooks = Hooks([hook("a", after="b")])
    hooks.add(hook("c"), hook("b"))
    assert [h.name for h in hooks.at("before_tool_call")] == ["c", "b", "a"]
    hooks.remove("b")
    assert [h.name for h in hooks.at("before_tool_call")] == ["a", "c"]
    assert hooks.list() == [("a", "before_tool_call"), ("c", "before_tool_call")]


def test_constraints_are_among_the_hooks_of_a_point() -> None:
    end = Hook(print, "on_turn_end", name="a", before="b")
    assert order(hook("a"), hook("b", before="a"), end) == "ba"


def test_a_circle_is_refused_with_its_names_and_nothing_is_registered() -> None:
    hooks = Hooks([hook("x"), hook("a", after="c"), hook("b", after="a")])
    with pytest.raises(ConfigurationError, match=r"before_tool_call cannot be put in order: a -> b -> c -> a"):
        hooks.add(hook("z", after="a"), hook("c", after="b"))
    assert [name for name, _ in hooks.list()] == ["x", "a", "b"]


def test_two_hooks_that_want_to_be_first_are_a_circle() -> None:
    with pytest.raises(ConfigurationError, match="a -> b -> a"):
        Hooks([hook("a", before="b"), hook("b", before="a")])


@given(st.lists(st.tuples(st.integers(-2, 2), st.sets(st.integers(0, 9))), max_size=10))
def test_every_order_keeps_every_constraint(rows: list[tuple[int, set[int]]]) -> None:
    hooks = [
        # only on those registered before, so that there is no circle
        hook(str(n), priority=priority, after=[str(m) for m in after if m < n])
        for n, (priority, after) in enumerate(rows)
    ]
    placed = {h.name: place for place, h in enumerate(Hooks(hooks).at("before_tool_call"))}
    assert len(placed) == len(hooks)
    for h in hooks:
        assert all(placed[name] < placed[h.name] for name in h.after)
