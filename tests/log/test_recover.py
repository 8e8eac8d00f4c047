"""A run that another process continues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rxworker import Answer, Approve, Finished, Paused, Worker, after_tool_call, tool
from rxworker.errors import (
    ConfigurationError,
    LeaseHeldError,
    LocalProtocolError,
    LogError,
    RunCancelledError,
    WorkerError,
)
from rxworker.events import AttemptRetract, CommandTaken, HandOver, Record, RunAbort, RunRecover, ToolStart, ToolStop
from rxworker.hooks import ToolResultContext
from rxworker.hub.history import expand
from rxworker.log import EventLog, MemoryLog, RunInfo, SQLiteLog, export_run
from rxworker.log.format import VERSION, Entry, entries_of, records_of
from rxworker.log.values import Command, RunRow
from rxworker.messages import Conversation, StopKind
from rxworker.protocols import encode_record
from rxworker.state import fold_run
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.tools import Done, NotDone, ToolContext, Unknown
from rxworker.transport import Retry
from tests.log.processes import stored
from tests.log.victim import ByTurn
from tests.pauses import pause_of

REPLIES = [say("Let me see.") + call("pay", n=1) + call("look", n=2), say("And") + call("pay", n=3), say("All done.")]


class Bank:
    """Tools that count what they do."""

    def __init__(self, effect: Any = "write", reconcile: Any = None) -> None:
        self.paid: list[str] = []

        @tool(effect=effect, reconcile=reconcile)
        async def pay(n: int, context: ToolContext) -> str:
            """Pay."""
            self.paid.append(context.idempotency_key)
            return f"paid {n}"

        @tool(effect="pure")
        async def look(n: int) -> str:
            """Look."""
            return f"saw {n}"

        self.tools = [pay, look]

    def worker(self, log: EventLog, **options: Any) -> Worker:
        """A worker of this bank."""
        return Worker(ByTurn(REPLIES), tools=self.tools, log=log, **options)


async def whole(**options: Any) -> tuple[str, list[Entry], Bank]:
    """The entries of a run that was not disturbed."""
    bank = Bank()
    async with MemoryLog() as log:
        run = bank.worker(log, **options).run("Begin.")
        await run
        return run.id, [entry async for entry in log.read(run.id)], bank


async def cut(run_id: str, entries: Sequence[Entry]) -> MemoryLog:
    """A log in which a run ends with these entries, and its process has ended."""
    log = MemoryLog(lease=0.0)
    claim = await log.claim(run_id, create=True)
    await log.append(claim, entries, after=0, row=RunRow(title="Begin."))
    log.lease = 15.0
    return log


def singles(entries: Sequence[Entry], run_id: str) -> list[Entry]:
    """The same records, an entry each."""
    return [entry for record in records_of(entries, run_id) for one in expand(record) for entry in entries_of([one], 1)]


def upto(entries: Sequence[Entry], is_last: Callable[[Entry], bool], times: int = 1) -> list[Entry]:
    """The entries up to and including the n-th of a sort."""
    at = [n for n, entry in enumerate(entries) if is_last(entry)][times - 1]
    return list(entries[: at + 1])


async def test_any_prefix_of_a_log_folds_recovers_and_ends() -> None:
    run, entries, _ = await whole()
    every = singles(entries, run)
    for length in range(1, len(every)):
        log = await cut(run, every[:length])
        fold_run(records_of(every[:length], run))
        bank = Bank("idempotent")
        result = await bank.worker(log).recover(run)
        assert isinstance(result, Finished)
        records = await stored(log, run)
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert result.text == "All done."
        results = [r for m in result.conversation.messages for r in m.tool_results]
        assert [r.text for r in results] == ["paid 1", "saw 2", "paid 3"], length
        ended = {s.event.call_id for s in records[:length] if isinstance(s.event, ToolStop)}
        started = [s.event.call.id for s in records[length:] if isinstance(s.event, ToolStart)]
        assert not ended & set(started)


async def test_a_response_that_lost_its_call_is_requested_again_wherever_its_process_ends() -> None:
    lost = Reply("Let me see.", stop=StopKind.MALFORMED)
    async with MemoryLog() as log:
        run = Worker(ScriptedModel([lost, say("Done.")]), log=log, response_retry=Retry(first=0.0)).run("Begin.")
        await run
        every = singles([entry async for entry in log.read(run.id)], run.id)
    ends = [n for n, record in enumerate(records_of(every, run.id), 1) if isinstance(record.event, AttemptRetract)]
    for length in range(1, ends[0]):
        result = await Worker(ScriptedModel([say("Done.")]), log=await cut(run.id, every[:length])).recover(run.id)
        assert isinstance(result, Finished)
        assert [message.text for message in result.conversation.messages] == ["Begin.", "Done."], length


async def test_a_response_that_was_cut_is_retracted_and_the_numbers_go_on() -> None:
    run, entries, _ = await whole()
    every = singles(entries, run)
    log = await cut(run, upto(every, lambda entry: entry.kind == "text_delta", 2))
    recovered = await Bank().worker(log).recover(run, reason="a test").started()
    seen = [record async for record in recovered]
    await recovered
    assert seen == await stored(log, run)
    at = next(n for n, record in enumerate(seen) if isinstance(record.event, RunRecover))
    event = seen[at].event
    assert isinstance(event, RunRecover)
    assert (event.epoch, event.reason) == (2, "a test")
    assert isinstance(seen[at + 1].event, AttemptRetract)
    (info,) = await log.list()
    assert (info.status, info.row.recoveries, info.owner) == ("finished", 1, "")


async def in_doubt(**options: Any) -> tuple[MemoryLog, str, Bank, Worker]:
    """A run that was cut while its first payment ran."""
    run, entries, first = await whole()
    every = singles(entries, run)
    bank = Bank(**options.pop("bank", {}))
    log = await cut(run, upto(every, lambda entry: entry.kind == "tool_start" and b'"pay"' in entry.body))
    bank.paid.append(first.paid[0])
    return log, run, bank, bank.worker(log, **options)


async def test_a_call_whose_effect_is_not_known_waits_for_a_decision() -> None:
    log, run, bank, worker = await in_doubt()
    paused = await pause_of(worker.recover(run))
    assert (paused.hook, [c.name for c in paused.pending], paused.pause.required) == ("recovery", ["pay"], (0,))
    assert "pay" in paused.reason
    with pytest.raises(LocalProtocolError, match="not known whether"):
        worker.resume(paused)
    (pending,) = paused.pending
    result = await worker.resume(paused, decisions={pending.id: Answer("paid 1")})
    assert isinstance(result, Finished)
    assert len(bank.paid) == 2
    assert (await log.list())[0].row.resumes == run


async def test_hooks_see_the_results_of_the_other_calls_before_a_pause_shows_them() -> None:
    @tool
    async def look() -> str:
        return "the code is 4711"

    @tool
    async def pay() -> str:
        return "paid"

    @after_tool_call(matcher="look")
    def mask(context: ToolResultContext) -> None:
        context.set_content("***")

    def worker(log: MemoryLog) -> Worker:
        model = ByTurn([call("look") + call("pay"), say("Done.")])
        return Worker(model, tools=[look, pay], hooks=[mask], log=log)

    async with MemoryLog() as log:
        run = worker(log).run("Go.")
        await run
        every = singles([entry async for entry in log.read(run.id)], run.id)
    ends = [record.seq for record in records_of(every, run.id) if isinstance(record.event, ToolStop)]
    other = await cut(run.id, [each for each in every if each.last < ends[1]])  # between the ends of the two calls
    session = worker(other).new_session()
    paused = await pause_of(session.recover(run.id))
    assert (paused.hook, [each.name for each in paused.pending], paused.pause.required) == ("recovery", ["pay"], (0,))
    assert [result.text for result in paused.pause.refused.values()] == ["***"]
    assert not [record for record in await stored(other, run.id) if b"4711" in encode_record(record)]
    result = await session.resume(decisions={paused.pending[0].id: Answer("paid")})
    assert [each.text for message in result.conversation.messages for each in message.tool_results] == ["***", "paid"]


@pytest.mark.parametrize("effect", ["write", "idempotent"])
async def test_a_call_that_is_made_again_has_the_same_key(effect: str) -> None:
    _, run, bank, worker = await in_doubt(bank={"effect": effect})
    result = await worker.recover(run)
    if effect == "write":
        assert isinstance(result, Paused)
        result = await worker.resume(result, decisions={result.pending[0].id: Approve()})
    assert isinstance(result, Finished)
    assert bank.paid[0] == bank.paid[1]


async def test_the_model_may_receive_an_error_instead() -> None:
    _, run, bank, worker = await in_doubt(on_unknown="tell_model")
    result = await worker.recover(run)
    assert isinstance(result, Finished)
    first = next(r for m in result.conversation.messages for r in m.tool_results)
    assert (first.is_error, "not known" in first.text) == (True, True)
    assert len(bank.paid) == 2


async def test_or_the_run_may_fail() -> None:
    log, run, bank, worker = await in_doubt(on_unknown="fail")
    with pytest.raises(LocalProtocolError, match="whether it had an effect"):
        await worker.recover(run)
    assert (await log.list())[0].status == "aborted"
    assert len(bank.paid) == 1


@pytest.mark.parametrize(
    ("found", "paid", "text"),
    [(Done("was paid"), 2, "was paid"), (NotDone(), 3, "paid 1"), (Unknown("the bank is closed"), 1, None)],
)
async def test_a_tool_that_reconciles_does_so_first(found: Any, paid: int, text: str | None) -> None:
    asked: list[tuple[str, Any]] = []

    async def reconcile(key: str, arguments: Any) -> Any:
        asked.append((key, arguments))
        return found

    _, run, bank, worker = await in_doubt(bank={"reconcile": reconcile})
    result = await worker.recover(run)
    assert asked == [(bank.paid[0], {"n": 1})]
    assert len(bank.paid) == paid
    if text is None:
        assert isinstance(result, Paused)
        assert "the bank is closed" in result.reason
    else:
        first = next(r for m in result.conversation.messages for r in m.tool_results)
        assert first.text == text


async def test_a_reconcile_that_raises_leaves_it_unknown() -> None:
    async def reconcile(key: str, arguments: Any) -> Any:
        raise OSError("no network")

    _, run, _, worker = await in_doubt(bank={"reconcile": reconcile})
    result = await pause_of(worker.recover(run))
    assert "no network" in result.reason


@pytest.mark.parametrize("is_next_turn", [False, True])
async def test_a_result_that_an_older_version_kept_with_the_end_of_its_call_is_used_in_its_own_turn(
    is_next_turn: bool,
) -> None:
    seen: list[str] = []

    @after_tool_call(matcher="pay")
    def look(context: ToolResultContext) -> None:
        seen.append(context.result.text)

    run, entries, _ = await whole(hooks=[look])
    stops = [n for n, e in enumerate(entries) if e.kind == "tool_stop" and b'"result"' not in e.body]
    assert len(stops) == 2
    at = stops[0]
    body = msgspec.json.decode(entries[at].body)
    body["private"] = {"held": {"tool_use_id": body["event"]["call_id"], "content": "paid 1", "name": "pay"}}
    rest = entries[at + 1 : stops[1] + 1] if is_next_turn else []
    log = await cut(run, [*entries[:at], replace(entries[at], body=msgspec.json.encode(body)), *rest])
    bank = Bank()
    seen.clear()
    if not is_next_turn:
        assert not [line async for line in export_run(log, run) if b"paid 1" in line]
    assert isinstance(await bank.worker(log, hooks=[look]).recover(run), Finished)
    if is_next_turn:
        assert ["is not known" in text for text in seen] == [True]
    else:
        assert seen == ["paid 1", "paid 3"]
        assert len(bank.paid) == 1
        assert all("held" not in repr(record) for record in await stored(log, run))


async def test_two_processes_recover_and_one_wins() -> None:
    run, entries, _ = await whole()
    log = await cut(run, entries[:4])
    bank = Bank("idempotent")
    done = await asyncio.gather(*(bank.worker(log).recover(run).started() for _ in range(3)), return_exceptions=True)
    winners = [one for one in done if not isinstance(one, BaseException)]
    assert sum(isinstance(one, LeaseHeldError) for one in done) == 2
    await winners[0]


async def test_a_run_that_ends_its_process_again_and_again_is_set_aside() -> None:
    run, entries, _ = await whole()
    every = singles(entries, run)
    start = upto(every, lambda entry: entry.kind == "tool_start" and b'"pay"' in entry.body)
    progress = start[-1].last - 1
    seq = start[-1].last
    again = [Record(seq + n, run, 1, 1, 0.0, RunRecover(n + 1, "x", "", progress)) for n in (1, 2)]
    for deaths, is_set_aside in ((again[:1], False), (again, True)):
        log = await cut(run, [*start, *entries_of(deaths, 1)])
        recovered = await Bank("idempotent").worker(log).recover(run).started()
        if is_set_aside:
            with pytest.raises(WorkerError, match="3 times after record"):
                await recovered
            assert isinstance((await stored(log, run))[-1].event, RunAbort)
        else:
            await recovered


async def test_a_hand_over_is_not_a_crash() -> None:
    run, entries, _ = await whole()
    every = singles(entries, run)
    start = upto(every, lambda entry: entry.kind == "turn_start")
    seq = start[-1].last
    events = [HandOver("a"), RunRecover(2, "x", "", 1), HandOver("b"), RunRecover(3, "x", "", 1), HandOver("c")]
    more = [Record(seq + n, run, 1, 0, 0.0, event) for n, event in enumerate(events, 1)]
    log = await cut(run, [*start, *entries_of(more, 1)])
    assert isinstance(await Bank().worker(log).recover(run), Finished)


async def test_a_cancellation_that_was_taken_counts_after_a_death() -> None:
    run, entries, _ = await whole()
    start = upto(entries, lambda entry: entry.kind == "turn_start")
    taken = Record(start[-1].last + 1, run, 1, 0, 0.0, CommandTaken(1, "cancel"))
    log = await cut(run, [*start, *entries_of([taken], 1)])
    with pytest.raises(RunCancelledError):
        await Bank().worker(log).recover(run)


async def test_a_cancellation_that_was_not_taken_counts_too() -> None:
    run, entries, _ = await whole()
    log = await cut(run, upto(entries, lambda entry: entry.kind == "turn_start"))
    await log.send(run, Command("cancel", {"reason": "lunch"}))
    with pytest.raises(RunCancelledError, match="lunch"):
        await Bank().worker(log).recover(run)
    assert any(isinstance(r.event, CommandTaken) for r in await stored(log, run))


async def test_a_process_does_not_take_over_a_run_that_it_executes_itself() -> None:
    """After the machine was suspended, its lease has expired although nothing has claimed the run."""
    now = time.time()
    began, is_paid = asyncio.Event(), asyncio.Event()

    @tool
    async def pay() -> str:
        """Pay."""
        began.set()
        await is_paid.wait()
        return "paid"

    async with MemoryLog(clock=lambda: now) as log:
        worker = Worker(ScriptedModel([call("pay"), "Done."]), tools=[pay], log=log)
        run = worker.run("Pay.")
        await began.wait()
        now += 3600.0
        with pytest.raises(LeaseHeldError, match="is held by"):
            await Worker(ScriptedModel([]), tools=[pay], log=log).recover(run.id).started()
        is_paid.set()
        assert isinstance(await run, Finished)
        assert not any(isinstance(record.event, RunRecover) for record in await stored(log, run.id))


async def test_only_a_run_that_is_cut_off_is_recovered() -> None:
    run, entries, _ = await whole()
    worker = Bank().worker(MemoryLog())
    with pytest.raises(LogError, match="no run"):
        await worker.recover("run-9").started()
    log = await cut(run, entries)
    claim = await log.claim(run)
    await log.append(claim, [], after=entries[-1].last, row=RunRow("finished"))
    await log.release(claim)
    with pytest.raises(LocalProtocolError, match="is finished, not cut off"):
        await Bank().worker(log).recover(run).started()


async def test_a_run_that_has_ended_since_it_was_looked_at_is_not_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a loop over cut-off runs: another process ends the run between the look and the claim."""
    run, entries, _ = await whole()
    log = await cut(run, entries[:4])
    stale = await log.info(run)
    bank = Bank("idempotent")
    await bank.worker(log).recover(run)
    before, paid = await stored(log, run), len(bank.paid)

    async def info(_: str) -> RunInfo | None:
        return stale

    monkeypatch.setattr(log, "info", info)
    with pytest.raises(LocalProtocolError, match="is finished, not cut off"):
        await bank.worker(log).recover(run).started()
    assert await stored(log, run) == before
    assert len(bank.paid) == paid


