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


def test_packed_records_reach_a_late_watcher_one_by_one(hub: Hub) -> None:
    pushed = [record(n) for n in range(1, 2 * TAIL + 9)]
    for one in pushed:
        hub.push(one)
    assert len(hub.history.tail) < TAIL
    seen: list[Record] = []
    hub.subscribe(seen.append)
    assert seen == pushed


def test_every_watcher_receives_everything_however_late_it_is_attached(hub: Hub) -> None:
    early = watch(hub)
    push(hub, 1, 2)
    late = watch(hub)
    gone = Seen()
    subscription = hub.subscribe(gone.note)
    push(hub, 3)
    subscription.dispose()
    push(hub, 4)
    hub.end()
    push(hub, 5)
    hub.end(ValueError("late"))
    assert early == late == watch(hub) == [1, 2, 3, 4, "end"]
    assert gone == [1, 2, 3]
    assert (hub.last_seq, hub.error) == (4, None)


@pytest.mark.parametrize(
    ("error", "name"), [(ValueError("no"), "ValueError no"), (asyncio.CancelledError(), "CancelledError")]
)
def test_a_watcher_that_raises_is_detached_and_the_others_continue(error: BaseException, name: str) -> None:
    """Also while it catches up, and with what the result of a cancelled future raises."""
    hub, detached = hub_with_names()

    def fall(_: Record) -> None:
        raise error

    before = watch(hub)
    hub.subscribe(fall)
    after = watch(hub)
    push(hub, 1)
    hub.subscribe(fall)
    push(hub, 2)
    assert before == after == [1, 2]
    assert detached == [f"watcher-2 {name}", f"watcher-4 {name}"]
    assert hub.watching == 2


@pytest.mark.parametrize("most", [3, 3 * TAIL])
def test_a_record_pushed_by_a_watcher_follows_the_current_one_for_all_watchers(most: int, hub: Hub) -> None:
    """Also where that are more than are kept unpacked."""
    first = Seen()

    def echo(seen: Record) -> None:
        first.note(seen)
        if seen.seq < most:
            push(hub, seen.seq + 1)

    hub.subscribe(echo)
    second = watch(hub)
    push(hub, 1)
    assert first == second == watch(hub) == list(range(1, most + 1))


def test_records_pushed_together_are_in_order_and_records_pushed_meanwhile_follow_them(hub: Hub) -> None:
    first = Seen()

    def echo(seen: Record) -> None:
        first.note(seen)
        if seen.seq == 2:
            push(hub, hub.last_seq + 1)

    hub.subscribe(echo)
    second = watch(hub)
    hub.push_many([record(1), record(2), record(3)])
    assert first == second == [1, 2, 3, 4]


@pytest.mark.parametrize("together", [False, True])
def test_a_watcher_that_is_attached_within_a_push_or_the_end_receives_each_record_once(
    together: bool, hub: Hub
) -> None:
    inner: list[Seen] = []

    def join(seen: Record) -> None:
        if seen.seq == 2:
            inner.append(watch(hub))
            if together:
                hub.end()

    hub.subscribe(join, on_completed=lambda: inner.append(watch(hub)))
    if together:
        hub.push_many([record(1), record(2), record(3)])
    else:
        push(hub, 1, 2, 3)
        hub.end()
    assert inner == [[1, 2, 3, "end"]] * 2


def test_a_watcher_that_pushes_while_it_catches_up_receives_its_own_records_in_order(hub: Hub) -> None:
    other = watch(hub)
    push(hub, *range(1, TAIL))
    seen = Seen()

    def echo(given: Record) -> None:
        seen.note(given)
        if given.seq < 10:
            push(hub, hub.last_seq + 1)

    hub.subscribe(echo)
    assert seen == other == list(range(1, TAIL + 9))


def test_an_end_within_a_push_follows_the_record_for_all_watchers(hub: Hub) -> None:

    def end(_: Record) -> None:
        hub.end()
        push(hub, 2)

    hub.subscribe(end)
    seen = watch(hub)
    push(hub, 1)
    assert seen == [1, "end"]
    assert watch(hub) == [1, "end"]


def test_a_watcher_that_ends_the_hub_while_it_catches_up_receives_the_end_once(hub: Hub) -> None:
    push(hub, 1, 2)
    seen = Seen()

    def end(given: Record) -> None:
        seen.note(given)
        hub.end(ValueError("over"))

    hub.subscribe(end, seen.fail, seen.end)
    assert seen == [1, 2, "over"]


def test_a_watcher_disposed_by_another_does_not_receive_the_record(hub: Hub) -> None:
    gone = Seen()
    subscriptions: list[abc.DisposableBase] = []

    def dispose(_: Record) -> None:
        subscriptions[0].dispose()

    hub.subscribe(dispose)
    subscriptions.append(hub.subscribe(gone.note))
    push(hub, 1)
    assert gone == []
    assert hub.watching == 1


def test_a_watcher_may_be_disposed_while_it_catches_up(hub: Hub) -> None:
    push(hub, 1, 2, 3, 4)
    seen = Seen()
    hub.pipe(ops.take(2)).subscribe(seen.note)
    push(hub, 5)
    assert seen == [1, 2]
    assert hub.watching == 0


def test_the_others_receive_the_end_if_a_watcher_has_no_on_error(hub: Hub) -> None:
    errors: list[Exception] = []
    hub.subscribe(lambda _: None)
    hub.subscribe(lambda _: None, errors.append)
    failure = ValueError("over")
    hub.end(failure)
    assert errors == [failure]


def test_it_counts_the_watchers_and_reports_whether_it_ever_had_one(hub: Hub) -> None:
    assert (hub.watching, hub.watched) == (0, False)
    one = hub.subscribe()
    two = hub.watch(Coalesce()).subscribe()
    push(hub, 1, 2)
    state = hub.states()[0]  # an observer of the hub itself is never behind
    assert (hub.watching, state.delivery, state.seq, state.lag, state.delivered) == (2, "reliable", 2, 0, 2)
    one.dispose()
    two.dispose()
    assert (hub.watching, hub.watched) == (0, True)


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


async def test_each_iterator_has_all_records_and_then_what_ended_the_source() -> None:
    hub = Hub()
    push(hub, 1, 2, 3)
    hub.end(ValueError("over"))

    async def read(seen: Seen) -> None:
        async for one in hub:
            seen.note(one)

    for _ in range(2):
        seen = Seen()
        with pytest.raises(ValueError, match="over"):
            await read(seen)
        assert seen == [1, 2, 3]


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
