"""Reading outside the hub's event loop: in a thread, on another event loop, and after the loop is closed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

import pytest

from rxworker.errors import LocalProtocolError
from rxworker.events import Record, TextDelta
from rxworker.hub import Hub, Reliable, Watch

A = TypeVar("A")


def record(n: int) -> Record:
    return Record(n, "r", 1, 1, float(n), TextDelta(n, str(n)))


def push(hub: Hub, count: int = 1) -> None:
    for _ in range(count):
        hub.push(record(hub.last_seq + 1))


class Elsewhere:
    """An event loop in a thread of its own, and a hub on it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

        async def make() -> Hub:
            return Hub()

        self.hub = self.call(make())

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            self._over = asyncio.Event()
            runner.run(self._over.wait())

    def call(self, work: Coroutine[Any, Any, A]) -> A:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    def push(self, count: int = 1) -> None:
        async def go() -> None:
            push(self.hub, count)

        self.call(go())

    def end(self, error: Exception | None = None) -> None:
        async def go() -> None:
            self.hub.end(error)

        self.call(go())

    def close(self) -> None:
        """The loop ends as ``asyncio.run`` ends it: its tasks are cancelled, then it is closed."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def elsewhere() -> Generator[Elsewhere, None, None]:
    there = Elsewhere()
    yield there
    there.close()


def in_thread(work: Callable[[], A]) -> Callable[[], A]:
    """Call a function in a thread; calling what is returned waits for the result."""
    results: list[A] = []
    errors: list[BaseException] = []

    def go() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()

    def wait() -> A:
        thread.join(10)
        assert not thread.is_alive(), "the thread still waits"
        if errors:
            raise errors[0]
        return results[0]

    return wait


# another thread


def test_a_thread_reads_what_comes_and_ends_with_the_hub(elsewhere: Elsewhere) -> None:
    elsewhere.push(2)
    arrived = threading.Event()

    def read() -> list[int]:
        seen: list[int] = []
        for one in elsewhere.hub.watch():
            seen.append(one.seq)
            arrived.set()
        return seen

    reading = in_thread(read)
    assert arrived.wait(10)
    elsewhere.push(3)
    elsewhere.end()
    assert reading() == [1, 2, 3, 4, 5]


def test_iterating_in_a_thread_raises_the_error_of_the_hub(elsewhere: Elsewhere) -> None:
    def read() -> list[int]:
        return [one.seq for one in elsewhere.hub.watch()]

    reading = in_thread(read)
    elsewhere.push()
    elsewhere.end(ValueError("over"))
    with pytest.raises(ValueError, match="over"):
        reading()


def test_leaving_the_loop_in_a_thread_detaches(elsewhere: Elsewhere) -> None:
    elsewhere.push(3)

    async def watching() -> int:
        return elsewhere.hub.watching

    for one in elsewhere.hub.watch():
        assert one.seq == 1
        assert elsewhere.call(watching()) == 1
        break
    gc.collect()
    assert elsewhere.call(watching()) == 0


def test_a_reliable_reader_in_a_thread_holds_the_source_until_it_is_detached(elsewhere: Elsewhere) -> None:
    elsewhere.push()

    async def hold() -> bool:
        return elsewhere.hub.hold() is not None

    records = iter(elsewhere.hub.watch(Reliable(limit=2)))
    next(records)
    elsewhere.push(2)
    assert elsewhere.call(hold())
    assert isinstance(records, Generator)
    records.close()
    assert not elsewhere.call(hold())


def test_the_thread_of_the_run_itself_must_not_wait() -> None:
    async def wait() -> None:
        hub = Hub()
        push(hub)
        with pytest.raises(LocalProtocolError, match="would stop the run's event loop"):
            next(iter(hub.watch()))
        hub.end()

    asyncio.run(wait())


def test_an_observer_subscribed_in_another_thread_is_called_on_the_loop(elsewhere: Elsewhere) -> None:
    threads: list[int] = []
    seen: list[int] = []
    over = threading.Event()

    def note(one: Record) -> None:
        seen.append(one.seq)
        threads.append(threading.get_ident())

    elsewhere.push()
    subscription = elsewhere.hub.watch().subscribe(note, on_completed=over.set)
    elsewhere.push(2)
    elsewhere.end()
    assert over.wait(10)
    assert seen == [1, 2, 3]
    assert set(threads) == {elsewhere._thread.ident}
    subscription.dispose()


def test_disposing_in_another_thread_takes_effect_at_once(elsewhere: Elsewhere) -> None:
    seen: list[int] = []
    subscription = elsewhere.hub.watch().subscribe(lambda one: seen.append(one.seq))
    subscription.dispose()
    elsewhere.push(3)
    elsewhere.push()
    assert seen == []


def test_watchers_of_several_threads_have_different_names(elsewhere: Elsewhere) -> None:
    elsewhere.push(50)
    elsewhere.end()

    def read() -> int:
        return len(list(elsewhere.hub.watch()))

    reading = [in_thread(read) for _ in range(8)]
    assert [wait() for wait in reading] == [50] * 8
    assert elsewhere.hub.name_watcher("") == "watcher-9"


# another event loop


async def test_another_event_loop_reads_what_comes(elsewhere: Elsewhere) -> None:
    elsewhere.push(2)
    records = aiter(elsewhere.hub.watch())
    assert [(await anext(records)).seq for _ in range(2)] == [1, 2]
    waiting = asyncio.ensure_future(anext(records))
    await asyncio.sleep(0)
    elsewhere.push()
    assert (await waiting).seq == 3
    elsewhere.end()
    assert [one.seq async for one in records] == []


async def test_cancelling_a_reader_on_another_event_loop_detaches_it(elsewhere: Elsewhere) -> None:
    async def read() -> None:
        async for _ in elsewhere.hub.watch():
            pass

    async def watching() -> int:
        return elsewhere.hub.watching

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    assert elsewhere.call(watching()) == 1
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert elsewhere.call(watching()) == 0


# a loop that has closed


def test_a_hub_that_has_ended_can_be_read_after_its_loop_is_closed(elsewhere: Elsewhere) -> None:
    elsewhere.push(3)
    elsewhere.end()
    elsewhere.close()
    assert [one.seq for one in elsewhere.hub.watch(after=1)] == [2, 3]

    async def read() -> list[int]:
        return [one.seq async for one in elsewhere.hub.watch(after=1)]

    assert asyncio.run(read()) == [2, 3]
    seen: list[int | str] = []
    elsewhere.hub.watch().subscribe(lambda one: seen.append(one.seq), on_completed=lambda: seen.append("end"))
    assert seen == [1, 2, 3, "end"]


def test_a_hub_that_has_ended_can_be_read_although_its_loop_has_stopped() -> None:
    """As between the last turn of a loop and its closing, and in a program that stops a loop and never closes it."""
    loop = asyncio.new_event_loop()
    try:

        async def make() -> Hub:
            hub = Hub()
            push(hub, 3)
            hub.end()
            return hub

        hub = loop.run_until_complete(make())
        wait = in_thread(lambda: [one.seq for one in hub.watch()])
        assert wait() == [1, 2, 3]
    finally:
        loop.close()


def test_iterating_in_a_thread_raises_if_the_loop_closes_before_the_end(elsewhere: Elsewhere) -> None:
    elsewhere.push()
    elsewhere.close()
    records = iter(elsewhere.hub.watch())
    assert next(records).seq == 1
    with pytest.raises(LocalProtocolError, match="event loop has closed before"):
        next(records)


def test_a_thread_that_waits_during_the_shutdown_of_the_loop_reads_to_the_end() -> None:
    seen: list[int] = []
    arrived = threading.Event()

    def read(watch: Watch) -> None:
        for one in watch:
            seen.append(one.seq)
            arrived.set()

    async def main() -> tuple[Hub, Callable[[], None]]:
        hub = Hub()
        push(hub)
        reading = in_thread(lambda: read(hub.watch()))
        await asyncio.to_thread(arrived.wait, 10)

        async def source() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                push(hub)
                hub.end()

        task = asyncio.ensure_future(source())
        await asyncio.sleep(0)
        del task
        return hub, reading

    _, reading = asyncio.run(main())
    reading()
    assert seen == [1, 2]
