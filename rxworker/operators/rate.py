"""How much in a second, and how much for most."""

from __future__ import annotations

from collections.abc import Iterable

from reactivex import Observable, abc

from rxworker.operators.types import Operator
from rxworker.operators.window import fold_sliding


def rate(seconds: float, scheduler: abc.SchedulerBase) -> Operator[float, float]:
    """How much comes in a second, over the last seconds; 0 when nothing has come for so long.

        -4-8-------|     the window is 4 columns wide, a column a second
        [ rate(4) ]
        -1-3-2-0---|

    The stream is of amounts: 1 for each to count them, or their tokens, bytes, money. A source that is younger than the window
    counts as if it had been silent before.

    Args:
        seconds: Over how long. Less follows faster, more is calmer.
        scheduler: Whose time it is. It must run on the source's thread.

    Raises:
        ValueError: The window has no width.
    """

    def per_second(amount: float) -> float:
        return amount / seconds

    def apply(source: Observable[float]) -> Observable[float]:
        from reactivex import operators as ops  # by few: importing all of them takes its time

        total = fold_sliding(_add, 0.0, seconds, scheduler)
        return source.pipe(total, ops.map(per_second))

    return apply


def _add(one: float, other: float) -> float:
    return one + other


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The value that so many percent of the values do not exceed; between two of them, in proportion.

    It sorts. In a dashboard, let it look as seldom as a person does: behind ``ops.sample``.

    Args:
        values: In any order.
        percent: From 0 to 100; 50 is the median.

    Returns:
        The value; ``None`` where there are no values.

    Raises:
        ValueError: There is no such percent.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 50), percentile([7.0], 95), percentile([], 95)
    (2.5, 7.0, None)
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile is from 0 to 100, not {percent}")
    row = sorted(values)
    if not row:
        return None
    place = percent / 100 * (len(row) - 1)
    low = int(place)
    high = min(low + 1, len(row) - 1)
    return row[low] + (row[high] - row[low]) * (place - low)


__all__ = ["percentile", "rate"]
