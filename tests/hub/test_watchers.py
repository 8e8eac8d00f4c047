"""`Watchers`: who watches, told when something has changed, and not more often than it rests."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import abc
from reactivex.testing import TestScheduler

from rxworker.events import Record, TextDelta
from rxworker.hub import Hub, Watchers, WatcherState


class Stand:
    """A hub on virtual time, whose seconds are 1000 ticks, and what its audience told, with the time."""

    def __init__(self) -> None:
        self.clock = TestScheduler()
        self.detached: list[str] = []
        self.hub = Hub(self._on_detach, defer=self._soon)
        self.told: list[tuple[float, tuple[WatcherState, ...] | str]] = []

    def _soon(self, call: Callable[[], None]) -> None:
        def go(_: abc.SchedulerBase, __: object = None) -> None:
            call()

        self.clock.schedule(go)

    def _on_detach(self, name: str, error: BaseException) -> None:
        self.detached.append(f"{name}: {error}")

    def push(self) -> None:
        n = self.hub.last_seq + 1
        self.hub.push(Record(n, "r", 1, 1, 0.0, TextDelta(0, "a")))

    def audience(self) -> Watchers:
        return Watchers(self.hub, lambda: self.clock, seconds=10)

    def watch(self) -> abc.DisposableBase:
        def note(states: tuple[WatcherState, ...]) -> None:
            self.told.append((self.clock.clock, states))

        def end() -> None:
            self.told.append((self.clock.clock, "end"))

        return self.audience().subscribe(note, on_completed=end)

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.told]


def test_it_begins_with_who_is_there_now() -> None:
    stand = Stand()
    assert stand.audience().now == ()
    stand.hub.subscribe()
    stand.watch()
    assert [state.name for state in stand.audience().now] == ["watcher-1"]
    assert stand.told == [(0.0, stand.audience().now)]


def test_it_tells_of_changes_and_rests_after_each() -> None:
    stand = Stand()
    stand.hub.subscribe()
    stand.watch()
    for _ in range(8):
        stand.clock.advance_by(4)
        stand.push()
    stand.clock.advance_by(100)
    assert stand.times[0] == 0
    assert all(
        later - time >= 10 for time, later in zip(stand.times, stand.times[1:], strict=False)
    )
    last = stand.told[-1][1]
    assert [state.seq for state in last if isinstance(state, WatcherState)] == [8]
    assert len(stand.told) <= 5


def test_a_change_after_a_rest_is_told_at_once() -> None:
    stand = Stand()
    stand.hub.subscribe()
    stand.watch()
    stand.clock.advance_by(50)
    stand.push()
    stand.clock.advance_by(1)
    assert len(stand.told) == 2
    assert 50 <= stand.times[1] <= 51


def test_what_did_not_change_is_not_told() -> None:
    stand = Stand()
    stand.watch()
    stand.clock.advance_by(50)
    stand.push()  # nobody watches it
    stand.clock.advance_by(50)
    stand.hub.flush_scheduler.notify_change()
    stand.clock.advance_by(50)
    assert stand.told == [(0.0, ())]


def test_it_tells_who_comes_and_goes() -> None:
    stand = Stand()
    stand.watch()
    stand.clock.advance_by(20)
    subscription = stand.hub.watch(name="page").subscribe()
    stand.clock.advance_by(20)
    subscription.dispose()
    stand.clock.advance_by(20)
    names = [[s.name for s in told if isinstance(s, WatcherState)] for _, told in stand.told]
    assert names == [[], ["page"], []]


def test_it_completes_with_the_run_without_waiting_for_its_rest() -> None:
    stand = Stand()
    stand.hub.subscribe()
    stand.watch()
    stand.clock.advance_by(2)
    stand.hub.end()
    stand.clock.advance_by(1)
    assert stand.told[-1][1] == "end"
    assert stand.told[-1][0] <= 3
    stand.clock.advance_by(100)
    assert [told for _, told in stand.told].count("end") == 1


def test_after_the_run_it_tells_who_is_there_and_completes() -> None:
    stand = Stand()
    stand.hub.end()
    stand.watch()
    assert [told for _, told in stand.told] == [(), "end"]


def test_watching_the_watchers_is_not_watching() -> None:
    stand = Stand()
    stand.watch()
    assert stand.hub.watching == 0


def test_nothing_is_told_after_disposing_and_nothing_waits() -> None:
    stand = Stand()
    stand.hub.subscribe()
    stand.watch().dispose()
    stand.clock.advance_by(20)
    stand.push()
    stand.clock.advance_by(20)
    assert len(stand.told) == 1


def test_an_observer_that_raises_is_detached_and_hurts_no_other() -> None:
    stand = Stand()

    def boom(states: tuple[WatcherState, ...]) -> None:
        if states:
            raise ValueError("no watchers wanted")

    stand.audience().subscribe(boom)
    stand.watch()
    stand.clock.advance_by(20)
    stand.hub.subscribe()
    stand.clock.advance_by(20)
    assert stand.detached == ["watcher of the watchers: no watchers wanted"]
    assert len(stand.told) == 2


def test_each_subscription_rests_for_itself() -> None:
    stand = Stand()
    stand.watch()
    stand.clock.advance_by(4)
    stand.watch()
    stand.hub.subscribe()
    stand.clock.advance_by(30)
    assert [len(told) for _, told in stand.told].count(1) == 2
