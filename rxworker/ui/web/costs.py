"""What the tokens of a stored run cost by the prices that the server was given. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from rxworker.log.values import RunInfo, RunRow, counts_of
from rxworker.messages import Prices
from rxworker.messages.usage import Usage, as_sum
from rxworker.providers.models import Cost, cost_of


def usage_of(row: RunRow) -> Usage:
    """The tokens of a stored run."""
    return Usage(
        row.input_tokens or None,
        row.output_tokens or None,
        row.cache_read_tokens or None,
        row.cache_creation_tokens or None,
    )


class RowCosts:
    """What stored runs cost: as their workers have counted it, unless the server has prices that they have not.

    The lengths of the prompts are not known here: where the server has prices, all have those of short ones.

    Args:
        table: The prices by the names of models.

    Attributes:
        currency: That of the first model of the table.

    >>> row = RunRow(input_tokens=1_000_000, by_model={"mine": (1_000_000, 0, 0, 0)}, unpriced=("mine",))
    >>> RowCosts({"mine": Prices(input=1.0, output=2.0)}).of(row)
    Cost(known=1.0, currency='USD', unpriced=())
    """

    def __init__(self, table: Mapping[str, Prices]) -> None:
        self._table = table
        self.currency = next((prices.currency for prices in table.values()), "")

    def __call__(self, row: RunRow) -> float | None:
        """What a run has cost, as far as prices are known."""
        return self.of(row).known

    def is_estimate(self, row: RunRow) -> bool:
        """Whether the worker of a run has not counted its cost by these prices."""
        if row.cost is None and not row.unpriced:
            return True
        return any(name in self._table for name in row.unpriced)

    def noted(self, info: RunInfo) -> RunInfo:
        """A stored run without the cost that its worker has counted, if the server has prices that it has not."""
        if not self._table or not self.is_estimate(info.row):
            return info
        row = replace(info.row, cost=None, unpriced=self.of(info.row).unpriced)
        return replace(info, row=row)

    def of(self, row: RunRow) -> Cost:
        """What a run has cost, and the models whose prices are not known."""
        if not self.is_estimate(row):
            return Cost(row.cost, self.currency, row.unpriced)
        by_model = {name: Usage(*counts) for name, counts in row.by_model.items()}
        # An older version has not stored of which model the tokens from before a pause are.
        known = [counts_of(each) for each in by_model.values()]
        whole = counts_of(usage_of(row))
        rest = [max(n - sum(part), 0) for n, *part in zip(whole, *known, strict=True)]
        model = next(iter(by_model)) if len(by_model) == 1 else ""
        by_model[model] = by_model.get(model, Usage()) + Usage(*rest)
        sums = {name: as_sum(each) for name, each in by_model.items()}
        return cost_of(sums, row.prices, self._table, self.currency)
