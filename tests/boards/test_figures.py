"""Every figure of a run, on whatever screen, is a count over its records, and unknown is not nought.

A corpus of random runs is stored: nested two deep, side by side, paused and resumed, forked, retracted, failed and
cancelled, of several models and providers, some without prices; with hooks, stages and operators that call models and
workers of their own. The figures are found by walking: the fields of rows, of `RunLine` and of exports, the panels of
the dashboards, the families of metrics. A new one needs a count here. What the models have served is counted by them.
"""

# pyright: basic
# Values of panels and fields of rows are of any type here.

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest
import reactivex
from msgspec import Struct
from msgspec.structs import asdict
from prometheus_client.parser import text_string_to_metric_families
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Limits, Run, Session, Worker, tool, worker_tool
from rxworker.adapters.tables import ResponseRow, response_rows, run_rows
from rxworker.adapters.tables import RunRow as ExportedRun
from rxworker.boards import Dashboard, Panel, PanelState, above, board_text, fold_log, log_records, panel
from rxworker.boards.dashboard import IN_ORDER
from rxworker.boards.drawing import board_html
from rxworker.errors import ConfigurationError, RxWorkerError
from rxworker.events import (
    Annotation,
    AttemptRetract,
    AttemptStart,
    Fork,
    Record,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    Status,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from rxworker.events import Usage as UsageEvent
from rxworker.hooks import Hook, HookPoint
from rxworker.log import Fleet, MemoryLog, RunInfo, fork_run
from rxworker.log.fleet import Totals
from rxworker.messages import Conversation, Prices
from rxworker.messages.usage import Usage
from rxworker.operators import usage_changes
from rxworker.panels import (
    CACHE,
    CAPACITY,
    COST,
    LATENCY,
    QUALITY,
    RUNS,
    TOOLS,
    USAGE,
    RunLine,
    by_time,
    cost,
    cost_by_model,
    fleet,
    in_flight,
    label_of,
    model_of,
    tokens,
)
from rxworker.providers import Request
from rxworker.providers.models import prices_of
from rxworker.testing import Reply, ScriptedModel, call, fail, say
from rxworker.transport import Retry
from rxworker.turn.result import Paused
from rxworker.turn.stages import STAGES
from rxworker.ui.web.boards.metrics import metrics_of
from rxworker.views import RunView
from rxworker.worker import Turn, respond
from tests.log.processes import stored

RUNS_OF_CORPUS = 150 if os.environ.get("RXWORKER_EVERY_CUT") else 24
OWN_PRICES = Prices(input=700.0, output=900.0)
MODELS = ("claude-opus-5-5", "gpt-5.1", "mine", "given")
"""Two of the table of models, one without prices, and one whose worker has `Limits(prices=)`."""


class Served(ScriptedModel):
    """A model that counts what it serves: the last report of each request."""

    def __init__(self, ledger: Ledger, replies: Any, **named: Any) -> None:
        super().__init__(replies, **named)
        self._ledger = ledger

    def stream(self, request: Request) -> Observable[Any]:
        def begin(_: object) -> Observable[Any]:
            at = len(self._ledger)
            self._ledger.append((self.model, None))

            def note(event: object) -> None:
                if isinstance(event, UsageEvent):
                    self._ledger[at] = self.model, event

            return super(Served, self).stream(request).pipe(ops.do_action(note))

        return reactivex.defer(begin)


Ledger = list[tuple[str, Usage | None]]
NAMES = ("anthropic", "openai", "scripted")


def asked_worker(ledger: Ledger) -> Worker:
    """A worker that a hook or a stage asks."""
    replies = [call("fetch", fails=True), say("Yes.", usage=Usage(2_000, 40))] * 40
    return Worker(Served(ledger, replies, model="asked", name="openai"), tools=[fetch])


def asked_model(ledger: Ledger) -> Served:
    """A model that a hook or a stage asks."""
    return Served(ledger, [say("Yes.", usage=Usage(3_000, 50))] * 80, model="gpt-5.1")


def asker(ledger: Ledger, *, worker: bool, model: bool) -> Callable[[object], Awaitable[None]]:
    one, other = asked_worker(ledger), asked_model(ledger)

    async def ask(_: object) -> None:
        if worker:
            await one.new_session().run("?")
        if model:
            await asyncio.gather(*[other.stream(Request(Conversation())) for _ in range(2)])

    return ask


def in_hook(point: HookPoint, ledger: Ledger, **what: bool) -> dict[str, Any]:
    ask = asker(ledger, **what)

    async def hook(context: object) -> None:
        await ask(context)

    return {"hooks": [Hook(hook, point, name=f"ask at {point.value}")]}


def in_stage(name: Any, ledger: Ledger, **what: bool) -> dict[str, Any]:
    ask = asker(ledger, **what)

    def stage(turn: Turn) -> Observable[Any]:
        first = reactivex.from_future(asyncio.ensure_future(ask(turn)))
        return first.pipe(ops.ignore_elements(), ops.concat(STAGES[name](turn)))

    return {"stages": {name: stage}}


def best_of_two(source: Observable[Any]) -> Observable[Any]:
    both = reactivex.zip(source.pipe(ops.to_list()), source.pipe(ops.to_list()))
    return both.pipe(ops.flat_map(lambda answers: reactivex.from_iterable(answers[1])))


def candidates(ledger: Ledger) -> dict[str, Any]:
    other = asked_model(ledger)

    def stage(turn: Turn) -> Observable[Any]:
        """Ask three, and answer with another model than the worker's."""
        models = (turn._context.worker.model, other, other)
        answers = [model.stream(turn.request).pipe(ops.to_list()) for model in models]
        best = reactivex.zip(*answers).pipe(ops.map(lambda three: three[0] or three[2]))
        return best.pipe(ops.flat_map(reactivex.from_iterable))

    return {"stages": {"respond": stage}}


def rejects(times: int) -> Callable[[Observable[Any]], Observable[Any]]:
    """Reject the first answers when they are complete."""
    left = [times]

    def check(answer: list[Any]) -> Observable[Any]:
        if left[0]:
            left[0] -= 1
            return reactivex.throw(ValueError("not good enough"))
        return reactivex.from_iterable(answer)

    return lambda source: source.pipe(ops.to_list(), ops.flat_map(check), ops.retry(4))


def fails_at_its_end(source: Observable[Any]) -> Observable[Any]:
    """Reject the first answer at its last event, which is after its report of tokens."""
    rejected = list[Any]()

    def check(event: Any) -> Any:
        is_end = isinstance(event, Status) and event.status is ResponseStatus.COMPLETED
        if is_end and not rejected:
            rejected.append(event)
            raise ValueError("not good enough")
        return event

    return source.pipe(ops.map(check), ops.retry(3))


def cached() -> Callable[[Turn], Observable[Any]]:
    known: dict[bytes, list[Any]] = {}

    def stage(turn: Turn) -> Observable[Any]:
        key = msgspec.json.encode(turn.request.conversation)
        if key in known:
            return reactivex.from_iterable(known[key]).pipe(turn.timeline)
        events: list[Any] = []

        def keep() -> None:
            known[key] = [event for event in events if not isinstance(event, UsageEvent)]

        return respond(turn).pipe(ops.do_action(events.append, on_completed=keep))

    return stage


KINDS: dict[str, Callable[[Ledger], dict[str, Any]]] = {
    **{
        f"a hook at {point.value} asks a {what}": partial(
            in_hook, point, worker=what == "worker", model=what == "model"
        )
        for point in HookPoint
        for what in ("worker", "model")
    },
    **{f"the stage {name} asks both": partial(in_stage, name, worker=True, model=True) for name in STAGES},
    "candidates of an operator": lambda _: {"operators": [best_of_two]},
    "candidates of a stage": candidates,
    "an operator fails before the report": lambda _: {"operators": [ops.delay(0.001), fails_at_its_end]},
    "an operator rejects": lambda _: {"operators": [rejects(2)]},
    "an operator rejects at the end": lambda _: {"operators": [fails_at_its_end]},
    "an operator around the stage rejects": lambda _: {"around": {"respond": fails_at_its_end}},
    "a stage answers from a cache": lambda _: {"stages": {"respond": cached()}},
}
"""What spends tokens beside the requests of the turns; the points and the stages by themselves."""


@tool
async def fetch(fails: bool) -> str:
    """Fetch."""
    if fails:
        raise ValueError("no")
    return "found"


@tool(requires_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


def worker(chance: random.Random, log: MemoryLog, depth: int, ledger: Ledger, *, has_log: bool = True) -> Worker:
    model = chance.choice(MODELS)
    tools: list[Any] = [fetch, pay] if depth == 0 else [fetch]
    replies: list[Any] = []
    if depth < 2:
        inner = worker(chance, log, depth + 1, ledger, has_log=chance.random() < 0.5)
        tools.append(worker_tool(inner, name="ask", description="Ask."))
    for _ in range(3 if depth else 8):
        usage = Usage(chance.randrange(1, 300_000), chance.randrange(1, 900))
        kind = chance.randrange(7)
        reply = say("Well.", usage=usage)
        if kind in (0, 1):
            reply = call("fetch", fails=chance.random() < 0.5) + call("fetch", fails=True)
        elif kind == 2 and depth < 2:
            reply = call("ask", task="?") + call("ask", task="!") + call("fetch", fails=False)
        elif kind == 3 and depth == 0:
            reply = call("pay") + call("fetch", fails=True)
        elif kind == 4:
            replies.append(say("half", usage=usage) + fail("slow", retryable=True))
        elif kind == 5 and chance.random() < 0.3:
            reply = fail("down", retryable=False)
        replies.append(reply)
    replies += [say("At last.")] * 20
    kind = chance.choice([*KINDS]) if chance.random() < 0.4 else ""
    return Worker(
        Served(ledger, replies, model=model, name=chance.choice(NAMES)),
        tools=tools,
        **(KINDS[kind](ledger) if kind else {}),
        log=log if has_log else None,
        name=f"worker-{depth}",
        response_retry=Retry(first=0.0),
        limits=Limits(prices=OWN_PRICES if model == "given" else None),
    )


async def corpus(seed: int, log: MemoryLog, ledger: Ledger) -> list[Any]:
    """Store runs, one after the other, and return the results of those that finished or paused."""
    chance, results = random.Random(seed), list[Any]()
    for number in range(RUNS_OF_CORPUS):
        session = Session(worker(chance, log, 0, ledger))
        run: Run[object] = session.run(f"Question {number}")
        if chance.random() < 0.1:
            asyncio.get_running_loop().call_later(0, run.cancel)
        for _ in range(4):
            try:
                result = await run
            except (RxWorkerError, ValueError):  # of the operators that reject
                break
            results.append(result)
            if not isinstance(result, Paused) or chance.random() < 0.25:
                break
            run = session.resume(result)
        if number % 3 == 0:
            await log.annotate(run.id, Annotation("rating", ("good", "poor")[number % 2]))
        if chance.random() < 0.3:
            records = await stored(log, run.id)
            between = [r.seq for r in records if not r.path and isinstance(r.event, FORKED_AT)]
            name = await fork_run(log, run.id, chance.choice(between))
            if chance.random() < 0.7:
                other = await worker(chance, log, 0, ledger).recover(name).started()
                await asyncio.wait([asyncio.ensure_future(settled(other))])
    return results


FORKED_AT = (RunStart, RunResume, TurnStart, TurnStop)


async def settled(run: Run[object]) -> None:
    with suppress(RxWorkerError, ValueError):
        await run


class Count:
    """What records contain, counted without a fold of the package."""

    def __init__(self, records: Iterable[Record]) -> None:
        records = [*records]
        self.ratings = Counter(rated.value for each in records if (rated := Annotation.of(each.event)))
        records = [each for each in records if Annotation.of(each.event) is None]  # they make no run longer
        self.first, self.last = records[0].time, records[-1].time
        kinds = Counter(type(each.event) for each in records if not each.path)
        self.turns = kinds[TurnStart]
        self.runs = kinds[RunStart]
        ends = [each.event for each in records if not each.path and isinstance(each.event, RunStop | RunAbort)]
        self.error_rate = percent(isinstance(each, RunAbort) and each.cause != "cancel" for each in ends)
        self.retries: Counter[str] = Counter()
        self.retracted: Counter[str] = Counter()
        self.starts: list[str] = []
        self.stops: list[ToolStop] = []
        self.requests: Counter[str] = Counter()
        self.usage: dict[str, list[Usage]] = defaultdict(list)
        self.prices: dict[str, Prices | None] = {}
        running: Counter[Any] = Counter()
        open_: dict[Any, tuple[str, Usage]] = {}
        started = set[Any]()
        models: dict[Any, str] = {}
        for each in records:
            key, event = (each.run_id, each.path), each.event
            if isinstance(event, AttemptRetract):
                self.retracted[models[key]] += 1
            if isinstance(event, AttemptStart):
                models[key] = event.model
                self.retries[event.model] += each.attempt > 1
            if isinstance(event, AttemptStart | RunStop | RunAbort | RunPause) and key in open_:
                model, usage = open_.pop(key)
                self.usage[model].append(usage)
            if isinstance(event, AttemptStart):
                open_[key] = event.model, Usage()
                started.discard(key)
                self.requests[event.model] += 1
                if event.prices is not None:
                    self.prices[event.model] = event.prices
            elif isinstance(event, UsageEvent):
                open_[key] = open_[key][0], event
            elif isinstance(event, Status) and event.status is ResponseStatus.STARTED:
                if key in started:  # an operator has begun another response
                    self.usage[open_[key][0]].append(open_[key][1])
                    open_[key] = open_[key][0], Usage()
                started.add(key)
            elif isinstance(event, ToolStart):
                self.starts.append(event.call.name)
                running[key, event.call.id] += 1
            elif isinstance(event, ToolStop) and running[key, event.call_id]:
                running[key, event.call_id] -= 1
                self.stops.append(event)
        for model, usage in open_.values():
            self.usage[model].append(usage)

    def tokens(self, name: str) -> int:
        return sum(getattr(each, name) or 0 for every in self.usage.values() for each in every)

    @property
    def costs(self) -> dict[str, float]:
        return {
            model: sum(price.cost(each) for each in every)
            for model, every in self.usage.items()
            if (price := self.prices.get(model) or prices_of(model)) and any(map(bool, totals(every)))
        }

    @property
    def cost(self) -> float | None:
        return sum(self.costs.values()) if self.costs else None

    @property
    def unpriced(self) -> set[str]:
        return {m for m, every in self.usage.items() if m not in self.costs and any(totals(every))}

    @property
    def failed(self) -> int:
        return sum(each.is_error for each in self.stops)

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.stops)


def check_requests(records: Sequence[Record]) -> None:
    """The exported responses and the requests of a view have the tokens of a run."""
    rows: list[ResponseRow] = []
    reactivex.from_iterable(records).pipe(response_rows()).subscribe(rows.append)
    view, count = RunView(), Count(records)
    for each in records:
        view.step(each)
    viewed = Counter[str]()
    for each in view.attempts:
        viewed[each.model] += 0 if each.usage is None else each.usage.total_tokens
    assert +viewed == +Counter({model: sum(totals(every)) for model, every in count.usage.items()})
    assert viewed.total() == sum([(row.input_tokens or 0) + (row.output_tokens or 0) for row in rows])
    assert all(each.is_over for each in view.attempts)


def totals(usages: Iterable[Usage]) -> list[int]:
    return [each.total_tokens for each in usages]


def percent(values: Iterable[bool]) -> float | None:
    """How many percent are true; ``None`` of nothing."""
    found = [*values]
    return 100 * sum(found) / len(found) if found else None


def errors_by_tool(count: Count) -> dict[str, float | None]:
    names = dict.fromkeys(each.tool for each in count.stops)
    return {name: percent(each.is_error for each in count.stops if each.tool == name) for name in names}


def cache_share(count: Count) -> float:
    return 100 * count.tokens("cache_read_tokens") / (count.tokens("input_tokens") or 1)


def by_tool(count: Count, value: Callable[[ToolStop], float]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for each in count.stops:
        sums[each.tool] += value(each)
    return {name: each for name, each in sums.items() if each}


FIGURES: dict[str, Callable[[Count], object]] = {
    "turns": lambda c: c.turns,
    "tool_calls": lambda c: len(c.starts),
    "tools": lambda c: len(c.starts),
    "tool_errors": lambda c: c.failed,
    "tool_seconds": lambda c: c.seconds,
    "tool_durations": lambda c: sum(each.seconds > 0 for each in c.stops),
    "tokens": lambda c: c.tokens("input_tokens") + c.tokens("output_tokens"),
    "input_tokens": lambda c: c.tokens("input_tokens"),
    "output_tokens": lambda c: c.tokens("output_tokens"),
    "cache_read_tokens": lambda c: c.tokens("cache_read_tokens"),
    "cache_creation_tokens": lambda c: c.tokens("cache_creation_tokens"),
    "reasoning_tokens": lambda c: c.tokens("reasoning_tokens"),
    "cost": lambda c: c.cost,
    "unpriced": lambda c: c.unpriced,
    "by_model": lambda c: {m: sum(totals(every)) for m, every in c.usage.items() if any(totals(every))},
    "seconds": lambda c: c.last - c.first,
}
"""The figures of a run, by the names of their fields."""

PANELS: dict[str, Callable[[Count], object]] = {
    "tokens": FIGURES["tokens"],
    "cost": FIGURES["cost"],
    "tokens-by-model": FIGURES["by_model"],
    "cost-by-model": lambda c: {**c.costs, **dict.fromkeys(c.unpriced)},
    "requests-by-model": lambda c: dict(c.requests),
    "calls-by-tool": lambda c: dict(Counter(c.starts)),
    "failures-by-tool": lambda c: by_tool(c, lambda each: each.is_error),
    "seconds-by-tool": lambda c: by_tool(c, lambda each: each.seconds),
    "tools": FIGURES["tools"],
    "failed-tools": FIGURES["tool_errors"],
    "cost-of-a-run": lambda c: c.cost and c.cost / c.runs,
    "cost-by-hour": FIGURES["cost"],
    "error-rate-of-runs": lambda c: c.error_rate,
    "error-rate-of-runs-last-hour": lambda c: c.error_rate,
    "error-rate-of-tools": lambda c: percent(each.is_error for each in c.stops),
    "error-rate-by-tool": errors_by_tool,
    "ratings": lambda c: dict(c.ratings),
    "retries-by-model": lambda c: dict(+c.retries),
    "retractions-by-model": lambda c: dict(c.retracted),
    "calls-by-hour": FIGURES["tools"],
    "from-the-cache": cache_share,
    "tokens-from-the-cache-by-hour": FIGURES["cache_read_tokens"],
    "tokens-read-by-hour": FIGURES["input_tokens"],
    "tokens-read": FIGURES["input_tokens"],
    "tokens-written": FIGURES["output_tokens"],
}
"""The panels of the dashboards that show sums, by name; those of `fleet` are sums of steps."""

SHAPES = frozenset(
    {
        *("tokens-by-kind", "text", "tokens-a-second", "speed", "time-to-first-token"),
        *("time-of-tools", "time-of-runs", "slow-tools", "running", "tools-95", "first-token-95"),
        *("in-the-queue-95", "runs", "ended-runs", "failed-runs", "recoveries"),
        # Those of `LATENCY` and `CAPACITY`, and of groups: see test_ready_panels.py.
        *("cost-by-worker", "cost-by-tenant-and-day", "times-by-tool", "time-of-turns", "first-token-by-model"),
        *("first-token-95-last-hour", "turns-95-last-hour", "speed-by-model", "running-and-queued"),
        *("running-and-queued-by-worker", "time-in-the-queue", "in-the-queue-95-last-hour", "ended-runs-by-hour"),
        *("from-the-cache-by-model", "from-the-cache-by-worker", "turns-by-hour-and-seconds"),
    }
)
"""Panels that show no sum of a run, or are counted by status below."""

NO_FIGURES = frozenset(
    {
        *("status", "title", "worker", "reason", "outer", "resumes", "fork_of", "copied", "cause"),
        *("wakes", "due", "awaits"),
        *("labels", "priority", "allowed", "imported", "held", "recoveries", "prices", "run", "began", "end", "ended"),
    }
)


def check(value: Struct, count: Count, *, without: Iterable[str] = ()) -> None:
    """Compare all figures of a row with a count. A field that is not known here fails."""
    for name, found in asdict(value).items():
        if name in NO_FIGURES or name in without:
            continue
        if name == "tool_durations":
            found = sum(found)
        elif name == "unpriced":
            found = set(found.split(", ") if isinstance(found, str) and found else found)
        elif name == "by_model":
            found = {model: sum(counts[:2]) for model, counts in found.items() if any(counts)}
        assert FIGURES[name](count) == approximately(found or (0 if found is None and name != "cost" else found)), name


def approximately(value: object) -> Any:
    is_number = isinstance(value, float) or (isinstance(value, Mapping) and value)
    if isinstance(value, Mapping) and None in value.values():
        return _Mapping(value)
    return pytest.approx(value, rel=1e-6, abs=2e-3) if is_number else value


class _Mapping:
    """A mapping of numbers of which some are not known."""

    def __init__(self, value: Mapping[Any, Any]) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping) or other.keys() != self.value.keys():
            return False
        pairs = [(other[name], each) for name, each in self.value.items()]
        return all(a == b if a is None or b is None else a == pytest.approx(b) for a, b in pairs)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Stored:
    """The records of the outer runs of a log."""

    def __init__(self, infos: list[RunInfo], records: dict[str, list[Record]]) -> None:
        self.infos = {info.run_id: info for info in infos if not info.row.outer}
        self.records = records

    def whole(self, run: str) -> list[Record]:
        """With what came before a pause."""
        row = self.infos[run].row
        before = row.resumes or (row.fork_of and self.infos[row.fork_of].row.resumes)
        return [*(self.whole(before) if before else ()), *self.records[run]]

    def own(self, run: str) -> list[Record]:
        """Without what a fork has copied."""
        records = self.records[run]
        if not self.infos[run].row.fork_of:
            return records
        at = next(n for n, each in enumerate(records) if isinstance(each.event, Fork))
        return records[at:]

    @property
    def all(self) -> list[Record]:
        return [record for run in self.infos for record in self.own(run)]

    def line(self, run: str) -> str:
        """The run to whose line of `RUNS` a run belongs."""
        resumed = self.infos[run].row.resumes
        return self.line(resumed) if resumed else run


async def corpus_in(log: MemoryLog) -> Stored:
    infos, records = [info async for page in log.list_pages() for info in page], {}
    for info in infos:
        records[info.run_id] = await stored(log, info.run_id)
    return Stored(infos, records)


@pytest.mark.parametrize("seed", range(8 if os.environ.get("RXWORKER_EVERY_CUT") else 1))
async def test_every_figure_is_a_count_over_the_records(seed: int) -> None:
    follower, ledger = Fleet(), Ledger()
    async with MemoryLog() as log:
        log.fleet(every=0.0).subscribe(follower.note)
        results = await corpus(seed, log, ledger)
        everything = await check_log(log, follower, results, ledger)
    assert min(everything.failed, len(everything.unpriced), len(everything.costs) - 2) > 0


def question(ledger: Ledger, log: MemoryLog | None, kind: str) -> Worker:
    """A worker of a kind, whose runs pause, call a tool and finish, or fail."""

    def reply(request: Request) -> Any:
        messages = request.conversation.messages
        if messages[-1].text == "Fail.":
            return say("half", usage=Usage(500, 5)) + fail("down", retryable=False)
        results = sum(len(message.tool_results) for message in messages)
        usage = Usage(1_000 * (results + 1), 10 + results)
        said = (call("pay"), call("fetch", fails=False), say("At last."))[min(results, 2)]
        return said + Reply(usage=usage)

    model = Served(ledger, reply, model="claude-opus-5-5", name="anthropic")
    return Worker(model, tools=[fetch, pay], log=log, **KINDS[kind](ledger))


async def runs_of_kind(asked: Worker) -> tuple[list[Run[object]], list[Any]]:
    """Ask the same twice, with a pause each, and once for something that fails."""
    runs, results = list[Run[object]](), list[Any]()
    for _ in range(2):
        session = asked.new_session()
        runs.append(session.run("Pay, and fetch."))
        results.append(await runs[-1])
        assert isinstance(results[-1], Paused)
        runs.append(session.resume(results[-1]))
        results.append(await runs[-1])
        assert results[-1].text == "At last."
    runs.append(asked.new_session().run("Fail."))
    with suppress(RxWorkerError, ValueError):
        results.append(await runs[-1])
    return runs, results


@pytest.mark.product(3)
@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_models_have_served_is_what_every_figure_counts(kind: str, has_log: bool, log: MemoryLog) -> None:
    follower, ledger = Fleet(), Ledger()
    log.fleet(every=0.0).subscribe(follower.note)
    asked = question(ledger, log if has_log else None, kind)
    runs, results = await runs_of_kind(asked)
    if has_log:
        await check_log(log, follower, results, ledger, is_cached="cache" in kind)
    else:
        records = [record for run in runs for record in await records_now(run)]
        everything = Count(records)
        check_served(everything, ledger, is_cached="cache" in kind)
        check_panels(everything, [USAGE.at(records), RUNS.at(records)])
    whole = [run for run in runs if run.state.status != "paused"]
    assert sum(run.state.usage.total_tokens for run in whole) == sum(served(ledger).values())


async def records_now(run: Run[object]) -> list[Record]:
    found = list[Record]()
    with suppress(RxWorkerError, ValueError):
        async for record in run:
            found.append(record)
    return found


def served(ledger: Ledger) -> Counter[str]:
    counts: Counter[str] = Counter()
    for model, usage in ledger:
        counts[model] += 0 if usage is None else usage.total_tokens
    return +counts


def check_served(count: Count, ledger: Ledger, *, is_cached: bool = False) -> None:
    """What the records have is what the models have served."""
    assert FIGURES["by_model"](count) == dict(served(ledger))
    if not is_cached:  # an answer from a cache is an attempt of the turn
        assert count.requests.total() >= len([1 for _, usage in ledger if usage is not None])
    for name in ("input_tokens", "output_tokens"):
        assert count.tokens(name) == sum(getattr(usage, name) for _, usage in ledger if usage)


async def check_log(
    log: MemoryLog, follower: Fleet, results: list[Any], ledger: Ledger, *, is_cached: bool = False
) -> Count:
    """Compare all that shows a figure of the runs of a log."""
    loaded, log_of = Fleet(), await corpus_in(log)
    everything = Count(log_of.all)
    check_served(everything, ledger, is_cached=is_cached)
    # Rows, results, exports.
    for run, info in log_of.infos.items():
        check(info.row, Count(log_of.whole(run)))
    for result in results:
        count = Count(log_of.whole(result.run_id))
        assert (result.turns, result.usage.total_tokens) == (count.turns, FIGURES["tokens"](count))
        assert not isinstance(result, Paused) or result.tool_calls == len(count.starts)
    exported: list[ExportedRun] = []
    for run in log_of.infos:
        reactivex.from_iterable(log_of.records[run]).pipe(run_rows()).subscribe(exported.append)
    for row in exported:
        whole, own = log_of.whole(row.run), log_of.records[row.run]
        check(row, Count(whole), without=["seconds"] if len(whole) > len(own) else [])
    for run in log_of.infos:
        check_requests(log_of.records[run])
    # The line of each question.
    lines: dict[str, list[Record]] = defaultdict(list)
    for run in log_of.infos:
        lines[log_of.line(run)] += log_of.own(run)
    for name, records in lines.items():
        rows: Any = RUNS.at(records)[-1].value
        [line] = rows
        check(RunLine(**line), Count(sorted(records, key=IN_ORDER)), without=["run"])
        assert line["run"] == max(records, key=IN_ORDER).run_id, name
    # The dashboards.
    shown = [await fold_log(each, log) for each in (USAGE, RUNS, FLEET, *FEW)]
    check_panels(everything, shown)
    # The fleet, whether it has followed the log or reads it, and the metrics of both.
    for info in reversed([info async for page in log.list_pages() for info in page]):
        loaded.note(info)
    await asyncio.sleep(0)
    statuses = by_status(log_of)
    for fleet_of in (follower, loaded):
        assert runs_of(fleet_of) == statuses
        for name, found in totals_of(fleet_of).items():
            if name == "tool_seconds":  # each row has them to the millisecond
                assert everything.seconds == pytest.approx(found, abs=0.05)
            elif name in FIGURES:
                assert FIGURES[name](everything) == approximately(found), name
        check_metrics(fleet_of, everything, dict(zip((USAGE,), shown, strict=False)))
    usage_runs: Any = next(state.value for state in shown[0] if state.panel == "runs")
    in_words = {"failed": "aborted", "cancelled": "aborted", "stopped": "aborted"}
    of_panel: Counter[Any] = Counter()
    for word, n in usage_runs.items():
        of_panel[in_words.get(word, word)] += n
    assert of_panel == statuses
    return everything


def check_panels(everything: Count, shown: Iterable[Iterable[PanelState]]) -> None:
    for state in (state for states in shown for state in states):
        if state.panel in SHAPES:
            continue
        value: Any = state.value
        if state.panel in STEPPED or (isinstance(value, Mapping) and all("Z/PT" in n for n in value)):
            value = sum((value or {}).values())
        counted = PANELS[state.panel](everything)
        if value is None and counted == {}:
            continue  # nothing of the kind was recorded
        assert counted == approximately(value), state.panel
        if "cost" in state.panel:
            assert {*state.missing.get("", ())} == everything.unpriced


STEPPED = frozenset(
    {"tools", "failed-tools", "tokens-read", "tokens-written", "calls-by-hour", "tokens-from-the-cache-by-hour"}
) | {"tokens-read-by-hour"}
FEW = (COST, QUALITY, TOOLS, LATENCY, CAPACITY, CACHE)
FLEET = fleet("week")


def by_status(log: Stored) -> Counter[str]:
    """The runs by their status: a run that was resumed counts as the one that resumes it."""
    resumed = {info.row.resumes for info in log.infos.values()}
    return Counter(info.status for run, info in log.infos.items() if run not in resumed)


def runs_of(fleet: Fleet) -> Counter[str]:
    runs: Counter[str] = Counter()
    for group in fleet.groups.values():
        runs.update(+group.runs)
    return runs


def totals_of(fleet: Fleet) -> dict[str, Any]:
    totals = Totals()
    for group in fleet.groups.values():
        totals.add(group.totals)
    found = asdict(totals)
    return {**found, "tool_durations": sum(found["tool_durations"])}


COUNTERS: dict[str, Callable[[Count], object]] = {
    "rxworker_turns": FIGURES["turns"],
    "rxworker_input_tokens": FIGURES["input_tokens"],
    "rxworker_output_tokens": FIGURES["output_tokens"],
    "rxworker_cost": FIGURES["cost"],
    "rxworker_tool_calls": FIGURES["tool_calls"],
    "rxworker_tool_errors": FIGURES["tool_errors"],
    "rxworker_by_tool_calls": FIGURES["tool_calls"],
    "rxworker_by_tool_errors": FIGURES["tool_errors"],
    "rxworker_by_tool_seconds": FIGURES["tool_seconds"],
    "rxworker_by_model_tokens": FIGURES["tokens"],
    "rxworker_by_model_cost": FIGURES["cost"],
}


def check_metrics(fleet: Fleet, count: Count, shown: Mapping[Dashboard, Any]) -> None:
    body, _ = metrics_of(fleet, 0, meters=shown[USAGE])
    for family in text_string_to_metric_families(body.decode()):
        if (
            family.type == "counter"
            and family.name
            not in (
                "rxworker_runs_ended",
                "rxworker_runs_failed",
                "rxworker_runs_recovered",
                "rxworker_loop_holds",
                "rxworker_loop_hold_seconds",
            )
            and family.name.startswith("rxworker")
        ):
            values = [each.value for each in family.samples if each.name.endswith("_total")]
            found = sum(each for each in values if each == each)  # one that is not known is NaN
            assert COUNTERS[family.name](count) == approximately(found), family.name
        elif family.name == "rxworker_tool_seconds":
            sums = {each.name.rpartition("_")[2]: 0.0 for each in family.samples}
            for each in family.samples:
                sums[each.name.rpartition("_")[2]] += each.value
            assert sums["sum"] == pytest.approx(count.seconds, abs=0.05)
        elif family.name == "rxworker_unpriced_models":
            assert {each.labels["model"] for each in family.samples} == count.unpriced


def at(shown: Panel, records: Iterable[Record]) -> Any:
    [state] = Dashboard([shown]).at(records)
    assert state.error == ""
    return state


def usages(model: str = "mine", tenant: str = "acme", run: str = "run-1") -> list[Record]:
    events = [RunStart(Conversation(), labels={"tenant": tenant}), AttemptStart("x", model), UsageEvent(1_000_000, 0)]
    return [Record(n, run, 1, 1, 60.0 * n, event) for n, event in enumerate(events, 1)]


def test_a_cost_that_is_not_known_is_unknown_on_every_screen_and_its_alert_fires() -> None:
    shown = panel("Cost", cost(), unit="USD", alert=above(5))
    board = Dashboard([shown, panel("By model", cost_by_model(), view="bar")])
    states = board.at(usages())
    assert (states[0].value, states[0].missing) == (None, {"": ("mine",)})
    assert states[1].value == {"mine": None}
    for text in (board_text(board, states), board_html("Desk", board.panels, states)):
        assert text.count("unknown") == 2
        assert "without mine" in text
    [change] = board.alerts_in(usages())
    assert (change.value, change.missing, change.is_firing) == (None, ("mine",), True)
    known = Dashboard([panel("Cost", cost({"mine": Prices(1.0, 1.0)}), alert=above(5))])
    assert known.at(usages())[0].value == 1.0
    assert known.alerts_in(usages()) == ()


def test_the_prices_of_limits_reach_panels_and_rows() -> None:
    async def main() -> None:
        async with MemoryLog() as log:
            model = ScriptedModel([say("Hi.", usage=Usage(1_000_000, 0))], model="gpt-5.1")
            await Worker(model, log=log, limits=Limits(prices=OWN_PRICES)).run("?")
            for board in (USAGE, RUNS):
                states = {state.panel: state for state in await fold_log(board, log)}
                assert states["cost"].value == OWN_PRICES.input
            assert (await log.list())[0].row.cost == OWN_PRICES.input

    asyncio.run(main())


def test_a_line_of_many_points_keeps_its_least_and_greatest_values() -> None:
    """200 runs of 1 s, one each 10 s."""
    records = [
        Record(n + 1, f"run-{n // 2}", 1, 1, 10.0 * (n // 2) + n % 2, event)
        for n in range(400)
        for event in [RunStart(Conversation()) if n % 2 == 0 else RunStop()]
    ]
    points = at(panel("Running", in_flight, view="line"), records).points[""]
    assert len(points) <= 300
    assert {value for _, value in points} == {0, 1}
    assert points == sorted(points, key=lambda point: point[0])


def test_bars_show_the_greatest_groups_and_count_the_rest() -> None:
    shown = panel("Cost", cost(), view="bar")
    board = Dashboard([shown])
    state = PanelState("cost", value={f"tenant-{n}": float(n) for n in range(40)})
    for text in (board_text(board, [state]), board_html("Desk", [shown], [state])):
        assert "tenant-39" in text
        assert "tenant-1<" not in text
        assert "tenant-2 " not in text
        assert "and 20 more" in text
    assert "█" * 30 in board_text(board, [state]).splitlines()[1]  # the scale is that of the greatest


@pytest.mark.parametrize("given", [(7,), (b"tenant",), ("tenant", 7)])
def test_a_label_is_a_text(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"label_of\('tenant'"):
        label_of(*given)


def test_a_table_with_groups_has_a_column_of_their_names() -> None:
    def row(_: Record) -> dict[str, int]:
        return {"n": 1}

    records = usages() + usages(tenant="globex", run="run-2")
    for group, column in ((label_of("tenant"), "tenant"), (lambda r: r.run_id, "group")):
        shown = panel("Runs", ops.map(row), view="table", group=group)
        state = at(shown, records)
        names = [each[column] for each in state.value]
        assert names in (["acme", "globex"], ["run-1", "run-2"])
        assert names[1] in board_text(Dashboard([shown]), [state])


def test_steps_of_time_may_have_groups() -> None:
    def tokens_in(change: Any) -> float:
        return change.tokens

    def amounts(records: Any) -> Any:
        return records.pipe(usage_changes(), ops.map(tokens_in), by_time(60, 3))

    shown = panel("Tokens", amounts, view="bar", group=label_of("tenant"))
    state = at(shown, usages() + usages(tenant="globex", run="run-2"))
    step = "1970-01-01T00:03Z/PT1M"
    assert state.value == {f"acme: {step}": 1e6, f"globex: {step}": 1e6}
    assert "globex" in board_text(Dashboard([shown]), [state])


def test_tokens_have_the_model_of_their_request_as_a_group() -> None:
    shown = panel("Tokens", tokens, view="bar", group=model_of)
    records = usages() + usages(model="other", run="run-2")
    assert at(shown, records).value == {"mine": 1_000_000, "other": 1_000_000}


def test_one_value_is_not_drawn_as_a_course() -> None:
    shown = panel("Tokens", tokens, view="area")
    state = at(shown, usages())
    assert "█" not in board_text(Dashboard([shown]), [state])
    assert "polyline" not in board_html("Desk", [shown], [state])


async def test_a_board_that_is_still_reading_shows_how_far_on_every_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.boards.reader.TURN", 0.0)  # others have a turn after each record
    async with MemoryLog() as log:
        for _ in range(30):
            await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        board = Dashboard([panel("Tokens", tokens)]).show(log_records(log), every=0)
        seen: list[PanelState] = []
        board.changes.subscribe(seen.append)
        assert board.states[0].reading == (0, 0)
        async with asyncio.timeout(20):
            while board.reading is not None or not seen or seen[-1].reading:  # noqa: ASYNC110
                await asyncio.sleep(0)
        read = [each.reading for each in seen if each.reading]
        assert read
        assert all(total in (0, 30) for _, total in read)
        assert (seen[-1].value, seen[-1].reading) == (30 * 15, None)
        state = PanelState("tokens", value=1.0, reading=(12, 30))
        dashboard = board.dashboard
        assert "read 12 of 30 runs" in board_text(dashboard, [state])
        assert "read 12 of 30 runs" in board_html("Desk", dashboard.panels, [state])
        board.dispose()
