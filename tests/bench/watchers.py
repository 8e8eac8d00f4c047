"""What watchers cost: each by the event, a slow one beside a fast one, and one that comes late.

    python tests/bench/watchers.py            a minute
    python tests/bench/watchers.py --quick    seconds, and rough

Every figure stands beside its reference, measured in the same run and in turn with it, so that the machine drops out: a
bare list of callbacks that is called in the same turns of the event loop, a fast watcher that is alone, the same text
in fewer events.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from rxworker.events import AttemptStart, BlockStart, BlockType, Record, RunStart, TextDelta, TurnStart
from rxworker.hub import Coalesce, Hub
from rxworker.messages import Conversation, Message
from rxworker.state import RunState
from rxworker.turn.journal import Journal

SLOW = 0.1
"""Seconds that the slow watcher takes for a record."""


class Sizes(Struct, frozen=True):
    """How much is measured."""

    watchers: Sequence[int] = (1, 10, 100, 1000)
    calls: int = 300_000
    rounds: int = 5
    paced: int = 500
    events: int = 100_000


QUICK = Sizes(watchers=(1, 10, 100), calls=20_000, rounds=3, paced=100, events=10_000)


class Cost(Struct, frozen=True):
    """Microseconds of CPU for an event and a watcher."""

    watchers: int
    us: float
    bare_us: float

    @property
    def ratio(self) -> float:
        """How many times the bare list of callbacks."""
        return self.us / self.bare_us


class Delay(Struct, frozen=True):
    """Microseconds from the push to the fast watcher, the median, and what was held of it all."""

    beside: str
    us: float
    alone_us: float

    @property
    def ratio(self) -> float:
        """How many times that of the fast watcher alone."""
        return self.us / self.alone_us


class Figures(Struct, frozen=True):
    """All that was measured; bytes are those held after the events, by the event."""

    costs: Sequence[Cost]
    delays: Sequence[Delay]
    events: int
    bytes_alone: float
    bytes_beside_slow: float
    late_ms: float
    late_in_few_ms: float


def record(n: int, text: str = "word") -> Record:
    """The record with this number."""
    return Record(n, "r", 1, 1, 0.0, TextDelta(0, text))


# By the event and the watcher.


def note(_: Record) -> None:
    """What a watcher does here."""


async def hub_cpu(watchers: int, events: int) -> float:
    """Seconds of CPU with a hub, an event each turn of the loop."""
    hub = Hub()
    for _ in range(watchers):
        hub.watch(Coalesce()).subscribe(note)
    await asyncio.sleep(0)
    begin = time.process_time()
    for n in range(1, events + 1):
        hub.push(record(n))
        await asyncio.sleep(0)
    return time.process_time() - begin


async def bare_cpu(watchers: int, events: int) -> float:
    """The same with a bare list of callbacks."""
    callbacks: list[Callable[[Record], None]] = [note for _ in range(watchers)]
    loop = asyncio.get_running_loop()

    def call_all(shown: Record) -> None:
        for callback in callbacks:
            callback(shown)

    begin = time.process_time()
    for n in range(1, events + 1):
        loop.call_soon(call_all, record(n))
        await asyncio.sleep(0)
    return time.process_time() - begin


async def cost(watchers: int, sizes: Sizes) -> Cost:
    """The median over the rounds, each with its reference."""
    events = max(sizes.calls // (watchers + 10), 100)
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(sizes.rounds):
        bare.append(await bare_cpu(watchers, events))
        ours.append(await hub_cpu(watchers, events))
    each = 1e6 / events / watchers
    return Cost(watchers, statistics.median(ours) * each, statistics.median(bare) * each)


# A slow one beside a fast one.


async def read_slowly(hub: Hub) -> None:
    """A watcher that takes its time, on the same event loop."""
    async for _ in hub.watch(Coalesce()):
        await asyncio.sleep(SLOW)


@contextmanager
def slow_thread(hub: Hub) -> Generator[None, None, None]:
    """A watcher that takes its time in a thread."""
    over = threading.Event()

    def read() -> None:
        for _ in hub.watch(Coalesce()):
            if over.wait(SLOW):
                return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield
    over.set()


async def delay(hub: Hub, events: int) -> float:
    """Seconds from a push to the fast watcher, the median."""
    pushed = 0.0
    delays: list[float] = []

    def arrived(_: Record) -> None:
        delays.append(time.perf_counter() - pushed)

    subscription = hub.watch(Coalesce(), after=hub.last_seq).subscribe(arrived)
    for n in range(hub.last_seq + 1, hub.last_seq + events + 1):
        pushed = time.perf_counter()
        hub.push(record(n))
        await asyncio.sleep(0.001)
    subscription.dispose()
    return statistics.median(delays)


async def delays_of(sizes: Sizes) -> list[Delay]:
    """A fast watcher alone, and with slow ones beside it, in turn."""
    alone: list[float] = []
    on_loop: list[float] = []
    in_thread: list[float] = []
    for _ in range(sizes.rounds):
        alone.append(await delay(Hub(), sizes.paced))
        hub = Hub()
        reading = asyncio.ensure_future(read_slowly(hub))
        on_loop.append(await delay(hub, sizes.paced))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        hub = Hub()
        with slow_thread(hub):
            in_thread.append(await delay(hub, sizes.paced))
            hub.end()
    reference = statistics.median(alone) * 1e6
    slow = {"a slow async for": on_loop, "a slow thread": in_thread}
    return [Delay(name, statistics.median(us) * 1e6, reference) for name, us in slow.items()]


async def bytes_held(events: int, *, is_slow: bool) -> float:
    """Bytes by the event that are held behind them all, with a fast watcher, and perhaps a slow one."""
    gc.collect()
    tracemalloc.start()
    hub = Hub()
    hub.watch(Coalesce()).subscribe(note)
    reading = asyncio.ensure_future(read_slowly(hub)) if is_slow else None
    for n in range(1, events + 1):
        hub.push(record(n))
        await asyncio.sleep(0)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if reading is not None:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return held / events


# One that comes late.


def journal_of(events: int, text: str) -> Journal:
    """A run whose answer has come in so many pieces."""
    journal = Journal("r", lambda: 0.0)
    journal.emit(RunStart(Conversation((Message.user("Go."),))))
    for event in (TurnStart(), AttemptStart("p", "m"), BlockStart(0, BlockType.TEXT)):
        journal.emit(event)
    delta = TextDelta(0, text)
    for _ in range(events):
        journal.emit(delta)
    return journal


def snapshot(journal: Journal) -> RunState:
    """What a late watcher begins with, and what it would be shown from the first."""
    journal.hub.history.merged(0)
    return journal.state


def late_ms(events: int, text: str, rounds: int) -> float:
    """Milliseconds of CPU for a snapshot, the median."""
    taken: list[float] = []
    for _ in range(rounds):
        journal = journal_of(events, text)
        begin = time.process_time()
        snapshot(journal)
        taken.append((time.process_time() - begin) * 1e3)
    return statistics.median(taken)


async def figures_of(sizes: Sizes) -> Figures:
    """Everything, one after the other."""
    return Figures(
        costs=[await cost(watchers, sizes) for watchers in sizes.watchers],
        delays=await delays_of(sizes),
        events=sizes.events,
        bytes_alone=await bytes_held(sizes.events, is_slow=False),
        bytes_beside_slow=await bytes_held(sizes.events, is_slow=True),
        late_ms=late_ms(sizes.events, "word", sizes.rounds),
        late_in_few_ms=late_ms(sizes.events // 100, "word" * 100, sizes.rounds),
    )


def lines_of(figures: Figures) -> list[str]:
    """The figures, as text to read."""
    lines = ["| watchers | hub µs | bare list µs | ratio | by the event and watcher |", "|---:|---:|---:|---:|---|"]
    lines += [f"| {c.watchers} | {c.us:.3f} | {c.bare_us:.3f} | {c.ratio:.2f} | |" for c in figures.costs]
    lines += [
        f"a fast watcher beside {d.beside}: {d.us:.0f} µs, alone {d.alone_us:.0f} µs, ratio {d.ratio:.2f}"
        for d in figures.delays
    ]
    few = figures.events // 100
    return [
        *lines,
        f"{figures.events} events hold {figures.bytes_alone:.1f} bytes each, "
        f"{figures.bytes_beside_slow:.1f} with a slow watcher beside",
        f"a late watcher of {figures.events} events: {figures.late_ms:.2f} ms; of the same text in {few}: "
        f"{figures.late_in_few_ms:.2f} ms",
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer of everything")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    args = parser.parse_args()
    figures = asyncio.run(figures_of(QUICK if args.quick else Sizes()))
    shown = msgspec.json.encode(figures).decode() if args.json else "\n".join(lines_of(figures))
    print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
