"""What happens when a watcher raises."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import RunCancelledError, RxWorkerError
from rxworker.events import Ping, Record
from rxworker.hub import Hub, Reliable

ERRORS: list[type[BaseException]] = [ValueError, SystemExit, asyncio.CancelledError, GeneratorExit]


def record(seq: int) -> Record:
    return Record(seq, "r", 1, 1, 0.0, Ping())


def fail(_: object) -> None:
    raise ValueError("a bug")


@pytest.mark.parametrize("error", [*ERRORS, KeyboardInterrupt])
def test_on_detach_may_raise_anything(error: type[BaseException]) -> None:
    def on_detach(name: str, raised: BaseException) -> None:
        raise error("on purpose")

    hub = Hub(on_detach)
    hub.subscribe(fail)
    seen: list[Record] = []
    hub.subscribe(seen.append)
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            hub.push(record(1))
    else:
        hub.push(record(1))
    assert len(seen) == 1
    assert hub.watching == 1


def test_an_interrupt_of_a_watcher_is_raised_from_push_after_all_watchers_have_received_the_record() -> None:
    def interrupt(_: Record) -> None:
        raise KeyboardInterrupt

    hub = Hub()
    hub.subscribe(interrupt)
    seen: list[Record] = []
    hub.subscribe(seen.append)
    with pytest.raises(KeyboardInterrupt):
        hub.push(record(1))
    hub.push(record(2))
    assert [r.seq for r in seen] == [1, 2]


def test_an_interrupt_of_a_watcher_leaves_the_event_loop() -> None:
    seen: list[Record] = []

    async def main() -> None:
        def interrupt(_: Record) -> None:
            raise KeyboardInterrupt

        hub = Hub()
        hub.watch().subscribe(interrupt)
        hub.watch().subscribe(seen.append)
        hub.push(record(1))
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert len(seen) == 1


def test_a_detached_watcher_is_logged_with_its_name_and_the_traceback(
    caplog: pytest.LogCaptureFixture, hub: Hub
) -> None:
    hub.watch(name="chart").subscribe(fail)
    hub.subscribe(fail)
    hub.push(record(1))
    hub.push(record(2))
    logged = [r for r in caplog.records if r.name == "rxworker.hub"]
    assert [(r.levelno, r.getMessage()) for r in logged] == [
        (logging.WARNING, "watcher watcher-2 has raised and is detached"),
        (logging.WARNING, "watcher chart has raised and is detached"),
    ]
    assert "def fail" not in caplog.text
    assert 'raise ValueError("a bug")' in caplog.text


def test_what_a_watcher_raises_at_the_end_is_logged(caplog: pytest.LogCaptureFixture, hub: Hub) -> None:
    hub.subscribe(print, print, lambda: fail(None))
    hub.end()
    assert "a bug" in caplog.text


def test_a_watcher_without_on_error_is_not_logged_for_the_error_of_the_run(
    caplog: pytest.LogCaptureFixture, hub: Hub
) -> None:
    hub.subscribe(print)
    hub.watch().subscribe(print)
    hub.end(RunCancelledError("lunch"))
    assert caplog.records == []


@pytest.mark.parametrize("error", [*ERRORS, KeyboardInterrupt])
async def test_awaiting_an_operator_downstream_of_a_watcher_ends_when_it_raises(error: type[BaseException]) -> None:
    """A foreign operator that raises instead of calling on_error."""

    def careless(source: Observable[Any]) -> Observable[Any]:
        def subscribe(
            observer: abc.ObserverBase[Record], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            def on_next(_: Record) -> None:
                raise error("on purpose")

            return source.subscribe(on_next, observer.on_error, observer.on_completed)

        return Observable(subscribe)

    hub = Hub()
    interrupts: list[KeyboardInterrupt] = []
    hub.detach_reporter.on_interrupt = interrupts.append
    hub.push(record(1))
    for source in (hub, hub.watch(), hub.events):
        watched: Observable[Any] = source
        last = watched.pipe(careless, ops.last())
        with pytest.raises((ValueError, RxWorkerError), match="on purpose"):
            async with asyncio.timeout(60):
                await last
    assert len(interrupts) == (3 if error is KeyboardInterrupt else 0)


async def test_a_source_that_waits_for_a_slow_reader_continues_when_the_run_ends() -> None:
    hub = Hub()
    batches = hub.watch(Reliable(limit=1)).batches()
    hub.push(record(1))
    assert len(await anext(batches)) == 1
    hub.push(record(2))
    held = hub.hold()
    assert held is not None
    assert not held.done()
    hub.end(RunCancelledError("lunch"))
    assert held.done()
    assert hub.hold() is None
    await batches.aclose()


@pytest.mark.parametrize("closes", [False, True])
def test_a_reader_in_a_thread_is_woken_when_the_event_loop_stops_or_closes(closes: bool) -> None:
    loop = asyncio.new_event_loop()
    begun = threading.Event()
    ended: list[BaseException | None] = []

    async def make() -> Hub:
        return Hub()

    hub = loop.run_until_complete(make())

    def read() -> None:
        begun.set()
        try:
            for _ in hub.watch():
                pass
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert begun.wait(5)
    if closes:
        loop.close()
    else:
        hub.end(RunCancelledError("lunch"))
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(ended[0], RxWorkerError)
    if not closes:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
