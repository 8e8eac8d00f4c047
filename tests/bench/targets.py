"""What has to be reached, and whether it is: limits, and the figures that are held to them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from cells import ALL, CELLS, UVLOOP, Cell, Pair
from msgspec import Struct

Value = Callable[[Pair], float]
Measured = Mapping[tuple[Cell, str], Sequence[Pair]]


def ratio(pair: Pair) -> float:
    """CPU of ours in floors."""
    return pair.ours.cpu_s / pair.floor.cpu_s


def memory(pair: Pair) -> float:
    """Megabytes at our peak, over the floor's at its."""
    return (pair.ours.rss_peak_kb - pair.floor.rss_peak_kb) / 1024


def first(pair: Pair) -> float:
    """Milliseconds from the call to the first delta, over the floor's."""
    return pair.ours.ttfd_ms - pair.floor.ttfd_ms


OTHERS = ("gemini", "ollama")


class Target(Struct, frozen=True):
    """A row of the table.

    Attributes:
        what: In words.
        limit: The maximum of the median; none where the figure is only reported.
        cell: What is measured for it.
        value: The figure of a round.
        unit: Behind the figures; none for a ratio to the floor.
        other_limit: The maximum for Gemini and Ollama, where it is another.
    """

    what: str
    limit: float | None
    cell: Cell
    value: Value = ratio
    unit: str = ""
    other_limit: float | None = None

    def limit_for(self, api: str) -> float | None:
        """The maximum for a protocol."""
        return self.other_limit if self.other_limit and api in OTHERS else self.limit


def _cell(name: str, n: int) -> Cell:
    return next(cell for cell in (*CELLS, *UVLOOP) if (cell.name, cell.n) == (name, n))


TARGETS = (
    Target("client, 2,000 deltas", 1.4, _cell("stream", 2_000), other_limit=2.0),
    Target("client, 20,000 deltas", 1.4, _cell("stream", 20_000), other_limit=2.0),
    Target("worker, 2,000 deltas", 1.9, _cell("worker", 2_000), other_limit=2.5),
    Target("worker, 20,000 deltas", 1.9, _cell("worker", 20_000), other_limit=2.5),
    Target("worker, arguments in 20,000 deltas", 1.8, _cell("bigargs", 20_000)),
    Target("tool loop, 1 round of 4 calls", 2.0, _cell("tools", 100)),
    Target("tool loop, 10 rounds of 4 calls", 2.0, _cell("tools10", 100)),
    Target("200 paced streams: CPU a stream", 1.4, _cell("paced", 200)),
    Target("200 paced streams: peak memory", 15.0, _cell("paced", 200), memory, "MB"),
    Target("call to first delta", 0.5, _cell("first", 5), first, "ms"),
    Target("on uvloop: client, 2,000 deltas", None, _cell("stream:uvloop", 2_000)),
    Target("on uvloop: tool loop, 1 round", None, _cell("tools:uvloop", 100)),
)
IMPORT = "CPU of `import rxworker`"
IMPORT_LIMIT = 0.05
"""Seconds over importing aiohttp, msgspec and reactivex."""


class Figure(Struct, frozen=True):
    """The median of some rounds, and how far they lie apart.

    Attributes:
        what: The target's words.
        api: Which protocol; none where the figure has nothing to do with one.
        limit: The most that the median may come to, or none.
        unit: Of the figures; none for a ratio to the floor.
        median: The median of the rounds.
        least: The smallest of them.
        most: The largest.
    """

    what: str
    api: str | None
    limit: float | None
    unit: str
    median: float
    least: float
    most: float

    @property
    def is_met(self) -> bool:
        """Whether the limit holds; it does where there is none."""
        return self.limit is None or self.median <= self.limit


def figure(what: str, api: str | None, limit: float | None, unit: str, values: Sequence[float]) -> Figure:
    """What some rounds came to."""
    places = 3 if unit == "s" else 1 if unit == "MB" else 2
    median, least, most = statistics.median(values), min(values), max(values)
    return Figure(what, api, limit, unit, round(median, places), round(least, places), round(most, places))


def figures_of(measured: Measured, imports: Sequence[float] = ()) -> list[Figure]:
    """Every figure that was measured, in the order of the table.

    Args:
        measured: The rounds of each cell and protocol.
        imports: Seconds of CPU that an import took over the others', for each round.
    """
    figures = [
        figure(target.what, api, target.limit_for(api), target.unit, [target.value(p) for p in pairs])
        for target in TARGETS
        for api in ALL
        if (pairs := measured.get((target.cell, api)))
    ]
    if imports:
        figures.append(figure(IMPORT, None, IMPORT_LIMIT, "s", imports))
    return figures


__all__ = [
    "IMPORT",
    "IMPORT_LIMIT",
    "TARGETS",
    "Figure",
    "Measured",
    "Target",
    "figure",
    "figures_of",
    "first",
    "memory",
    "ratio",
]
