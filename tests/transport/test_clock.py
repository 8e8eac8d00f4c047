from __future__ import annotations

import asyncio

import pytest
from reactivex import abc

from rxworker.operators.kernel import Call
from rxworker.transport.clock import LoopClock, loop_clock


@pytest.fixture
def told() -> list[str]:
    return []


async def past(clock: LoopClock, seconds: float) -> None:
    """Wait until the clock has gone on."""
    over = asyncio.Event()

    def action(_: abc.SchedulerBase, __: object = None) -> None:
        over.set()

    clock.schedule_relative(seconds, action)
    await over.wait()


def saying(told: list[str], what: str) -> abc.ScheduledAction[object]:
    def action(_: abc.SchedulerBase, __: object = None) -> None:
        told.append(what)

    return action


async def test_an_action_is_run_in_the_next_turn_of_the_loop(told: list[str]) -> None:
    loop_clock().schedule(saying(told, "soon"))
    assert told == []
    await asyncio.sleep(0)
    assert told == ["soon"]


async def test_actions_that_are_due_at_once_keep_their_order(told: list[str]) -> None:
    clock = loop_clock()
    clock.schedule_relative(0.0, saying(told, "a"))
    clock.schedule(saying(told, "b"))
    clock.schedule_relative(0.001, saying(told, "c"))
    await past(clock, 0.002)
    assert told == ["a", "b", "c"]


async def test_an_action_that_is_disposed_is_not_run(told: list[str]) -> None:
    clock = loop_clock()
    clock.schedule(saying(told, "soon")).dispose()
    clock.schedule_relative(0.001, saying(told, "later")).dispose()
    await past(clock, 0.002)
    assert told == []


async def test_disposing_ends_what_an_action_has_begun(told: list[str]) -> None:
    def begin(_: abc.SchedulerBase, __: object = None) -> abc.DisposableBase:
        return Call(lambda: told.append("ended"))

    begun = loop_clock().schedule(begin)
    await asyncio.sleep(0)
    begun.dispose()
    assert told == ["ended"]


def test_there_is_none_without_a_loop() -> None:
    with pytest.raises(RuntimeError):
        loop_clock()
