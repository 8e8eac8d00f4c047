"""What is measured, and the medians of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from harness import Result
from msgspec import Struct

APIS = ("anthropic", "chat", "responses")


class Cell(Struct, frozen=True):
    """One thing to measure, in rxworker and in the floor.

    Attributes:
        name: Its name in the table.
        n: How many deltas; for ``bigargs`` those of the arguments.
        scenario: What the harness calls it.
        variant: Of the client.
        floor: The variant of the floor that it is compared with.
        repeat: How many calls a process makes.
        per: What its cost is divided by: the ``delta``, or the whole ``loop``.
    """

    name: str
    n: int
    scenario: str = "stream"
    variant: str = "default"
    floor: str = "default"
    repeat: int = 11
    per: str = "delta"

    @property
    def extra(self) -> list[str]:
        """The harness's arguments for it."""
        return ["--scenario", self.scenario, "--n", str(self.n), "--repeat", str(self.repeat)]

    def cost(self, result: Result) -> float:
        """Microseconds of CPU, by the delta or the loop."""
        return result.cpu_us_per_delta if self.per == "delta" else result.cpu_s * 1e6


CELLS = (
    Cell("stream", 2_000),
    Cell("worker", 2_000, variant="worker"),
    Cell("bigargs", 2_000, "bigargs"),
    Cell("tools", 100, "tools", repeat=51, per="loop"),
    Cell("stream", 20_000, repeat=3),
    Cell("worker", 20_000, variant="worker", repeat=3),
    Cell("bigargs", 20_000, "bigargs", repeat=3),
)
UVLOOP = (
    Cell("stream:uvloop", 2_000, variant="uvloop", floor="uvloop"),
    Cell("tools:uvloop", 100, "tools", "uvloop", "uvloop", repeat=51, per="loop"),
)


class Row(Struct, frozen=True):
    """What a cell came to.

    Attributes:
        name: The cell's.
        api: Which protocol.
        n: How many deltas.
        per: What the costs are divided by.
        floor_us: The floor's cost, the median of the rounds.
        us: Ours.
        ratio: Ours in floors, the median of the rounds' ratios.
        least: The smallest of these.
        most: The largest.
        memory_mb: What our process took for the calls, at its peak.
    """

    name: str
    api: str
    n: int
    per: str
    floor_us: float
    us: float
    ratio: float
    least: float
    most: float
    memory_mb: float


def summed_up(cell: Cell, api: str, pairs: Sequence[tuple[Result, Result]]) -> Row:
    """The medians of a cell's rounds, each a pair of the floor's result and ours."""
    ratios = [ours.cpu_s / floor.cpu_s for floor, ours in pairs]
    return Row(
        name=cell.name,
        api=api,
        n=cell.n,
        per=cell.per,
        floor_us=round(statistics.median(cell.cost(floor) for floor, _ in pairs), 2),
        us=round(statistics.median(cell.cost(ours) for _, ours in pairs), 2),
        ratio=round(statistics.median(ratios), 2),
        least=round(min(ratios), 2),
        most=round(max(ratios), 2),
        memory_mb=round(statistics.median(_memory_kb(ours) for _, ours in pairs) / 1024, 1),
    )


def _memory_kb(result: Result) -> int:
    # The two are not counted in the same way, so that a little may come out below nothing.
    return max(0, result.rss_peak_kb - result.rss_ready_kb)


__all__ = ["APIS", "CELLS", "UVLOOP", "Cell", "Row", "summed_up"]
