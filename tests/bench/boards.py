"""What a record costs a dashboard: one that no panel reads, and those of the ready dashboards; and ten over 200 runs.

    python tests/bench/boards.py            half a minute
    python tests/bench/boards.py --quick    seconds, and rough

The records are those of responses as providers have sent them, most of them deltas. Each figure is that of the fastest
of several passes. The last line is the share of a core that ten dashboards take while 200 runs stream, each 20 deltas a
second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from msgspec.structs import replace
from xray import EVENTS, OWN, record

from rxworker.boards import Dashboard, panel
from rxworker.boards.dashboard import Fold
from rxworker.events import BlockStop, Record, RunStop, TextDelta, ToolStart, TurnStop
from rxworker.panels import FLEET, PERIODS, RUNS, USAGE, count, fleet, label_of, model_of, tool_of

CALLS = Dashboard([panel("Calls", count(ToolStart), view="bar", group=tool_of)], title="Calls")
TEN = [
    USAGE,
    RUNS,
    OWN,
    CALLS,
    *(fleet(period) for period in PERIODS),
    Dashboard([panel("Turns", count(TurnStop), view="bar", group=label_of("tenant", "none"))], title="Turns"),
    Dashboard([panel("Ended", count(RunStop))], title="Ended"),
    Dashboard([panel("Blocks", count(BlockStop), view="bar", group=model_of)], title="Blocks"),
]
STREAMED = 200 * 20
"""Records a second of 200 runs."""


def microseconds(dashboard: Dashboard, records: Sequence[Record], passes: int) -> float:
    """For each of these records, of a dashboard that has taken others."""
    best = float("inf")
    for _ in range(passes):
        fold = Fold(dashboard)
        for each in FIRST:
            fold.take(each)
        begun = time.thread_time()
        for each in records:
            fold.take(each)
        best = min(best, (time.thread_time() - begun) / len(records))
    return 1e6 * best


FIRST = [record(number) for number in range(len(EVENTS))]
LATER = [record(number) for number in range(len(EVENTS), 3 * len(EVENTS))]
DELTAS = [each for each in LATER if isinstance(each.event, TextDelta)]
TEXT = [replace(DELTAS[at % len(DELTAS)], time=1000 + at / 100) for at in range(4000)]


def main() -> None:
    passes = 3 if "--quick" in sys.argv else 20
    print(f"{microseconds(CALLS, DELTAS, passes):6.2f} µs a record that no panel reads")
    print(f"{microseconds(USAGE, TEXT, passes):6.2f} µs a delta of a text, 100 a second: {USAGE.title}")
    for dashboard in (USAGE, RUNS, FLEET):
        print(f"{microseconds(dashboard, LATER, passes):6.2f} µs a record: {dashboard.title}")
    streaming = [replace(each, run_id=f"run-{at % 200}", time=1000 + at / STREAMED) for at, each in enumerate(LATER)]
    share = sum(microseconds(each, streaming, passes) for each in TEN) * STREAMED / 1e6
    print(f"{100 * share:6.1f} % of a core: ten dashboards over 200 runs")


if __name__ == "__main__":
    main()
