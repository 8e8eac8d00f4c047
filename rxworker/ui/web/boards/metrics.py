"""The metrics of a log in the text format of Prometheus, with the extra ``metrics``.

Counters count from the oldest stored run, and begin anew with the server; those by tool and by model, and the panels of
dashboards, from the oldest run of the last day before that. Each server of a log reports the same values: aggregate
them with ``max``.

Sources: https://prometheus.io/docs/instrumenting/exposition_formats/ and https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from rxworker.boards import PanelState
from rxworker.boards.panel import NUMBERS
from rxworker.boards.values import MAX_GROUPS
from rxworker.log import Fleet
from rxworker.log.fleet import Totals
from rxworker.state.run_state import TOOL_BOUNDS
from rxworker.ui.web.boards.boards import BoardStates
from rxworker.ui.web.boards.fleet import owners_of, queues_of, recovering_of
from rxworker.watchdog import watchdog

GROUP = ("worker", "tenant")
NOT_KNOWN = float("nan")
"""A number that is not known, such as the cost of a model without known prices."""

COUNTERS: tuple[tuple[str, str, Callable[[Totals], float]], ...] = (
    ("runs_ended", "Runs that have finished or were aborted", lambda t: t.ended),
    ("runs_failed", "Runs that were aborted, except cancelled ones", lambda t: t.failed),
    ("runs_recovered", "Recoveries of runs", lambda t: t.recovered),
    ("turns", "Turns of runs, without those of nested runs", lambda t: t.turns),
    ("input_tokens", "Tokens that models have read", lambda t: t.input_tokens),
    ("output_tokens", "Tokens that models have written", lambda t: t.output_tokens),
    ("cost", "Cost of the tokens, where prices are known", lambda t: t.cost),
    ("tool_calls", "Tools that have started, those of nested runs included", lambda t: t.tool_calls),
    ("tool_errors", "Tools that have failed, those of nested runs included", lambda t: t.tool_errors),
)


BY_NAME: tuple[tuple[str, str, str, str], ...] = (
    ("calls-by-tool", "by_tool_calls", "Tools that have started", "tool"),
    ("failures-by-tool", "by_tool_errors", "Tools that have failed", "tool"),
    ("seconds-by-tool", "by_tool_seconds", "How long tools took", "tool"),
    ("tokens-by-model", "by_model_tokens", "Tokens that a model has read and written", "model"),
    ("cost-by-model", "by_model_cost", "Cost of the tokens, where prices are known", "model"),
)
"""The counters that are panels of `rxworker.panels.usage`: the panel, the name, a description, and the label."""


def metrics_of(
    fleet: Fleet, clients: int, boards: Sequence[BoardStates] = (), meters: Sequence[PanelState] = (), accept: str = ""
) -> tuple[bytes, str]:
    """The metrics of all runs of a log and of this process, and their media type.

    Args:
        fleet: The runs.
        clients: The number of clients that watch runs on this server.
        boards: The dashboards, with what their panels show.
        meters: What the panels of `rxworker.panels.usage` show.
        accept: The ``Accept`` header of the request, which chooses the version of the format.
    """
    encode, media_type = choose_encoder(accept)
    registry = CollectorRegistry()
    registry.register(_FleetCollector(fleet, clients, boards, meters))
    ProcessCollector(registry=registry)
    return encode(registry), media_type


@dataclass(eq=False)
class _FleetCollector(Collector):
    fleet: Fleet
    clients: int
    boards: Sequence[BoardStates]
    meters: Sequence[PanelState]

    def collect(self) -> Iterator[Metric]:
        now, infos, groups = time.time(), self.fleet.open, self.fleet.groups.values()
        queues = queues_of(infos, now)
        text = "Runs that are running without a process"
        yield _gauge("runs_recovering", text, {(): recovering_of(infos, now)})
        yield _gauge("processes", "Processes that hold runs", {(): len(owners_of(infos, now))})
        depths = {(queue.worker,): queue.depth for queue in queues}
        yield _gauge("queue_depth", "Runs that wait for a process", depths, GROUP[:1])
        ages = {(queue.worker,): max(now - queue.since, 0.0) for queue in queues}
        yield _gauge("queue_oldest_seconds", "How long the oldest of them waits", ages, GROUP[:1])
        runs = {(g.worker, g.tenant, status): n for g in groups for status, n in g.runs.items()}
        yield _gauge("runs", "Stored runs by status", runs, (*GROUP, "status"))
        for name, text, value in COUNTERS:
            yield _counter(name, text, {(g.worker, g.tenant): value(g.totals) for g in groups}, GROUP)
        durations = HistogramMetricFamily("rxworker_tool_seconds", "How long tools took", labels=GROUP)
        for group in groups:
            labels, totals = (group.worker, group.tenant), group.totals
            durations.add_metric(labels, _buckets(totals), totals.tool_seconds)
        yield durations
        yield from _held()
        models = {(g.worker, g.tenant, name): 1 for g in groups for name in g.totals.unpriced}
        text = "Models whose prices are not known: the cost is without their tokens"
        yield _gauge("unpriced_models", text, models, (*GROUP, "model"))
        text = "Clients that watch runs on this server"
        yield _gauge("server_clients", text, {(): self.clients})
        yield from self._panels()

    def _panels(self) -> Iterator[Metric]:
        if self.meters:
            yield from _meters({state.panel: _numbers(state) for state in self.meters})
        values: dict[tuple[str, ...], float] = {}
        for board, states in self.boards:
            for panel, state in zip(board.panels, states, strict=True):
                if panel.view in NUMBERS and not state.error:
                    for group, value in _numbers(state).items():
                        values[board.name, panel.name, group, panel.unit] = value
        labels = ("board", "panel", "group", "unit")
        yield _gauge("panel", "What a panel of a dashboard shows of all runs", values, labels)


def _held() -> Iterator[Metric]:
    """What has held the event loop of this process."""
    texts = {"holds": "How often a function held the event loop", "hold_seconds": "How long"}
    for place, (name, text) in enumerate(texts.items()):
        held = {key: numbers[place] for key, numbers in watchdog.held.items()}
        yield _counter(f"loop_{name}", text, held, ("kind", "name"))


def _meters(states: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    for panel, name, text, label in BY_NAME:
        yield _counter(name, text, {(group,): value for group, value in states[panel].items()}, [label])
    text = "Waits for the first token, of the last 1,000: the median and the 95th percentile"
    waits = {(quantile,): value for quantile, value in states["time-to-first-token"].items()}
    yield _gauge("first_token_seconds", text, waits, ["quantile"])


def _numbers(state: PanelState) -> dict[str, float]:
    """The numbers of a panel by group, at most as many as a panel has groups."""
    value = state.value
    if isinstance(value, int | float):
        return {"": value}
    if value is None and state.missing:
        return {"": NOT_KNOWN}
    items = value.items() if isinstance(value, Mapping) else ()
    known = ((name, NOT_KNOWN if each is None else each) for name, each in items)
    numbers = ((name, each) for name, each in known if isinstance(each, int | float))
    return dict(islice(numbers, MAX_GROUPS + 1))


def _family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    text: str,
    values: Mapping[tuple[str, ...], float],
    labels: Sequence[str] = (),
) -> Metric:
    """A metric with its values by the values of its labels."""
    family = kind(f"rxworker_{name}", text, labels=labels)
    for known, value in values.items():
        family.add_metric(known, value)
    return family


_counter, _gauge = partial(_family, CounterMetricFamily), partial(_family, GaugeMetricFamily)


def _buckets(totals: Totals) -> list[tuple[str, float]]:
    """The cumulative counts."""
    buckets: list[tuple[str, float]] = []
    count = 0
    for bound, added in zip((*map(str, TOOL_BOUNDS), "+Inf"), totals.tool_durations, strict=True):
        count += added
        buckets.append((bound, count))
    return buckets
