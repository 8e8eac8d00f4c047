"""`Hub`: what is pushed reaches every observer at once, in one order, and none of them can hurt another."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import abc
from reactivex import operators as ops

from rxworker.events import Record, TextDelta
from rxworker.hub import Coalesce, Hub
from rxworker.hub.history import TAIL
from rxworker.hub.hub import OneShotEvent


def record(n: int) -> Record:
    return Record(n, "r", 1, 1, float(n), TextDelta(0, str(n)))


class Seen(list[int | str]):
    """The numbers of the records that an observer was given, and how it ended."""

    def note(self, record: Record) -> None:
        self.append(record.seq)

    def fail(self, error: Exception) -> None:
        self.append(str(error))

    def end(self) -> None:
        self.append("end")


def watch(hub: Hub) -> Seen:
    seen = Seen()
    hub.subscribe(seen.note, seen.fail, seen.end)
    return seen


def boom(record: Record) -> None:
    raise ValueError(f"no {record.seq}")


def push(hub: Hub, *numbers: int) -> None:
    for n in numbers:
        hub.push(record(n))


def hub_with_names() -> tuple[Hub, list[str]]:
    """A hub, and who was detached from it."""
    detached: list[str] = []

    def on_detach(name: str, error: BaseException) -> None:
        detached.append(f"{name} {type(error).__name__} {error}".strip())

    return Hub(on_detach), detached


def test_every_watcher_sees_everything_however_late_it_comes() -> None:
    hub = Hub()
    early = watch(hub)
    push(hub, 1, 2)
    late = watch(hub)
    push(hub, 3)
    assert early == late == [1, 2, 3]


def test_what_was_packed_reaches_a_late_watcher_record_by_record() -> None:
    hub = Hub()
    pushed = [record(n) for n in range(1, 2 * TAIL + 9)]
    for one in pushed:
        hub.push(one)
    assert len(hub.history.tail) < TAIL
    seen: list[Record] = []
    hub.subscribe(seen.append)
    assert seen == pushed


def test_a_watcher_that_comes_after_the_end_sees_everything_and_the_end() -> None:
    hub = Hub()
    push(hub, 1)
    hub.end()
    assert watch(hub) == [1, "end"]


def test_a_watcher_that_raises_is_detached_and_hurts_nobody() -> None:
    hub, detached = hub_with_names()
    before = watch(hub)
    hub.subscribe(boom)
    after = watch(hub)
    push(hub, 1, 2)
    assert before == after == [1, 2]
    assert detached == ["watcher-2 ValueError no 1"]
    assert hub.watching == 2


def test_a_watcher_that_raises_while_it_catches_up_is_detached_too() -> None:
    hub, detached = hub_with_names()
    push(hub, 1)
    hub.subscribe(boom)
    push(hub, 2)
    assert detached == ["watcher-1 ValueError no 1"]
    assert hub.watching == 0


def test_a_watcher_that_raises_that_something_was_cancelled_does_not_cancel_the_source() -> None:
    """As it does that asks a cancelled future for its result."""
    hub, detached = hub_with_names()

    def ask(_: Record) -> None:
        raise asyncio.CancelledError

    hub.subscribe(ask)
    seen = watch(hub)
    push(hub, 1)
    hub.subscribe(ask)
    push(hub, 2)
    assert seen == [1, 2]
    assert detached == ["watcher-1 CancelledError", "watcher-3 CancelledError"]


def test_a_record_pushed_from_within_a_watcher_comes_after_the_one_it_saw_for_everybody() -> None:
    hub = Hub()
    first = Seen()

    def echo(seen: Record) -> None:
        first.note(seen)
        if seen.seq < 3:
            push(hub, seen.seq + 1)

    hub.subscribe(echo)
    second = watch(hub)
    push(hub, 1)
    assert first == second == [1, 2, 3]


def test_records_that_come_together_are_shown_in_order_and_what_is_pushed_meanwhile_behind_them() -> (
    None
):
    hub = Hub()
    first = Seen()

    def echo(seen: Record) -> None:
        first.note(seen)
        if seen.seq == 2:
            push(hub, hub.last_seq + 1)

    hub.subscribe(echo)
    second = watch(hub)
    hub.push_many([record(1), record(2), record(3)])
    assert first == second == [1, 2, 3, 4]


def test_a_watcher_that_comes_or_ends_the_hub_amid_records_that_came_together_sees_each_once() -> (
    None
):
    hub = Hub()
    inner: list[Seen] = []

    def join(seen: Record) -> None:
        if seen.seq == 2:
            inner.append(watch(hub))
            hub.end()

    hub.subscribe(join)
    hub.push_many([record(1), record(2), record(3)])
    assert inner == [[1, 2, 3, "end"]]


def test_a_watcher_that_pushes_more_than_is_kept_unpacked_loses_nothing_for_anybody() -> None:
    hub = Hub()
    most = 3 * TAIL

    def echo(seen: Record) -> None:
        if seen.seq < most:
            push(hub, seen.seq + 1)

    hub.subscribe(echo)
    second = watch(hub)
    push(hub, 1)
    assert second == watch(hub) == list(range(1, most + 1))


def test_a_watcher_that_pushes_while_it_catches_up_sees_what_it_pushed_in_its_turn() -> None:
    hub = Hub()
    other = watch(hub)
    push(hub, *range(1, TAIL))
    seen = Seen()

    def echo(given: Record) -> None:
        seen.note(given)
        if given.seq < 10:
            push(hub, hub.last_seq + 1)

    hub.subscribe(echo)
    assert seen == other == list(range(1, TAIL + 9))


def test_an_end_from_within_a_watcher_lets_the_others_see_the_record_first() -> None:
    hub = Hub()

    def end(_: Record) -> None:
        hub.end()
        push(hub, 2)

    hub.subscribe(end)
    seen = watch(hub)
    push(hub, 1)
    assert seen == [1, "end"]
    assert watch(hub) == [1, "end"]


def test_a_watcher_that_ends_the_hub_while_it_catches_up_hears_of_the_end_once() -> None:
    hub = Hub()
    push(hub, 1, 2)
    seen = Seen()

    def end(given: Record) -> None:
        seen.note(given)
        hub.end(ValueError("over"))

    hub.subscribe(end, seen.fail, seen.end)
    assert seen == [1, 2, "over"]


def test_a_watcher_subscribed_from_within_another_sees_each_record_once() -> None:
    hub = Hub()
    inner = Seen()

    def join(seen: Record) -> None:
        if seen.seq == 2:
            hub.subscribe(inner.note)

    hub.subscribe(join)
    push(hub, 1, 2, 3)
    assert inner == [1, 2, 3]


def test_a_watcher_subscribed_as_the_hub_ends_sees_everything_and_the_end() -> None:
    hub = Hub()
    late: list[Seen] = []

    def again() -> None:
        late.append(watch(hub))

    hub.subscribe(on_completed=again)
    push(hub, 1)
    hub.end()
    assert late == [[1, "end"]]


def test_nothing_comes_after_the_end() -> None:
    hub = Hub()
    seen = watch(hub)
    hub.end()
    push(hub, 1)
    hub.end(ValueError("late"))
    assert seen == ["end"]
    assert (hub.last_seq, hub.error) == (0, None)


def test_disposing_detaches_and_the_others_go_on() -> None:
    hub = Hub()
    gone = Seen()
    subscription = hub.subscribe(gone.note)
    stays = watch(hub)
    push(hub, 1)
    subscription.dispose()
    push(hub, 2)
    assert (gone, stays) == ([1], [1, 2])


def test_disposing_another_within_a_round_keeps_the_record_from_it() -> None:
    hub = Hub()
    gone = Seen()
    subscriptions: list[abc.DisposableBase] = []

    def dispose(_: Record) -> None:
        subscriptions[0].dispose()

    hub.subscribe(dispose)
    subscriptions.append(hub.subscribe(gone.note))
    push(hub, 1)
    assert gone == []
    assert hub.watching == 1


def test_a_watcher_may_leave_while_it_catches_up() -> None:
    hub = Hub()
    push(hub, 1, 2, 3, 4)
    seen = Seen()
    hub.pipe(ops.take(2)).subscribe(seen.note)
    push(hub, 5)
    assert seen == [1, 2]
    assert hub.watching == 0


def test_a_watcher_without_on_error_does_not_keep_the_end_from_the_others() -> None:
    hub = Hub()
    errors: list[Exception] = []
    hub.subscribe(lambda _: None)
    hub.subscribe(lambda _: None, errors.append)
    failure = ValueError("over")
    hub.end(failure)
    assert errors == [failure]


def test_it_counts_who_watches_and_knows_whether_anybody_ever_has() -> None:
    hub = Hub()
    assert (hub.watching, hub.watched) == (0, False)
    one = hub.subscribe()
    two = hub.watch(Coalesce()).subscribe()
    assert hub.watching == 2
    one.dispose()
    two.dispose()
    assert (hub.watching, hub.watched) == (0, True)


def test_an_observer_stands_where_the_run_stands() -> None:
    hub = Hub()
    hub.subscribe()
    push(hub, 1, 2)
    [state] = hub.states()
    assert (state.delivery, state.seq, state.lag, state.delivered) == ("reliable", 2, 0, 2)


async def test_an_iterator_reads_at_its_own_pace_and_misses_nothing() -> None:
    hub = Hub()
    push(hub, 1)
    records = aiter(hub)
    assert (await anext(records)).seq == 1
    waiting = asyncio.ensure_future(anext(records))
    await asyncio.sleep(0)
    assert not waiting.done()
    push(hub, 2, 3)
    assert (await waiting).seq == 2
    hub.end()
    assert [seen.seq async for seen in records] == [3]


async def test_an_iterator_raises_what_ended_the_source_after_the_last_record() -> None:
    hub = Hub()
    push(hub, 1)
    hub.end(ValueError("over"))
    records = aiter(hub)
    assert (await anext(records)).seq == 1
    with pytest.raises(ValueError, match="over"):
        await anext(records)


async def test_two_iterators_do_not_share_their_records() -> None:
    hub = Hub()
    push(hub, 1, 2, 3)
    hub.end()
    first, second = [[seen.seq async for seen in hub] for _ in range(2)]
    assert first == second == [1, 2, 3]


@given(st.lists(st.sampled_from(["push", "join", "leave", "raise"]), max_size=30))
def test_any_coming_and_going_leaves_each_watcher_an_unbroken_beginning(moves: list[str]) -> None:
    hub = Hub()
    watching: list[tuple[Seen, abc.DisposableBase]] = []
    for move in moves:
        if move == "push":
            push(hub, hub.last_seq + 1)
        elif move == "join":
            seen = Seen()
            watching.append((seen, hub.subscribe(seen.note)))
        elif move == "leave" and watching:
            seen, subscription = watching.pop()
            subscription.dispose()
            assert seen == list(range(1, hub.last_seq + 1))
        elif move == "raise":
            hub.subscribe(boom)
    for seen, _ in watching:
        assert seen == list(range(1, hub.last_seq + 1))


def test_a_short_run_that_has_ended_takes_little_more_than_its_text() -> None:
    def kept() -> int:
        gc.collect()
        tracemalloc.start()
        try:
            hub = Hub()
            for seq in range(1, 401):  # fewer than are packed while the run goes on
                hub.push(Record(seq, "r", 1, 1, seq / 100, TextDelta(0, "word")))
            hub.end()
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            assert hub.last_seq == 400
        finally:
            tracemalloc.stop()
        return held

    kept()
    assert kept() < 400 * 50


TIMEOUT = 30.0


def test_a_one_shot_event_wakes_every_thread_that_waits() -> None:
    event = OneShotEvent()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(event.wait, TIMEOUT) for _ in range(4)]
        event.set()
        assert all(done.result(TIMEOUT) for done in waiting)


def test_a_one_shot_event_stays_set() -> None:
    event = OneShotEvent()
    event.set()
    event.set()
    assert event.is_set()
    assert [event.wait(0.0), event.wait(0.0)] == [True, True]


def test_waiting_for_a_one_shot_event_times_out() -> None:
    assert not OneShotEvent().wait(0.0)
