"""What the tokens of a stored run cost by the prices that a program was given. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rxworker.log.values import RunRow, counts_of
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
    """What stored runs cost: as their workers have counted it, unless there are prices that they have not.

    The lengths of the prompts are not known here: by these prices, all are short ones.

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

    def is_estimate(self, row: RunRow) -> bool:
        """Whether the worker of a run has not counted its cost by these prices."""
        if row.cost is None and not row.unpriced:
            return True
        return any(name in self._table for name in row.unpriced)

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
