"""Folds that are kept with a log: each record counts once, whatever ends the process, and wherever."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, tool, worker_tool
from rxworker.errors import ConfigurationError, LogError
from rxworker.events import Fork, Record, RunAbort, RunStop, TurnStart
from rxworker.log import EventLog, MemoryLog, SQLiteLog, fork_run, open_log, set_allowed
from rxworker.log.values import RunRow
from rxworker.testing import ScriptedModel, call, say
from tests.log.conftest import OpenLog, until
from tests.log.nats_server import NatsServer
from tests.log.postgres_server import PostgresServer
from tests.log.test_conformance import START
from tests.log.test_runs import Reader, Writer, append, store
from tests.whole import IS_WHOLE


class State(Struct, frozen=True):
    """How many records were folded, and the last number of each run."""

    count: int = 0
    last: dict[str, int] = {}
    faults: tuple[str, ...] = ()


def step(state: State, record: Record) -> State:
    run, before = record.run_id, state.last.get(record.run_id, 0)
    fault = () if record.seq == before + 1 else (f"{run}: {record.seq} after {before}",)
    return State(state.count + 1, {**state.last, run: record.seq}, state.faults + fault)


def count(state: int, _: Record) -> int:
    return state + 1


def fold_of(log: EventLog) -> Observable[State]:
    return log.fold_stored("key", step, State())


class Follower:
    """A fold that goes on: what it emits."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.state = State()
        self.errors: list[Exception] = []
        self.subscription = fold_of(log).subscribe(self._take, self.errors.append)

    def _take(self, state: State) -> None:
        self.state = state

    def has(self, lasts: dict[str, int]) -> bool:
        return all(self.state.last.get(run, 0) == last for run, last in lasts.items())


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write after each few runs, so that there are many moments between two writes."""
    monkeypatch.setattr("rxworker.log.fold.SAVED_EVERY", 0.0)
    monkeypatch.setattr("rxworker.log.fold.REFUSED_FOR", 0.002)
    monkeypatch.setattr("rxworker.log.fold.EVERY", 0.0)
    monkeypatch.setattr("rxworker.log.fold.PART", 3)
    monkeypatch.setattr("rxworker.log.fold.AT_ONCE", 2)


def crashing(log: EventLog, chance: random.Random) -> None:
    """Let writes of folds fail now and then, before or after they were done, with what ends a task."""
    held: Any = log
    save = held._save_fold

    async def crash(key: str, expected: int, data: bytes) -> int:
        luck = chance.random()
        if luck < 0.1:
            raise asyncio.CancelledError
        done: int = await save(key, expected, data)
        if luck < 0.2:
            raise asyncio.CancelledError
        return done

    held._save_fold = crash


async def check_folds(log: EventLog, logs: Sequence[EventLog], chance: random.Random, steps: int) -> None:
    """Write, while folds of one key begin and end at any moment."""
    writer = Writer(log, chance)
    for each in logs:
        crashing(each, chance)
    followers = [Follower(each) for each in logs]
    for _ in range(steps):
        await writer.act()
        if chance.random() < 0.5:
            await asyncio.sleep(0)
        for at, each in enumerate(followers):
            if chance.random() < 0.1 or not each.log.folds:
                each.subscription.dispose()
                followers[at] = Follower(chance.choice(logs))
    for each in logs:
        vars(each).pop("_save_fold")
    followers += [Follower(each) for each in logs]
    last = followers[-len(logs) :]
    await until(lambda: all(follower.has(writer.expected) for follower in last))
    for follower in last:
        state = follower.state
        assert (state.faults, follower.errors) == ((), [])
        assert state.count == sum(state.last.values())
        assert all(state.last[run] <= writer.last[run] for run in state.last)


@pytest.mark.parametrize("seed", range(2 if IS_WHOLE else 1))
async def test_each_record_counts_once(open_store: OpenLog, seed: int) -> None:
    async with open_store() as log, open_store() as other:
        logs = [log] if isinstance(log, MemoryLog) else [log, other]
        await check_folds(log, logs, random.Random(seed), 40)


async def test_each_record_counts_once_in_many_orders() -> None:
    for seed in range(40 if IS_WHOLE else 8):
        async with MemoryLog() as log:
            await check_folds(log, [log], random.Random(seed), 60)


async def test_a_kept_fold_reads_no_record_again(open_store: OpenLog) -> None:
    async with open_store() as log:
        for n in range(9):
            await store(log, f"run-{n}", TurnStart())
        await log.fold_stored("key", count, 0).pipe(ops.first(lambda n: n == 18))
        await asyncio.wait([*log.folds])
        seen: list[str] = []

        def noting(state: int, record: Record) -> int:
            seen.append(record.run_id)
            return state + 1

        await store(log, "new")
        await set_allowed(log, "run-3", [("look", "hook")])
        await set_allowed(log, "run-8", [("look", "hook")])
        await log.delete("run-5")
        found = await log.fold_stored("key", noting, 0).pipe(ops.take(2), ops.to_list())
        assert (found, seen) == ([18, 19], ["new"])


async def test_what_is_kept_is_written_when_the_log_is_closed(tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        await store(log, "run-1", TurnStart())
        ended: list[str] = []
        counts: list[int] = []
        fold = log.fold_stored("key", count, 0)
        fold.subscribe(counts.append, on_completed=lambda: ended.append("completed"))
        await until(lambda: counts[-1:] == [2])
    assert ended == ["completed"]
    async with SQLiteLog(tmp_path / "runs.db") as log:
        assert await log.fold_stored("key", count, 0).pipe(ops.first()) == 2


async def test_a_nested_run_counts_with_its_outer_one_and_a_fork_with_what_it_added(log: MemoryLog) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    scout = Worker(ScriptedModel([say("Nothing.")]), tools=[look], name="scout")
    send = worker_tool(scout, name="send_scout", description="Look.")
    model = ScriptedModel([call("send_scout", task="Look."), say("Nothing."), say("Again.")])
    worker = Worker(model, tools=[send], log=log)
    run = worker.run("?")
    await run
    fork = await fork_run(log, run.id, run.last_seq - 1)
    await worker.recover(fork)
    info = await log.existing(fork)
    expected = run.last_seq + info.last_seq - (run.last_seq - 1)
    found: list[State] = []
    fold_of(log).subscribe(found.append)
    await until(lambda: found and found[-1].last == {run.id: run.last_seq, fork: info.last_seq})
    assert found[-1].count == expected


async def test_a_fork_that_is_still_copied_counts_from_its_fork_on(log: MemoryLog) -> None:
    row = RunRow(fork_of="run-1")
    claim = await log.claim("fork", create=True, row=row)
    last = await append(log, claim, 0, [START, TurnStart()])
    held: Any = log
    subscription = log.fold_stored("key", count, 0).subscribe()
    await until(lambda: held._folds)
    subscription.dispose()
    await until(lambda: not log.folds)
    last = await append(log, claim, last, [Fork("run-0", 2), TurnStart(), Fork("run-1", 4)])
    await append(log, claim, last, [TurnStart()])
    assert await kept(log, count, 0) == [0, 2]


async def test_a_fold_writes_when_the_process_that_wrote_has_ended(open_store: OpenLog) -> None:
    async with open_store() as log, open_store() as other:
        second = log if isinstance(log, MemoryLog) else other
        first, follower = Follower(log), Follower(second)
        for n in range(4):
            await store(log, f"run-{n}")
            await until(lambda n=n: first.state.count == follower.state.count == n + 1)
        first.subscription.dispose()
        await until(lambda: len(log.folds | second.folds) == 1)  # it has written, so that the other one is not refused
        await store(log, "run-4")
        await until(lambda: follower.state.count == 5)
        follower.subscription.dispose()
        await until(lambda: not log.folds | second.folds)
        assert (await fold_of(second).pipe(ops.first())).count == 5
        await asyncio.wait([*second.folds])


async def test_only_wanted_runs_count(log: MemoryLog) -> None:
    await store(log, "run-1", worker="clerk")
    await store(log, "run-2", worker="scout")
    fold = log.fold_stored("key", step, State(), where=lambda info: info.row.worker == "scout")
    found = await fold.pipe(ops.first(lambda state: bool(state.last)))
    assert found.last == {"run-2": 1}


async def error_of(fold: Observable[Any]) -> Exception:
    errors: list[Exception] = []
    fold.subscribe(on_error=errors.append)
    await until(lambda: errors)
    return errors[0]


async def kept(log: EventLog, *args: Any, **options: Any) -> list[Any]:
    """What a fold has emitted when everything is folded and kept."""
    found: list[Any] = []
    subscription = log.fold_stored("key", *args, **options).subscribe(found.append)
    await until(lambda: len(found) == 2)
    subscription.dispose()
    await until(lambda: not log.folds)
    return found


async def test_another_type_or_version_is_refused(log: MemoryLog) -> None:
    await store(log, "run-1")
    assert await kept(log, count, 0) == [0, 1]
    error = await error_of(log.fold_stored("key", step, State()))
    assert isinstance(error, LogError)
    assert "not a State" in str(error)
    assert "version=2" in str(error)
    assert [state.count for state in await kept(log, step, State(), version=2)] == [0, 1]
    error = await error_of(log.fold_stored("key", count, 0))
    assert "newer program, in version 2" in str(error)
    error = await error_of(log.fold_stored("float", lambda n, _: n + 0.5, 0))
    assert "returned a float, and initial= is a int" in str(error)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("", count, 0), "give a name"),
        (("key", count, object()), "cannot be kept as JSON"),
        (("key", count, {1, object()}), "cannot be kept as JSON"),
    ],
)
async def test_what_cannot_be_kept_is_refused(args: tuple[Any, Any, Any], message: str, log: MemoryLog) -> None:
    with pytest.raises(ConfigurationError, match=message):
        log.fold_stored(*args)
    with pytest.raises(ConfigurationError, match="begin with 1"):
        log.fold_stored("key", count, 0, version=0)


async def test_a_step_that_raises_ends_the_fold_and_what_was_kept_stays(log: MemoryLog) -> None:
    await store(log, "run-1")
    assert await kept(log, count, 0) == [0, 1]
    await store(log, "run-2")

    def failing(state: int, record: Record) -> int:
        raise ZeroDivisionError(record.run_id)

    assert str(await error_of(log.fold_stored("key", failing, 0))) == "run-2"
    assert await kept(log, count, 0) == [1, 2]


class Reversed:
    """A codec."""

    def encode(self, data: bytes, run_id: str) -> bytes:
        return b"~" + data[::-1]

    def decode(self, data: bytes, run_id: str) -> bytes:
        return data[:0:-1] if data[:1] == b"~" else data


async def test_the_codec_of_the_log_encodes_what_is_kept(open_store: OpenLog) -> None:
    async with open_store(codec=Reversed()) as log:
        for n in range(5):
            await store(log, f"run-{n}")
        await log.fold_stored("key", count, 0).pipe(ops.first(lambda n: n == 5))
        await asyncio.wait([*log.folds])
        held: Any = log
        assert (await held._load_fold("key"))[1][:1] == b"~"
        await set_allowed(log, "run-0", [("look", "hook")])
        assert await log.fold_stored("key", count, 0).pipe(ops.first()) == 5
        await asyncio.wait([*log.folds])


async def test_a_run_that_cannot_be_read_does_not_stop_the_fold(
    caplog: pytest.LogCaptureFixture, log: MemoryLog
) -> None:
    for n in range(3):
        await store(log, f"run-{n}")
    held: Any = log
    entries = held._entries["run-1"]
    entries[0] = replace(entries[0], body=b"{}")
    found: list[State] = []
    fold_of(log).subscribe(found.append)
    await until(lambda: found and {*found[-1].last} == {"run-0", "run-2"})
    assert "run-1 is not in the fold 'key'" in caplog.text


async def test_a_key_is_kept_by_the_one_who_knows_its_last_write(store: EventLog) -> None:
    held: Any = store
    assert await held._load_fold("a.b c/\u00e9") is None
    first = await held._save_fold("a.b c/\u00e9", 0, b"{1")
    assert first
    assert await held._save_fold("a.b c/\u00e9", 0, b"{2") == 0
    second = await held._save_fold("a.b c/\u00e9", first, b"{3")
    assert second not in (0, first)
    assert await held._save_fold("a.b c/\u00e9", first, b"{4") == 0
    assert await held._load_fold("a.b c/\u00e9") == (second, b"{3")
    assert await held._load_fold("other") is None


KILLED = (
    f"""
