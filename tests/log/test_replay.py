"""A stored run as an observable, at any speed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as ops
from reactivex.abc import ObserverBase
from reactivex.observable.groupedobservable import GroupedObservable
from reactivex.scheduler import HistoricalScheduler

from rxworker import Worker, tool
from rxworker.errors import LocalProtocolError, LogError
from rxworker.events import Annotation, Event, Record, RunStop, TextDelta, ToolStop, TurnStart, TurnStop
from rxworker.log import Claim, EventLog, MemoryLog, base, replay
from rxworker.log.format import entries_of
from rxworker.log.values import RunRow, StoredStatus
from rxworker.operators import events as events_of
from rxworker.operators import merge_runs, only
from rxworker.state import RunState, step_run
from rxworker.testing import Marbles, ScriptedModel, call, say
from rxworker.testing.marbles import parse
from tests.log.conftest import OpenLog, until

RUN = "run-1"
RATED = Annotation("rating", 5).custom


def made(times: Sequence[float], first: int = 1, event: Event | None = None) -> list[Record]:
    """Records at these times. By default two of three are deltas of one text, which are stored as a span."""
    return [
        Record(seq, RUN, 1, 1, time, event or (TextDelta(0, f"{seq} ") if seq % 3 else TurnStart()))
        for seq, time in enumerate(times, first)
    ]


async def stored(log: EventLog, records: Sequence[Record], status: StoredStatus = "finished") -> Claim:
    claim = await log.claim(RUN, create=True)
    await log.append(claim, entries_of(records, claim.epoch), after=0, row=RunRow(status))
    return claim


async def add(log: EventLog, claim: Claim, record: Record, status: StoredStatus) -> None:
    some = entries_of([record], claim.epoch)
    await log.append(claim, some, after=record.seq - 1, row=RunRow(status))


async def settle() -> None:
    """Let a replay of a log in memory read."""
    for _ in range(10):
        await asyncio.sleep(0)


async def all_of(records: Observable[Record]) -> list[Record]:
    async with asyncio.timeout(60):
        return await records.pipe(ops.to_list())


@pytest.mark.parametrize(
    ("speed", "after", "drawn"),
    [
        (1.0, 0, "a---b-------c---(d,e,|)"),
        (2.0, 0, "a-b---c-(d,e,|)"),
        (0.5, 0, "a-------b---------------c-------(d,e,|)"),
        (0, 0, "(a,b,c,d,e,|)"),
        (1.0, 1, "b-------c---(d,e,|)"),
        (1.0, 5, "|"),
    ],
)
async def test_each_record_is_emitted_at_its_original_distance(
    speed: float, after: int, drawn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "PAGE", 2)
    async with MemoryLog() as log:
        end = [Record(seq, RUN, 1, 1, time, event) for seq, time, event in ((4, 116.0, RunStop()), (5, 9000.0, RATED))]
        records = made([100.0, 104.0, 112.0]) + end
        await stored(log, records)
        test = Marbles()
        seen = test.scheduler.create_observer()
        replay(log, RUN, speed=speed, after=after, scheduler=test.scheduler).subscribe(seen)
        for tick in range(1, 50):
            await settle()
            test.scheduler.advance_to(float(tick))
        assert seen.messages == parse(drawn, dict(zip("abcde", records, strict=True)), 0)


async def test_a_page_is_read_when_the_one_before_was_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PAGE", 2)
    async with MemoryLog() as log:
        await stored(log, made([float(n) for n in range(12)], event=TurnStart()))
        time, read = HistoricalScheduler(), list[int]()
        inner = log._read  # pyright: ignore[reportPrivateUsage]

        async def counted(run_id: str, after: int, limit: int) -> Any:
            read.append(after)
            return await inner(run_id, after, limit)

        monkeypatch.setattr(log, "_read", counted)
        replay(log, RUN, scheduler=time).subscribe()
        await settle()
        assert read == [0]
        time.start()
        await settle()
        assert read == [0, 2]


async def test_a_run_that_is_still_running_is_followed_when_it_is_due(log: MemoryLog) -> None:
    one, two, three = made([100.0, 104.0, 106.0])
    claim = await stored(log, [one], "running")
    test = Marbles()
    seen = test.scheduler.create_observer()
    replay(log, RUN, scheduler=test.scheduler).subscribe(seen)
    for tick in range(1, 20):
        await settle()
        if tick == 3:
            await add(log, claim, two, "running")
        if tick == 11:  # it was due at 6
            await add(log, claim, three, "finished")
        await settle()
        test.scheduler.advance_to(float(tick))
    assert seen.messages == parse("a---b-----(c,|)", {"a": one, "b": two, "c": three}, 0)


@example(kinds=[False, True, True, False, True, True], after=0, last=3, page=4, speed=0)
@given(
    kinds=st.lists(st.booleans(), min_size=1, max_size=12),
    after=st.integers(0, 14),
    last=st.none() | st.integers(0, 14),
    page=st.integers(1, 4),
    speed=st.sampled_from([0, 1000.0]),
)
def test_any_cut_gives_exactly_the_rest(
    kinds: list[bool], after: int, last: int | None, page: int, speed: float
) -> None:
    records = [
        Record(seq, RUN, 1, 1, 0.0, TextDelta(0, "ab") if is_delta else TurnStart())
        for seq, is_delta in enumerate(kinds, 1)
    ]

    async def main() -> list[Record]:
        async with MemoryLog() as log:
            await stored(log, records)
            return await all_of(replay(log, RUN, speed=speed, after=after, until=last))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "PAGE", page)
        assert asyncio.run(main()) == records[after:last]


async def test_records_go_from_history_to_live_and_complete_with_the_run(open_store: OpenLog) -> None:
    async with open_store() as log, open_store() as opened:
        other = log if isinstance(log, MemoryLog) else opened  # as from another process
        records = made([1.0] * 6)
        claim = await stored(log, records[:2], "running")
        early, late = list[Record](), list[Record]()
        done = asyncio.Event()
        following = other.records(RUN, after=1)
        following.subscribe(early.append, on_completed=done.set)
        await until(lambda: early)
        for record in records[2:5]:
            await add(log, claim, record, "running")
        late_done = asyncio.Event()
        following.subscribe(late.append, on_completed=late_done.set)
        await until(lambda: len(early) == len(late) == 4)
        assert not done.is_set()
        await add(log, claim, records[5], "paused")
        async with asyncio.timeout(60):
            await done.wait()
            await late_done.wait()
        assert early == late == records[1:]
        assert await all_of(log.records(RUN)) == records
        await until(lambda: not other.followers.runs)


async def test_records_complete_when_the_log_is_closed() -> None:
    log = MemoryLog()
    await stored(log, made([1.0, 1.0]), "running")
    seen = asyncio.create_task(all_of(log.records(RUN)))
    await settle()
    assert not seen.done()
    await log.close()
    assert len(await seen) == 2
    with pytest.raises(LocalProtocolError, match="closed"):
        await all_of(log.records(RUN))


@pytest.mark.parametrize("speed", [0, 1.0])
async def test_a_disposed_replay_stops_reading(speed: float, log: MemoryLog) -> None:
    records = made([1.0, 1.0, 1.0, 9.0])
    await stored(log, records, "running")
    seen: list[Record] = []
    time = HistoricalScheduler()
    subscription = replay(log, RUN, speed=speed, scheduler=time).subscribe(seen.append)
    await settle()
    assert log.followers.runs == (RUN,)
    subscription.dispose()
    await settle()
    time.start()
    assert (log.followers.runs, len(seen)) == ((), 3 if speed else 4)
    # Also from within.
    assert await all_of(replay(log, RUN, speed=speed).pipe(ops.take(2))) == records[:2]
    await settle()
    assert log.followers.runs == ()


async def test_what_cannot_be_read_is_an_error(log: MemoryLog) -> None:
    with pytest.raises(LogError, match="no run"):
        await all_of(log.records("run-9"))
    claim = await stored(log, made([1.0, 1.0, 1.0]), "running")
    damaged = entries_of(made([1.0], first=4, event=TurnStop()), claim.epoch)
    await log.append(claim, damaged, after=3)
    log._entries[RUN].pop(1)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(LogError, match="record 3 is missing"):
        await all_of(log.records(RUN))
    await log.release(claim)
    following = asyncio.create_task(all_of(log.records(RUN, after=4)))
    await settle()
    await log.delete(RUN)
    with pytest.raises(LogError, match="no run"):
        await following
    with pytest.raises(LocalProtocolError, match="speed"):
        replay(log, RUN, speed=-1)


@pytest.mark.parametrize("speed", [0, 1.0])
async def test_what_an_observer_raises_goes_to_the_one_that_pushed(speed: float, log: MemoryLog) -> None:
    await stored(log, made([1.0, 5.0]), "running")
    raised: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
    time = HistoricalScheduler()

    def fail(record: Record) -> None:
        if record.seq == 2:
            raise ValueError("no")

    replay(log, RUN, speed=speed, scheduler=time).subscribe(fail)
    await settle()
    if speed:
        with pytest.raises(ValueError, match="no"):
            time.start()
    await settle()
    loop.set_exception_handler(None)
    assert [type(error) for error in raised] == ([] if speed else [ValueError])
    assert log.followers.runs == ()


@tool
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


async def run_of(log: EventLog, text: str) -> Any:
    model = ScriptedModel([say("Let me see.") + call("look", n=1), text])
    run = Worker(model, tools=[look], log=log).run("What is there?")
    await run
    return run


async def test_operators_work_on_stored_runs(log: MemoryLog) -> None:
    one, other = await run_of(log, "Nothing."), await run_of(log, "Something.")
    both = merge_runs([log.records(one.id), log.records(other.id)])

    def run_name(record: Record) -> str:
        return record.run_id

    def count(group: GroupedObservable[str, Record]) -> Observable[tuple[str, int]]:
        def named(number: int) -> tuple[str, int]:
            return group.key, number

        return group.pipe(ops.count(), ops.map(named))

    grouped: Any = ops.group_by(run_name)
    counted = both.pipe(grouped, ops.flat_map(count), ops.to_list())
    assert dict(await counted) == {one.id: one.last_seq, other.id: other.last_seq}
    ends = await log.records(one.id).pipe(events_of(), only(ToolStop), ops.to_list())
    assert [stop.result and stop.result.text for stop in ends] == ["saw 1"]


async def test_a_stored_run_is_folded_again_with_a_new_operator(log: MemoryLog) -> None:
    """The state that the run had, and a number that nobody had thought of when it ran."""

    def longest(most: int, record: Record) -> int:
        return max(most, len(record.event.text) if isinstance(record.event, TextDelta) else 0)

    run = await run_of(log, "Nothing.")
    again = log.records(run.id).pipe(ops.reduce(step_run, RunState()))
    assert await again == run.state
    assert await replay(log, run.id, speed=1000).pipe(ops.reduce(longest, 0)) == 4


class Raising(ObserverBase[Record]):
    """An observer that raises at the end."""

    def on_next(self, value: Record) -> None:
        pass

    def on_error(self, error: Exception) -> None:
        raise error

    def on_completed(self) -> None:
        raise ValueError("at the end")


async def test_what_an_observer_raises_at_the_end_is_reported(log: MemoryLog) -> None:
    await stored(log, made([1.0], event=RunStop()))
    raised: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: raised.append(str(context["exception"])))
    log.records(RUN).subscribe(Raising())
    log.records("run-9").subscribe(Raising())
    await settle()
    loop.set_exception_handler(None)
    assert sorted(raised) == ["at the end", "the log has no run 'run-9'"]
