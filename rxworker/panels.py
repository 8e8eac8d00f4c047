"""Ready dashboards, and the operators that they are made of: to use, to copy and to change.

`USAGE` shows what runs take: tokens, cost, waits, speed and tools. `RUNS` has a line for each run. The page, the command line and ``/metrics`` show the same ones.
Each operator is an ordinary function from records to values, so that a panel of your own may use it: ``panel("Cost today", cost())``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct
from reactivex import Observable
from reactivex import operators as ops

from rxworker.boards import Dashboard, panel
from rxworker.boards.cell import MOST_GROUPS, OTHERS
from rxworker.boards.panel import Group, LabelGroup
from rxworker.events import (
    AttemptStart,
    Event,
    Record,
    RunAbort,
    RunPause,
    RunRecover,
    RunRequeue,
    RunResume,
    RunStart,
    RunStop,
    ToolStart,
    ToolStop,
    TurnStart,
    is_block_event,
)
from rxworker.messages import Prices
from rxworker.operators import (
    Span,
    UsageChange,
    Window,
    combine_gauges,
    events,
    only,
    percentile,
    rate,
    sliding,
    spans,
    text_deltas,
    thinking_deltas,
    usage_changes,
)
from rxworker.operators.kernel import Operator
from rxworker.providers.models import model_info
from rxworker.worker.stored import last_input, title_of

A = TypeVar("A")

WINDOW = 60.0
"""Seconds over which times of tools and waits are measured."""
PER_TOKEN = 4
"""Characters of a token, about: text is counted while it arrives, since most providers report tokens at the end of a response."""


class RunLine(Struct, frozen=True):
    """A line of `RUNS`.

    Attributes:
        title: The beginning of its input.
        status: ``running``, ``paused``, ``finished`` or ``aborted``.
        turns: How many turns have started, those of nested runs included.
        tools: How many tools have started.
        tokens: The tokens, read and written.
        cost: The cost of those whose prices are known.
        seconds: From its first record to the last.
        run: Its id.
    """

    title: str = ""
    status: str = "running"
    turns: int = 0
    tools: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    run: str = ""


def run_of(record: Record) -> str:
    """The run of a record, as a group."""
    return record.run_id


def tool_of(record: Record) -> str | None:
    """The tool that a record starts or ends, as a group; ``None`` for any other record."""
    event = record.event
    if isinstance(event, ToolStart):
        return event.call.name
    return event.tool or None if isinstance(event, ToolStop) else None


def label_of(name: str, default: str | None = None) -> Group:
    """The label of the run of a record, such as its tenant, as a group.

    Args:
        name: The name of the label, as in ``Worker(labels={"tenant": "acme"})``.
        default: The group of a run without it; by default its records belong to none.

    >>> from rxworker.messages import Conversation
    >>> board = Dashboard([panel("Runs", count(RunStart), view="bar", group=label_of("tenant"))])
    >>> start = RunStart(Conversation(), labels={"tenant": "acme"})
    >>> board.at([Record(1, "run-1", 0, 0, 0.0, start)])[0].value
    {'acme': 1}
    """
    return LabelGroup(name, default)


def total(values: Observable[float]) -> Observable[float]:
    """The sum so far.

    --2--3-----1--|
    [ total ]
    --2--5-----6--|
    """
    return values.pipe(ops.scan(_add, 0.0))


def count(kind: type[Event]) -> Operator[Record, int]:
    """How many events of a class there were so far.

    --a--b-----a--|     a is of the class
    [ count(A) ]
    --1--------2--|
    """

    def pipeline(records: Observable[Record]) -> Observable[int]:
        return records.pipe(events(), only(kind), ops.scan(_one_more, 0))

    return pipeline


def tokens(records: Observable[Record]) -> Observable[int]:
    """The tokens so far, read and written."""

    def tokens_of(change: UsageChange) -> int:
        return change.tokens

    return records.pipe(usage_changes(), ops.map(tokens_of), ops.scan(int.__add__, 0))


def cost(prices: Mapping[str, Prices] | None = None) -> Operator[Record, float]:
    """The cost so far, of the models whose prices are known.

    Args:
        prices: The prices by the names of models; for other models those of the table of models.
    """

    def pipeline(records: Observable[Record]) -> Observable[float]:
        return records.pipe(usage_changes(), ops.map(_coster(prices)), total)

    return pipeline


def cost_by_model(prices: Mapping[str, Prices] | None = None) -> Operator[Record, dict[str, float]]:
    """The cost so far by the names of the models, of those whose prices are known; see `cost`. There are at most 100 names; all further ones are ``others``."""
    return _by_model(_coster(prices))


def tokens_by_model(records: Observable[Record]) -> Observable[dict[str, float]]:
    """The tokens so far by the names of the models, read and written; as for `cost_by_model`."""

    def tokens_of(change: UsageChange) -> float:
        return change.tokens

    return records.pipe(_by_model(tokens_of))


def _by_model(value_of: Callable[[UsageChange], float]) -> Operator[Record, dict[str, float]]:
    def step(sums: dict[str, float], change: UsageChange) -> dict[str, float]:
        name = change.model or "unknown"
        if name not in sums and len(sums) >= MOST_GROUPS:
            name = OTHERS
        return {**sums, name: sums.get(name, 0.0) + value_of(change)}

    def pipeline(records: Observable[Record]) -> Observable[dict[str, float]]:
        start: dict[str, float] = {}
        return records.pipe(usage_changes(), ops.scan(step, start))

    return pipeline


def speed(records: Observable[Record]) -> Observable[float]:
    """The tokens a second that models write, about, over the last two seconds."""

    def tokens_in(text: str) -> float:
        return len(text) / PER_TOKEN

    def written(stream: Observable[Event]) -> Observable[str]:
        return stream.pipe(
            ops.publish(
                lambda each: each.pipe(text_deltas(), ops.merge(each.pipe(thinking_deltas())))
            )
        )

    return records.pipe(events(), written, ops.map(tokens_in), rate(2.0))


def waits(records: Observable[Record]) -> Observable[float]:
    """The seconds from each request to the first block of its response."""

    def asked(record: Record) -> str | None:
        return "request" if isinstance(record.event, AttemptStart) else None

    def answered(record: Record) -> str | None:
        return "request" if is_block_event(record.event) else None

    return records.pipe(spans(asked, answered), ops.map(_seconds_of))


def tool_seconds(records: Observable[Record]) -> Observable[float]:
    """The seconds that each tool ran. A call that was skipped did not run."""

    def seconds_of(stop: ToolStop) -> float:
        return stop.seconds

    return records.pipe(events(), only(ToolStop), ops.map(seconds_of), ops.filter(bool))


def failures(records: Observable[Record]) -> Observable[int]:
    """How many tools have failed so far."""

    def has_failed(stop: ToolStop) -> bool:
        return stop.is_error

    return records.pipe(events(), only(ToolStop), ops.filter(has_failed), ops.scan(_one_more, 0))


def high(percent: float = 95, seconds: float = WINDOW) -> Operator[float, float]:
    """The value that so many percent of the values of the last seconds do not exceed.

    Args:
        percent: From 0 to 100; 50 is the median.
        seconds: The width of the window.
    """

    def value(window: Window[float]) -> float:
        return percentile(window, percent) or 0.0

    def pipeline(values: Observable[float]) -> Observable[float]:
        return values.pipe(sliding(seconds), ops.map(value))

    return pipeline


def in_flight(records: Observable[Record]) -> Observable[int]:
    """How many runs are running."""

    def step(running: frozenset[str], record: Record) -> frozenset[str]:
        if record.path:
            return running
        if isinstance(record.event, _BEGINS):
            return running | {record.run_id}
        return running - {record.run_id} if isinstance(record.event, _ENDS) else running

    start: frozenset[str] = frozenset()
    return records.pipe(ops.scan(step, start), ops.map(len), ops.distinct_until_changed())


def status(records: Observable[Record]) -> Observable[str]:
    """The status of a run."""

    def status_of(record: Record) -> str:
        return "" if record.path else _STATUSES.get(type(record.event), "")

    return records.pipe(ops.map(status_of), ops.filter(bool), ops.distinct_until_changed())


def run_line(prices: Mapping[str, Prices] | None = None) -> Operator[Record, RunLine]:
    """What a run has taken so far, for the records of one run.

    Args:
        prices: As for `cost`.
    """

    def seconds(records: Observable[Record]) -> Observable[float]:
        def step(known: tuple[float, float], record: Record) -> tuple[float, float]:
            return known[0] or record.time, record.time

        return records.pipe(ops.scan(step, (0.0, 0.0)), ops.map(lambda known: known[1] - known[0]))

    def name(records: Observable[Record]) -> Observable[str]:
        return records.pipe(ops.take(1), ops.map(run_of))

    def title_at(record: Record) -> str:
        begun = record.event
        if record.path or not isinstance(begun, RunStart | RunResume):
            return ""
        return title_of(last_input(begun.conversation.messages))

    def title(records: Observable[Record]) -> Observable[str]:
        return records.pipe(ops.map(title_at), ops.filter(bool))

    return combine_gauges(
        RunLine(),
        title=title,
        status=status,
        turns=count(TurnStart),
        tools=count(ToolStart),
        tokens=tokens,
        cost=cost(prices),
        seconds=seconds,
        run=name,
    )


def usage(prices: Mapping[str, Prices] | None = None) -> Dashboard:
    """What runs take, one run or many: tokens, cost, waits, speed and tools.

    Args:
        prices: The prices by the names of models; for other models those of the table of models.
    """

    def wait(records: Observable[Record]) -> Observable[float]:
        return records.pipe(waits, high(50))

    def seconds(records: Observable[Record]) -> Observable[float]:
        return records.pipe(tool_seconds, total)

    def slow(records: Observable[Record]) -> Observable[float]:
        return records.pipe(tool_seconds, high(95))

    return Dashboard(
        [
            panel("Tokens", tokens),
            panel("Cost", cost(prices), unit="USD"),
            panel("Time to first token", wait, unit="s"),
            panel("Tokens a second", speed, view="area", unit="tokens/s"),
            panel("Cost by model", cost_by_model(prices), view="bar", unit="USD"),
            panel("Tokens by model", tokens_by_model, view="bar"),
            panel("Calls by tool", count(ToolStart), view="bar", group=tool_of),
            panel("Failures by tool", failures, view="bar", group=tool_of),
            panel("Seconds by tool", seconds, view="bar", unit="s", group=tool_of),
            panel("Slow tools", slow, view="bar", unit="s", group=tool_of),
        ],
        title="Usage",
    )


def runs(prices: Mapping[str, Prices] | None = None) -> Dashboard:
    """A line for each run, and the totals.

    Args:
        prices: As for `usage`.
    """
    return Dashboard(
        [
            panel("Running", in_flight, view="line"),
            panel("Tokens", tokens),
            panel("Cost", cost(prices), unit="USD"),
            panel("Runs", run_line(prices), view="table", group=run_of),
        ],
        title="Runs",
    )


def _coster(prices: Mapping[str, Prices] | None) -> Callable[[UsageChange], float]:
    table = prices or {}

    def cost_of(change: UsageChange) -> float:
        found = table.get(change.model) or model_info(change.model).prices
        return 0.0 if found is None else change.cost(found)

    return cost_of


def _add(one: float, other: float) -> float:
    return one + other


def _one_more(so_far: int, _: object) -> int:
    return so_far + 1


def _seconds_of(span: Span) -> float:
    return span.seconds


_BEGINS = (RunStart, RunResume, RunRecover, RunRequeue)
_ENDS = (RunStop, RunAbort, RunPause)
_STATUSES: dict[type[Event], str] = {
    RunStart: "running",
    RunResume: "running",
    RunRecover: "running",
    RunRequeue: "queued",
    RunPause: "paused",
    RunStop: "finished",
    RunAbort: "aborted",
}

USAGE = usage()
RUNS = runs()

__all__ = [
    "RUNS",
    "USAGE",
    "RunLine",
    "cost",
    "cost_by_model",
    "count",
    "failures",
    "high",
    "in_flight",
    "label_of",
    "run_line",
    "run_of",
    "runs",
    "speed",
    "status",
    "tokens",
    "tokens_by_model",
    "tool_of",
    "tool_seconds",
    "total",
    "usage",
    "waits",
]
