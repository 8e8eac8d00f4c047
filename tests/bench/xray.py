"""What x-ray costs the dashboards of `rxworker.panels`, as a share of what they cost without it.

    python tests/bench/xray.py            a minute
    python tests/bench/xray.py --quick    seconds, and rough

Both boards take the same records in turn, slice by slice; each figure is that of the fastest twentieth of the slices, which other programs have disturbed least.
Without x-ray the operators are applied to the records as they are: nothing of it is in the way.
"""

from __future__ import annotations

import gc
import sys
import time

from reactivex.scheduler import HistoricalScheduler

from rxworker.boards import Dashboard
from rxworker.events import AttemptStart, Event, Record, TextDelta, ToolStart, ToolStop
from rxworker.messages import ToolCall
from rxworker.messages.usage import Usage
from rxworker.operators.kernel import Source
from rxworker.panels import RUNS, USAGE

SLICE = 200


def record(number: int) -> Record:
    """A record of a run that writes, and now and then uses a tool."""
    step, seq = number % 100, number + 1
    event: Event = TextDelta(0, "hello ")
    if step == 0:
        event = AttemptStart("scripted", "large")
    elif step in (50, 90):
        event = Usage(10, number)
    elif step == 95:
        event = ToolStart(ToolCall("1", "look", {}))
    elif step == 96:
        event = ToolStop(call_id="1", result=None, seconds=0.1, tool="look")
    return Record(seq, "run", 1, 1, number / 50, event)


def measure(dashboard: Dashboard, slices: int) -> tuple[float, float]:
    """Microseconds a record, without and with x-ray."""
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
    off, on = (1e6 * sorted(each)[len(each) // 20] / SLICE for each in taken)
    return off, on


def main() -> None:
    slices = 60 if "--quick" in sys.argv else 600
    for dashboard in (USAGE, RUNS):
        off, on = measure(dashboard, slices)
        share = on / off - 1
        print(f"{dashboard.title:6} {off:6.2f} µs a record, {on:6.2f} with x-ray: {share:+.3f}")


if __name__ == "__main__":
    main()
