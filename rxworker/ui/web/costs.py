"""What the tokens of a run cost by the prices that the server was given. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rxworker.log.values import RunRow
from rxworker.messages import Prices
from rxworker.messages.usage import Usage, as_sum
from rxworker.worker.stored import counts_of


def cost_of(
    table: Mapping[str, Prices],
    usage: Usage,
    by_model: Mapping[str, tuple[int, int, int, int]],
    model: str = "",
    currency: str = "",
) -> float | None:
    """What tokens cost, each model by its own prices, in one currency; ``None`` if no price is known.

    The lengths of the prompts are not known here: all have the prices of short ones.

    Args:
        table: The prices by the names of models.
        usage: All tokens. Those of no model are from before a pause.
        by_model: The tokens by model.
        model: The model whose prices the tokens of no model have.
        currency: The currency; by default that of ``model``, else that of the first model that has a price.

    >>> table = {"small": Prices(input=1.0, output=2.0)}
    >>> cost_of(table, Usage(1_500_000, 0), {"small": (1_000_000, 0, 0, 0)}, "small")
    1.5
    """
    spent = [(name or model, Usage(*counts)) for name, counts in by_model.items()]
    known = [counts_of(each) for _, each in spent]
    rest = [max(n - sum(part), 0) for n, *part in zip(counts_of(usage), *known, strict=True)]
    parts = [(table[name], each) for name, each in (*spent, (model, Usage(*rest))) if name in table]
    if not currency and parts:
        currency = table[model].currency if model in table else parts[0][0].currency
    costs = [prices.cost(as_sum(each)) for prices, each in parts if prices.currency == currency]
    return sum(costs) if costs else None


def usage_of(row: RunRow) -> Usage:
    """The tokens of a stored run."""
    return Usage(
        row.input_tokens or None,
        row.output_tokens or None,
        row.cache_read_tokens or None,
        row.cache_creation_tokens or None,
    )


class RowCosts:
    """Estimates what stored runs cost whose workers know no prices.

    Args:
        table: The prices by the names of models.

    Attributes:
        currency: That of the first model of the table. Models with prices in another one are not counted, since nothing is converted.
    """

    def __init__(self, table: Mapping[str, Prices]) -> None:
        self._table = table
        self.currency = next((prices.currency for prices in table.values()), "")

    def __call__(self, row: RunRow) -> float | None:
        """What a run has cost; ``None`` if no price is known. Tokens from before a pause are those of its only model."""
        model = next(iter(row.by_model)) if len(row.by_model) == 1 else ""
        return cost_of(self._table, usage_of(row), row.by_model, model, self.currency)