async def test_a_worker_without_the_tools_does_not_take_the_run() -> None:
    run, entries, _ = await whole()
    log = await cut(run, entries[:3])
    bank = Bank()
    with pytest.raises(ConfigurationError, match="lacks look, pay"):
        await Worker(ByTurn(REPLIES), log=log).recover(run).started()

    @tool
    async def pay(euros: int) -> str:
        """Pay."""
        return str(euros)

    with pytest.raises(ConfigurationError, match="other parameters of pay"):
        await Worker(ByTurn(REPLIES), tools=[pay, bank.tools[1]], log=log).recover(run).started()
    assert (await log.list())[0].owner == ""  # released


async def test_an_entry_of_a_newer_version_that_changes_the_state_is_refused_and_can_be_watched() -> None:
    run, entries, _ = await whole()
    start = list(entries[:2])
    owl = Entry(
        start[-1].last + 1,
        start[-1].last + 1,
        1,
        "owl",
        0.0,
        b'{"turn":1,"attempt":0,"event":{"type":"owl","wings":2}}',
    )
    log = await cut(run, [*start, owl])
    with pytest.raises(LogError, match="'owl', which this rxworker does not know"):
        await Bank().worker(log).recover(run).started()
    last = (await stored(log, run))[-1].event
    assert last.kind == "owl"  # pyright: ignore
    wings = b'{"turn":1,"attempt":0,"event":{"type":"run_pause","wings":2}}'
    newer = Entry(owl.first, owl.last, 1, "run_pause", 0.0, wings, version=VERSION + 1)
    with pytest.raises(LogError, match="'run_pause', which this rxworker does not know"):
        await Bank().worker(await cut(run, [*start, newer])).recover(run)
    log = await cut(run, [*start, Entry(owl.first, owl.last, 1, "owl", 0.0, owl.body, changes_state=False)])
    assert isinstance(await Bank().worker(log).recover(run), Finished)


