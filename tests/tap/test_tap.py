"""Runs of other programs: what a tap records, how it ends, and how it goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import reactivex
from reactivex import Subject

from rxworker import Limits, Paused, Worker, tool
from rxworker.cli.runs import _cancel as cancel_stored  # pyright: ignore[reportPrivateUsage]
from rxworker.desk.run import WAITS, OpenRun
from rxworker.errors import (
    ConfigurationError,
    InputRefusedError,
    LimitExceededError,
    LocalProtocolError,
    RunCancelledError,
    RunHandedOverError,
    RunStatusError,
    TruncatedError,
    WorkerError,
)
from rxworker.events import CommandTaken, Record, RunRecover, ToolStart, TurnStart, Usage
from rxworker.log import MemoryLog, Replica, SQLiteLog
from rxworker.log.fleet import can_requeue
from rxworker.log.values import NO_INPUT
from rxworker.messages import Conversation, Thinking
from rxworker.run.run import end_of
from rxworker.tap import RunBuilder, Tapped, tap, tap_each, tee
from rxworker.testing import ScriptedModel, call
from rxworker.testing.conformance import lint
from rxworker.turn.journal import Journal
from rxworker.ui.web import WebServer
from rxworker.worker import recover_all
from tests.stores import make_log

Step = tuple[Any, ...]
STEPS: list[Step] = [
    ("start", "Add 1 and 2, and ask."),
    ("request", "m-1", "acme", "resp_1"),
    ("thinking", "Hm"),
    ("text", "I "),
    ("text", "add."),
    ("call", "c1", "add"),
    ("arguments", '{"a":1,'),
    ("arguments", '"b":2}'),
    ("call", "c2", "ask", {"question": "x"}),
    ("usage", Usage(10, 5)),
    ("tool_start", "c1"),
    ("tool_progress", "c1", 0.5),
    ("tool_start", "c2"),
    ("inner", "start", "x"),
    ("inner", "text", "Inner."),
    ("inner", "usage", Usage(3, 1)),
    ("tool_stop", "c1", "3"),
    ("tool_stop", "c2", "Inner."),
    ("retract", "overloaded"),
    ("text", "Do"),
    ("retract", "cut off"),
    ("text", "Done"),
    ("custom", "acme.note", {"a": 1}),
    ("text", "."),
]


class Steps:
    """A mapper of calls of a builder."""

    def __init__(self) -> None:
        self.run = RunBuilder("acme")

    def feed(self, item: Step) -> list[Tapped]:
        name, *args = item
        run = self.run.inside("c2") if name == "inner" else self.run
        getattr(run, args.pop(0) if name == "inner" else name)(*args)
        return self.run.take()

    def finish(self, error: Exception | None = None) -> list[Tapped]:
        if error is None:
            self.run.end()
        else:
            self.run.abort(str(error))
        return self.run.take()


async def steps(
    number: int | None = None, *, error: Exception | None = None, hangs: bool = False
) -> AsyncIterator[Step]:
    for step in STEPS[:number]:
        yield step
    if error is not None:
        raise error
    if hangs:
        await asyncio.Event().wait()


async def whole() -> tuple[list[Record], Conversation]:
    run = tap(steps(), Steps())
    await run
    return [record async for record in run], run.state.conversation


async def test_a_stream_becomes_a_run_that_keeps_the_rules() -> None:
    run = tap(steps(), Steps(), name="acme", labels={"tenant": "t"})
    result = await run
    records = [record async for record in run]
    state = run.state
    assert lint(records) == []
    assert result.text == "Done."
    assert (state.turns, state.attempts, state.tool_calls, state.tool_errors) == (2, 4, 2, 0)
    assert (state.usage.input_tokens, state.usage.output_tokens) == (13, 6)
    assert (state.model, state.provider, state.labels) == ("m-1", "acme", {"tenant": "t"})
    assert [message.text for message in state.conversation.messages] == ["Add 1 and 2, and ask.", "I add.", "", "Done."]
    assert [r.content for r in state.conversation.messages[2].tool_results] == ["3", "Inner."]
    assert {record.path for record in records} == {(), ("c2",)}


async def test_events_and_records_are_a_source_as_they_are() -> None:
    records, conversation = await whole()
    again = tap(reactivex.from_iterable(records))
    await again
    assert again.state.conversation == conversation
    assert [record.event for record in again._journal.hub.history.records(0)] == [r.event for r in records]  # pyright: ignore[reportPrivateUsage]
    model = Worker(ScriptedModel(["Hello."])).run("Hi")
    copy = tap(model.events)
    assert (await copy).text == (await model).text == "Hello."


@pytest.mark.parametrize("cut", range(1, len(STEPS)))
async def test_a_source_that_ends_early_is_not_a_success(cut: int) -> None:
    records, _ = await whole()
    run = tap(reactivex.from_iterable(records[: cut + 1]))
    with pytest.raises(TruncatedError, match="before the end of its run"):
        await run
    assert run.state.status == "aborted"
    assert lint(list(run._journal.hub.history.records(0))) == []  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("cut", range(1, len(STEPS), 3))
async def test_an_error_of_the_source_is_that_of_the_run(cut: int) -> None:
    error = ValueError("boom")
    run = tap(steps(cut, error=error), Steps())
    with pytest.raises(ValueError, match="boom"):
        await run
    assert run.state.status == "aborted"
    assert run.state.reason == "ValueError: boom"
    assert lint(list(run._journal.hub.history.records(0))) == []  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("ids", [(), ("c2",)])
async def test_a_run_pauses_with_the_calls_that_wait(ids: tuple[str, ...]) -> None:
    more: list[Step] = [("signature", "seal"), ("tool_start", "c1", "", {"a": 2}), ("tool_stop", "c1", "4")]
    more = [*STEPS[:3], more[0], *STEPS[3:10], *more[1:], ("pause", "May it ask?", ids)]
    run = tap(reactivex.from_iterable(more), Steps())
    result = await run
    assert isinstance(result, Paused)
    assert [(each.name, each.id) for each in result.pending] == [("ask", "c2")]
    assert len(result.pause.required) == len(ids)
    records = list(run._journal.hub.history.records(0))  # pyright: ignore[reportPrivateUsage]
    assert lint(records) == []
    (started,) = [each.event for each in records if isinstance(each.event, ToolStart)]
    assert started.call.input == {"a": 2}
    assert run.state.conversation.messages[1].content[0] == Thinking("Hm", "seal")


async def test_a_mapper_that_raises_ends_the_run_with_what_it_is() -> None:
    run = tap(reactivex.of(("text", "a"), ("nothing",)), Steps())
    with pytest.raises(WorkerError, match="Steps cannot read what the source reports: "):
        await run
    assert run.state.conversation.last is not None
    assert run.state.conversation.last.text == "a"


async def test_a_source_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="from_iterable"):
        tap([1, 2])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="a tee is an asynchronous iterator"):
        tee([1, 2], Steps())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match=r"tap\(cancel\) is a int"):
        tap(steps(), Steps(), cancel=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    for foreign in ("text", 5):
        with pytest.raises(WorkerError, match="neither an event nor a record: give a mapper"):
            await tap(reactivex.of(TurnStart(), foreign))
    empty = tap(reactivex.empty())
    with pytest.raises(TruncatedError, match="before its first event"):
        await empty


async def test_it_is_cancelled_with_its_program_and_takes_no_messages() -> None:
    ended: list[str] = []

    async def cancel() -> None:
        ended.append("cancelled")

    closed: list[int] = []

    async def source() -> AsyncIterator[Step]:
        try:
            async for step in steps(12, hangs=True):
                yield step
        finally:
            closed.append(1)

    run = await tap(source(), Steps(), cancel=cancel).started()
    with pytest.raises(InputRefusedError, match="another program"):
        run.send("more")
    async for record in run:
        if isinstance(record.event, ToolStart):
            break
    await run.cancel(reason="enough")
    with pytest.raises(RunCancelledError, match="enough"):
        await run
    assert (ended, closed) == (["cancelled"], [1])
    assert lint(list(run._journal.hub.history.records(0))) == []  # pyright: ignore[reportPrivateUsage]


@pytest.mark.product(2)
@pytest.mark.parametrize(("kind", "is_killed"), [("memory", False), ("memory", True), ("sqlite", True)])
@pytest.mark.parametrize("cut", range(1, len(STEPS), 2))
async def test_a_tap_that_was_stopped_goes_on_where_it_was(cut: int, kind: str, is_killed: bool, tmp_path: Any) -> None:
    _, conversation = await whole()
    log = make_log(kind, tmp_path)
    assert log is not None
    async with log:
        first = await tap(steps(cut, hangs=True), Steps(), log=log, run_id="r").started()
        await first.barrier()
        for _ in range(random.Random(cut).randrange(60)):
            await asyncio.sleep(0)
        if is_killed:
            log.heartbeat.remove("r")  # as if its process had been killed
            await log.release(first._journal.writer.claim)  # pyright: ignore
            opened = OpenRun(await log.existing("r"), log)
            assert (opened.waits_for, opened.reason) == ("cut_off", WAITS["cut_off"])
        else:
            await first.hand_over()
            with pytest.raises(RunHandedOverError):
                await first
        second = tap(steps(), Steps(), log=log, run_id="r", name="acme")
        await second
        replica = Replica(log, "r")
        await replica.ended()
        records = list(replica.hub.history.records(0))
        assert sum(isinstance(each.event, RunRecover) for each in records) == 1
        assert lint(records) == []
        assert replica.state.conversation == conversation
        assert (replica.state.usage.input_tokens, replica.state.tool_calls) == (13, 2)
        assert (await log.existing("r")).row.worker == "tap:agent"


@pytest.mark.parametrize("by", ["page", "command"])
async def test_one_that_is_cut_off_is_ended_by_a_cancellation(by: str, log: MemoryLog) -> None:
    first = await tap(steps(5, hangs=True), Steps(), log=log, run_id="r").started()
    await first.hand_over()  # and nothing goes on with it
    if by == "page":
        await OpenRun(await log.existing("r"), log).cancel("enough")
    else:
        await cancel_stored(log, "r", "enough")
    info = await log.existing("r")
    assert (info.status, info.row.cause, info.row.reason) == ("aborted", "cancel", "the run was cancelled: enough")


async def test_no_worker_goes_on_with_it(log: MemoryLog) -> None:
    first = await tap(steps(5, hangs=True), Steps(), log=log, run_id="r").started()
    await first.hand_over()
    worker = Worker(ScriptedModel(["No."]), log=log)
    assert [run async for run in recover_all(log, lambda _: worker, once=True)] == []
    with pytest.raises(LocalProtocolError, match=r"another program \(agent\)"):
        await worker.recover("r")
    await tap(steps(), Steps(), log=log, run_id="r")


async def test_each_run_that_a_source_names(log: MemoryLog) -> None:
    builders = [RunBuilder("acme", run=str(n)) for n in range(3)]
    for builder in builders:
        builder.start(f"Question {builder.run}")
    items = [each for builder in builders for each in builder.take()]
    for builder in builders[:2]:
        builder.text("An answer.")
        builder.end()
        items += builder.take()
    feed = Subject[Tapped]()
    each = tap_each(feed, _Plain(), prefix="p-", log=log, name="acme")
    ids: list[str] = []
    each.runs.subscribe(lambda run: ids.append(run.id))
    for item in items:
        feed.on_next(item)
        await asyncio.sleep(0)
    feed.on_completed()
    await each.ended()
    assert ids == ["p-0", "p-1", "p-2"]
    rows = {info.run_id: info.row.status for info in await log.list()}
    assert rows == {"p-0": "finished", "p-1": "finished", "p-2": "aborted"}
    again = tap_each(reactivex.from_iterable(items), _Plain(), prefix="p-", log=log, name="acme")
    await again.ended()
    assert {info.run_id: info.row.status for info in await log.list()} == rows


class _Plain:
    def feed(self, item: Tapped) -> Sequence[Tapped]:
        return (item,)

    def finish(self, error: Exception | None = None) -> Sequence[Tapped]:
        return ()


async def test_the_run_of_a_tee_is_cancelled_when_its_reader_leaves() -> None:
    both = tee(steps(), Steps())
    items = aiter(both)
    assert await anext(items) == STEPS[0]
    await items.aclose()
    with pytest.raises(RunCancelledError, match="its reader has left"):
        await both.run


@pytest.mark.parametrize("broken", [False, True])
async def test_a_tee_changes_nothing_for_its_reader(broken: bool) -> None:
    class Breaks(Steps):
        def feed(self, item: Step) -> list[Tapped]:
            raise RuntimeError("no")

    both = tee(steps(), Breaks() if broken else Steps())
    assert [item async for item in both] == STEPS
    await end_of(both.run)
    assert both.run.state.status == ("new" if broken else "finished")
    if not broken:
        expected, conversation = await whole()
        records = list(both.run._journal.hub.history.records(0))  # pyright: ignore[reportPrivateUsage]
        assert both.run.state.conversation == conversation
        assert [type(each.event) for each in records] == [type(each.event) for each in expected]
        assert lint(records) == []


@pytest.mark.parametrize("kind", ["none", "memory"])
async def test_every_door_refuses_what_its_program_cannot_do(kind: str) -> None:
    log = MemoryLog() if kind == "memory" else None
    run = await tap(steps(3, hangs=True), Steps(), name="acme", log=log).started()
    worker = Worker(ScriptedModel(["No."]))
    async with WebServer(worker, log=log, port=0) as server, aiohttp.ClientSession() as http:
        await run.barrier()
        server.state.add(run)
        url = f"{server.url.rstrip(chr(47))}/api/runs"
        async with http.get(url) as response:
            [shown] = (await response.json())["runs"]
        assert (shown["worker"], shown["status"]) == ("tap:acme", "running")
        for verb, body in [("send", {"message": "x"}), ("pause", {})]:
            async with http.post(f"{url}/{run.id}/{verb}", json=body) as response:
                assert "performed by another program" in await response.text(), verb
                assert 400 <= response.status < 500
        with pytest.raises(LocalProtocolError, match="another program"):
            run.pause()
        async with http.post(f"{url}/{run.id}/cancel", json={"when": "after_turn"}) as response:
            assert response.status == 200
        await end_of(run)
        assert run.state.status == "aborted"
        again = {"input": "go on", "conversation": shown["conversation"]}
        async with http.post(url, json=again) as response:
            assert "performed by another program" in await response.text()


async def test_a_run_that_has_failed_is_not_put_back(log: MemoryLog) -> None:
    run = tap(steps(5, error=ValueError("boom")), Steps(), log=log)
    await end_of(run)
    with pytest.raises(RunStatusError, match="another program"):
        await log.requeue(run.id)
    assert not can_requeue((await log.existing(run.id)).row)


async def test_the_end_has_the_time_that_its_source_reports() -> None:
    builder = RunBuilder()
    builder.time = 1000.0
    builder.start("Hi")
    builder.time = 1002.0
    builder.abort("it failed")
    run = tap(reactivex.from_iterable(builder.take()))
    await end_of(run)
    assert [record.time for record in run._journal.hub.history.records(0)] == [1000.0, 1002.0]  # pyright: ignore[reportPrivateUsage]


async def test_commands_of_other_processes_are_ignored_with_the_reason(log: MemoryLog) -> None:
    run = await tap(steps(3, hangs=True), Steps(), log=log).started()
    await run.barrier()
    replica = Replica(log, run.id)
    await replica.send("more")
    await replica.pause()
    await replica.cancel()
    await replica.ended()
    taken = [each.event for each in replica.hub.history.records(0) if isinstance(each.event, CommandTaken)]
    assert [(each.kind, each.ignored) for each in taken] == [
        ("ignored", NO_INPUT),
        ("ignored", NO_INPUT),
        ("cancel", ""),
    ]


async def test_an_error_while_a_run_is_loaded_ends_it(monkeypatch: pytest.MonkeyPatch, log: MemoryLog) -> None:
    """Its writer is attached then, and may not wait for what is never stored."""
    emit = Journal.emit

    def raising(self: Journal, event: Any) -> None:
        emit(self, event)
        raise RuntimeError("a fault")

    monkeypatch.setattr(Journal, "emit", raising)
    run = tap(steps(), Steps(), log=log)
    with pytest.raises(RuntimeError, match="a fault"):
        await asyncio.wait_for(run, 5)
    assert run.done()
    monkeypatch.undo()
    await tap(steps(), Steps(), log=log)


async def test_a_source_waits_for_a_run_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a run waits for, such as the lease of a process that was killed, nothing of it is lost."""
    gate, read = asyncio.Event(), 0

    async def held(*_: object) -> None:
        await gate.wait()

    async def source() -> AsyncIterator[Tapped]:
        nonlocal read
        run = RunBuilder("acme", "1")
        run.start("Count.")
        for number in range(200):
            run.text(f"{number} ")
        run.end()
        for read, each in enumerate(run.take()):  # noqa: B007
            yield each

    monkeypatch.setattr("rxworker.tap.each.LIMIT", 8)
    monkeypatch.setattr("rxworker.tap.run._again", held)
    async with MemoryLog() as log:
        each = tap_each(source(), prefix="p-", log=log)
        for _ in range(500):
            await asyncio.sleep(0)
        assert read < 12
        gate.set()
        await each.ended()
        replica = Replica(log, "p-1")
        await replica.ended()
        assert replica.state.conversation.messages[-1].text.split() == [str(number) for number in range(200)]


def look() -> str:
    """Look."""
    return "a tree"


async def test_a_run_that_a_limit_has_ended_there_ends_by_it_here(log: MemoryLog) -> None:
    limits = Limits(max_turns=1)
    there = Worker(ScriptedModel([call("look")]), tools=[tool(look)], limits=limits).run("Look.")
    with pytest.raises(LimitExceededError) as first:
        await there
    with pytest.raises(LimitExceededError) as second:
        await tap(there.records, log=log, run_id="r")
    assert str(second.value) == str(first.value)
    assert (await log.existing("r")).row.cause == "limit"


async def test_a_run_whose_tap_was_killed_before_its_first_record_begins_anew(tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db", lease=0.3) as log, SQLiteLog(tmp_path / "runs.db", lease=0.3) as other:
        await other.claim("r", create=True)  # by a process that then ends
        run = tap(steps(), Steps(), log=log, run_id="r")
        await run
        assert (await log.existing("r")).last_seq == run.state.seq
