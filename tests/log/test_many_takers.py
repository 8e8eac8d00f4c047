"""Many queued runs over several processes without any failure: each is taken once, and nothing follows its end."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import aclosing
from pathlib import Path

import pytest

from rxworker.events import RunAbort, RunPause, RunRecover, RunStop
from rxworker.log import EventLog, RunInfo, open_log
from rxworker.log.format import records_of
from rxworker.log.values import OPEN
from rxworker.worker.queue import submit
from tests.log.conftest import NewAddress
from tests.whole import IS_WHOLE, SLOW_STORES

PROGRAM = Path(__file__).with_name("taker.py")
RUNS, PROCESSES = (400, 4) if IS_WHOLE else (40, 2)
SECONDS = 300 if IS_WHOLE else 100


async def all_ended(log: EventLog, infos: dict[str, RunInfo]) -> None:
    """Wait until all runs have ended, and keep what the log says of each."""
    async with aclosing(log.changes(limit=None, every=0.05)) as changes:
        async for changed in changes:
            infos.update((info.run_id, info) for info in changed)
            if sum(info.status not in OPEN and not info.owner for info in infos.values()) == RUNS:
                return  # and all are released: none is taken once more


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("store", SLOW_STORES)
async def test_each_run_is_taken_once_and_nothing_follows_its_end(
    store: str, new_address: NewAddress, tmp_path: Path
) -> None:
    address, effects = new_address(store), tmp_path / "effects"
    effects.touch()
    infos: dict[str, RunInfo] = {}
    async with open_log(address) as log:
        for start in range(0, RUNS, 50):
            numbers = range(start, min(start + 50, RUNS))
            await asyncio.gather(*(submit(log, f"Run {number}") for number in numbers))
        began = time.monotonic()
        processes = [
            await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), address, str(effects), "8")
            for _ in range(PROCESSES)
        ]
        try:
            async with asyncio.timeout(SECONDS):
                await all_ended(log, infos)
                seconds = time.monotonic() - began
        finally:
            for process in processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()
        behind = dict[str, list[str]]()
        owners = Counter[int]()
        for run in infos:
            found = list(records_of([entry async for entry in log.read(run)], run))
            kinds = [type(record.event) for record in found]
            end = next((at for at, kind in enumerate(kinds) if kind in (RunStop, RunAbort, RunPause)), len(kinds))
            if kinds[end + 1 :] or kinds[end : end + 1] != [RunStop]:
                behind[run] = [kind.__name__ for kind in kinds[end:]]
            owners[kinds.count(RunRecover)] += 1
        requests = Counter(effects.read_text().splitlines())
        print(
            f"\n{store}: {RUNS} runs in {seconds:.1f} s over {PROCESSES} processes; behind an end: {len(behind)}; "
            f"requests made twice: {sum(count > 1 for count in requests.values())}; taken: {dict(owners)}"
        )
        assert behind == {}
        assert owners == {1: RUNS}
        assert requests == Counter(f"Run {number}" for number in range(RUNS))
