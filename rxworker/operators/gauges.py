"""Gauges: several values computed side by side from one stream, rates, and what each usage snapshot adds.

reactivex's ``publish`` and ``combine_latest`` with ``start_with`` do the same for streams that wait for a subscriber. A
run emits its history at once, while ``start_with`` still waits for its turn, and some operators would miss the first
records. Here every operator is subscribed before the source is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import add
from types import UnionType
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields, replace
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable

from rxworker.errors import ConfigurationError
from rxworker.events import AttemptStart, ConversationCompact, Record, RunResume
from rxworker.framing import Decoder
from rxworker.messages import Prices
from rxworker.messages.settings import check_plain
from rxworker.messages.usage import Usage
from rxworker.operators.decode import decoding
from rxworker.operators.expect import no_amount, operator, refusal
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import Ending, Kinds, Operator, Scheduler, Sink, Source, connect
from rxworker.operators.window import Fold, slide
from rxworker.state.inner import OF_REQUESTS, RequestTokens, step_request

A = TypeVar("A")
S = TypeVar("S", bound=Struct)


GaugeFailed: TypeAlias = Callable[[str, Exception], None]
"""Called with the name of a gauge that failed, and its error."""


def combine_gauges(start: S, failed: GaugeFailed | None = None, /, **gauges: Operator[A, object]) -> Operator[A, S]:
    """Apply several operators to one subscription, and emit the last value of each in one Struct.

        --a---b--------|       x counts, y is the letter
        [ combine_gauges(Row(0, ""), x=count, y=same) ]
        0-(1,2)-(3,4)--|       0 is (0, ""), then (1, ""), (1, a), (2, a), (2, b)

    It begins with ``start``, and emits anew whenever a gauge does: put ``ops.sample`` after it if users look at it. It
    completes when all gauges have, and an error of the source ends it. A gauge that fails stops alone: its field keeps
    its value, and a warning is logged. If all have failed, the error of the last ends it. A value that is not of the
    type of its field is a failure of its gauge.

    Args:
        start: The initial state: a frozen Struct.
        failed: Called with the name and the error of a gauge that failed, in place of the warning.
        gauges: An operator for each field that changes, by its name.

    Raises:
        ConfigurationError: ``start`` is not a frozen Struct, there is no gauge, no field of that name, or a gauge is
            not an operator.

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
    check_plain("combine_gauges(failed)", failed)
    _expect_board(start, gauges)
    report = _warn if failed is None else failed

    def subscribe(source: Observable[A], observer: abc.ObserverBase[S], scheduler: Scheduler) -> abc.DisposableBase:
        return _Board(start, observer, report).begin(gauges, source, scheduler)

    return operator(subscribe, "combine_gauges(...)")


def _expect_board(start: object, gauges: dict[str, Operator[A, object]]) -> None:
    name = type(start).__name__
    if isinstance(start, type) or not isinstance(start, Struct):
        raise ConfigurationError(f"combine_gauges({name}): give a frozen Struct to begin with")
    if not start.__struct_config__.frozen:
        raise ConfigurationError(f"{name} can be changed by a watcher: define it as class {name}(Struct, frozen=True)")
    unknown = sorted(set(gauges).difference(start.__struct_fields__))
    if unknown or not gauges:
        named = ", ".join(unknown) or "no gauges"
        known = ", ".join(start.__struct_fields__)
        raise ConfigurationError(f"{named}: the fields of {name} are {known}")
    for gauge in gauges.values():
        expect_operator(gauge)


logger = logging.getLogger("rxworker.operators")


def _warn(name: str, error: Exception) -> None:
    logger.warning("the gauge %s failed and has stopped", name, exc_info=error)


