"""What x-ray costs the dashboards of `rxworker.panels`, and one as users write them, over recorded events.

The figures are shares of what the dashboards cost without it.

    python tests/bench/xray.py            a minute
    python tests/bench/xray.py --quick    seconds, and rough

Both boards take the same records in turn, slice by slice; each figure is that of the fastest twentieth of the slices,
which other programs have disturbed least. The share of the calls of functions does not depend on them. Without x-ray
the operators are applied to the records as they are: nothing of it is in the way.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import msgspec
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker.boards import Dashboard, panel
from rxworker.events import AttemptStart, Event, Record, ToolStart, ToolStop, is_block_event
from rxworker.messages import ToolCall
from rxworker.operators import events, rate, text_deltas
from rxworker.operators.kernel import Source
from rxworker.panels import RUNS, USAGE, count, tool_of

SLICE = 200


def recorded() -> list[Event]:
    """What providers have sent, as they sent it.

    Thinking, text and calls, each response after its request, and a tool after it.
    """
    paths = sorted(RECORDINGS.glob("*/*/events.jsonl"))
    decode = msgspec.json.Decoder(Event).decode
    events: list[Event] = []
    for number, path in enumerate(paths):
        call = ToolCall(str(number), "look", {})
        events += [
            AttemptStart("anthropic", "tiny"),
            *map(decode, path.read_bytes().splitlines()),
            ToolStart(call),
            ToolStop(call_id=call.id, result=None, seconds=0.1, tool="look"),
        ]
    return events


RECORDINGS = Path(__file__).parents[1] / "recordings"
EVENTS = recorded()


def record(number: int) -> Record:
    """A record of a run, 50 a second."""
    return Record(number + 1, "run", 1, 1, number / 50, EVENTS[number % len(EVENTS)])


def length(text: str) -> int:
    return len(text)


def texts(records: Observable[Record]) -> Observable[int]:
    """The characters so far: a pipeline as users write them."""
    return records.pipe(events(), text_deltas(), ops.map(length), ops.filter(bool), ops.scan(int.__add__, 0))


def written(records: Observable[Record]) -> Observable[float]:
    def size(event: Event) -> float:
        return len(getattr(event, "text", ""))

    return records.pipe(events(), ops.filter(is_block_event), ops.map(size), rate(1.0))


OWN = Dashboard(
    [
        panel("Characters", texts),
        panel("Written", written, view="line"),
        panel("Tools", count(ToolStart), view="bar", group=tool_of),
    ],
    title="Own",
)


def calls(push: Callable[[Record], None], records: Sequence[Record]) -> int:
    """How many functions are called for records, those in C included."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        for each in records:
            push(each)
    finally:
        sys.setprofile(None)
    return count


def measure(dashboard: Dashboard, slices: int) -> tuple[float, float, float]:
    """Microseconds a record, without and with x-ray; and the share by which it calls more functions."""
    sources: list[Source[Record]] = [Source(), Source()]
    for is_on, source in enumerate(sources):
        dashboard.show(source, scheduler=HistoricalScheduler(), xray=bool(is_on))
    taken: list[list[float]] = [[], []]
    gc.disable()
    for part in range(slices):
        records = [record(part * SLICE + number) for number in range(SLICE)]
        for is_on in (0, 1) if part % 2 else (1, 0):
            push = sources[is_on].on_next
            begun = time.thread_time()
            for each in records:
                push(each)
            taken[is_on].append(time.thread_time() - begun)
        gc.collect(0)
    gc.enable()
    records = [record(slices * SLICE + number) for number in range(len(EVENTS))]
    without, with_it = (calls(source.on_next, records) for source in sources)
    off, on = (1e6 * sorted(each)[len(each) // 20] / SLICE for each in taken)
    return off, on, with_it / without - 1


def main() -> None:
    slices = 60 if "--quick" in sys.argv else 600
    for dashboard in (USAGE, RUNS, OWN):
        off, on, share = measure(dashboard, slices)
        print(
            f"{dashboard.title:6} {off:6.2f} µs a record, {on:6.2f} with x-ray: {on / off - 1:+.3f}, calls {share:+.4f}"
        )


if __name__ == "__main__":
    main()
