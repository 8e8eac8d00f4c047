"""Gauges: several values computed side by side from one stream, rates, and the difference that each usage snapshot adds.

reactivex's ``publish`` and ``combine_latest`` with ``start_with`` do the same for streams that wait for a subscriber. A run emits its history
at once, while ``start_with`` still waits for its turn, and some operators would miss the first records. Here every operator is subscribed before the source is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable

from rxworker.events import AttemptStart, Record, RunAbort, RunPause, RunStop
from rxworker.messages import Prices, Usage
from rxworker.operators.decode import decode
from rxworker.operators.expect import no_amount, no_record
from rxworker.operators.stage import Operator, Sink, Source, Stage, connect
from rxworker.operators.window import Fold, slide

A = TypeVar("A")
S = TypeVar("S", bound=Struct)


def combine_gauges(start: S, **gauges: Operator[A, object]) -> Operator[A, S]:
    """Apply several operators to one subscription, and emit the last value of each in one Struct.

        --a---b--------|       x counts, y is the letter
        [ combine_gauges(Row(0, ""), x=count, y=same) ]
        0-(1,2)-(3,4)--|       0 is (0, ""), then (1, ""), (1, a), (2, a), (2, b)

    It begins with ``start``, and emits anew whenever a gauge does: put ``ops.sample`` behind it for people. It completes when all gauges
    have, and the first error of any ends it.

    Args:
        start: The initial state: a frozen Struct.
        gauges: An operator for each field that changes, by its name.

    Raises:
        ValueError: There is no gauge, or no field of that name.

    >>> from reactivex import of, operators as ops
    >>> class Row(Struct, frozen=True):
    ...     last: int = 0
    ...     total: int = 0
    >>> of(1, 2).pipe(combine_gauges(Row(), last=ops.map(abs), total=ops.scan(int.__add__))).subscribe(print) and None
    Row(last=0, total=0)
    Row(last=1, total=0)
    Row(last=1, total=1)
    Row(last=2, total=1)
    Row(last=2, total=3)
    """
    unknown = sorted(set(gauges).difference(start.__struct_fields__))
    if unknown or not gauges:
        named = ", ".join(unknown) or "no gauges"
        known = ", ".join(start.__struct_fields__)
        raise ValueError(f"{named}: the fields of {type(start).__name__} are {known}")

    def apply(source: Observable[A]) -> Observable[S]:
        def subscribe(
            observer: abc.ObserverBase[S], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            shared: Source[A] = Source()
            subscriptions = CompositeDisposable()
            state = start
            open_gauges = len(gauges)
            over = False

            def put(name: str) -> Callable[[object], None]:
                def on_next(value: object) -> None:
                    nonlocal state
                    if not over:
                        state = replace(state, **{name: value})
                        observer.on_next(state)

                return on_next

            def fail(error: Exception) -> None:
                nonlocal over
                if not over:
                    over = True
                    observer.on_error(error)

            def done() -> None:
                nonlocal open_gauges, over
                open_gauges -= 1
                if open_gauges == 0 and not over:
                    over = True
                    observer.on_completed()

            observer.on_next(start)
            for name, gauge in gauges.items():
                sink = Sink(put(name), fail, done)
                subscriptions.add(connect(gauge(shared), sink, scheduler))
            give = Sink(shared.on_next, shared.on_error, shared.on_completed)
            subscriptions.add(connect(source, give, scheduler))
            return subscriptions

        return Stage(subscribe)

    return apply


def rate(seconds: float, scheduler: abc.SchedulerBase) -> Operator[float, float]:
    """Amount per second over a sliding window; 0 when the window is empty.

        -4-8-----4-|     the window is 4 columns wide, a column a second
        [ rate(4) ]
        -1-3-2-0-1-(0,|)

    The stream is of amounts: 1 for each to count them, or their tokens, bytes, money. A source that is younger than the window
    counts as if it had been silent before. Completion empties the window: the last value is 0.

    Args:
        seconds: Over how long. Less follows faster, more is calmer.
        scheduler: The scheduler of the timer. It must run on the source's thread.

    Raises:
        ValueError: The window has no width. As ``on_error``: a `ConfigurationError`, an item is not a number.
    """

    def hold() -> _Rate:
        return _Rate(seconds)

    return slide(seconds, scheduler, hold, ends_empty=True)


class _Rate:
    """The amounts of the window, and their sum for a second."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._sum = Fold(_add, 0.0)

    @property
    def due(self) -> float | None:
        return self._sum.due

    def push(self, due: float, item: float, /) -> None:
        if not isinstance(item, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise no_amount("rate(...)", item)
        self._sum.push(due, item)

    def drop(self, now: float, /) -> bool:
        return self._sum.drop(now)

    def value(self) -> float:
        return self._sum.value() / self._seconds


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


class UsageChange(Struct, frozen=True):
    """A response has taken more tokens than was known.

    Attributes:
        record: The record that reported it.
        provider: The name of the provider; empty if the request was not seen.
        model: The name of the model; empty if the request was not seen.
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
        """The cost of these tokens. The sum over a run is the cost of all its responses."""
        return prices.cost(self.after) - prices.cost(self.before)


def usage_changes() -> Operator[Record, UsageChange]:
    """The increase from one usage snapshot to the next, so that it can be summed over responses and runs.

        -a-5-8-a-2---|         a AttemptStart, between them usages of so many tokens
        [ usage_changes() ]
        ---5-3---2---|

    A provider reports the usage of one response several times, each time a snapshot. Retracted attempts count: they were paid for. So do
    runs inside runs. A resumed run begins at zero: the run that paused has counted the tokens before.

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
        if data.__class__ is not Record:
            raise no_record("usage_changes()", data)
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
        # A subscriber that joined in the middle has not seen the attempt start.
        if response is None or (response.turn, response.attempt) != number:
            response = of_run[record.path] = _Response(*number)
        before, response.usage = response.usage, record.event
        if before == response.usage:
            return ()
        return (UsageChange(record, response.provider, response.model, before, response.usage),)


_OVER = frozenset({RunStop, RunAbort, RunPause})