class _Board(Ending, Generic[S]):
    """One subscription: the state, and the gauges that are on."""

    def __init__(self, start: S, observer: abc.ObserverBase[S], report: GaugeFailed) -> None:
        super().__init__(observer)
        self.subscriptions = CompositeDisposable()
        self._state = start
        self._report = report
        self._lanes: dict[str, Source[Any]] = {}
        self._last_failure: Exception | None = None
        self._succeeded = self._source_failed = False
        self._raised: BaseException | None = None

    def begin(
        self, gauges: dict[str, Operator[A, object]], source: Observable[A], scheduler: Scheduler
    ) -> abc.DisposableBase:
        """Subscribe all gauges, each to a lane of its own, and then the source."""
        types: dict[str, object] = {field.name: field.type for field in fields(self._state)}
        self._observer.on_next(self._state)
        lanes: dict[str, Source[A]] = {name: Source() for name in gauges}
        self._lanes.update(lanes)
        for name, gauge in gauges.items():
            sink = Sink(self._put(name, types[name]), partial(self._fail, name), partial(self._end, name))
            try:
                self.subscriptions.add(connect(gauge(lanes[name]), sink, scheduler))
            except Exception as error:
                self._fail(name, error)
        sink = Sink(self._take, self._source_error, self._complete)
        self.subscriptions.add(connect(source, sink, scheduler))
        return self.subscriptions

    def _take(self, item: object) -> None:
        for name, lane in tuple(self._lanes.items()):
            try:
                lane.on_next(item)
            except BaseException as error:
                # What the observer of the board raises goes to the source; what a gauge raises is its failure.
                if self._raised is not None or not isinstance(error, Exception):
                    raise
                self._fail(name, error)

    def _put(self, name: str, type_: object) -> Callable[[object], None]:
        fitting: set[type[object]] = set()

        def on_next(value: object) -> None:
            if self.is_over or name not in self._lanes:
                return
            if value.__class__ not in fitting:
                error = _misfit(name, value, type_)
                if error is not None:
                    self._fail(name, error)
                    return
                fitting.add(value.__class__)
            self._state = replace(self._state, **{name: value})
            try:
                self._observer.on_next(self._state)
            except BaseException as error:
                self._raised, self.is_over = error, True
                raise

        return on_next

    def _fail(self, name: str, error: Exception) -> None:
        if self._lanes.pop(name, None) is None or self.is_over:
            return
        self._last_failure = error
        if self._source_failed:
            self.on_error(error)
            return
        try:
            self._report(name, error)
        except Exception as raised:
            self.on_error(raised)
        self._end_if_last()

    def _end(self, name: str) -> None:
        if self._lanes.pop(name, None) is not None:
            self._succeeded = True
            self._end_if_last()

    def _end_if_last(self) -> None:
        if self._lanes:
            return
        if self._succeeded or self._last_failure is None:
            self.on_completed()
        else:
            self.on_error(self._last_failure)

    def _source_error(self, error: Exception) -> None:
        self._source_failed = True
        for lane in tuple(self._lanes.values()):
            lane.on_error(error)

    def _complete(self) -> None:
        for lane in tuple(self._lanes.values()):
            lane.on_completed()


def _misfit(name: str, value: object, type_: object) -> ConfigurationError | None:
    """The error of a value that is not of the type of its field; looked at for the first value of each class."""
    members = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    for member in members:
        kind: object = get_origin(member) or member
        is_container = value.__class__ in (dict, list, set, tuple)  # whose items are looked at
        if isinstance(kind, type) and isinstance(value, kind) and not is_container:
            return None
    try:
        convert(value, cast("type[object]", type_), strict=True)
    except ValidationError as error:
        message = f"the gauge {name} emitted a {type(value).__name__}, which its field does not take: {error}"
        return ConfigurationError(message)
    except TypeError:  # a type that msgspec does not know
        return None
    return None


def rate(seconds: float, scheduler: abc.SchedulerBase | None = None) -> Operator[float, float]:
    """Amount per second over a sliding window; 0 when the window is empty.

        -4-8-----4-|     the window is 4 columns wide, a column a second
        [ rate(4) ]
        -1-3-2-0-1-(0,|)

    The stream is of amounts: 1 for each to count them, or their tokens, bytes, money. A source that is younger than the
    window counts as if it had been silent before. Completion empties the window: the last value is 0.

    Args:
        seconds: Over how long. Less follows faster, more is calmer.
        scheduler: The scheduler of the timer, by default that of the subscription. It must run on the source's thread.

    Raises:
        ConfigurationError: The window has no width. As ``on_error``: an item is not a number, or there is no scheduler.

    >>> from reactivex import of
    >>> from reactivex.scheduler import HistoricalScheduler
    >>> of(4, 8).pipe(rate(4.0, HistoricalScheduler())).subscribe(print) and None
    1.0
    3.0
    0.0
    """
    return slide(seconds, scheduler, partial(_Rate, seconds), "rate", ends_empty=True)


