"""What each usage snapshot adds to what was known before."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rxworker.events import AttemptStart, Record, RunAbort, RunPause, RunStop
from rxworker.messages import Prices, Usage
from rxworker.operators.decode import decode
from rxworker.operators.types import Operator


class UsageChange(Struct, frozen=True):
    """A response has taken more tokens than was known.

    Attributes:
        record: The record that told.
        provider: Who was asked, as far as that was seen.
        model: Which model was asked, as far as that was seen.
        before: The tokens of the response as they were known.
        after: The tokens of the response as they are known now.
    """

    record: Record
    provider: str
    model: str
    before: Usage
    after: Usage

    @property
    def tokens(self) -> int:
        """How many tokens more; fewer, where a provider corrects itself."""
        return self.after.total_tokens - self.before.total_tokens

    @property
    def output_tokens(self) -> int:
        """How many tokens more the model has written."""
        return (self.after.output_tokens or 0) - (self.before.output_tokens or 0)

    def cost(self, prices: Prices) -> float:
        """What these tokens cost. The sum over a run is the cost of all its responses."""
        return prices.cost(self.after) - prices.cost(self.before)


def usage_changes() -> Operator[Record, UsageChange]:
    """What each usage snapshot adds to the one before, so that it can be summed over responses and runs.

        -a-5-8-a-2---|         a AttemptStart, between them usages of so many tokens
        [ usage_changes() ]
        ---5-3---2---|

    A provider tells the usage of one response several times, each time a snapshot. Retracted attempts count: they were paid for. So do
    runs inside runs. A resumed run begins at nothing: what it took before was told by the run that paused.

    >>> from reactivex import of
    >>> def record(attempt: int, usage: Usage) -> Record:
    ...     return Record(seq=1, run="r", turn=1, attempt=attempt, time=0.0, event=usage)
    >>> records = of(record(1, Usage(3, 2)), record(1, Usage(3, 5)), record(2, Usage(2, 0)))
    >>> records.pipe(usage_changes()).subscribe(lambda change: print(change.tokens)) and None
    5
    3
    2
    """
    return decode(_Changes)


class _Response(Struct):
    """The response of a run that is being received."""

    turn: int
    attempt: int
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()


class _Changes:
    """The responses that are being received, by run, and by the path of a run inside it."""

    def __init__(self) -> None:
        self._open: dict[str, dict[tuple[str, ...], _Response]] = {}

    def feed(self, data: Record) -> Sequence[UsageChange]:
        event = data.event
        kind = event.__class__  # every delta comes by here
        if kind is Usage:
            return self._change(data)
        if isinstance(event, AttemptStart):
            response = _Response(data.turn, data.attempt, event.provider, event.model)
            self._open.setdefault(data.run, {})[data.path] = response
        elif kind in _OVER:
            if data.path:
                self._open.get(data.run, {}).pop(data.path, None)
            else:
                self._open.pop(data.run, None)
        return ()

    def finish(self) -> Sequence[UsageChange]:
        return ()

    def _change(self, record: Record) -> Sequence[UsageChange]:
        assert isinstance(record.event, Usage)
        of_run = self._open.setdefault(record.run, {})
        response = of_run.get(record.path)
        number = record.turn, record.attempt
        # Whoever joined in the middle has not seen the attempt start.
        if response is None or (response.turn, response.attempt) != number:
            response = of_run[record.path] = _Response(*number)
        before, response.usage = response.usage, record.event
        if before == response.usage:
            return ()
        return (UsageChange(record, response.provider, response.model, before, response.usage),)


_OVER = frozenset({RunStop, RunAbort, RunPause})

__all__ = ["UsageChange", "usage_changes"]