async def test_a_watcher_that_comes_before_a_run_is_loaded_receives_all_its_records() -> None:
    run, entries, _ = await whole()
    log = await cut(run, entries[:4])
    recovered = Bank("idempotent").worker(log).recover(run)
    seen: list[int] = []
    recovered.subscribe(lambda record: seen.append(record.seq))
    assert (recovered.id, recovered.last_seq, recovered.done()) == (run, 0, False)
    assert isinstance(await recovered, Finished)
    assert seen == [*range(1, recovered.last_seq + 1)]


@pytest.mark.parametrize("verb", ["recover", "decide", "fork"])
def test_a_script_needs_no_event_loop(verb: str, tmp_path: Path) -> None:
    log, bank = SQLiteLog(tmp_path / "runs.db"), Bank("idempotent")

    async def begin() -> tuple[str, int]:
        run = Worker(ByTurn(REPLIES), tools=bank.tools, log=log).run("Pay.")
        await run
        return run.id, run.last_seq

    name, last = asyncio.run(begin())
    worker = Worker(ByTurn(REPLIES), tools=bank.tools, log=log)
    if verb == "fork":
        assert isinstance(worker.in_script(worker.fork, name, last - 2, reason="a test"), Finished)
        return
    verb_of: Any = worker.recover if verb == "recover" else worker.decide
    act = partial(worker.in_script, verb_of)
    with pytest.raises(LocalProtocolError, match="finished"):
        act(name)
    assert worker.session.conversation == Conversation()


async def test_a_fork_among_running_tools_is_not_a_recovery_and_names_the_fork() -> None:
    log, source, _, worker = await in_doubt()
    start = (await stored(log, source))[-1].seq
    paused = await pause_of(worker.fork(source, start))
    assert paused.reason == ("the run was forked while pay ran, and the fork does not have the results")
    info = await log.existing(paused.run_id)
    assert info.row.recoveries == 0
    telling = Bank().worker(log, on_unknown="tell_model")
    told = await telling.fork(source, start)
    assert isinstance(told, Finished)
    results = [r.text for m in told.conversation.messages for r in m.tool_results]
    assert results[0] == "The run was forked while this tool ran. The fork does not have the result."
