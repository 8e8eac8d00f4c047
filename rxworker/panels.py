"""Ready dashboards, and the operators that they are made of: to use, to copy and to change.

`USAGE` shows what runs take: tokens, cost, waits, speed and tools. `RUNS` has a line for each run. `COST`, `QUALITY`,
`TOOLS`, `LATENCY`, `CAPACITY`, `CACHE` and `SOURCES` have a few panels each for one question. The page, the
command line and ``/metrics`` show the same ones: a server shows a dashboard of your own in place of one of these if it
has the same name. Each operator is an ordinary function from records to values, so that a panel of your own may use it:
``panel("Cost today", cost())``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import pairwise
from math import isfinite
from operator import add
from typing import Any, ClassVar, Literal, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.boards import Dashboard, Panel, above, panel
from rxworker.boards.clock import LATEST
from rxworker.boards.panel import (
    UNNAMED,
    ConversationGroup,
    Group,
    LabelGroup,
    ModelGroup,
    Partial,
    RunGroup,
    View,
    WorkerGroup,
)
from rxworker.boards.values import MAX_GROUPS, OTHERS
from rxworker.errors import ConfigurationError
from rxworker.events import (
    Annotation,
    AttemptRetract,
    AttemptStart,
    BlockStop,
    Custom,
    CustomEvent,
    Event,
    Fork,
    HandOver,
    Record,
    RunAbort,
    RunPause,
    RunRecover,
    RunRequeue,
    RunResume,
    RunStart,
    RunStop,
    TextDelta,
    ThinkingDelta,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
    is_block_event,
)
from rxworker.events.kinds import BLOCK_EVENTS, EVENT_KINDS
from rxworker.framing import Decoder
from rxworker.log.values import CONVERSATION, END_WORDS
from rxworker.messages import Prices
from rxworker.messages.settings import check_number, check_type
from rxworker.operators import (
    Span,
    UsageChange,
    decode,
    events,
    fold_sliding,
    only,
    rate,
    records_of,
    spans,
    throttle,
    usage_changes,
)
from rxworker.operators.expect import no_amount, operator
from rxworker.operators.factories import expect_operator
from rxworker.operators.gauges import UsageChanges, percentile_in_order
from rxworker.operators.kernel import (
    NO_KINDS,
    Both,
    Joined,
    Kinds,
    Operator,
    Scheduler,
    SerialDisposable,
    Sink,
    Source,
    connect,
    reads_of,
)
from rxworker.operators.window import slide
from rxworker.providers.models import currency_of, prices_of
from rxworker.resume.stored import last_input, title_of
from rxworker.state.inner import RunningTool, step_tools

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

WINDOW = 60.0
"""Seconds over which times of tools and waits are measured."""
_TEXTS = TextDelta, ThinkingDelta
prices_of("")  # compiles the patterns of the table, which the first cost of a process would wait for: some 20 ms
PER_TOKEN = 4
"""Characters of a token, about.

Text is counted while it arrives, since most providers report tokens at the end of a response.
"""


MAX_VALUES = 1000
"""The newest times, of which `spread` is."""
SHORTEST = 0.05
"""Seconds: what arrives in less has no speed."""
KINDS = (
    ("read", "input_tokens"),
    ("written", "output_tokens"),
    ("from the cache", "cache_read_tokens"),
    ("into the cache", "cache_creation_tokens"),
    ("thinking", "reasoning_tokens"),
)
"""Kinds of tokens, and their fields of `Usage`.

