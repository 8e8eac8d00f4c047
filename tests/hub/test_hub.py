"""`Hub`: records reach every observer at once, in one order, and no observer can harm another."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import abc
from reactivex import operators as ops

from rxworker.events import Record, TextDelta
from rxworker.hub import Coalesce, Hub
from rxworker.hub.history import TAIL


def record(n: int) -> Record:
    return Record(n, "r", 1, 1, float(n), TextDelta(0, str(n)))


class Seen(list[int | str]):
    """The numbers of the records that an observer received, and how its stream ended."""

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
    """A hub, and the watchers that were detached from it."""
    detached: list[str] = []

    def on_detach(name: str, error: BaseException) -> None:
        detached.append(f"{name} {type(error).__name__} {error}".strip())

    return Hub(on_detach), detached


def test_every_watcher_receives_everything_however_late_it_is_attached() -> None:
    hub = Hub()
    early = watch(hub)
    push(hub, 1, 2)
    late = watch(hub)
    push(hub, 3)
    assert early == late == [1, 2, 3]


def test_packed_records_reach_a_late_watcher_one_by_one() -> None:
    hub = Hub()
    pushed = [record(n) for n in range(1, 2 * TAIL + 9)]
    for one in pushed:
        hub.push(one)
    assert len(hub.history.tail) < TAIL
    seen: list[Record] = []
    hub.subscribe(seen.append)
    assert seen == pushed


def test_a_watcher_attached_after_the_end_receives_everything_and_the_end() -> None:
    hub = Hub()
    push(hub, 1)
    hub.end()
    assert watch(hub) == [1, "end"]


def test_a_watcher_that_raises_is_detached_and_the_others_continue() -> None:
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


def test_a_watcher_that_raises_cancelled_error_does_not_cancel_the_source() -> None:
    """As when a watcher calls `result()` of a cancelled future."""
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


def test_a_record_pushed_by_a_watcher_follows_the_current_one_for_all_watchers() -> None:
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


def test_records_pushed_together_are_in_order_and_records_pushed_meanwhile_follow_them() -> None:
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


def test_a_watcher_attached_amid_records_pushed_together_receives_each_once() -> None:
    hub = Hub()
    inner: list[Seen] = []

    def join(seen: Record) -> None:
        if seen.seq == 2:
            inner.append(watch(hub))
            hub.end()

    hub.subscribe(join)
    hub.push_many([record(1), record(2), record(3)])
    assert inner == [[1, 2, 3, "end"]]


def test_no_watcher_misses_a_record_when_one_pushes_more_than_is_kept_unpacked() -> None:
    hub = Hub()
    most = 3 * TAIL

    def echo(seen: Record) -> None:
        if seen.seq < most:
            push(hub, seen.seq + 1)

    hub.subscribe(echo)
    second = watch(hub)
    push(hub, 1)
    assert second == watch(hub) == list(range(1, most + 1))


def test_a_watcher_that_pushes_while_it_catches_up_receives_its_own_records_in_order() -> None:
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


def test_an_end_within_a_push_follows_the_record_for_all_watchers() -> None:
    hub = Hub()

    def end(_: Record) -> None:
        hub.end()
        push(hub, 2)

    hub.subscribe(end)
    seen = watch(hub)
    push(hub, 1)
    assert seen == [1, "end"]
    assert watch(hub) == [1, "end"]


def test_a_watcher_that_ends_the_hub_while_it_catches_up_receives_the_end_once() -> None:
    hub = Hub()
    push(hub, 1, 2)
    seen = Seen()

    def end(given: Record) -> None:
        seen.note(given)
        hub.end(ValueError("over"))

    hub.subscribe(end, seen.fail, seen.end)
    assert seen == [1, 2, "over"]


def test_a_watcher_subscribed_within_a_push_receives_each_record_once() -> None:
    hub = Hub()
    inner = Seen()

    def join(seen: Record) -> None:
        if seen.seq == 2:
            hub.subscribe(inner.note)

    hub.subscribe(join)
    push(hub, 1, 2, 3)
    assert inner == [1, 2, 3]


def test_a_watcher_subscribed_as_the_hub_ends_receives_everything_and_the_end() -> None:
    hub = Hub()
    late: list[Seen] = []

    def again() -> None:
        late.append(watch(hub))

    hub.subscribe(on_completed=again)
    push(hub, 1)
    hub.end()
    assert late == [[1, "end"]]


def test_nothing_is_pushed_after_the_end() -> None:
    hub = Hub()
    seen = watch(hub)
    hub.end()
    push(hub, 1)
    hub.end(ValueError("late"))
    assert seen == ["end"]
    assert (hub.last_seq, hub.error) == (0, None)


def test_disposing_detaches_and_the_others_continue() -> None:
    hub = Hub()
    gone = Seen()
    subscription = hub.subscribe(gone.note)
    stays = watch(hub)
    push(hub, 1)
    subscription.dispose()
    push(hub, 2)
    assert (gone, stays) == ([1], [1, 2])


def test_a_watcher_disposed_by_another_does_not_receive_the_record() -> None:
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


def test_a_watcher_may_be_disposed_while_it_catches_up() -> None:
    hub = Hub()
    push(hub, 1, 2, 3, 4)
    seen = Seen()
    hub.pipe(ops.take(2)).subscribe(seen.note)
    push(hub, 5)
    assert seen == [1, 2]
    assert hub.watching == 0


def test_the_others_receive_the_end_if_a_watcher_has_no_on_error() -> None:
    hub = Hub()
    errors: list[Exception] = []
    hub.subscribe(lambda _: None)
    hub.subscribe(lambda _: None, errors.append)
    failure = ValueError("over")
    hub.end(failure)
    assert errors == [failure]


def test_it_counts_the_watchers_and_reports_whether_it_ever_had_one() -> None:
    hub = Hub()
    assert (hub.watching, hub.watched) == (0, False)
    one = hub.subscribe()
    two = hub.watch(Coalesce()).subscribe()
    assert hub.watching == 2
    one.dispose()
    two.dispose()
    assert (hub.watching, hub.watched) == (0, True)


def test_an_observer_of_the_hub_is_never_behind() -> None:
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
def test_each_watcher_receives_an_unbroken_beginning_however_watchers_attach_and_detach(moves: list[str]) -> None:
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


def test_a_short_run_that_has_ended_needs_little_more_memory_than_its_text() -> None:
    def kept() -> int:
        gc.collect()
        tracemalloc.start()
        try:
            hub = Hub()
            for seq in range(1, 401):  # fewer than are packed during the run
                hub.push(Record(seq, "r", 1, 1, seq / 100, TextDelta(0, "word")))
            hub.end()
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            assert hub.last_seq == 400
        finally:
            tracemalloc.stop()
        return held

    gc.freeze()  # what other tests have left is not looked at
    kept()
    assert kept() < 400 * 50
