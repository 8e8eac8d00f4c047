"""Observers of a `Watch`: pushed to once a turn, as one group for each delivery, and each with its own counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reactivex import abc
from reactivex import operators as ops

from rxworker.events import BlockStop, BlockType, Event, Gap, Record, TextDelta
from rxworker.hub import Coalesce, Delivery, DropOldest, Hub, Latest, Reliable

STOP = BlockStop(0, BlockType.TEXT)


class Turns:
    """Keeps the deferred calls until the next turn."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def defer(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def turn(self) -> None:
        """Run one turn; calls that are deferred meanwhile wait for the next one."""
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()


class Harness:
    """A hub, its turns, and the watchers that were detached."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.detached: list[str] = []
        self.hub = Hub(self._on_detach, defer=self.turns.defer)

    def _on_detach(self, name: str, error: BaseException) -> None:
        self.detached.append(f"{name} {error}")

    def push(self, *events: Event | str) -> None:
        for event in events:
            made = TextDelta(0, event) if isinstance(event, str) else event
            n = self.hub.last_seq + 1
            self.hub.push(Record(n, "r", 1, 1, float(n), made))

    def turn(self) -> None:
        self.turns.turn()

    def subscribe(
        self, delivery: Delivery | None = None, *, after: int = 0, name: str = ""
    ) -> tuple[list[str], abc.DisposableBase]:
        """Subscribe to a watch: what it received, and its subscription."""
        seen: list[str] = []

        def note(record: Record) -> None:
            seen.append(shown(record))

        def fail(error: Exception) -> None:
            seen.append(str(error))

        def end() -> None:
            seen.append("end")

        watch = self.hub.watch(delivery, after=after, name=name)
        return seen, watch.subscribe(note, fail, end)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def shown(record: Record) -> str:
    event = record.event
    if isinstance(event, TextDelta):
        return event.text
    return f"gap {event.first}-{event.last}" if isinstance(event, Gap) else "stop"


def test_it_is_pushed_to_once_a_turn_and_never_within_subscribe_or_push(harness: Harness) -> None:
    harness.push("a", "b")
    seen, _ = harness.subscribe()
    harness.push("c")
    assert seen == []
    harness.turn()
    assert seen == ["abc"]
    harness.push("d", STOP, "e")
    harness.turn()
    assert seen == ["abc", "d", "stop", "e"]


def test_no_flush_is_deferred_without_new_records(harness: Harness) -> None:
    harness.push("a")
    assert harness.turns.waiting == []  # no watcher is attached
    harness.subscribe()
    harness.turn()
    assert harness.turns.waiting == []
    harness.push("b", "c")
    assert len(harness.turns.waiting) == 1


@pytest.mark.parametrize(
    ("delivery", "expected"),
    [
        (Reliable(), ["a", "b", "stop", "c", "d"]),
        (Coalesce(), ["ab", "stop", "cd"]),
        (Latest(), ["b", "stop", "d"]),
        (DropOldest(limit=1), ["gap 1-2", "stop", "gap 4-4", "d"]),
    ],
    ids=str,
)
def test_each_delivery_defines_the_records(delivery: Delivery, expected: list[str], harness: Harness) -> None:
    harness.push("a", "b", STOP, "c", "d")
    seen, _ = harness.subscribe(delivery)
    harness.turn()
    assert seen == expected


def test_watchers_that_begin_at_different_numbers_join_one_group(harness: Harness) -> None:
    harness.push("a", "b", "c")
    first, _ = harness.subscribe()
    harness.turn()
    harness.push("d")
    late, _ = harness.subscribe(after=1)
    from_here, _ = harness.subscribe(after=4)
    harness.turn()
    harness.push("e")
    harness.turn()
    assert first == ["abc", "d", "e"]
    assert late == ["bcd", "e"]
    assert from_here == ["e"]


def test_a_watcher_may_begin_after_a_number_that_does_not_exist_yet_or_is_negative(harness: Harness) -> None:
    ahead, _ = harness.subscribe(after=3)
    everything, _ = harness.subscribe(after=-5)
    [waiting, _] = harness.hub.states()
    assert (waiting.seq, waiting.lag) == (3, 0)
    for text in "abcde":
        harness.push(text)
        harness.turn()
    assert ahead == ["d", "e"]
    assert everything == ["a", "b", "c", "d", "e"]
    newest, _ = harness.subscribe(Latest(), after=-5)
    harness.turn()
    assert newest == ["e"]
    assert [(state.delivered, state.dropped) for state in harness.hub.states()[2:]] == [(1, 4)]


def test_each_watcher_has_its_own_counts(harness: Harness) -> None:
    harness.push("a", "b", "c")
    harness.subscribe(name="first")
    harness.turn()
    harness.push("d", "e", STOP)
    harness.subscribe(after=4, name="second")
    harness.turn()
    harness.push("f")
    first, second = harness.hub.states()
    assert (first.name, first.delivered, first.merged, first.seq, first.lag) == ("first", 3, 3, 6, 1)
    assert (second.name, second.delivered, second.merged, second.seq, second.lag) == ("second", 2, 0, 6, 1)


def test_a_watcher_that_raises_is_detached_and_the_others_continue(harness: Harness) -> None:

    def boom(record: Record) -> None:
        raise ValueError(f"no {record.seq}")

    before, subscription = harness.subscribe()
    harness.hub.watch(name="bad").subscribe(boom)
    after, other = harness.subscribe()
    for text in "abc":
        harness.push(text)
        harness.turn()
    assert before == after == ["a", "b", "c"]
    assert harness.detached == ["bad no 1"]
    assert [state.name for state in harness.hub.states()] == ["watcher-1", "watcher-3"]
    # After the last watcher has raised, no flush is deferred.
    subscription.dispose()
    other.dispose()
    harness.hub.watch(after=3).subscribe(boom)
    harness.push("d")
    harness.turn()
    harness.push("e")
    assert harness.turns.waiting == []
    assert harness.hub.watching == 0


def test_a_watcher_that_raises_or_leaves_within_a_batch_receives_nothing_more(harness: Harness) -> None:
    given: list[str] = []
    taken: list[str] = []

    def boom(record: Record) -> None:
        given.append(shown(record))
        if record.seq == 2:
            raise ValueError("enough")

    harness.hub.watch(Reliable()).subscribe(boom)
    harness.hub.watch(Reliable()).pipe(ops.take(2)).subscribe(lambda record: taken.append(shown(record)))
    other, _ = harness.subscribe(Reliable())
    harness.push("a")
    harness.turn()
    harness.push("b", "c")
    harness.turn()
    assert given == taken == ["a", "b"]
    assert other == ["a", "b", "c"]
    assert harness.hub.watching == 1


def test_disposing_another_watcher_within_a_push_takes_effect_at_once(harness: Harness) -> None:
    gone, subscription = harness.subscribe(Reliable())

    def leave(_: Record) -> None:
        subscription.dispose()

    harness.push("a")
    harness.turn()
    harness.hub.watch(Reliable(), after=1).subscribe(leave)
    stays, _ = harness.subscribe(Reliable(), after=1)
    harness.push("b", "c")
    harness.turn()
    harness.push("d")
    harness.turn()
    assert gone[0] == "a"
    assert "d" not in gone
    assert stays == ["b", "c", "d"]
    assert harness.hub.watching == 2


def test_a_watcher_disposed_by_another_of_its_group_receives_nothing_more(harness: Harness) -> None:
    subscriptions: list[abc.DisposableBase] = []

    def leave(record: Record) -> None:
        if shown(record) == "b":
            subscriptions[0].dispose()

    harness.hub.watch().subscribe(leave)
    gone, subscription = harness.subscribe()
    subscriptions.append(subscription)
    stays, _ = harness.subscribe()
    for text in "abc":
        harness.push(text)
        harness.turn()
    assert (gone, stays) == (["a"], ["a", "b", "c"])


def test_a_watcher_disposed_before_its_first_turn_or_before_the_end_receives_neither(harness: Harness) -> None:
    harness.push("a")
    never, first = harness.subscribe()
    seen, second = harness.subscribe()
    first.dispose()
    harness.turn()
    harness.hub.end()
    second.dispose()
    harness.turn()
    assert (never, seen) == ([], ["a"])


def test_a_watcher_that_replaces_itself_within_a_push_misses_nothing(harness: Harness) -> None:
    seen: list[str] = []
    subscriptions: list[abc.DisposableBase] = []

    def note(record: Record) -> None:
        seen.append(shown(record))
        subscriptions[-1].dispose()
        again = harness.hub.watch(Reliable(), after=record.seq)
        subscriptions.append(again.subscribe(note))

    subscriptions.append(harness.hub.watch(Reliable()).subscribe(note))
    harness.push("a", "b", "c")
    for _ in range(4):
        harness.turn()
    assert seen == ["a", "b", "c"]
    assert harness.hub.watching == 1


def test_records_pushed_by_a_watcher_reach_all_in_the_same_order(harness: Harness) -> None:
    first: list[str] = []

    def echo(record: Record) -> None:
        first.append(shown(record))
        if record.seq < 4:
            harness.push(shown(record) + "'")

    harness.hub.watch(Reliable()).subscribe(echo)
    second, _ = harness.subscribe(Reliable())
    harness.push("a", "b")
    for _ in range(3):
        harness.turn()
    assert first == second == ["a", "b", "a'", "b'", "a''"]


def test_records_pushed_by_a_watcher_keep_the_order_without_an_event_loop(hub: Hub) -> None:
    first: list[int] = []
    second: list[int] = []

    def push() -> None:
        n = hub.last_seq + 1
        hub.push(Record(n, "r", 1, 1, 0.0, TextDelta(0, str(n))))

    def echo(record: Record) -> None:
        first.append(record.seq)
        if record.seq < 4:
            push()

    def note(record: Record) -> None:
        second.append(record.seq)

    hub.watch().subscribe(echo)
    hub.watch().subscribe(note)
    push()
    assert first == second == [1, 2, 3, 4]


@pytest.mark.parametrize(("error", "end"), [(None, "end"), (ValueError("over"), "over")])
def test_the_end_follows_the_last_record_once(error: Exception | None, end: str, harness: Harness) -> None:
    seen, _ = harness.subscribe()
    harness.hub.watch().subscribe()  # without on_error
    harness.push("a")
    harness.hub.end(error)
    harness.turn()
    harness.turn()
    assert seen == ["a", end]
    late, _ = harness.subscribe(after=1)
    harness.turn()
    assert late == [end]
    assert harness.hub.watching == 0


def test_an_end_within_a_push_follows_the_records_that_are_left(harness: Harness) -> None:

    def end(_: Record) -> None:
        harness.hub.end()

    harness.hub.watch().subscribe(end)
    other, _ = harness.subscribe(Reliable())
    harness.push("a", "b")
    harness.turn()
    harness.turn()
    assert other == ["a", "b", "end"]


def test_a_record_pushed_right_before_the_end_reaches_groups_that_were_served_already(harness: Harness) -> None:
    merged, _ = harness.subscribe(Coalesce())

    def push_and_end(_: Record) -> None:
        harness.push("last")
        harness.hub.end()

    harness.hub.watch(Reliable()).subscribe(push_and_end)
    harness.push("a")
    for _ in range(3):
        harness.turn()
    assert merged == ["a", "last", "end"]


class Batches(abc.ObserverBase[Record]):
    """An observer that takes the records of one turn together."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.batches: list[list[int]] = []
        self.fails_at = fails_at
        self.error: Exception | None = None

    def on_next(self, value: Record) -> None:
        self.on_batch([value])

    def on_batch(self, records: list[Record]) -> None:
        numbers = [record.seq for record in records]
        if self.fails_at in numbers:
            raise OSError("gone")
        self.batches.append(numbers)

    def on_error(self, error: Exception) -> None:
        self.error = error

    def on_completed(self) -> None:
        pass


def test_an_observer_may_take_the_records_of_a_turn_together(harness: Harness) -> None:
    one, failing, disposed = Batches(), Batches(fails_at=4), Batches()
    watch = harness.hub.watch(Reliable(limit=None))
    watch.subscribe(one)
    watch.subscribe(failing)
    plain, _ = harness.subscribe(Reliable(limit=None))
    disposing = watch.subscribe(lambda record: leaving.dispose() if record.seq == 3 else None)
    leaving = watch.subscribe(disposed)
    harness.turn()
    for count in (1, 3, 2):
        harness.push(*[STOP] * count)
        harness.turn()
    assert one.batches == [[1], [2, 3, 4], [5, 6]]
    assert failing.batches == [[1]]
    assert isinstance(failing.error, OSError)
    assert disposed.batches == [[1]]
    assert len(plain) == 6
    assert harness.detached == ["watcher-2 gone"]
    disposing.dispose()