Those of a cache have been read as well, and thinking has been written.
"""


LONGEST = 6 * 3600.0
"""Seconds: runs that began up to so long before the period of `fleet` are counted in it."""
PERIODS = {"hour": (60.0, 60), "day": (3600.0, 24), "week": (6 * 3600.0, 28)}
"""Of `fleet`: the width of a step in seconds, and how many there are."""


class RunLine(Struct, frozen=True):
    """A line of `RUNS`.

    Attributes:
        title: The beginning of its input.
        status: As `status` emits it.
        turns: How many turns have started, without those of nested runs.
        tools: How many tools have started, those of nested runs included.
        tokens: The tokens, read and written, those of nested runs included; ``None`` if none are reported.
        cost: The cost of those whose prices are known; ``None`` if none are.
        seconds: From its first record to the last.
        run: Its id; of a run that was resumed that of the last run that resumes it.
        unpriced: The models whose prices are not known: the cost is without their tokens.
    """

    title: str = ""
    status: str = "running"
    turns: int = 0
    tools: int = 0
    tokens: int | None = None
    cost: float | None = None
    seconds: float = 0.0
    run: str = ""
    unpriced: str = ""


def run_of(record: Record) -> str:
    """The run of a record, as a group."""
    return record.run_id


def tool_of(record: Record) -> str | None:
    """The tool that a record starts or ends, as a group; ``None`` for any other record."""
    event = record.event
    if isinstance(event, ToolStart):
        return event.call.name
    return event.tool or None if isinstance(event, ToolStop) else None


def hour_of(record: Record) -> str:
    """The hour of a record, as a group. Its names are intervals of ISO 8601, as those of `by_time`.

    >>> hour_of(Record(1, "run-1", 0, 0, 3700.0, RunStop())), day_of(Record(1, "run-1", 0, 0, 3700.0, RunStop()))
    ('1970-01-01T01:00Z/PT1H', '1970-01-01T00:00Z/PT24H')
    """
    return _interval(_dated(record) // 3600, 3600)


def day_of(record: Record) -> str:
    """The day of a record, of UTC, as a group; see `hour_of`."""
    return _interval(_dated(record) // 86400, 86400)


def _dated(record: Record) -> float:
    """The time of a record as the clock of a board has it: a wrong one may have no date."""
    return min(max(0.0, record.time), LATEST)


@lru_cache(maxsize=1024)
def _interval(number: float, step: float) -> str:
    """The name of a step of time, of whole minutes, by its number since the epoch."""
    minutes = round(step / 60)
    length = f"PT{minutes}M" if minutes % 60 else f"PT{minutes // 60}H"
    return f"{datetime.fromtimestamp(number * step, UTC):%Y-%m-%dT%H:%MZ}/{length}"


# A panel with these groups need not be given all records.
for _group in (run_of, hour_of, day_of):
    vars(_group)["keeps"] = frozenset[type[object]]()
vars(tool_of).update(keeps=frozenset[type[object]](), names=frozenset({ToolStart, ToolStop}))


def label_of(name: str, default: str | None = None) -> Group:
    """The label of the run of a record, such as its tenant, as a group.

    Args:
        name: The name of the label, as in ``Worker(labels={"tenant": "acme"})``.
        default: The group of a run without it; by default its records belong to none.

    Raises:
        ConfigurationError: One of them is not a text.

    >>> from rxworker.messages import Conversation
    >>> board = Dashboard([panel("Runs", count(RunStart), view="bar", group=label_of("tenant"))])
    >>> start = RunStart(Conversation(), labels={"tenant": "acme"})
    >>> board.at([Record(1, "run-1", 0, 0, 0.0, start)])[0].value
    {'acme': 1}
    """
    check_type("label_of(default)", default, str, "label_of('tenant', 'none')", optional=True)
    return LabelGroup(check_type("label_of(name)", name, str, "label_of('tenant')"), default)


worker_of: Group = WorkerGroup("worker", None)
"""The name of the worker of the run of a record, as a group; ``None`` where the worker has none."""
_ANY_WORKER, _ANY_TENANT = WorkerGroup("worker", "none"), LabelGroup("tenant", "none")

conversation_of: Group = ConversationGroup(CONVERSATION, None)
"""The id of the conversation of the run of a record, as a group: as the ``conversation_id`` of hooks."""

model_of: Group = ModelGroup()
"""The model of the request that a record belongs to, as a group; ``None`` for a record of no request."""


def total(values: Observable[float]) -> Observable[float]:
    """The sum so far.

    --2--3-----1--|
    [ total ]
    --2--5-----6--|
    """
    return values.pipe(decode(_Total))


class _Total(Decoder[float, float]):
    def __init__(self) -> None:
        self._sum = 0.0

    def feed(self, data: float) -> Sequence[float]:
        self._sum += data
        return (self._sum,)


def a_minute(amounts: Observable[float]) -> Observable[float]:
    """The sum of the last minute, so that 1 for each is how many there are a minute; 0 when there was nothing.

    --2--3-----1--|      a minute is 6 columns wide
    [ a_minute ]
    --2--5--3-0-1-|
    """
    return amounts.pipe(fold_sliding(add, 0.0, 60.0))


def share(seconds: float | None = None) -> Operator[object, float]:
    """How many percent of the items are true, of all so far or of those of the last seconds; 0 when there are none.

    --t--f-----t--|
    [ share() ]
    --a--b-----c--|      a is 100, b is 50, c is 66.7

    Args:
        seconds: The width of the window; by default all items count.

    Raises:
        ConfigurationError: The window has no width.
    """

    def both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], one[1] + other[1]

    def percent(sums: tuple[int, int]) -> float:
        return 100 * sums[0] / (sums[1] or 1)

    summed = ops.scan(both) if seconds is None else fold_sliding(both, (0, 0), seconds)

    def pipeline(items: Observable[object]) -> Observable[float]:
        return items.pipe(ops.map(lambda item: (1 if item else 0, 1)), summed, ops.map(percent))

    return pipeline


def error_rate(of: Literal["runs", "tools"] = "runs", seconds: float | None = None) -> Operator[Record, float]:
    """How many percent of the runs that have ended, or of the tools that ran, have failed.

    --s--a-----s--|      s RunStop, a RunAbort
    [ error_rate() ]
    --0--50----c--|      c is 33.3

    A run that was cancelled has ended, and has not failed. Tools of nested runs count, and nested runs do not.

    Args:
        of: What is counted.
        seconds: As for `share`.

    Raises:
        ConfigurationError: ``of`` is neither, or the window has no width.
    """
    if of not in ("runs", "tools"):
        raise ConfigurationError(f"error_rate(of={of!r:.60}): give 'runs' or 'tools'")
    among = share(seconds)

    def of_runs(records: Observable[Record]) -> Observable[float]:
        return records.pipe(records_of(RunStop, RunAbort), ops.filter(_has_ended), ops.map(_has_failed), among)

    def of_tools(records: Observable[Record]) -> Observable[float]:
        return records.pipe(tool_stops, ops.map(_has_failed_tool), among)

    return of_runs if of == "runs" else of_tools


def ratio(one: Operator[A, float | Partial], other: Operator[A, float | Partial]) -> Operator[A, float | Partial]:
    """The last value of an operator divided by that of another, such as ``ratio(cost(), count(RunStart))``.

    --a--b-----b--|      one counts a, other counts b
    [ ratio(one, other) ]
    -----1-----c--|      c is 0.5

    It emits once for an item, when both have taken it. Nothing is emitted while the other is 0, unless both are: that
    is 0. Of a `Partial`, the ratio is one too.

    Args:
        one: The operator whose values are divided.
        other: That by whose values they are divided.

    Raises:
        ConfigurationError: One is not an operator. As ``on_error``: one has emitted something other than numbers.
    """
    expect_operator(one)
    expect_operator(other)

    def subscribe(source: Observable[A], observer: abc.ObserverBase[Any], scheduler: Scheduler) -> abc.DisposableBase:
        return _Ratio(source, observer, scheduler).begin(one, other)

    return operator(subscribe, "ratio(...)", one, other)


class _Ratio:
    """One subscription: a lane for each operator, and their last values."""

    def __init__(self, source: Observable[Any], observer: abc.ObserverBase[float | Partial], scheduler: Scheduler):
        self._source, self._observer, self._scheduler = source, observer, scheduler
        self._joined, self._upstream = Joined(observer, scheduler), SerialDisposable()
        self._lanes = Source[Any](), Source[Any]()
        self._sink = Sink[Any](self._take, partial(self._end, "on_error"), partial(self._end, "on_completed"))
        self._sink.reads = NO_KINDS
        self._reads: list[Kinds | None] = [NO_KINDS, NO_KINDS]
        self._values: list[float | Partial | None] = [None, None]
        self._takes = self._is_new = self._is_connected = False

    def begin(self, *operators: Operator[Any, float | Partial]) -> abc.DisposableBase:
        for at, (each, lane) in enumerate(zip(operators, self._lanes, strict=True)):
            lane.served = partial(self._note, at)
            self._joined.follow(each(lane), partial(self._put, at))
        self._upstream.put(connect(self._source, self._sink, self._scheduler))
        self._is_connected = True
        return Both(self._joined, self._upstream)

    def _note(self, at: int, observers: Sequence[abc.ObserverBase[Any]]) -> None:
        """A lane has other observers: an operator may subscribe to its records later, and then reads more."""
        self._reads[at] = reads_of(observers)
        one, other = self._reads
        before, after = self._sink.reads, None if one is None or other is None else one | other
        self._sink.reads = after
        is_more = before is not None and (after is None or not after <= before)
        if self._is_connected and is_more and isinstance(self._source, Source):
            self._upstream.put(None)
            self._upstream.put(connect(self._source, self._sink, self._scheduler))

    def _take(self, item: object) -> None:
        self._takes = True
        try:
            for lane in self._lanes:
                lane.push(item)
        finally:
            self._takes = False
        if self._is_new:
            self._emit()

    def _put(self, at: int, value: float | Partial) -> None:
        self._values[at] = value
        self._is_new = True
        if not self._takes:  # a timer
            self._emit()

    def _emit(self) -> None:
        self._is_new = False
        if self._joined.is_over or None in self._values:
            return
        try:
            found = _quotient(*cast("list[float | Partial]", self._values))
        except ConfigurationError as error:
            self._joined.on_error(error)
            return
        if found is not None:
            self._observer.on_next(found)

    def _end(self, name: str, *errors: Exception) -> None:
        for lane in self._lanes:
            getattr(lane, name)(*errors)


def _quotient(one: float | Partial, other: float | Partial) -> float | Partial | None:
    missing = tuple(name for each in (one, other) if isinstance(each, Partial) for name in each.missing)
    first, second = (each.value if isinstance(each, Partial) else each for each in (one, other))
    for each in (first, second):
        if each is not None and not isinstance(each, int | float):
            raise no_amount("ratio(...)", each)
    known = cast("tuple[float | None, float | None]", (first, second))
    if known[0] is None or known[1] is None:
        return Partial(None, missing)
    if not known[1] and known[0]:
        return None
    found = known[0] / (known[1] or 1)
    return Partial(found, missing) if missing else found


def top(n: int) -> Operator[Mapping[str, float] | Partial, Mapping[str, float] | Partial]:
    """The greatest numbers of each mapping, and the sum of the rest as ``others``.

    --a-----------|      a is {x: 1, y: 5, z: 2}
    [ top(1) ]
    --b-----------|      b is {y: 5, others: 3}

    One that is not known stands before all others, since it may be the greatest.

    Args:
        n: How many are kept.

    Raises:
        ConfigurationError: It is not a whole number from 1 up.
    """
    check_number("top(n)", n, least=1, whole=True)

    def greatest(given: Mapping[str, float] | Partial) -> Mapping[str, float] | Partial:
        value: Any = given.value if isinstance(given, Partial) else given
        if not isinstance(value, Mapping):
            return given
        numbers = cast("Mapping[str, float | None]", value)

        def rank(name: str) -> tuple[bool, float]:
            return numbers[name] is not None, -(numbers[name] or 0)

        names = sorted([name for name in numbers if name != OTHERS], key=rank)
        rest = [numbers[name] for name in (*names[n:], OTHERS) if name in numbers]
        kept: Any = {name: numbers[name] for name in names[:n]}
        if rest:
            kept[OTHERS] = None if None in rest else sum(cast("list[float]", rest))
        return Partial(kept, given.missing) if isinstance(given, Partial) else kept

    def pipeline(values: Observable[Mapping[str, float] | Partial]) -> Observable[Mapping[str, float] | Partial]:
        return values.pipe(ops.map(greatest))

    return pipeline


def count(kind: type[Event | CustomEvent], *, nested: bool | None = None) -> Operator[Record, int]:
    """How many events of a class there were so far.

    --a--b-----a--|     a is of the class
    [ count(A) ]
    --1--------2--|

    Args:
        kind: The class.
        nested: Whether those of nested runs count. By default they do, except for the beginnings, pauses and ends of
            runs and turns: ``count(RunStart)`` is how many runs there were, and ``count(ToolStart)`` is how many tools,
            as in the row of a run.

    Raises:
        ConfigurationError: ``kind`` is not a class.
    """
    of_kind = only(kind)
    is_deep = kind not in _OWN if nested is None else nested

    def pipeline(records: Observable[Record]) -> Observable[int]:
        return records.pipe(events(nested=is_deep), of_kind, ops.scan(_one_more, 0))

    return pipeline


def annotated(name: str) -> Operator[Record, dict[str, int]]:
    """How many annotations of a name there were so far, by their values; see `EventLog.annotate`.

    --a-------b-------a-------|       a and b are of the name, with the values good and poor
    [ annotated("rating") ]
    --good 1--poor 1--good 2--|       (each emission has all counts)

    Args:
        name: The name, such as ``rating``.

    Example:
        >>> board = Dashboard([panel("Ratings", annotated("rating"))])
        >>> rated = [Annotation("rating", value).custom for value in ("good", "poor", "good")]
        >>> board.at([Record(n, "run-1", 1, 1, float(n), event) for n, event in enumerate(rated, 1)])[0].value
        {'good': 2, 'poor': 1}
    """

    def add(counts: dict[str, int], each: Annotation) -> dict[str, int]:
        value = each.value
        if not isinstance(value, str) or not value:  # an empty name is that of no group
            value = msgspec.json.encode(value).decode()
        known = value if value in counts or len(counts) < MAX_GROUPS else OTHERS
        return {**counts, known: counts.get(known, 0) + 1}

    def pipeline(records: Observable[Record]) -> Observable[dict[str, int]]:
        given = records.pipe(events(), only(Annotation), ops.filter(lambda each: each.name == name))
        return given.pipe(ops.scan(add, dict[str, int]()))

    return pipeline


def tokens(records: Observable[Record]) -> Observable[int]:
    """The tokens so far, read and written."""

    def tokens_of(change: UsageChange) -> int:
        return change.tokens

    return records.pipe(usage_changes(), ops.map(tokens_of), ops.scan(int.__add__, 0))


def cost(prices: Mapping[str, Prices] | None = None) -> Operator[Record, float | Partial]:
    """The cost so far.

    As soon as there are tokens of a model whose prices are not known, it is a `Partial` that names the model.

    Args:
        prices: The prices by the names of models; see `rxworker.providers.models.prices_of`.
    """

    def pipeline(records: Observable[Record]) -> Observable[float | Partial]:
        return records.pipe(usage_changes(), decode(partial(_Costs, prices)))

    return pipeline


class _Costs(Decoder[UsageChange, float | Partial]):
    """The sum of what is known, and the models whose prices are not."""

    def __init__(self, prices: Mapping[str, Prices] | None) -> None:
        self._cost_of = _coster(prices)
        self.known: float | None = None
        self.missing: dict[str, None] = {}

    def feed(self, data: UsageChange) -> Sequence[float | Partial]:
        if (found := self._cost_of(data)) is None:
            self.missing[data.model or UNNAMED] = None
        else:
            self.known = (self.known or 0.0) + found
        return (self.value,)

    @property
    def value(self) -> float | Partial:
        return Partial(self.known, (*self.missing,)) if self.missing else self.known or 0.0


def cost_by_model(prices: Mapping[str, Prices] | None = None) -> Operator[Record, dict[str, float] | Partial]:
    """The cost so far by the names of the models, of which those whose prices are not known have ``None``; see `cost`.

    There are at most 100 names; all further ones are ``others``.
    """

    def pipeline(records: Observable[Record]) -> Observable[dict[str, float] | Partial]:
        return records.pipe(_by_model(_coster(prices)), ops.map(_with_missing))

    return pipeline


def _with_missing(sums: dict[str, float | None]) -> dict[str, float] | Partial:
    missing = tuple(name for name, value in sums.items() if value is None)
    return cast("Any", Partial(cast("Any", sums), missing) if missing else sums)


def tokens_by_model(records: Observable[Record]) -> Observable[dict[str, float]]:
    """The tokens so far by the names of the models, read and written; as for `cost_by_model`."""

    def tokens_of(change: UsageChange) -> float:
        return change.tokens

    return records.pipe(_by_model(tokens_of))


def _by_model(value_of: Callable[[UsageChange], A]) -> Operator[Record, dict[str, A]]:
    def step(sums: dict[str, Any], change: UsageChange) -> dict[str, Any]:
        name = change.model or UNNAMED
        if name not in sums and len(sums) >= MAX_GROUPS:
            name = OTHERS
        found, before = value_of(change), sums.get(name, 0.0)
        return {**sums, name: None if found is None or before is None else before + found}

    def pipeline(records: Observable[Record]) -> Observable[dict[str, A]]:
        start: dict[str, Any] = {}
        return records.pipe(usage_changes(), ops.scan(step, start))

    return pipeline


def tokens_by_kind(records: Observable[Record]) -> Observable[dict[str, int]]:
    """The tokens so far that were read, written, read from a cache, written to it, and spent on thinking.

    Those of a cache and of thinking are there as far as the provider reports them.
    """

    def step(sums: dict[str, int], change: UsageChange) -> dict[str, int]:
        before, after = change.before, change.after
        added = ((kind, getattr(after, name), getattr(before, name)) for kind, name in KINDS)
        return sums | {kind: sums.get(kind, 0) + (new or 0) - (old or 0) for kind, new, old in added if new is not None}

    start: dict[str, int] = {}
    return records.pipe(usage_changes(), ops.scan(step, start))


def cache_share(records: Observable[Record]) -> Observable[float]:
    """How many percent of the tokens that were read came from a cache."""

    def share(sums: dict[str, int]) -> float:
        return 100 * sums.get("from the cache", 0) / (sums.get("read", 0) or 1)

    return records.pipe(tokens_by_kind, ops.map(share))


def written(records: Observable[Record]) -> Observable[float]:
    """The tokens of each piece of text and thinking, about.

    Also while a response arrives, and where its provider reports none.
    """
    return records.pipe(decode(_Written))


class _Written(Decoder[Record, float]):
    reads: ClassVar[Kinds] = frozenset(_TEXTS)

    def feed(self, data: Record) -> Sequence[float]:
        event = data.event
        size = len(event.text) if isinstance(event, _TEXTS) else 0
        return (size / PER_TOKEN,) if size else ()


def speed(records: Observable[Record]) -> Observable[float]:
    """The tokens a second that models write, about, over the last two seconds."""
    return records.pipe(written, throttle(0.25, add), rate(2.0))


def pace(records: Observable[Record]) -> Observable[float]:
    """The tokens a second that models have written so far, about, while they wrote: waits and tools do not count."""
    return records.pipe(decode(_Pace))


class _Pace(Decoder[Record, float]):
    """The sums so far, and of each response that is received, since when its text is not in them, and its amount."""

    reads: ClassVar[Kinds]

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0
        self._written = _Written()
        self._open: dict[tuple[str, tuple[str, ...]], list[float]] = {}

    def feed(self, data: Record) -> Sequence[float]:
        key, kind = (data.run_id, data.path), data.event.__class__
        if kind not in BLOCK_EVENTS:
            if kind in _FRESH:
                self._open.pop(key, None)
            return ()
        known = self._open.get(key)
        if known is None:
            known = self._open[key] = [data.time, 0.0]
        for tokens in self._written.feed(data):
            known[1] += tokens
        if kind is BlockStop and data.time - known[0] >= SHORTEST:
            self._tokens += known[1]
            self._seconds += data.time - known[0]
            known[:] = data.time, 0.0
            return (self._tokens / self._seconds,)
        return ()


def waits(records: Observable[Record]) -> Observable[float]:
    """The seconds from each request to the first block of its response."""
    return records.pipe(decode(_Waits))


class _Waits(Decoder[Record, float]):
    """When each request was sent whose response has not begun, by run, and by the path of a run inside it."""

    reads: ClassVar[Kinds]

    def __init__(self) -> None:
        self._sent: dict[tuple[str, tuple[str, ...]], float] = {}

    def feed(self, data: Record) -> Sequence[float]:
        kind, sent = data.event.__class__, self._sent
        if kind is AttemptStart:
            sent[data.run_id, data.path] = data.time
        elif sent and kind in self.reads:  # nearly every delta comes when no request waits
            since = sent.pop((data.run_id, data.path), None)
            if since is not None and kind in BLOCK_EVENTS:
                return (data.time - since,)
        return ()


def tool_stops(records: Observable[Record]) -> Observable[ToolStop]:
    """The ends of the tools that have run, those of nested runs included.

    A call that was refused or skipped did not run.
    """
    return records.pipe(decode(_ToolStops))


class _ToolStops(Decoder[Record, ToolStop]):
    """The tools that are running."""

    reads: ClassVar[Kinds] = frozenset({ToolStart, ToolStop})

    def __init__(self) -> None:
        self._running: tuple[RunningTool, ...] = ()

    def feed(self, data: Record) -> Sequence[ToolStop]:
        event = data.event
        if not isinstance(event, ToolStart | ToolStop):
            return ()
        self._running, ended = step_tools(self._running, (data.run_id, *data.path), (event,))
        return ended


def tool_seconds(records: Observable[Record]) -> Observable[float]:
    """The seconds that each tool ran, those of nested runs included. One that was cancelled has none."""
    return records.pipe(tool_stops, ops.map(lambda stop: stop.seconds), ops.filter(bool))


def tool_spans(records: Observable[Record]) -> Observable[Span]:
    """The calls of tools from their start to their end, those of nested runs included, for a ``lane``."""
    return records.pipe(records_of(ToolStart, ToolStop), spans(_begun_call, _ended_call))


def failures(records: Observable[Record]) -> Observable[int]:
    """How many tools have failed so far, those of nested runs included."""
    return records.pipe(tool_stops, ops.filter(_has_failed_tool), ops.scan(_one_more, 0))


def run_seconds(records: Observable[Record]) -> Observable[float]:
    """The seconds that each run took, from its beginning to its end.

    That of a fork is the fork, and a pause does not count.
    """
    return records.pipe(_seconds_between(_STARTS, _ENDS))


def turn_seconds(records: Observable[Record]) -> Observable[float]:
    """The seconds that each turn took, with its tools. One that a pause or a failure has cut has none."""
    return records.pipe(_seconds_between((TurnStart,), (TurnStop,)))


def _seconds_between(starts: tuple[type[Event], ...], stops: tuple[type[Event], ...]) -> Operator[Record, float]:
    def begun(record: Record) -> str | None:
        return None if record.path or not isinstance(record.event, starts) else "run"

    def over(record: Record) -> str | None:
        return None if record.path or not isinstance(record.event, stops) else "run"

    def pipeline(records: Observable[Record]) -> Observable[float]:
        kinds = dict.fromkeys((*starts, *stops, *_ENDS))  # a span is dropped with its run
        return records.pipe(records_of(*kinds), spans(begun, over), ops.map(_seconds_of))

    return pipeline


def spread(values: Observable[float]) -> Observable[dict[str, float]]:
    """The median of the newest 1,000 values, and the value that 95 % of them do not exceed.

    --1--3--------|
    [ spread ]
    --a--b--------|     a is 1 and 1, b is 2 and 2.9
    """
    return values.pipe(decode(_Spread))


class _Spread(Decoder[float, dict[str, float]]):
    """The newest values, as they came and in order."""

    def __init__(self) -> None:
        self._newest: deque[float] = deque()
        self._sorted: list[float] = []

    def feed(self, data: float) -> Sequence[dict[str, float]]:
        self._newest.append(data)
        insort(self._sorted, data)
        if len(self._newest) > MAX_VALUES:
            self._sorted.remove(self._newest.popleft())
        median, most = (percentile_in_order(self._sorted, percent) or 0.0 for percent in (50, 95))
        return ({"median": median, "95 %": most},)


def histogram(*bounds: float) -> Operator[float, dict[str, int]]:
    """How many values so far are up to each bound, above the one before it, and how many are above the last.

    --2--3-----7--|            (each emission has all counts)
    [ histogram(2, 5) ]
    --a--b-----c--|            a is up to 2: 1; b is also up to 5: 1; c is also above 5: 1

    Args:
        bounds: The bounds, the least first.

    Raises:
        ConfigurationError: There is none, they are not in order, or one is not a finite number.

    Example:
        >>> import reactivex
        >>> reactivex.of(2, 3, 7).pipe(histogram(2, 5)).subscribe(print) and None
        {'≤ 2': 1, '≤ 5': 0, '> 5': 0}
        {'≤ 2': 1, '≤ 5': 1, '> 5': 0}
        {'≤ 2': 1, '≤ 5': 1, '> 5': 1}
    """
    if not bounds or not all(map(isfinite, bounds)) or any(one >= other for one, other in pairwise(bounds)):
        raise ConfigurationError(f"histogram{bounds}: give one bound or more, the least first")
    names = (*(f"≤ {bound:.15g}" for bound in bounds), f"> {bounds[-1]:.15g}")

    def add(counts: dict[str, int], value: float) -> dict[str, int]:
        name = names[bisect_left(bounds, value)]
        return {**counts, name: counts[name] + 1}

    def pipeline(values: Observable[float]) -> Observable[dict[str, int]]:
        return values.pipe(ops.scan(add, dict.fromkeys(names, 0)))

    return pipeline


def high(percent: float = 95, seconds: float = WINDOW) -> Operator[float, float]:
    """The value that so many percent of the values of the last seconds do not exceed.

    Args:
        percent: From 0 to 100; 50 is the median.
        seconds: The width of the window.

    Raises:
        ConfigurationError: The window has no width, or there is no such percent.
    """
    check_number("high(percent)", percent)
    if percent > 100:
        raise ConfigurationError(f"high(percent)={percent!r:.60}: give a number from 0 to 100")
    return slide(seconds, None, partial(_High, percent), "high")


class _High:
    """The values of a window, as they came and in order, so that each costs the same, however many there are."""

    def __init__(self, percent: float) -> None:
        self._percent = percent
        self._newest: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []

    @property
    def due(self) -> float | None:
        return self._newest[0][0] if self._newest else None

    def push(self, due: float, item: float, /) -> None:
        self._newest.append((due, item))
        insort(self._sorted, item)

    def drop(self, now: float, /) -> bool:
        before = len(self._newest)
        while (due := self.due) is not None and due <= now:
            del self._sorted[bisect_left(self._sorted, self._newest.popleft()[1])]
        return len(self._newest) < before

    def value(self) -> float:
        return percentile_in_order(self._sorted, self._percent) or 0.0


def in_flight(records: Observable[Record]) -> Observable[int]:
    """How many runs have begun and not ended, without those that wait in the queue."""

    def step(running: frozenset[str], record: Record) -> frozenset[str]:
        if record.path:
            return running
        if isinstance(record.event, _BEGINS):
            return running | {record.run_id}
        return running - {record.run_id} if isinstance(record.event, _RESTS) else running

    start: frozenset[str] = frozenset()
    return records.pipe(
        records_of(*_BEGINS, *_RESTS), ops.scan(step, start), ops.map(len), ops.distinct_until_changed()
    )


def load(records: Observable[Record]) -> Observable[dict[str, int]]:
    """How many runs a process works on, and how many are queued until one takes them."""
    return records.pipe(decode(_Load))


class _Load(Decoder[Record, dict[str, int]]):
    """The runs that no process has taken, and those that one has."""

    reads: ClassVar[Kinds]

    def __init__(self) -> None:
        self._queued: set[str] = set()
        self._running: set[str] = set()

    def feed(self, data: Record) -> Sequence[dict[str, int]]:
        event, run, queued, running = data.event, data.run_id, self._queued, self._running
        if data.path or is_block_event(event):
            return ()
        before = len(queued), len(running)
        if isinstance(event, _STARTS):
            queued.add(run)
        elif isinstance(event, _ENDS):
            queued.discard(run)
            running.discard(run)
        elif isinstance(event, HandOver):  # of a process that stops, or that has put the run into the queue
            queued.add(run)
            running.discard(run)
        elif run in queued or isinstance(event, RunRecover):
            queued.discard(run)
            running.add(run)
        after = len(queued), len(running)
        return () if before == after else ({"running": after[1], "queued": after[0]},)


def status(records: Observable[Record]) -> Observable[str]:
    """The status of a run.

    ``queued``, ``running``, ``paused``, ``finished``, ``failed``, ``cancelled``, ``stopped`` (by a limit) or
    ``aborted`` (by a hook).
    """
    return records.pipe(
        records_of(*_STATUSES, RunAbort), ops.map(_status_of), ops.filter(bool), ops.distinct_until_changed()
    )


def runs_by_status(records: Observable[Record]) -> Observable[dict[str, int]]:
    """How many runs have which status now; see `status`.

    A paused run that was resumed counts as the run that resumes it.
    """
    return records.pipe(decode(_RunsByStatus))


class _RunsByStatus(Decoder[Record, dict[str, int]]):
    """The runs that are not over, and how many are over by their status."""

    reads: ClassVar[Kinds]

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self._over: Counter[str] = Counter()

    def feed(self, data: Record) -> Sequence[dict[str, int]]:
        found, run, event = _status_of(data), data.run_id, data.event
        if not found or found == self._open.get(run):
            return ()
        if isinstance(event, RunResume):
            self._open.pop(event.resumes, None)
        if isinstance(event, RunRequeue):
            self._over["failed"] -= 1  # no other run can be put back
        if isinstance(event, RunStop | RunAbort):
            self._open.pop(run, None)
            self._over[found] += 1
        else:
            self._open[run] = found
        counts = Counter(self._open.values()) + self._over
        return ({name: counts[name] for name in _ORDER if counts[name]},)


def run_line(prices: Mapping[str, Prices] | None = None) -> Operator[Record, RunLine]:
    """What a run has taken so far, for the records of one run, and of those that resume it.

    Args:
        prices: As for `cost`.
    """
    return decode(partial(_Line, prices))


class _Line(Decoder[Record, RunLine]):
    """The line of a run, and what it is computed of."""

    def __init__(self, prices: Mapping[str, Prices] | None) -> None:
        self._line = RunLine()
        self._began: float | None = None
        self._changes, self._costs = UsageChanges(), _Costs(prices)

    def feed(self, data: Record) -> Sequence[RunLine]:
        line, event = self._line, data.event
        if event.__class__ is Custom:  # it may be all that is selected of a run that was annotated after its end
            return ()
        if self._began is None:
            self._began = data.time
            line = replace(line, run=data.run_id)
        self._line = line = replace(line, seconds=data.time - self._began)
        if not is_block_event(event):
            self._line = line = self._stepped(line, data)
        return (line,)

    def _stepped(self, line: RunLine, data: Record) -> RunLine:
        event = data.event
        line = replace(
            line,
            status=_status_of(data) or line.status,
            turns=line.turns + (isinstance(event, TurnStart) and not data.path),
            tools=line.tools + isinstance(event, ToolStart),
        )
        if isinstance(event, RunStart | RunResume) and not data.path:
            line = replace(line, run=data.run_id, title=title_of(last_input(event.conversation.messages)) or line.title)
        for change in self._changes.feed(data):
            self._costs.feed(change)
            known, missing = self._costs.known, self._costs.missing
            line = replace(line, tokens=(line.tokens or 0) + change.tokens, cost=known, unpriced=", ".join(missing))
        return line


def by_time(step: float, steps: int) -> Operator[float, dict[str, float]]:
    """The sums of the values in each step of time, of the newest steps. A step without values has no sum.

    --2--3-----1--|          a step is 6 columns wide
    [ by_time(6, 2) ]
    --a--b-----c--|          a is 2, b is 5, c is 5 and 1

    Their names are intervals of ISO 8601, such as ``2026-11-26T07:00Z/PT1H``; a page draws bars with such names over
    time.

    Args:
        step: The width of a step, in seconds: whole minutes.
        steps: How many steps are kept.
    """
    return slide(step * steps, None, partial(_Steps, step, steps), "by_time")


class _Steps:
    """The sums of the steps, and the numbers of these steps since the epoch."""

    def __init__(self, step: float, steps: int) -> None:
        self._step, self._steps = step, steps
        self._numbers: deque[int] = deque()
        self._sums: dict[str, float] = {}

    @property
    def due(self) -> float | None:
        return (self._numbers[0] + self._steps) * self._step if self._numbers else None

    def push(self, due: float, item: float, /) -> None:
        number = round(due - self._step * self._steps, 6) // self._step
        if not self._numbers or self._numbers[-1] < number:
            self._numbers.append(int(number))
        name = _interval(self._numbers[-1], self._step)
        self._sums[name] = self._sums.get(name, 0.0) + item

    def drop(self, now: float, /) -> bool:
        is_any = False
        while (due := self.due) is not None and due <= now:
            self._sums.pop(_interval(self._numbers.popleft(), self._step))
            is_any = True
        return is_any

    def value(self) -> dict[str, float]:
        return {**self._sums}


def recoveries(records: Observable[Record]) -> Observable[float]:
    """1 for each process that continues a run whose process has ended.

    A run that was queued, and a fork, begin with the process that takes them.
    """
    return records.pipe(decode(_Recoveries))


def queue_seconds(records: Observable[Record]) -> Observable[float]:
    """The seconds that each queued run waited for a process."""

    def begun(record: Record) -> str | None:
        is_start = not record.path and isinstance(record.event, RunStart | RunResume | RunRequeue)
        return "queue" if is_start else None

    def taken(record: Record) -> str | None:
        return None if record.path else "queue"  # a run that is not queued goes on at once

    def was_queued(span: Span) -> bool:
        return isinstance(span.end.event, RunRecover)

    return records.pipe(records_of(*_NO_BLOCKS), spans(begun, taken), ops.filter(was_queued), ops.map(_seconds_of))


class _Recoveries(Decoder[Record, float]):
    """The runs whose next process is their first."""

    reads: ClassVar[Kinds]

    def __init__(self) -> None:
        self._new: set[str] = set()

    def feed(self, data: Record) -> Sequence[float]:
        event, run = data.event, data.run_id
        if data.path or is_block_event(event):
            return ()
        was_new = run in self._new
        if isinstance(event, _STARTS):
            self._new.add(run)
        elif was_new:
            self._new.discard(run)
        return (1.0,) if isinstance(event, RunRecover) and not was_new else ()


def usage(prices: Mapping[str, Prices] | None = None) -> Dashboard:
    """What runs take, one run or many: tokens, cost, waits, speed and tools.

    Args:
        prices: The prices by the names of models; for other models those of the table of models. The currency is that
            of the first: nothing is converted.
    """

    def slow(records: Observable[Record]) -> Observable[float]:
        return records.pipe(_chain(tool_seconds, spread), ops.map(lambda spread: spread["95 %"]))

    currency = _currency(prices)
    return Dashboard(
        [
            panel("Tokens", tokens, view="area"),
            panel("Cost", cost(prices), view="area", unit=currency),
            panel("Tokens by kind", tokens_by_kind, view="bar"),
            panel("From the cache", cache_share, unit="%"),
            panel("Text so far, about", _chain(written, total), unit="tokens", name="text"),
            panel("Tokens a second", speed, view="area", unit="tokens/s"),
            panel("Speed", pace, unit="tokens/s"),
            panel("Time to first token", _chain(waits, spread), unit="s"),
            panel("Time of tools", _chain(tool_seconds, spread), unit="s"),
            panel("Time of runs", _chain(run_seconds, spread), unit="s"),
            panel("Runs", runs_by_status),
            panel("Cost by model", cost_by_model(prices), view="bar", unit=currency),
            panel("Tokens by model", tokens_by_model, view="bar"),
            panel("Requests by model", count(AttemptStart), view="bar", group=model_of),
            *_by_tool(),
            panel("Slow tools", slow, view="bar", unit="s", group=tool_of),
        ],
        title="Usage",
    )


def runs(prices: Mapping[str, Prices] | None = None) -> Dashboard:
    """A line for each run, and the totals. A run and those that resume it are one line.

    Args:
        prices: As for `usage`.
    """
    return Dashboard(
        [
            panel("Running", in_flight, view="line"),
            panel("Tokens", tokens),
            panel("Cost", cost(prices), unit=_currency(prices)),
            panel("Runs", run_line(prices), view="table", unit=_currency(prices), group=RunGroup()),
        ],
        title="Runs",
    )


def fleet(period: str = "hour", prices: Mapping[str, Prices] | None = None) -> Dashboard:
    """What the runs of all processes took in the last hour by minute, the last day by hour, or a week by six hours.

    Args:
        period: ``hour``, ``day`` or ``week``.
        prices: As for `usage`.

    Raises:
        ConfigurationError: There is no such period.
    """
    if period not in PERIODS:
        raise ConfigurationError(f"period={period!r}: give one of {', '.join(PERIODS)}")
    step, steps = PERIODS[period]

    def chart(title: str, amounts: Operator[Record, float]) -> Panel:
        return _chart(title, amounts, step, steps)

    def failed(records: Observable[Record]) -> Observable[float]:
        return records.pipe(tool_stops, ops.filter(_has_failed_tool), ops.map(lambda _: 1.0))

    return Dashboard(
        [
            chart("Ended runs", _each(_has_ended, RunStop, RunAbort)),
            chart("Failed runs", _each(_has_failed, RunAbort)),
            chart("Tokens read", _tokens_of("input_tokens")),
            chart("Tokens written", _tokens_of("output_tokens")),
            panel("Cost", _cost_by_time(step, steps, prices), view="bar", unit=_currency(prices)),
            chart("Tools", _each(_is_call, ToolStart)),
            chart("Failed tools", failed),
            chart("Recoveries", recoveries),
            _slowest("Tools, 95 %", tool_seconds, step * steps, view="number"),
            _slowest("First token, 95 %", waits, step * steps, view="number"),
            _slowest("In the queue, 95 %", queue_seconds, step * steps, view="number"),
        ],
        title=f"Last {period}",
        name=f"fleet-{period}",
        reach=step * steps + LONGEST,
    )


def costs(prices: Mapping[str, Prices] | None = None) -> Dashboard:
    """What runs cost: in all, by hour, by model, by worker, and by tenant and day. `COST` is this.

    Args:
        prices: As for `usage`.
    """
    unit = _currency(prices)
    return Dashboard(
        [
            panel("Cost", cost(prices), view="area", unit=unit),
            panel("Cost of a run", ratio(cost(prices), count(RunStart)), unit=unit),
            panel("Cost by hour", _cost_by_time(3600, 24, prices), view="bar", unit=unit),
            panel("Cost by model", cost_by_model(prices), view="bar", unit=unit),
            panel("Cost by worker", cost(prices), view="bar", unit=unit, group=_ANY_WORKER),
            panel("Cost by tenant and day", _cost_by_time(86400, 7, prices), view="bar", unit=unit, group=_ANY_TENANT),
        ],
        title="Cost",
        reach=7 * 86400,
    )


def _chain(first: Operator[Record, B], then: Operator[B, C]) -> Operator[Record, C]:
    """Two operators as one, both of which X-ray shows."""

    def pipeline(records: Observable[Record]) -> Observable[C]:
        return records.pipe(first, then)

    return pipeline


def _by_tool() -> list[Panel]:
    return [
        panel("Calls by tool", count(ToolStart), view="bar", group=tool_of),
        panel("Failures by tool", failures, view="bar", group=tool_of),
        panel("Seconds by tool", _chain(tool_seconds, total), view="bar", unit="s", group=tool_of),
    ]


def _chart(title: str, amounts: Operator[Record, float], step: float = 3600, steps: int = 24) -> Panel:
    """Bars over time."""
    return panel(title, _chain(amounts, by_time(step, steps)), view="bar")


def _slowest(title: str, times: Operator[Record, float], seconds: float = 3600, view: View = "line") -> Panel:
    """The 95th percentile of the last seconds."""
    return panel(title, _chain(times, high(95, seconds)), view=view, unit="s")


def _cost_by_time(step: float, steps: int, prices: Mapping[str, Prices] | None) -> Operator[Record, Any]:
    def pipeline(records: Observable[Record]) -> Observable[dict[str, float] | Partial]:
        known = _Costs(prices)

        def amount(change: UsageChange) -> float:
            before = known.known or 0.0
            known.feed(change)
            return (known.known or 0.0) - before

        def with_missing(sums: dict[str, float]) -> dict[str, float] | Partial:
            if not known.missing:
                return sums
            return Partial(None if known.known is None else sums, (*known.missing,))

        return records.pipe(usage_changes(), ops.map(amount), by_time(step, steps), ops.map(with_missing))

    return pipeline


def _each(is_one: Callable[[Record], bool], *kinds: type[Event]) -> Operator[Record, float]:
    """1 for each record of a kind, of events of these types."""

    def pipeline(records: Observable[Record]) -> Observable[float]:
        return records.pipe(records_of(*kinds), ops.filter(is_one), ops.map(lambda _: 1.0))

    return pipeline


def _tokens_of(name: str) -> Operator[Record, float]:
    def tokens_of(change: UsageChange) -> float:
        before, after = getattr(change.before, name), getattr(change.after, name)
        return (after or 0) - (before or 0)

    def pipeline(records: Observable[Record]) -> Observable[float]:
        return records.pipe(usage_changes(), ops.map(tokens_of))

    return pipeline


def _has_ended(record: Record) -> bool:
    return not record.path and isinstance(record.event, RunStop | RunAbort)


def _has_failed(record: Record) -> bool:
    event = record.event
    return not record.path and isinstance(event, RunAbort) and event.cause != "cancel"


def _is_call(record: Record) -> bool:
    return isinstance(record.event, ToolStart)


def _begun_call(record: Record) -> str | None:
    return f"{event.place} {event.call.id}" if isinstance(event := record.event, ToolStart) else None


def _ended_call(record: Record) -> str | None:
    return f"{event.place} {event.call_id}" if isinstance(event := record.event, ToolStop) else None


def _has_failed_tool(stop: ToolStop) -> bool:
    return stop.is_error


def _currency(prices: Mapping[str, Prices] | None) -> str:
    return currency_of(prices) or "USD"


def _coster(prices: Mapping[str, Prices] | None) -> Callable[[UsageChange], float | None]:
    """Returns the cost of a change; ``None`` if no prices in this currency are known."""
    currency = _currency(prices)

    def cost_of(change: UsageChange) -> float | None:
        found = prices_of(change.model, change.prices, prices)
        return None if found is None or found.currency != currency else change.cost(found)

    return cost_of


def _one_more(so_far: int, _: object) -> int:
    return so_far + 1


def _seconds_of(span: Span) -> float:
    return span.seconds


def _status_of(record: Record) -> str:
    event = record.event
    if record.path:
        return ""
    if isinstance(event, RunAbort):
        return END_WORDS[event.cause]
    return _STATUSES.get(type(event), "")


_OWN = frozenset(
    {*(RunStart, RunResume, RunRecover, RunRequeue, RunPause, RunStop, RunAbort, Fork), *(TurnStart, TurnStop)}
)
_STARTS = (RunStart, RunResume, RunRequeue, Fork)
_BEGINS = (*_STARTS, RunRecover)
_ENDS = (RunStop, RunAbort, RunPause)
_RESTS = (*_ENDS, HandOver)
_FRESH = (AttemptStart, *_ENDS)
_STATUSES: dict[type[Event], str] = {
    RunStart: "running",
    RunResume: "running",
    RunRecover: "running",
    Fork: "running",
    RunRequeue: "queued",
    HandOver: "queued",
    RunPause: "paused",
    RunStop: "finished",
}
_Pace.reads = _Waits.reads = BLOCK_EVENTS | {*_FRESH}
_RunsByStatus.reads = frozenset({*_STATUSES, RunAbort})
_NO_BLOCKS: list[Any] = [each.type for each in EVENT_KINDS if each.type not in BLOCK_EVENTS]
_Recoveries.reads = _Load.reads = frozenset(_NO_BLOCKS)
_ORDER = ("queued", "running", "paused", "finished", *END_WORDS.values())

USAGE = usage()
RUNS = runs()
FLEET = fleet()
COST = costs()
_RETRIES = _chain(_each(lambda record: record.attempt > 1, AttemptStart), total)
QUALITY = Dashboard(
    [
        panel("Error rate of runs", error_rate(), unit="%"),
        panel("Error rate of runs, last hour", error_rate(seconds=3600), view="line", unit="%"),
        panel("Error rate of tools", error_rate("tools"), unit="%"),
        panel("Error rate by tool", error_rate("tools"), view="bar", unit="%", group=tool_of),
        panel("Runs", runs_by_status),
        panel("Ratings", annotated("rating"), view="bar"),
        panel("Retries by model", _RETRIES, view="bar", group=model_of),
        panel("Retractions by model", count(AttemptRetract), view="bar", group=model_of),
    ],
    title="Quality",
)
"""How often runs and tools fail, requests are repeated and answers retracted, and how runs are rated."""
TOOLS = Dashboard(
    [
        *_by_tool(),
        panel("Error rate by tool", error_rate("tools"), view="bar", unit="%", group=tool_of),
        panel("Times by tool", _chain(tool_seconds, spread), view="bar", unit="s", group=tool_of),
        _chart("Calls by hour", _each(_is_call, ToolStart)),
    ],
    title="Tools",
)
"""Which tools are called, how often they fail, and how long they take."""
LATENCY = Dashboard(
    [
        panel("Time to first token", _chain(waits, spread), unit="s"),
        panel("Time of turns", _chain(turn_seconds, spread), unit="s"),
        panel("Time of runs", _chain(run_seconds, spread), unit="s"),
        _slowest("First token, 95 %, last hour", waits),
        _slowest("Turns, 95 %, last hour", turn_seconds),
        panel("First token by model", _chain(waits, spread), view="bar", unit="s", group=model_of),
        panel("Turns by hour and seconds", _chain(turn_seconds, histogram(1, 3, 10, 30)), view="heat", group=hour_of),
        panel("Speed by model", pace, view="bar", unit="tokens/s", group=model_of),
    ],
    title="Latency",
)
"""How long users wait: for the first token, for turns and for runs."""
CAPACITY = Dashboard(
    [
        panel("Running", _chain(load, ops.map(lambda counts: counts["running"])), view="line"),
        panel("Running and queued", load),
        panel("Running and queued by worker", load, view="bar", group=_ANY_WORKER),
        panel("Time in the queue", _chain(queue_seconds, spread), unit="s"),
        _slowest("In the queue, 95 %, last hour", queue_seconds),
        panel("Recoveries", _chain(recoveries, total)),
        _chart("Ended runs by hour", _each(_has_ended, RunStop, RunAbort)),
    ],
    title="Capacity",
)
"""Whether the processes are enough: what runs, what waits, and for how long."""
CACHE = Dashboard(
    [
        panel("From the cache", cache_share, unit="%"),
        panel("From the cache by model", cache_share, view="bar", unit="%", group=model_of),
        panel("From the cache by worker", cache_share, view="bar", unit="%", group=_ANY_WORKER),
        panel("Tokens by kind", tokens_by_kind, view="bar"),
        _chart("Tokens from the cache by hour", _tokens_of("cache_read_tokens")),
        _chart("Tokens read by hour", _tokens_of("input_tokens")),
    ],
    title="Cache",
)
"""How much of what models read comes from a cache."""
SOURCES = Dashboard(
    [
        panel("Runs", count(RunStart), view="bar", group=_ANY_WORKER),
        panel("Tokens", tokens, view="bar", group=_ANY_WORKER),
        panel("Cost", cost(), view="bar", unit=_currency(None), group=_ANY_WORKER),
        panel("Failed", error_rate(), view="bar", unit="%", group=_ANY_WORKER, alert=above(20)),
    ],
    title="Sources",
)
"""What each program takes, and how often its runs fail: of our own workers, and of what is tapped."""

__all__ = [
    "CACHE",
    "CAPACITY",
    "COST",
    "FLEET",
    "LATENCY",
    "QUALITY",
    "RUNS",
    "SOURCES",
    "TOOLS",
    "USAGE",
    "RunLine",
    "a_minute",
    "annotated",
    "by_time",
    "cache_share",
    "conversation_of",
    "cost",
    "cost_by_model",
    "costs",
    "count",
    "day_of",
    "error_rate",
    "failures",
    "fleet",
    "high",
    "histogram",
    "hour_of",
    "in_flight",
    "label_of",
    "load",
    "model_of",
    "pace",
    "queue_seconds",
    "ratio",
    "recoveries",
    "run_line",
    "run_of",
    "run_seconds",
    "runs",
    "runs_by_status",
    "share",
    "speed",
    "spread",
    "status",
    "tokens",
    "tokens_by_kind",
    "tokens_by_model",
    "tool_of",
    "tool_seconds",
    "tool_spans",
    "tool_stops",
    "top",
    "total",
    "turn_seconds",
    "usage",
    "waits",
    "worker_of",
    "written",
]