class _Rate(Fold[float]):
    """The amounts of the window, and their sum for a second."""

    def __init__(self, seconds: float) -> None:
        super().__init__(add, 0.0)
        self._seconds = seconds

    def push(self, due: float, item: float, /) -> None:
        if not isinstance(item, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise no_amount("rate(...)", item)
        super().push(due, item)

    def value(self) -> float:
        return super().value() / self._seconds


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The value that so many percent of the values do not exceed; between two of them, in proportion.

    It sorts. In a dashboard, let it look as seldom as a person does: after ``ops.sample``.

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
    return percentile_in_order(sorted(values), percent)


def percentile_in_order(row: Sequence[float], percent: float) -> float | None:
    """The same of values that are sorted.

    >>> percentile_in_order([1.0, 2.0, 4.0], 75)
    3.0
    """
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
        prices: The prices that the requests of the run have recorded, by the names of models; see
            `rxworker.events.AttemptStart`.
    """

    record: Record
    provider: str
    model: str
    before: Usage
    after: Usage
    prices: Mapping[str, Prices | None] = {}

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

    A provider reports the usage of one response several times, each time a snapshot. Retracted attempts count: they
    were paid for. So do runs inside runs, and summaries of a conversation that was too long. A resumed run begins at
    zero: the run that paused has counted the tokens before.

    >>> from reactivex import of
    >>> def record(attempt: int, usage: Usage) -> Record:
    ...     return Record(seq=1, run_id="r", turn=1, attempt=attempt, time=0.0, event=usage)
    >>> records = of(record(1, Usage(3, 2)), record(1, Usage(3, 5)), record(2, Usage(2, 0)))
    >>> records.pipe(usage_changes()).subscribe(lambda change: print(change.tokens)) and None
    5
    3
    2
    """
    return decoding(UsageChanges, "usage_changes()")


class UsageChanges(Decoder[Record, UsageChange]):
    """The last requests of runs that have not ended, by run, and by the path of a run inside it."""

    reads: ClassVar[Kinds]

    def __init__(self) -> None:
        self._open: dict[str, dict[tuple[str, ...], RequestTokens]] = {}
        self._prices: dict[str, dict[str, Prices | None]] = {}

    def feed(self, data: Record) -> Sequence[UsageChange]:
        """Take the next record."""
        if data.__class__ is not Record:
            raise refusal("usage_changes()", "records", data)
        event: Any = data.event
        kind, run = event.__class__, data.run_id
        if kind not in _COUNTED:  # every delta comes by here
            return ()
        if kind is ConversationCompact:
            return self._change(data, "", event.model, _NO_USAGE, event.usage)
        if kind is RunResume:
            if event.prices:
                self._prices[run] = {**event.prices}
            return ()
        of_run = self._open.setdefault(run, {})
        before = of_run.get(data.path)
        after = step_request(before, data)
        if after is not None:
            of_run[data.path] = after
        elif data.path:
            of_run.pop(data.path, None)
        else:
            self._open.pop(run, None)
            self._prices.pop(run, None)
        if kind is AttemptStart and (event.prices or event.is_unpriced):
            self._prices.setdefault(run, {})[event.model] = event.prices
        if after is None or kind is not Usage:
            return ()
        known = before.usage if before is not None and before.number == after.number else None
        return self._change(data, after.provider, after.model, known or _NO_USAGE, event)

    def _change(self, record: Record, provider: str, model: str, before: Usage, after: Usage) -> Sequence[UsageChange]:
        if before == after:
            return ()
        prices = self._prices.get(record.run_id, _NO_PRICES)
        return (UsageChange(record, provider, model, before, after, prices),)


_COUNTED = UsageChanges.reads = OF_REQUESTS | {ConversationCompact, RunResume}
_NO_USAGE = Usage()
_NO_PRICES: Mapping[str, Prices | None] = {}
