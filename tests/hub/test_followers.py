"""Followers: pushed to once a turn, all of one delivery together, and each with an account of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reactivex import abc
from reactivex import operators as ops

from rxworker.events import BlockStop, BlockType, Event, Gap, Record, TextDelta
from rxworker.hub import Coalesce, Delivery, DropOldest, Hub, Latest, Reliable

STOP = BlockStop(0, BlockType.TEXT)


class Turns:
    """What is deferred waits here for the next turn."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def defer(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def turn(self) -> None:
        """One turn; what is deferred meanwhile waits for the one after it."""
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()


class Stand:
    """A hub, its turns, and who was detached."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.detached: list[str] = []
        self.hub = Hub(self._on_detach, defer=self.turns.defer)

    def _on_detach(self, name: str, error: BaseException) -> None:
        self.detached.append(f"{name} {error}")

    def push(self, *events: Event | str) -> None:
        for event in events:
            said = TextDelta(0, event) if isinstance(event, str) else event
            n = self.hub.last_seq + 1
            self.hub.push(Record(n, "r", 1, 1, float(n), said))

    def turn(self) -> None:
        self.turns.turn()

    def follow(
        self, delivery: Delivery | None = None, *, after: int = 0, name: str = ""
    ) -> tuple[list[str], abc.DisposableBase]:
        """A follower: what it was given, and what leaves."""
        seen: list[str] = []

        def note(record: Record) -> None:
            seen.append(shown(record))

        def fail(error: Exception) -> None:
            seen.append(str(error))

        def end() -> None:
            seen.append("end")

        watch = self.hub.watch(delivery, after=after, name=name)
        return seen, watch.subscribe(note, fail, end)


def shown(record: Record) -> str:
    event = record.event
    if isinstance(event, TextDelta):
        return event.text
    return f"gap {event.first}-{event.last}" if isinstance(event, Gap) else "stop"


def test_it_is_pushed_to_once_a_turn_and_never_within_subscribe_or_push() -> None:
    stand = Stand()
    stand.push("a", "b")
    seen, _ = stand.follow()
    stand.push("c")
    assert seen == []
    stand.turn()
    assert seen == ["abc"]
    stand.push("d", STOP, "e")
    stand.turn()
    assert seen == ["abc", "d", "stop", "e"]


def test_nothing_is_deferred_while_nothing_happens() -> None:
    stand = Stand()
    stand.push("a")
    assert stand.turns.waiting == []  # nobody is there
    stand.follow()
    stand.turn()
    assert stand.turns.waiting == []
    stand.push("b", "c")
    assert len(stand.turns.waiting) == 1


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
def test_each_delivery_is_given_what_it_asks_for(delivery: Delivery, expected: list[str]) -> None:
    stand = Stand()
    stand.push("a", "b", STOP, "c", "d")
    seen, _ = stand.follow(delivery)
    stand.turn()
    assert seen == expected


def test_those_that_come_at_different_places_meet() -> None:
    stand = Stand()
    stand.push("a", "b", "c")
    first, _ = stand.follow()
    stand.turn()
    stand.push("d")
    late, _ = stand.follow(after=1)
    from_here, _ = stand.follow(after=4)
    stand.turn()
    stand.push("e")
    stand.turn()
    assert first == ["abc", "d", "e"]
    assert late == ["bcd", "e"]
    assert from_here == ["e"]


def test_one_that_waits_for_a_number_to_come_gets_what_is_behind_it() -> None:
    stand = Stand()
    ahead, _ = stand.follow(after=3)
    everything, _ = stand.follow()
    [waiting, _] = stand.hub.states()
    assert (waiting.seq, waiting.lag) == (3, 0)
    for text in "abcde":
        stand.push(text)
        stand.turn()
    assert ahead == ["d", "e"]
    assert everything == ["a", "b", "c", "d", "e"]


def test_a_number_before_the_first_is_the_beginning() -> None:
    stand = Stand()
    stand.push("a", "b")
    everything, _ = stand.follow(Latest(), after=-5)
    stand.turn()
    assert everything == ["b"]
    [state] = stand.hub.states()
    assert (state.delivered, state.dropped) == (1, 1)


def test_each_has_an_account_of_its_own() -> None:
    stand = Stand()
    stand.push("a", "b", "c")
    stand.follow(name="first")
    stand.turn()
    stand.push("d", "e", STOP)
    stand.follow(after=4, name="second")
    stand.turn()
    stand.push("f")
    first, second = stand.hub.states()
    assert (first.name, first.delivered, first.merged, first.seq, first.lag) == (
        "first",
        3,
        3,
        6,
        1,
    )
    assert (second.name, second.delivered, second.merged, second.seq, second.lag) == (
        "second",
        2,
        0,
        6,
        1,
    )


def test_one_that_raises_is_detached_and_the_others_go_on() -> None:
    stand = Stand()

    def boom(record: Record) -> None:
        raise ValueError(f"no {record.seq}")

    before, _ = stand.follow()
    stand.hub.watch(name="bad").subscribe(boom)
    after, _ = stand.follow()
    for text in "abc":
        stand.push(text)
        stand.turn()
    assert before == after == ["a", "b", "c"]
    assert stand.detached == ["bad no 1"]
    assert [state.name for state in stand.hub.states()] == ["watcher-1", "watcher-3"]


def test_when_the_last_has_raised_nothing_is_deferred_any_more() -> None:
    stand = Stand()

    def boom(_: Record) -> None:
        raise ValueError

    stand.hub.watch().subscribe(boom)
    stand.push("a")
    stand.turn()
    stand.push("b")
    assert stand.turns.waiting == []
    assert stand.hub.watching == 0


def test_a_member_that_raises_in_the_middle_is_given_nothing_more() -> None:
    stand = Stand()
    given: list[str] = []

    def boom(record: Record) -> None:
        given.append(shown(record))
        if record.seq == 2:
            raise ValueError("enough")

    stand.hub.watch(Reliable()).subscribe(boom)
    other, _ = stand.follow(Reliable())
    stand.push("a")
    stand.turn()
    stand.push("b", "c")
    stand.turn()
    assert given == ["a", "b"]
    assert other == ["a", "b", "c"]


def test_disposing_within_a_push_keeps_the_rest_from_whoever_left() -> None:
    stand = Stand()
    gone, subscription = stand.follow(Reliable())

    def leave(_: Record) -> None:
        subscription.dispose()

    stand.push("a")
    stand.turn()
    stand.hub.watch(Reliable(), after=1).subscribe(leave)
    stays, _ = stand.follow(Reliable(), after=1)
    stand.push("b", "c")
    stand.turn()
    stand.push("d")
    stand.turn()
    assert gone[0] == "a"
    assert "d" not in gone
    assert stays == ["b", "c", "d"]
    assert stand.hub.watching == 2


def test_one_that_another_disposes_in_the_middle_of_a_round_is_given_nothing_more() -> None:
    stand = Stand()
    subscriptions: list[abc.DisposableBase] = []

    def leave(record: Record) -> None:
        if shown(record) == "b":
            subscriptions[0].dispose()

    stand.hub.watch().subscribe(leave)
    gone, subscription = stand.follow()
    subscriptions.append(subscription)
    stays, _ = stand.follow()
    for text in "abc":
        stand.push(text)
        stand.turn()
    assert (gone, stays) == (["a"], ["a", "b", "c"])


def test_disposing_itself_within_a_push_is_heard_at_once() -> None:
    stand = Stand()
    seen: list[str] = []

    def note(record: Record) -> None:
        seen.append(shown(record))

    stand.hub.watch(Reliable()).pipe(ops.take(2)).subscribe(note)
    stand.push("a", "b", "c")
    stand.turn()
    assert seen == ["a", "b"]
    assert stand.hub.watching == 0


def test_one_that_leaves_before_its_first_turn_is_given_nothing() -> None:
    stand = Stand()
    stand.push("a")
    seen, subscription = stand.follow()
    subscription.dispose()
    stand.turn()
    assert seen == []


def test_one_that_replaces_itself_within_a_push_goes_on() -> None:
    stand = Stand()
    seen: list[str] = []
    subscriptions: list[abc.DisposableBase] = []

    def note(record: Record) -> None:
        seen.append(shown(record))
        subscriptions[-1].dispose()
        again = stand.hub.watch(Reliable(), after=record.seq)
        subscriptions.append(again.subscribe(note))

    subscriptions.append(stand.hub.watch(Reliable()).subscribe(note))
    stand.push("a", "b", "c")
    for _ in range(4):
        stand.turn()
    assert seen == ["a", "b", "c"]
    assert stand.hub.watching == 1


def test_one_that_pushes_is_heard_by_all_in_the_same_order() -> None:
    stand = Stand()
    first: list[str] = []

    def echo(record: Record) -> None:
        first.append(shown(record))
        if record.seq < 4:
            stand.push(shown(record) + "'")

    stand.hub.watch(Reliable()).subscribe(echo)
    second, _ = stand.follow(Reliable())
    stand.push("a", "b")
    for _ in range(3):
        stand.turn()
    assert first == second == ["a", "b", "a'", "b'", "a''"]


def test_one_that_pushes_where_nothing_is_deferred_breaks_no_order_either() -> None:
    hub = Hub()
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


def test_the_end_comes_behind_the_last_record_and_once() -> None:
    stand = Stand()
    seen, _ = stand.follow()
    stand.push("a")
    stand.hub.end()
    stand.turn()
    stand.turn()
    assert seen == ["a", "end"]
    late, _ = stand.follow(after=1)
    stand.turn()
    assert late == ["end"]
    assert stand.hub.watching == 0


def test_an_error_comes_behind_the_last_record() -> None:
    stand = Stand()
    seen, _ = stand.follow()
    silent = stand.hub.watch().subscribe()
    stand.push("a")
    stand.hub.end(ValueError("over"))
    stand.turn()
    assert seen == ["a", "over"]
    silent.dispose()


def test_an_end_within_a_push_reaches_everybody_behind_what_there_is() -> None:
    stand = Stand()

    def end(_: Record) -> None:
        stand.hub.end()

    stand.hub.watch().subscribe(end)
    other, _ = stand.follow(Reliable())
    stand.push("a", "b")
    stand.turn()
    stand.turn()
    assert other == ["a", "b", "end"]


def test_what_is_pushed_right_before_an_end_reaches_those_who_were_served_already() -> None:
    stand = Stand()
    merged, _ = stand.follow(Coalesce())

    def push_and_end(_: Record) -> None:
        stand.push("last")
        stand.hub.end()

    stand.hub.watch(Reliable()).subscribe(push_and_end)
    stand.push("a")
    for _ in range(3):
        stand.turn()
    assert merged == ["a", "last", "end"]


def test_one_that_is_disposed_hears_nothing_of_the_end() -> None:
    stand = Stand()
    seen, subscription = stand.follow()
    stand.push("a")
    stand.turn()
    stand.hub.end()
    subscription.dispose()
    stand.turn()
    assert seen == ["a"]