from __future__ import annotations
import asyncio, os, signal, sys
from msgspec import Struct
import rxworker.log.fold as fold
from rxworker.log import open_log

{getsource(State)}
{getsource(step)}
"""
    + """
fold.SAVED_EVERY, fold.PART, fold.AT_ONCE = 0.0, 3, 2
address, at, moment, total = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
writes = 0

async def main():
    async with open_log(address) as log:
        save = log._save_fold

        async def killed(key, expected, data):
            global writes
            writes += 1
            if writes == at and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            done = await save(key, expected, data)
            if writes == at and moment == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        log._save_fold = killed
        ended = asyncio.Event()
        states = log.fold_stored("key", step, State())
        states.subscribe(lambda state: state.count == total and ended.set())
        await ended.wait()

asyncio.run(main())
"""
)


@pytest.mark.slow
async def test_a_process_that_is_killed_at_any_write_counts_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with SQLiteLog(path) as log:
        for n in range(12):
            await store(log, f"run-{n}", TurnStart(), RunStop())
        await store(log, "aborted", RunAbort("cancel", "lost"), status="aborted")
    total, kills = 12 * 3 + 2, 0
    for at, moment in ((1, "before"), (1, "after"), (3, "after")):
        arguments = ("-c", KILLED, f"sqlite:{path}", str(at), moment, str(total))
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
        kills += await process.wait() == -9
    assert kills == 3
    async with SQLiteLog(path) as log:
        await log.requeue("aborted")
        found: list[State] = []
        fold_of(log).subscribe(found.append)
        await until(lambda: found and found[-1].count == total + 1)
        assert found[0].count > 0
        assert found[-1].faults == ()
        assert found[-1].last["aborted"] == 3
        assert sum(found[-1].last.values()) == total + 1


@pytest.mark.parametrize("own_server", ["postgres", "nats"], indirect=True)
async def test_runs_and_folds_go_on_when_the_server_is_killed_and_restarted(
    own_server: NatsServer | PostgresServer,
) -> None:
    address = own_server.new_address()
    async with open_log(address) as log, open_log(address) as other:
        writer = Writer(log, random.Random(3))
        reader, follower = Reader(other), Follower(other)
        for _ in range(2 if IS_WHOLE else 1):
            for verb in (writer.begin, writer.go_on, writer.begin, writer.end, writer.go_on):
                await verb()
            await until(lambda: reader.last and follower.state.last)
            own_server.kill()
            own_server.start()
        await writer.begin()
        await until(lambda: reader.has(writer.expected) and follower.has(writer.expected), writer, reader, follower)
        assert (reader.faults, reader.failed, follower.errors) == ([], [], [])
        assert follower.state.faults == ()
        reader.subscription.dispose()
        follower.subscription.dispose()
        await until(lambda: not other.folds)
        total = sum(writer.expected.values())
        # A server that is killed may lose what was kept last: it is folded again, and each record is there once.
        async with asyncio.timeout(20):
            await fold_of(other).pipe(ops.filter(lambda state: state.count == total), ops.first())


async def test_a_long_run_is_emitted_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.log.base.PAGE", 2)
    async with MemoryLog() as log:
        await store(log, "run-1", *[TurnStart()] * 5)
        fold = log.fold_stored("key", count, 0)
        assert await fold.pipe(ops.take(4), ops.to_list()) == [0, 2, 4, 6]
