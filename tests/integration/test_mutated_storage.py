"""Stored things that were changed: exported runs, entries, records in the native format and saved pauses.

What is wrong is a documented error; nothing hangs, and nothing takes memory without bounds.

In the suite a few hundred of each; with ``RXWORKER_EVERY_CUT=1``, as a step of `.ci/release`, 100,000. A case is its
number: the seeds are fixed.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from rxworker import Deny, Paused, Worker, tool
from rxworker.errors import LocalProtocolError, LogError, RemoteProtocolError, RxWorkerError
from rxworker.hub.history import expand
from rxworker.log import MemoryLog, export_run, import_run
from rxworker.log.format import Entry, private_of, read_line, record_of, records_of, write_line
from rxworker.protocols import decode_record, encode_record
from rxworker.resume.paused import VERSION, _seal
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call, say, think
from rxworker.worker import load_paused, save_paused
from tests.mutate import mutant_of_bytes, mutant_of_json, mutant_of_lines
from tests.whole import IS_WHOLE

CASES = 100_000 if IS_WHOLE else 400
SECONDS = 30.0
"""At most, for one case."""
MEMORY = 300_000_000
"""At most, for all cases of one kind."""
GOLDEN = Path(__file__).parents[1] / "log" / "golden"


@tool(requires_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(effect="idempotent")
async def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


def worker(log: MemoryLog | None = None) -> Worker:
    model = ScriptedModel(
        [
            think("Hm.") + say("Let me see.") + call("look", at="a") + call("look", at="b"),
            say("Now I pay.") + call("pay", euros=3),
            say("Done."),
        ]
    )
    return Worker(model, tools=[pay, look], log=log, shared_state={"count": 0})


def corpus() -> tuple[list[list[bytes]], Paused[None]]:
    """Exported runs, and a paused one."""

    async def main() -> tuple[list[list[bytes]], Paused[None]]:
        async with MemoryLog() as log:
            desk = worker(log)
            paused = await desk.run("Go on.")
            assert isinstance(paused, Paused)
            await desk.decide(paused.run_id, [Deny("no")]).started()
            await worker(log).run("And you?").hand_over()
            return [[line.strip() async for line in export_run(log, info.run_id)] for info in await log.list()], paused

    runs, paused = asyncio.run(main())
    runs += [file.read_bytes().splitlines() for file in sorted(GOLDEN.rglob("*.jsonl"))]
    return runs, paused


RUNS, PAUSED = corpus()


@contextmanager
def limited(case: int) -> Generator[None]:
    """A case that takes too long fails, also if it is in a loop that awaits nothing."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"case {case} takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def each_case(kind: str, check: Callable[[random.Random], object]) -> None:
    """Try all cases; the failure of one names it."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + MEMORY
    for case in range(CASES):
        with limited(case):
            try:
                check(random.Random(f"{kind} {case}"))
            except Exception as error:
                raise AssertionError(f"{kind} {case}: {error!r}") from error
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < most, f"{kind} {case}"


def mutant(chance: random.Random, data: bytes) -> bytes:
    return (mutant_of_json if chance.random() < 0.6 else mutant_of_bytes)(chance, data)


def test_imports() -> None:
    """What is taken can be listed, found, read, copied, loaded and recovered, or a documented error refuses it."""

    async def one(lines: list[bytes]) -> None:
        async with MemoryLog() as log:
            try:
                run = await import_run(log, lines)
            except LogError:
                assert await log.list() == []
                return
            (info,) = await log.list()
            assert info.run_id == run
            assert [found.info.run_id async for found in log.search("go")] in ([], [run])
            read = list(records_of([entry async for entry in log.read(run)], run))
            assert sum(1 for record in read for _ in expand(record)) == info.last_seq
            fold_run(read)
            async with MemoryLog() as other:
                again = [line async for line in export_run(log, run)]
                assert await import_run(other, again) == run
            with suppress(RxWorkerError):
                await worker(log).load(run)
            with suppress(RxWorkerError):
                await worker(log).recover(run)

    with asyncio.Runner() as runner:
        each_case("import", lambda chance: runner.run(one(mutant_of_lines(chance, chance.choice(RUNS)))))


def test_entries() -> None:
    lines = [line for run in RUNS for line in run[1:]]

    def one(chance: random.Random) -> None:
        line = chance.choice(lines)
        entry: Entry | None = None
        with suppress(LogError):
            entry = read_line(mutant(chance, line))
        if entry is None:
            return
        assert read_line(write_line(entry)) == entry
        with suppress(LogError):
            private_of(entry, "run-1")
            record = record_of(entry, "run-1")
            assert len(list(expand(record))) == record.covers

    each_case("entry", one)


def test_native_records() -> None:
    lines = [
        encode_record(record) for run in RUNS for record in records_of([read_line(line) for line in run[1:]], "run-1")
    ]

    def one(chance: random.Random) -> None:
        data = mutant(chance, chance.choice(lines))
        given: bytes | str = data
        if chance.random() < 0.3:
            given = data.decode("utf-8", chance.choice(["replace", "surrogateescape"]))
        with suppress(RemoteProtocolError):
            record = decode_record(given)
            assert decode_record(encode_record(record)).seq == record.seq

    each_case("record", one)


def test_saved_pauses() -> None:
    """Also those whose digest fits: without a key anybody can make one."""
    saved = save_paused(PAUSED)
    state = bytes(msgspec.json.decode(saved, type=dict[str, msgspec.Raw])["state"])

    async def resume(paused: Paused[object], chance: random.Random) -> None:
        desk = Worker(ScriptedModel([say("Done.")] * 3), tools=[look, pay])
        decisions: Any = chance.choice([None, {one.id: Deny() for one in paused.pending}])
        with suppress(RxWorkerError):
            await desk.resume(paused, decisions=decisions)

    def one(chance: random.Random) -> None:
        data: bytes = mutant(chance, saved)
        if chance.random() < 0.8:
            changed = mutant_of_json(chance, state)
            data = json.dumps({"version": VERSION, "seal": _seal(VERSION, changed, None), "state": "?"}).encode()
            data = data.replace(b'"?"', changed)
        with suppress(LocalProtocolError):
            paused = load_paused(data)
            runner.run(resume(paused, chance))

    with asyncio.Runner() as runner:
        each_case("pause", one)
