from __future__ import annotations

import pytest

from rxworker.operators.kernel import NOTHING, Both, Call, SerialDisposable


@pytest.fixture
def told() -> list[str]:
    return []


def saying(told: list[str], what: str) -> Call:
    return Call(lambda: told.append(what))


def test_a_call_is_made_once(told: list[str]) -> None:
    once = saying(told, "a")
    once.dispose()
    once.dispose()
    assert told == ["a"]


def test_what_goes_into_a_slot_drives_out_what_was_there(told: list[str]) -> None:
    slot = SerialDisposable()
    slot.put(saying(told, "a"))
    slot.put(saying(told, "b"))
    assert told == ["a"]
    slot.put(None)
    assert told == ["a", "b"]


def test_a_slot_that_is_disposed_takes_nothing_more(told: list[str]) -> None:
    slot = SerialDisposable()
    slot.put(saying(told, "a"))
    slot.dispose()
    slot.put(saying(told, "b"))
    slot.put(None)
    slot.dispose()
    assert told == ["a", "b"]


def test_both_are_disposed_in_their_order(told: list[str]) -> None:
    Both(saying(told, "a"), Both(NOTHING, saying(told, "b"))).dispose()
    assert told == ["a", "b"]
