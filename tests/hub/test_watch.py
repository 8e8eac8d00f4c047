"""`Watch`: reading at the reader's own pace, and back-pressure on the source."""

from __future__ import annotations

import asyncio
import gc
from contextlib import nullcontext
from typing import Any

import pytest

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.events import Record, TextDelta
from rxworker.hub import Coalesce, DropOldest, Hub, Latest, Reliable
from rxworker.hub.delivery import BATCH


def record(n: int) -> Record:
    return Record(n, "r", 1, 1, float(n), TextDelta(n, str(n)))


def push(hub: Hub, count: int = 1) -> None:
    for _ in range(count):
        hub.push(record(hub.last_seq + 1))


def numbers_of(batch: list[Record] | None) -> list[int]:
    return [seen.seq for seen in batch or []]


# here


async def test_it_reads_what_comes_and_ends_with_the_hub() -> None:
    hub = Hub()
    push(hub, 2)

    async def read() -> list[int]:
        return [seen.seq async for seen in hub.watch()]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    push(hub, 2)
    await asyncio.sleep(0)
    push(hub)
    hub.end()
    assert await reading == [1, 2, 3, 4, 5]
    assert hub.watching == 0


async def test_it_begins_after_any_number() -> None:
    hub = Hub()
    push(hub, 5)
    hub.end()
    for after in range(-1, 6):  # a negative one means the beginning
        assert [r.seq async for r in hub.watch(after=after)] == list(range(max(after, 0) + 1, 6))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *(({"delivery": one}, r"delivery=.* is not a delivery: .*Coalesce\(\)") for one in ("coalesce", Coalesce, 5)),
        *(({"after": one}, "after=") for one in ("3", None, 1.5, True)),
    ],
)
def test_an_invalid_argument_is_refused_by_watch(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Hub().watch(**given)


async def test_a_batch_is_everything_new_and_needs_one_await() -> None:
    hub = Hub()
    push(hub, 3)
    batches = hub.watch().batches()
    assert numbers_of(await anext(batches)) == [1, 2, 3]
    push(hub, 2)
    assert numbers_of(await anext(batches)) == [4, 5]
    await batches.aclose()
    assert hub.watching == 0


async def test_a_reliable_reader_far_behind_receives_bounded_batches() -> None:
    hub = Hub()
    push(hub, BATCH + 1)
    hub.end()
    sizes = [len(batch) async for batch in hub.watch(Reliable(limit=None)).batches()]
    assert sizes == [BATCH, 1]


async def test_records_since_its_attachment_detach_a_late_reader_and_those_before_do_not() -> None:
    hub = Hub()
    push(hub, BATCH + 1)
    batches = hub.watch(Reliable(limit=2, when_full="detach")).batches()
    assert len(await anext(batches)) == BATCH
    push(hub, 2)
    assert len(await anext(batches)) == 3
    push(hub, 3)
    with pytest.raises(LocalProtocolError, match="3 records behind"):
        await anext(batches)


async def test_iterating_raises_the_error_of_the_hub_after_the_last_record() -> None:
    hub = Hub()
    push(hub)
    hub.end(ValueError("over"))
    seen: list[int] = []

    async def read() -> None:
        async for one in hub.watch():
            seen.append(one.seq)

    with pytest.raises(ValueError, match="over"):
        await read()
    assert seen == [1]


async def test_each_use_is_a_watcher_of_its_own() -> None:
    hub = Hub()
    push(hub, 2)
    watch = hub.watch(Latest(), name="page")
    first, second = watch.batches(), watch.batches()
    await anext(first)
    push(hub)
    await anext(second)
    states = hub.states()
    assert [(state.name, state.seq, state.lag) for state in states] == [("page", 2, 1), ("page", 3, 0)]
    await first.aclose()
    await second.aclose()


async def test_watchers_without_a_name_are_numbered() -> None:
    hub = Hub()
    hub.subscribe()
    hub.watch().subscribe()
    hub.watch(DropOldest(), name="log").subscribe()
    hub.watch().subscribe()
    names = {state.name for state in hub.states()}
    assert names == {"watcher-1", "watcher-2", "log", "watcher-4"}
    assert repr(hub.watch(Coalesce(), after=3)) == "Watch(Coalesce(), after=3)"


async def test_an_unused_watch_is_not_a_watcher() -> None:
    hub = Hub()
    unused = aiter(hub.watch())
    assert (hub.watching, hub.watched) == (0, False)
    del unused


async def test_a_reader_cancelled_while_it_waits_is_detached() -> None:
    hub = Hub()

    async def read() -> None:
        async for _ in hub.watch():
            pass

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    assert hub.watching == 1
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert hub.watching == 0
    push(hub)


async def test_readers_that_stop_waiting_leave_no_future() -> None:
    def futures() -> int:
        gc.collect()
        return sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects())

    hub = Hub()

    async def give_up() -> None:
        waiting = asyncio.ensure_future(anext(aiter(hub.watch())))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    gc.freeze()  # what other tests have left is not looked at
    before = futures()
    for _ in range(100):
        await give_up()
    assert hub.watching == 0
    assert futures() < before + 50


