"""All runs of a log together: how many there are in which state, and what they have taken, by group. Pure.

Theory of operation. A run contributes the difference between its last values and those before, so that a change costs
the same with any number of runs. A run that resumes a paused one, and a fork, begin with the values of that one, and
contribute what they have added. A nested run is a part of the outer one, which counts what it takes. A paused run that
was resumed counts as the run that resumes it. What runs took over time is a dashboard over their records:
`rxworker.panels.fleet`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest

from msgspec import Struct, field
from msgspec.structs import replace

from rxworker.log.values import OPEN, TAPPED, TENANT, RunInfo, RunRow, StoredStatus, counts_of
from rxworker.messages import Prices
from rxworker.messages.usage import Usage, as_sum
from rxworker.providers.models import Cost, cost_of, currency_of, prices_of
from rxworker.state.run_state import TOOL_BOUNDS


def usage_of(row: RunRow) -> Usage:
    """The tokens of a stored run."""
    return Usage(
        row.input_tokens or None,
        row.output_tokens or None,
        row.cache_read_tokens or None,
        row.cache_creation_tokens or None,
    )


def can_requeue(row: RunRow) -> bool:
    """Whether a run has failed, or was set aside, so that putting it back may help.

    One that was cancelled or stopped by a limit ended as it should.
    """
    is_tapped = row.worker.startswith(TAPPED)
    return row.status == "aborted" and row.cause == "error" and not row.outer and not is_tapped


class RowCosts:
    """What stored runs cost: as their workers have counted it, unless there are prices that they have not.

    The lengths of the prompts are not known here: by these prices, all are short ones.

    Args:
        table: The prices by the names of models.

    Attributes:
        currency: Their currency; without prices, that of the first run whose cost is known. A cost in another one is
            not known: nothing is converted.

    >>> row = RunRow(input_tokens=1_000_000, by_model={"mine": (1_000_000, 0, 0, 0)}, unpriced=("mine",))
    >>> RowCosts({"mine": Prices(input=1.0, output=2.0)}).of(row)
    Cost(known=1.0, currency='USD', unpriced=())
    """

    def __init__(self, table: Mapping[str, Prices]) -> None:
        self._table = table
        self.currency = currency_of(table)

    def is_estimate(self, row: RunRow) -> bool:
        """Whether the worker of a run has not counted its cost by these prices."""
        if row.cost is None and not row.unpriced:
            return True
        return any(name in self._table for name in row.unpriced)

    def of(self, row: RunRow) -> Cost:
        """What a run has cost, and the models whose prices are not known."""
        currency = next((prices.currency for name in row.by_model if (prices := prices_of(name, row.prices))), "")
        cost = self._estimated(row) if self.is_estimate(row) else Cost(row.cost, currency, row.unpriced)
        if cost.known is not None:
            self.currency = self.currency or cost.currency
            if cost.currency not in ("", self.currency):
                return Cost(None, "", (*row.by_model,))
        return cost

    def _estimated(self, row: RunRow) -> Cost:
        by_model = {name: Usage(*counts) for name, counts in row.by_model.items()}
        # An older version has not stored of which model the tokens from before a pause are.
        known = [counts_of(each) for each in by_model.values()]
        whole = counts_of(usage_of(row))
        rest = [max(n - sum(part), 0) for n, *part in zip(whole, *known, strict=True)]
        model = next(iter(by_model)) if len(by_model) == 1 else ""
        by_model[model] = by_model.get(model, Usage()) + Usage(*rest)
        sums = {name: as_sum(each) for name, each in by_model.items()}
        return cost_of(sums, row.prices, self._table)


MAX_RUNS = 100_000
MAX_GROUPS = 1000
OTHER = "other"
"""The tenant of the runs of further groups."""

_NOTHING = RunRow(cost=0.0)


class Totals(Struct):
    """The consumption of runs.

    Attributes:
        ended: How many have finished, or were aborted.
        failed: How many of those were aborted for another cause than a cancellation.
        recovered: How often they were recovered.
        turns: How many turns have started, without those of nested runs.
        input_tokens: The tokens that the models have read.
        output_tokens: The tokens that the models have written.
        cost: The cost of those whose prices are known.
        unpriced: The names of the models whose prices are not known.
        estimated_cost: The part of the cost that was estimated; see `Fleet`.
        tool_calls: How many tools have started, those of nested runs included, as for the next three.
        tool_errors: How many tools have failed.
        tool_seconds: How long the tools took, together.
        tool_durations: How many tools took up to each of `TOOL_BOUNDS`, and at the end those that took longer.
    """

    ended: int = 0
    failed: int = 0
    recovered: int = 0
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced: set[str] = field(default_factory=set[str])
    estimated_cost: float = 0.0
    tool_calls: int = 0
    tool_errors: int = 0
    tool_seconds: float = 0.0
    tool_durations: list[int] = field(default_factory=lambda: [0] * (len(TOOL_BOUNDS) + 1))

    def add(self, other: Totals, times: int = 1) -> None:
        """Add other totals to these, or subtract them: -1 times."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        self.unpriced |= other.unpriced
        for at, count in enumerate(other.tool_durations):
            self.tool_durations[at] += times * count

    def tool_quantile(self, share: float) -> float | None:
        """The seconds that this share of the tools took at most, interpolated between `TOOL_BOUNDS`.

        ``None`` without tools.

        >>> Totals(tool_durations=[0, 0, 0, 0, 0, 0, 10] + [0] * 9).tool_quantile(0.5)
        0.75
        """
        rank = share * sum(self.tool_durations)
        if not rank:
            return None
        below, seen = 0.0, 0
        for bound, count in zip(TOOL_BOUNDS, self.tool_durations, strict=False):
            if count and seen + count >= rank:
                return below + (bound - below) * (rank - seen) / count
            below, seen = bound, seen + count
        return below


