from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import abc
from reactivex import operators as ops

from rxworker.hub import Hub


def test_every_watcher_sees_everything_however_late_it_comes() -> None:
    hub = Hub[int]()
    early: list[int] = []
    late: list[int] = []
    hub.subscribe(early.append)
    hub.push(1)
    hub.push(2)
    hub.subscribe(late.append)
    hub.push(3)
    assert early == late == [1, 2, 3]


def test_a_watcher_that_comes_after_the_end_sees_everything_and_the_end() -> None:
    hub = Hub[int]()
    hub.push(1)
    hub.end()
    seen: list[object] = []
    hub.subscribe(seen.append, seen.append, lambda: seen.append("end"))
    assert seen == [1, "end"]


def test_a_watcher_that_raises_is_detached_and_hurts_nobody() -> None:
    detached: list[tuple[str, str]] = []

    def on_detach(name: str, error: BaseException) -> None:
        detached.append((name, str(error)))

    def boom(item: int) -> None:
        raise ValueError(f"no {item}")

    hub = Hub[int](on_detach)
    before: list[int] = []
    after: list[int] = []
    hub.subscribe(before.append)
    hub.subscribe(boom)
    hub.subscribe(after.append)
    hub.push(1)
    hub.push(2)
    assert before == after == [1, 2]
    assert detached == [("watcher-2", "no 1")]


def test_a_watcher_that_raises_while_it_catches_up_is_detached_too() -> None:
    detached: list[str] = []
    hub = Hub[int](lambda name, error: detached.append(f"{name} {error}"))
    hub.push(1)

    def boom(item: int) -> None:
        raise ValueError(f"no {item}")

    hub.subscribe(boom)
    hub.push(2)
    assert detached == ["watcher-1 no 1"]


def test_a_watcher_that_raises_that_something_was_cancelled_does_not_cancel_the_source() -> None:
    """As it does that asks a cancelled future for its result."""
    detached: list[str] = []
    hub = Hub[int](lambda name, error: detached.append(f"{name} {type(error).__name__}"))
    seen: list[int] = []

    def ask(_: int) -> None:
        raise asyncio.CancelledError

    hub.subscribe(ask)
    hub.subscribe(seen.append)
    hub.push(1)
    hub.subscribe(ask)
    hub.push(2)
    assert seen == [1, 2]
    assert detached == ["watcher-1 CancelledError", "watcher-3 CancelledError"]


def test_an_item_pushed_from_within_a_watcher_comes_after_the_one_it_saw_for_everybody() -> None:
    hub = Hub[int]()
    first: list[int] = []
    second: list[int] = []

    def echo(item: int) -> None:
        first.append(item)
        if item < 3:
            hub.push(item + 1)

    hub.subscribe(echo)
    hub.subscribe(second.append)
    hub.push(1)
    assert first == second == [1, 2, 3]


def test_an_end_from_within_a_watcher_lets_the_others_see_the_item_first() -> None:
    hub = Hub[int]()
    seen: list[object] = []
    hub.subscribe(lambda _: hub.end())
    hub.subscribe(seen.append, seen.append, lambda: seen.append("end"))
    hub.push(1)
    assert seen == [1, "end"]


def test_a_watcher_subscribed_from_within_another_sees_each_item_once() -> None:
    hub = Hub[int]()
    inner: list[int] = []

    def join(item: int) -> None:
        if item == 2:
            hub.subscribe(inner.append)

    hub.subscribe(join)
    for item in (1, 2, 3):
        hub.push(item)
    assert inner == [1, 2, 3]


def test_nothing_comes_after_the_end() -> None:
    hub = Hub[int]()
    seen: list[int] = []
    hub.subscribe(seen.append)
    hub.end()
    hub.push(1)
    hub.end(ValueError("late"))
    assert seen == []


def test_disposing_detaches_and_the_others_go_on() -> None:
    hub = Hub[int]()
    gone: list[int] = []
    stays: list[int] = []
    subscription = hub.subscribe(gone.append)
    hub.subscribe(stays.append)
    hub.push(1)
    subscription.dispose()
    hub.push(2)
    assert (gone, stays) == ([1], [1, 2])


def test_a_watcher_may_leave_while_it_catches_up() -> None:
    hub = Hub[int]()
    for item in range(5):
        hub.push(item)
    seen: list[int] = []
    hub.pipe(ops.take(2)).subscribe(seen.append)
    hub.push(5)
    assert seen == [0, 1]


def test_a_watcher_without_on_error_does_not_keep_the_end_from_the_others() -> None:
    hub = Hub[int]()
    errors: list[Exception] = []
    hub.subscribe(lambda _: None)
    hub.subscribe(lambda _: None, errors.append)
    failure = ValueError("over")
    hub.end(failure)
    assert errors == [failure]


async def test_an_iterator_reads_at_its_own_pace_and_misses_nothing() -> None:
    hub = Hub[int]()
    hub.push(1)
    items = aiter(hub)
    assert await anext(items) == 1
    waiting = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0)
    assert not waiting.done()
    hub.push(2)
    hub.push(3)
    assert await waiting == 2
    hub.end()
    assert [item async for item in items] == [3]


async def test_an_iterator_raises_what_ended_the_source_after_the_last_item() -> None:
    hub = Hub[int]()
    hub.push(1)
    hub.end(ValueError("over"))
    items = aiter(hub)
    assert await anext(items) == 1
    with pytest.raises(ValueError, match="over"):
        await anext(items)


async def test_two_iterators_do_not_share_their_items() -> None:
    hub = Hub[int]()
    for item in range(3):
        hub.push(item)
    hub.end()
    assert [i async for i in hub] == [i async for i in hub] == [0, 1, 2]


@given(st.lists(st.sampled_from(["push", "join", "leave", "raise"]), max_size=30))
def test_any_coming_and_going_leaves_each_watcher_an_unbroken_beginning(moves: list[str]) -> None:
    hub = Hub[int]()
    watching: list[tuple[list[int], abc.DisposableBase]] = []
    pushed = 0

    def boom(_: int) -> None:
        raise ValueError

    for move in moves:
        if move == "push":
            hub.push(pushed)
            pushed += 1
        elif move == "join":
            seen: list[int] = []
            watching.append((seen, hub.subscribe(seen.append)))
        elif move == "leave" and watching:
            seen, subscription = watching.pop()
            subscription.dispose()
            assert seen == list(range(pushed))
        elif move == "raise":
            hub.subscribe(boom)
    for seen, _ in watching:
        assert seen == list(range(pushed))