async def pass_turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_reader_left_by_break_is_detached() -> None:
    hub = Hub()
    push(hub, 3)
    async for _ in hub.watch():
        break
    await pass_turns()
    assert hub.watching == 0


@pytest.mark.parametrize("raises", [False, True])
async def test_a_reliable_reader_left_by_break_or_an_exception_lets_the_source_continue(raises: bool) -> None:
    hub = Hub()
    push(hub, 3)
    held: list[asyncio.Future[None] | None] = []

    async def read() -> None:
        async for _ in hub.watch(Reliable(limit=2)):
            push(hub, 3)
            held.append(hub.hold())
            if raises:
                raise ValueError("no")
            break

    with pytest.raises(ValueError, match="no") if raises else nullcontext():
        await read()
    [waiting] = held
    assert waiting is not None
    async with asyncio.timeout(60):
        await waiting
    assert hub.hold() is None


# pressure


async def test_the_source_is_held_while_a_reliable_reader_is_behind() -> None:
    hub = Hub()
    batches = hub.watch(Reliable(limit=3)).batches()
    push(hub)
    await anext(batches)
    push(hub, 2)
    assert hub.hold() is None
    push(hub)
    held = hub.hold()
    assert hub.hold() is not None
    assert held is not None
    assert not held.done()
    await anext(batches)
    assert held.done()
    assert hub.hold() is None
    await batches.aclose()


async def test_the_source_waits_for_the_slowest_reader() -> None:
    hub = Hub()
    slow, fast = (hub.watch(Reliable(limit=2)).batches() for _ in range(2))
    push(hub)
    await anext(slow)
    await anext(fast)
    push(hub, 2)
    held = hub.hold()
    assert held is not None
    await anext(fast)
    assert not held.done()
    await slow.aclose()
    assert held.done()
    await fast.aclose()


@pytest.mark.parametrize(
    "delivery", [Coalesce(), Latest(), DropOldest(1), Reliable(limit=None), Reliable(1, when_full="detach")], ids=str
)
async def test_no_other_delivery_holds_the_source(delivery: Coalesce) -> None:
    hub = Hub()
    batches = hub.watch(delivery).batches()
    push(hub)
    await anext(batches)
    push(hub, 5000)
    assert hub.hold() is None
    assert hub.hold() is None
    await batches.aclose()


async def test_a_reader_detached_for_being_slow_raises_an_error_with_the_reason() -> None:
    hub = Hub()
    batches = hub.watch(Reliable(limit=2, when_full="detach"), name="page").batches()
    push(hub)
    await anext(batches)
    push(hub, 2)
    assert numbers_of(await anext(batches)) == [2, 3]
    push(hub, 3)
    with pytest.raises(LocalProtocolError, match=r"page is 3 records behind.*Coalesce"):
        await anext(batches)
    assert hub.watching == 0
