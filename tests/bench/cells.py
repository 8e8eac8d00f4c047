"""What is measured: each cell is one thing that a client does, in rxworker and in the floor."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from harness import Result
from msgspec import Struct

APIS = ("anthropic", "chat", "responses")
"""What the shared server and the shared floor speak."""

OTHERS = ("gemini", "ollama")
"""What only ours do, and without tools or pace."""

ALL = (*APIS, *OTHERS)


class Cell(Struct, frozen=True):
    """One thing to measure, in rxworker and in the floor.

    Attributes:
        name: Its name in the table.
        n: How many deltas; for ``bigargs`` those of the arguments.
        scenario: What the harness calls it.
        variant: Of the client.
        floor: The variant of the floor that it is compared with.
        repeat: How many calls a process makes.
        rounds: Of ``tools``: how many responses call tools before the answer.
        streams: Of ``concurrency``: how many at once.
        pace: Microseconds between two events; none for everything in one write.
        times: How often it is run in a round; more where a clock is read, and others use the machine.
        per: What its cost is divided by: the ``delta``, the ``loop``, or a ``stream`` of many.
        apis: The protocols it is measured with.
    """

    name: str
    n: int
    scenario: str = "stream"
    variant: str = "default"
    floor: str = "default"
    repeat: int = 11
    rounds: int = 1
    streams: int = 200
    pace: int = 0
    times: int = 1
    per: str = "delta"
    apis: tuple[str, ...] = APIS

    @property
    def extra(self) -> list[str]:
        """The harness's arguments for it."""
        sizes = {"n": self.n, "repeat": self.repeat, "rounds": self.rounds}
        more = {"k": self.streams, "pace": self.pace}
        return [
            "--scenario",
            self.scenario,
            *(str(word) for key, value in {**sizes, **more}.items() for word in (f"--{key}", value)),
        ]

    def cost(self, result: Result) -> float:
        """Microseconds of CPU, by what it is counted by."""
        if self.per == "delta":
            return result.cpu_us_per_delta
        return result.cpu_s * 1e6 / (self.streams if self.per == "stream" else 1)


CELLS = (
    Cell("stream", 2_000, apis=ALL),
    Cell("worker", 2_000, variant="worker", apis=ALL),
    Cell("bigargs", 2_000, "bigargs"),
    Cell("tools", 100, "tools", repeat=51, per="loop"),
    Cell("tools10", 100, "tools", repeat=15, rounds=10, per="loop"),
    Cell("stream", 20_000, repeat=3, apis=ALL),
    Cell("worker", 20_000, variant="worker", repeat=3, apis=ALL),
    Cell("bigargs", 20_000, "bigargs", repeat=3),
    Cell("paced", 200, "concurrency", repeat=1, pace=20_000, per="stream"),
    Cell("first", 5, "ttfd", repeat=15, pace=4_000, times=3),
)
UVLOOP = (
    Cell("stream:uvloop", 2_000, variant="uvloop", floor="uvloop"),
    Cell("tools:uvloop", 100, "tools", "uvloop", "uvloop", repeat=51, per="loop"),
)


class Pair(NamedTuple):
    """What one round gave: two processes, one right behind the other."""

    floor: Result
    ours: Result


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


def summed_up(cell: Cell, api: str, pairs: Sequence[Pair]) -> Row:
    """The medians of a cell's rounds."""
    ratios = [pair.ours.cpu_s / pair.floor.cpu_s for pair in pairs]
    return Row(
        name=cell.name,
        api=api,
        n=cell.n,
        per=cell.per,
        floor_us=round(statistics.median(cell.cost(pair.floor) for pair in pairs), 2),
        us=round(statistics.median(cell.cost(pair.ours) for pair in pairs), 2),
        ratio=round(statistics.median(ratios), 2),
        least=round(min(ratios), 2),
        most=round(max(ratios), 2),
        memory_mb=round(statistics.median(_memory_kb(pair.ours) for pair in pairs) / 1024, 1),
    )


def _memory_kb(result: Result) -> int:
    # The two are not counted in the same way, so that a little may come out below nothing.
    return max(0, result.rss_peak_kb - result.rss_ready_kb)


__all__ = ["ALL", "APIS", "CELLS", "OTHERS", "UVLOOP", "Cell", "Pair", "Row", "summed_up"]
