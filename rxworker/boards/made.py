"""The runs that have made a value of a panel: the way from a figure to the conversations."""

from __future__ import annotations

from msgspec import Struct

from rxworker.boards.dashboard import Fold
from rxworker.boards.panel import BETWEEN, MAX_RUNS, Known
from rxworker.events import Record


class MadeBy(Struct, frozen=True):
    """A run that has made values of a panel.

    Attributes:
        run: Its id.
        seq: The number of the last record that made a value.
        time: The time of that record, in seconds since the epoch.
        values: How many values it has made.
        title: The beginning of its input, where it is known.
    """

    run: str
    seq: int
    time: float
    values: int
    title: str = ""


class Makers:
    """The runs whose records make the values of panels, or of one group of them.

    Args:
        fold: The panels, before they have taken a record.
        group: The name of a group, or of a number, or of the first of several groups; empty for all.

    >>> from rxworker.boards import Dashboard, panel
    >>> from rxworker.events import RunStop
    >>> from rxworker.panels import count, run_of
    >>> fold = Fold(Dashboard([panel("Ends", count(RunStop), view="bar", group=run_of)]))
    >>> makers = Makers(fold, "run-2")
    >>> for name in ("run-1", "run-2"):
    ...     fold.take(Record(7, name, 1, 1, 3.5, RunStop()))
    >>> makers.newest()
    [MadeBy(run='run-2', seq=7, time=3.5, values=1, title='')]
    """

    def __init__(self, fold: Fold, group: str = "") -> None:
        self._group = group
        self._is_whole = False  # the group has values of its own, not only as a part of others
        self._runs = Known[MadeBy]()
        for cell in fold.cells.values():
            cell.values.on_made = self._note

    def newest(self, most: int = MAX_RUNS) -> list[MadeBy]:
        """The runs, those first that made a value last."""
        return [*self._runs.values()][: -most - 1 : -1]

    def _note(self, group: str, record: Record) -> None:
        if group and group == self._group and not self._is_whole:
            self._is_whole = True  # those so far are of other groups, whose names begin alike
            self._runs.clear()
        parts = f"{self._group}: ", f"{self._group}{BETWEEN}"
        if self._group not in ("", group) and (self._is_whole or not group.startswith(parts)):
            return
        before = self._runs.pop(record.run_id, None)
        self._runs[record.run_id] = MadeBy(
            record.run_id, record.seq, record.time, 1 if before is None else before.values + 1
        )
