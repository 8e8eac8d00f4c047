"""`Watchers` emits the states of the watchers when something has changed, with a pause after each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reactivex import abc
from reactivex.testing import TestScheduler

from rxworker.events import Record, TextDelta
from rxworker.hub import Hub, Watchers, WatcherState


class Harness:
    """A hub on virtual time, whose seconds are 1000 ticks, and what its `Watchers` emitted, with the time."""

    def __init__(self) -> None:
        self.clock = TestScheduler()
        self.detached: list[str] = []
        self.hub = Hub(self._on_detach, defer=self._soon)
        self.emitted: list[tuple[float, tuple[WatcherState, ...] | str]] = []

    def _soon(self, call: Callable[[], None]) -> None:
        def go(_: abc.SchedulerBase, __: object = None) -> None:
            call()

        self.clock.schedule(go)

    def _on_detach(self, name: str, error: BaseException) -> None:
        self.detached.append(f"{name}: {error}")

    def push(self) -> None:
        n = self.hub.last_seq + 1
        self.hub.push(Record(n, "r", 1, 1, 0.0, TextDelta(0, "a")))

    def watchers(self) -> Watchers:
        return Watchers(self.hub, lambda: self.clock, seconds=10)

    def watch(self) -> abc.DisposableBase:
        def note(states: tuple[WatcherState, ...]) -> None:
            self.emitted.append((self.clock.clock, states))

        def end() -> None:
            self.emitted.append((self.clock.clock, "end"))

        return self.watchers().subscribe(note, on_completed=end)

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.emitted]


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_it_begins_with_the_present_watchers(harness: Harness) -> None:
    assert harness.watchers().now == ()
    harness.hub.subscribe()
    harness.watch()
    assert [state.name for state in harness.watchers().now] == ["watcher-1"]
    assert harness.emitted == [(0.0, harness.watchers().now)]


def test_it_emits_changes_and_pauses_after_each(harness: Harness) -> None:
    harness.hub.subscribe()
    harness.watch()
    for _ in range(8):
        harness.clock.advance_by(4)
        harness.push()
    harness.clock.advance_by(100)
    assert harness.times[0] == 0
    assert all(later - time >= 10 for time, later in zip(harness.times, harness.times[1:], strict=False))
    last = harness.emitted[-1][1]
    assert [state.seq for state in last if isinstance(state, WatcherState)] == [8]
    assert len(harness.emitted) <= 5


def test_a_change_after_a_pause_is_emitted_at_once_and_nothing_after_disposing(harness: Harness) -> None:
    harness.hub.subscribe()
    subscription = harness.watch()
    harness.clock.advance_by(50)
    harness.push()
    harness.clock.advance_by(1)
    assert len(harness.emitted) == 2
    assert 50 <= harness.times[1] <= 51
    subscription.dispose()
    harness.clock.advance_by(20)
    harness.push()
    harness.clock.advance_by(20)
    assert len(harness.emitted) == 2


def test_nothing_is_emitted_without_a_change(harness: Harness) -> None:
    harness.watch()
    harness.clock.advance_by(50)
    harness.push()  # it has no watchers
    harness.clock.advance_by(50)
    harness.hub.flush_scheduler.notify_change()
    harness.clock.advance_by(50)
    assert harness.emitted == [(0.0, ())]


def test_it_emits_when_watchers_attach_and_detach(harness: Harness) -> None:
    harness.watch()
    harness.clock.advance_by(20)
    subscription = harness.hub.watch(name="page").subscribe()
    harness.clock.advance_by(20)
    subscription.dispose()
    harness.clock.advance_by(20)
    names = [[s.name for s in emitted if isinstance(s, WatcherState)] for _, emitted in harness.emitted]
    assert names == [[], ["page"], []]


def test_it_completes_with_the_run_without_waiting_for_its_pause(harness: Harness) -> None:
    harness.hub.subscribe()
    harness.watch()
    harness.clock.advance_by(2)
    harness.hub.end()
    harness.clock.advance_by(1)
    assert harness.emitted[-1][1] == "end"
    assert harness.emitted[-1][0] <= 3
    harness.clock.advance_by(100)
    assert [emitted for _, emitted in harness.emitted].count("end") == 1


def test_after_the_run_it_emits_the_watchers_and_completes(harness: Harness) -> None:
    harness.watch()
    assert harness.hub.watching == 0  # to observe the watchers is not to watch
    harness.hub.end()
    harness.emitted.clear()
    harness.watch()
    assert [emitted for _, emitted in harness.emitted] == [(), "end"]


def test_an_observer_that_raises_is_detached_and_the_others_continue(harness: Harness) -> None:

    def boom(states: tuple[WatcherState, ...]) -> None:
        if states:
            raise ValueError("no watchers wanted")

    harness.watchers().subscribe(boom)
    harness.watch()
    harness.clock.advance_by(20)
    harness.hub.subscribe()
    harness.clock.advance_by(20)
    assert harness.detached == ["watcher of the watchers: no watchers wanted"]
    assert len(harness.emitted) == 2


def test_each_subscription_pauses_for_itself(harness: Harness) -> None:
    harness.watch()
    harness.clock.advance_by(4)
    harness.watch()
    harness.hub.subscribe()
    harness.clock.advance_by(30)
    assert [len(emitted) for _, emitted in harness.emitted].count(1) == 2
