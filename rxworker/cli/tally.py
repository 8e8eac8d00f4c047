"""The numbers of a run. Pure: a fold of its records."""

from __future__ import annotations

from functools import reduce
from operator import add

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import AttemptStart, Record, ToolStart, ToolStop, TurnStart, Usage
from rxworker.ui.describe import plural


class Tally(Struct, frozen=True):
    """The numbers so far.

    Attributes:
        records: How many records were seen.
        turns: How many turns have begun.
        calls: How many tools were started.
        running: How many tools run.
        failed: How many tool calls failed.
        usages: The tokens of each request, the last snapshot of each.
        began: The time of the first record; ``None`` before it.
        now: The time of the last one.
    """

    records: int = 0
    turns: int = 0
    calls: int = 0
    running: int = 0
    failed: int = 0
    usages: tuple[Usage, ...] = ()
    began: float | None = None
    now: float = 0.0

    @property
    def total(self) -> Usage:
        """The tokens of all requests.

        >>> Tally(usages=(Usage(input_tokens=1), Usage(input_tokens=2))).total.input_tokens
        3
        """
        return reduce(add, self.usages, Usage())

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return 0.0 if self.began is None else self.now - self.began


def step_tally(tally: Tally, record: Record) -> Tally:
    """The numbers after a record.

    >>> record = Record(seq=1, run="r", turn=1, attempt=0, time=5.0, event=TurnStart())
    >>> step_tally(Tally(), record).turns
    1
    """
    began = record.time if tally.began is None else tally.began
    seen = replace(tally, records=tally.records + 1, began=began, now=record.time)
    return seen if record.path else _count(seen, record)


def _count(tally: Tally, record: Record) -> Tally:
    match record.event:
        case TurnStart():
            return replace(tally, turns=tally.turns + 1)
        case AttemptStart():
            return replace(tally, usages=(*tally.usages, Usage()))
        case Usage() as usage:
            # A snapshot: the last one holds.
            return replace(tally, usages=(*tally.usages[:-1], usage))
        case ToolStart():
            return replace(tally, calls=tally.calls + 1, running=tally.running + 1)
        case ToolStop(is_error=is_error):
            failed = tally.failed + is_error
            return replace(tally, running=max(0, tally.running - 1), failed=failed)
        case _:
            return tally


def summary_line(tally: Tally, watchers: int) -> str:
    """The run in one line.

    >>> summary_line(Tally(turns=2, calls=2, usages=(Usage(input_tokens=1200),)), 3)
    'One run: 2 turns, 2 tool calls, 1,200 tokens, 0.0 s; 3 watchers'
    """
    parts = (
        plural(tally.turns, "turn"),
        plural(tally.calls, "tool call"),
        plural(tally.total.total_tokens, "token"),
        f"{tally.seconds:.1f} s",
    )
    return f"One run: {', '.join(parts)}; {plural(watchers, 'watcher')}"


__all__ = ["Tally", "step_tally", "summary_line"]
