"""Each rule of a stream is broken by a short stream that breaks no other; runs and recordings keep all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import reactivex as rx
from msgspec.structs import replace
from reactivex.subject import ReplaySubject, Subject

from rxworker import Run, Worker, tool, worker_tool
from rxworker.errors import ConfigurationError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    Event,
    Record,
    ResponseStatus,
    RunAbort,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.hub import Delivery, Hub, Watch
from rxworker.log import MemoryLog
from rxworker.log.replica import Replica
from rxworker.messages import Conversation, ToolCall, ToolResult
from rxworker.state import RunState
from rxworker.tap import tap
from rxworker.testing import ScriptedModel, call, conformance, fail, say, stall
from rxworker.testing.conformance import Rule, check, check_records
from rxworker.transport import Retry
from tests.decoded import events_of
from tests.over_recordings import provider_of
from tests.over_recordings import pytest_generate_tests as pytest_generate_tests
from tests.runs import reached
from tests.tap.test_sources import ENDS, Recorded, read, recordings

BEGIN, DONE, FAILED = map(Status, (ResponseStatus.STARTED, ResponseStatus.COMPLETED, ResponseStatus.FAILED))
START, SAY = BlockStart(0, BlockType.TEXT), TextDelta(0, "Hello")
STOP, ABORT = BlockStop(0, BlockType.TEXT), BlockAbort(0, BlockType.TEXT)
ERROR, USAGE = Error("overloaded", "The service is overloaded."), Usage(10, 5)
ANSWER = (AttemptStart(), BEGIN, START, SAY, STOP, DONE)
CUT = (AttemptStart(), BEGIN, START, SAY, ABORT, ERROR, FAILED)
CALL, RESULT = ToolStart(ToolCall("call_1", "look", {})), ToolStop(ToolResult("call_1"), call_id="call_1")


def records(*events: Event) -> list[Record]:
    return [Record(seq, "run", 1, 1, 0.0, event) for seq, event in enumerate(events, 1)]


def run_of(*events: Event, path: tuple[str, ...] = ()) -> list[Record]:
    """A run of one turn, whose answer has the path."""
    around = records(RunStart(Conversation()), TurnStart(), *events, TurnStop(), RunStop())
    return [replace(record, path=path if record.event in ANSWER else ()) for record in around]


RUN = run_of(*ANSWER)


class Feed:
    """Records for any number of readers, with one fault of delivery."""

    def __init__(self, fault: Rule | None = None) -> None:
        self._fault = fault
        self._taken = 0
        self._readers: dict[int, int] = {}
        self._has_failed = False

    def __aiter__(self) -> AsyncIterator[Record]:
        reader = len(self._readers) + 1
        self._readers[reader] = self._taken if self._fault is Rule.LATE_WATCHER else 0
        return self._read(reader, shares=self._fault is Rule.TWO_WATCHERS and not self._taken)

    async def _read(self, reader: int, shares: bool) -> AsyncGenerator[Record, None]:
        readers = self._readers
        try:
            await asyncio.sleep(0)  # all that begin at once have begun
            while (at := self._taken if shares else readers[reader]) < len(RUN):
                self._taken, readers[reader] = max(self._taken, at + 1), at + 1
                yield RUN[at]
                await asyncio.sleep(0)  # the others take theirs
                while self._fault is Rule.SLOW_WATCHER and min(readers.values()) <= at:  # noqa: ASYNC110 - one is awaited
                    await asyncio.sleep(0)
                if self._has_failed:
                    raise OSError("another reader has failed")
        except GeneratorExit:
            self._has_failed = self._fault is Rule.RAISING_WATCHER
            raise
        finally:
            readers[reader] = len(RUN)


SAMPLES: dict[Rule, tuple[object, object]] = {
    Rule.BLOCKS_END: ([BEGIN, START, SAY, DONE], [BEGIN, START, SAY, STOP, DONE]),
    Rule.NOTHING_AFTER_END: ([BEGIN, DONE, START], [BEGIN, DONE]),
    Rule.CUT_IS_NOT_SUCCESS: ([BEGIN, START, SAY, STOP], [BEGIN, START, SAY, ABORT, ERROR, FAILED]),
    Rule.RETRACTED_IS_MARKED: (run_of(*CUT, *ANSWER), run_of(*CUT, AttemptRetract("overloaded"), *ANSWER)),
    Rule.USAGE_ONCE: ([BEGIN, USAGE, DONE, USAGE], [BEGIN, Usage(10, 1), USAGE, DONE]),
    Rule.ERRORS_ARE_SEEN: ([BEGIN, FAILED], [BEGIN, ERROR, FAILED]),
    Rule.CALLS_END: (run_of(CALL), run_of(CALL, RESULT)),
    Rule.NESTED_BY_PATH: (run_of(CALL, *ANSWER, RESULT, path=("b",)), run_of(CALL, *ANSWER, RESULT, path=("call_1",))),
    Rule.NUMBERS_WITHOUT_GAPS: ([*RUN[:5], *RUN[6:]], RUN),
    **{
        rule: (partial(Feed, rule), Feed)
        for rule in (Rule.TWO_WATCHERS, Rule.LATE_WATCHER, Rule.RAISING_WATCHER, Rule.SLOW_WATCHER)
    },
}


def names(report: conformance.Report, outcome: str = "broken") -> list[Rule]:
    return [row.rule for row in report.rows if row.outcome == outcome]


@pytest.mark.parametrize("rule", Rule)
async def test_a_short_stream_breaks_each_rule_and_no_other(rule: Rule) -> None:
    broken, kept = [await check(source, seconds=0.1) for source in SAMPLES[rule]]
    assert names(broken) == [rule]
    assert names(kept) == []
    assert rule in names(kept, "kept")


@pytest.mark.parametrize(
    ("items", "broken"),
    [
        ([BEGIN, ERROR, DONE], Rule.CUT_IS_NOT_SUCCESS),
        (RUN[:-1], Rule.CUT_IS_NOT_SUCCESS),
        (run_of(*CUT), Rule.CUT_IS_NOT_SUCCESS),
        ([*RUN[:-1], Record(len(RUN), "run", 1, 1, 0.0, RunAbort("error", ""))], Rule.ERRORS_ARE_SEEN),
        (records(RunStart(Conversation()), RunStart(Conversation()), RunStop()), Rule.NESTED_BY_PATH),
    ],
)
def test_other_streams_that_break_a_rule(items: Iterable[object], broken: Rule) -> None:
    assert names(check_records(items)) == [broken]


def test_a_stream_that_fails_could_not_finish_what_was_open() -> None:
    report = check_records([BEGIN, START, SAY], error=OSError("gone"))
    assert names(report) == []
    assert Rule.ERRORS_ARE_SEEN in names(report, "kept")


def test_a_report_names_rules_reasons_and_records() -> None:
    report = check_records(SAMPLES[Rule.NUMBERS_WITHOUT_GAPS][0])  # type: ignore[arg-type]
    lines = str(report).splitlines()
    assert lines[0] == "3 of 4 rules kept, 9 not tried"
    assert lines[9] == " 9  numbers-without-gaps broken: seq 7: seq 7 after 5"
    assert report.rows[8].seqs == (7,)
    with pytest.raises(AssertionError, match="seq 7 after 5"):
        report.raise_for_broken()
    page = Path(__file__).parents[2] / "docs" / "how-to" / "test-your-worker.md"
    listed = re.findall(r"^\| `([a-z-]+)` \|", page.read_text(encoding="utf-8"), re.M)
    assert [*conformance.REASONS] == [*Rule] == listed


# Runs of workers.


def draft(text: str) -> str:
    """Draft."""
    return text.upper()


def of_tools(**options: Any) -> Run[Any]:
    answers = [call("draft", text="a") + call("draft", text="b"), "Both."]
    return Worker(ScriptedModel(answers), tools=[tool(draft)], **options).run("Go")


def of_nested() -> Run[Any]:
    inner = Worker(ScriptedModel([call("draft", text="in"), "Inside."]), tools=[tool(draft)])
    outer = ScriptedModel([call("ask", task="Why?"), "So."])
    return Worker(outer, tools=[worker_tool(inner, name="ask", description="Ask.")]).run("Go")


def of_retried() -> Run[Any]:
    model = ScriptedModel([say("Half") + fail("Overloaded", "overloaded"), "Whole."])
    return Worker(model, response_retry=Retry(first=0.001)).run("Go")


def of_failed() -> Run[Any]:
    return Worker(ScriptedModel([say("Half") + fail("No", "invalid_request")])).run("Go")


async def of_cancelled() -> Run[Any]:
    run = Worker(ScriptedModel([say("Half") + stall()])).run("Go")
    await reached(run, TextDelta)
    run.cancel()
    return run


def of_paused() -> Run[Any]:
    @tool(requires_approval=True)
    def delete(path: str) -> str:
        """Delete."""
        return path

    return Worker(ScriptedModel([call("delete", path="a"), "Done."]), tools=[delete]).run("Go")


@asynccontextmanager
async def of_log() -> AsyncGenerator[Replica]:
    async with MemoryLog() as log:
        run = of_tools(log=log)
        yield Replica(log, run.id, barrier=run.barrier)
        await run


@asynccontextmanager
async def of_recovered() -> AsyncGenerator[Replica]:
    async with MemoryLog() as log:
        worker = Worker(ScriptedModel([say("Half") + stall(), "Whole."]), log=log)
        first = worker.run("Go")
        await reached(first, TextDelta)
        await first.hand_over(seconds=0)
        run = await worker.recover(first.id).started()
        yield Replica(log, run.id, barrier=run.barrier)
        await run


DELIVERY = {Rule.TWO_WATCHERS, Rule.LATE_WATCHER, Rule.RAISING_WATCHER, Rule.SLOW_WATCHER}
RUNS: list[tuple[Callable[[], object], set[Rule]]] = [
    (of_tools, {Rule.CALLS_END, Rule.USAGE_ONCE}),
    (of_nested, {Rule.NESTED_BY_PATH, Rule.CALLS_END}),
    (of_retried, {Rule.RETRACTED_IS_MARKED, Rule.ERRORS_ARE_SEEN}),
    (of_failed, {Rule.ERRORS_ARE_SEEN, Rule.CUT_IS_NOT_SUCCESS}),
    (of_cancelled, {Rule.ERRORS_ARE_SEEN, Rule.CUT_IS_NOT_SUCCESS}),
    (of_paused, {Rule.NOTHING_AFTER_END}),
    (of_log, {Rule.CALLS_END}),
    (of_recovered, {Rule.RETRACTED_IS_MARKED}),
]


@pytest.mark.parametrize(("source", "shown"), RUNS, ids=lambda each: getattr(each, "__name__", ""))
async def test_runs_keep_all_rules(source: Callable[[], object], shown: set[Rule]) -> None:
    report = await check(source)
    report.raise_for_broken()
    assert {*names(report, "kept")} >= shown | DELIVERY


WATCH = Hub.watch


def watch_all(hub: Hub, delivery: Delivery | None = None, *, after: int = 0, name: str = "") -> Watch:
    return WATCH(hub, delivery, name=name)


FAULTS: dict[str, tuple[type[object], str, object, str]] = {
    "all again after a number": (Hub, "watch", watch_all, "item 1 differs"),
    "another state": (Run, "state", property(lambda _: RunState()), "is not the fold of its records"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_run_breaks_a_rule_of_delivery(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, name, wrong, reason = FAULTS[fault]
    monkeypatch.setattr(kind, name, wrong)
    report = await check(of_tools, rules=(Rule.LATE_WATCHER,))
    assert [row.reason[-len(reason) :] for row in report.rows] == [reason]


def test_recorded_responses_keep_all_rules(recording: Path) -> None:
    """Wherever the stream is cut, it does not end as one that succeeded."""
    data = recording.read_bytes()
    for part in (data, data[: len(data) // 2]):
        report = check_records(events_of(provider_of(recording), part))
        report.raise_for_broken()
        assert Rule.CUT_IS_NOT_SUCCESS in names(report, "kept")


# Taps.


@pytest.mark.product(3)
@pytest.mark.parametrize("recorded", [*recordings()])
async def test_tapped_runs_keep_all_rules(recorded: Recorded) -> None:
    """Also one whose library ends in the middle, which it does not report as a success."""
    for cut in (None, len(recorded.items) // 2):
        error = None if cut is None and recorded.own["status"] in ENDS else ConnectionError("cut")
        report = await check(lambda cut=cut, error=error: tap(read(recorded.items[:cut], error), recorded.mapper()))
        report.raise_for_broken()
        assert {*names(report, "kept")} >= {Rule.CUT_IS_NOT_SUCCESS, Rule.NUMBERS_WITHOUT_GAPS} | DELIVERY


# Other sources.


async def emit() -> AsyncGenerator[Event]:
    for event in ANSWER[1:]:
        yield event


def pushed(subject: Subject[Any]) -> Subject[Any]:
    async def push() -> None:
        for record in RUN:
            subject.on_next(record)
        subject.on_completed()

    async def guarded() -> None:
        await asyncio.gather(push(), return_exceptions=True)

    task = asyncio.ensure_future(guarded())
    subject.task = task  # type: ignore[attr-defined]  # the loop keeps no reference
    return subject


@pytest.mark.parametrize(
    ("source", "broken", "untried"),
    [
        (emit, [], DELIVERY),
        (partial(rx.from_iterable, RUN), [], {Rule.SLOW_WATCHER}),
        (lambda: pushed(Subject()), [Rule.LATE_WATCHER, Rule.RAISING_WATCHER], {Rule.SLOW_WATCHER}),
        (lambda: pushed(ReplaySubject()), [Rule.RAISING_WATCHER], {Rule.SLOW_WATCHER}),
    ],
    ids=["generator", "observable", "subject", "replay"],
)
async def test_other_sources(source: Callable[[], object], broken: list[Rule], untried: set[Rule]) -> None:
    report = await check(source, seconds=0.2)
    assert names(report) == broken
    assert {*names(report, "not tried")} & DELIVERY == untried


async def test_of_what_is_foreign_only_the_delivery_is_tried() -> None:
    report = await check(lambda: rx.of("a", "b"), rules=(Rule.BLOCKS_END, Rule.TWO_WATCHERS))
    assert [row.outcome for row in report.rows] == ["not tried", "kept"]
    assert "a str is neither an event nor a record" in report.rows[0].reason


async def test_what_is_not_a_stream_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a int is not a stream"):
        await check(lambda: 7)