_GROWING = ("turns", "input_tokens", "output_tokens", "tool_calls", "tool_errors", "tool_seconds")
_SUMMED = [*{*Totals.__struct_fields__} - {"unpriced", "tool_durations"}]


class Group(Struct):
    """The runs of a worker for a tenant.

    Attributes:
        worker: The name of the worker.
        tenant: The value of the label ``tenant``.
        runs: How many runs have which status now. One that was resumed is not paused any more.
        totals: Their consumption since they were first seen; it does not shrink when runs are deleted.
    """

    worker: str
    tenant: str
    runs: Counter[StoredStatus] = field(default_factory=Counter[StoredStatus])
    totals: Totals = field(default_factory=Totals)


class Fleet:
    """Folds the last values of runs, as `EventLog.fleet` emits them.

    Args:
        most_runs: How many runs are kept; above that the oldest that have ended are dropped. They still count in the
            totals.
        prices: The prices by the names of models, for runs whose workers know none.

    Attributes:
        costs: What runs cost by these prices.
        groups: The groups by worker and tenant.

    Example:
        >>> import asyncio
        >>> from rxworker import Worker
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     fleet = Fleet()
        ...     async with MemoryLog() as log:
        ...         log.fleet(every=0).subscribe(fleet.note)
        ...         await Worker(ScriptedModel(["Hello."]), log=log, name="greeter").run("Hi")
        ...     [group] = fleet.groups.values()
        ...     print(group.worker, dict(+group.runs), group.totals.turns)
        >>> asyncio.run(main())
        greeter {'finished': 1} 1
    """

    def __init__(self, *, most_runs: int = MAX_RUNS, prices: Mapping[str, Prices] | None = None) -> None:
        self._most_runs = most_runs
        self.costs = RowCosts(prices or {})
        self._infos: dict[str, RunInfo] = {}
        self._open: dict[str, RunInfo] = {}
        self._heirs: dict[str, list[str]] = {}
        self._resumed: set[str] = set()
        self._order: list[tuple[float, str]] = []
        self._is_sorted = True
        self.groups: dict[tuple[str, str], Group] = {}

    def note(self, info: RunInfo) -> None:
        """Take newer information about a run."""
        run, before = info.run_id, self._infos.get(info.run_id)
        if before is not None and before.revision > info.revision:
            return
        if not info.row.outer:
            self._count(before, info)
        if info.status == "deleted":
            self._infos.pop(run, None)
            self._open.pop(run, None)
            self._heirs.pop(run, None)
            self._resumed.discard(run)
            return
        if not info.row.outer and (before is None or before.row is not info.row):
            self._add(info, before)
        if before is None:
            self._inherit(info)
            self._resume(info.row)
            place = info.began, run
            self._is_sorted &= not self._order or self._order[-1] < place
            self._order.append(place)
        self._infos[run] = info
        if info.status in OPEN and not info.row.outer:
            self._open[run] = info
        else:
            self._open.pop(run, None)
        if len(self._infos) > self._most_runs:
            self._drop_oldest()

    def is_resumed(self, run: str) -> bool:
        """Whether a run has paused, and another one resumes it."""
        return run in self._resumed and run in self._infos

    @property
    def open(self) -> list[RunInfo]:
        """The runs that are queued or running."""
        return list(self._open.values())

    def newest(self) -> Iterator[RunInfo]:
        """The runs that are kept, without nested ones, the newest first. Runs may be noted meanwhile."""
        if len(self._order) > 2 * len(self._infos):
            self._order = [each for each in self._order if each[1] in self._infos]
        self._sort()
        for at in range(len(self._order) - 1, -1, -1):
            if at < len(self._order):
                info = self._infos.get(self._order[at][1])
                if info is not None and not info.row.outer:
                    yield info

    def _inherit(self, info: RunInfo) -> None:
        """A log lists the newest runs first: a run may come before the one that it continues.

        Then it has counted everything.
        """
        source = "" if info.row.outer else info.row.resumes or info.row.fork_of  # a nested run counts in the outer one
        # A source that was deleted never comes.
        if source and source not in self._infos and info.row.copied is None and len(self._heirs) < self._most_runs:
            self._heirs.setdefault(source, []).append(info.run_id)
        for run in self._heirs.pop(info.run_id, ()):
            heir = self._infos.get(run)
            if heir is not None:
                totals = self._group(heir.row).totals
                totals.add(self._difference(heir.row, _NOTHING), -1)
                totals.add(self._difference(heir.row, replace(info.row, recoveries=0)))

    def _group(self, row: RunRow) -> Group:
        key = row.worker, row.labels.get(TENANT, "")
        group = self.groups.get(key)
        if group is None:
            if len(self.groups) >= MAX_GROUPS:
                key = "", OTHER
            group = self.groups.setdefault(key, Group(*key))
        return group

    def _count(self, before: RunInfo | None, info: RunInfo) -> None:
        if info.run_id in self._resumed:
            return  # the run that resumes it counts
        if before is not None:
            self._group(before.row).runs[before.status] -= 1
        if info.status != "deleted":
            self._group(info.row).runs[info.status] += 1

    def _resume(self, row: RunRow) -> None:
        """The run that this one resumes, if it is one, counts no more; it may come later."""
        paused = row.resumes
        if not paused or row.outer or paused in self._resumed:
            return
        if len(self._resumed) < self._most_runs:
            self._resumed.add(paused)
        known = self._infos.get(paused)
        if known is not None:
            self._group(known.row).runs[known.status] -= 1

    def _add(self, info: RunInfo, before: RunInfo | None) -> None:
        """Add the consumption of a run since its last values, or since those of the run that it continues, if known."""
        base = _NOTHING if before is None else before.row
        if before is None and info.row.copied is not None:
            base = info.row.copied
        elif before is None and (source := self._infos.get(info.row.resumes or info.row.fork_of)):
            base = replace(source.row, recoveries=0)
        taken = self._difference(info.row, base)
        if not is_over(before):
            taken.ended = int(is_over(info))
            taken.failed = int(info.status == "aborted" and info.row.cause != "cancel")
        self._group(info.row).totals.add(taken)

    def _difference(self, row: RunRow, base: RunRow) -> Totals:
        """The difference between two values of a run. A retracted response does not count negative."""
        found = self.costs.of(row)
        cost = max((found.known or 0.0) - (self.costs.of(base).known or 0.0), 0.0)
        durations = zip_longest(row.tool_durations, base.tool_durations, fillvalue=0)
        return Totals(
            unpriced={*found.unpriced},
            recovered=max(row.recoveries - base.recoveries, 0),
            cost=cost,
            estimated_cost=cost if self.costs.is_estimate(row) else 0.0,
            tool_durations=[max(count - before, 0) for count, before in durations],
            **{name: max(getattr(row, name) - getattr(base, name), 0) for name in _GROWING},
        )

    def _sort(self) -> None:
        if not self._is_sorted:
            self._order.sort()
            self._is_sorted = True

    def _drop_oldest(self) -> None:
        """Drop the oldest tenth of the runs, except those that have not ended."""
        self._sort()
        kept: list[tuple[float, str]] = []
        surplus = len(self._infos) - self._most_runs * 9 // 10
        for each in self._order:
            info = self._infos.get(each[1])
            if info is None:
                continue
            if surplus > 0 and (is_over(info) or info.run_id in self._resumed):
                surplus -= 1
                self._resumed.discard(info.run_id)
                del self._infos[each[1]]
            else:
                kept.append(each)
        self._order = kept


def is_over(info: RunInfo | None) -> bool:
    """Whether a run has finished, or was aborted."""
    return info is not None and info.status in ("finished", "aborted")
