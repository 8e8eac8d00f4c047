"""Many runs over several processes, one of which is killed again and again.

All of them finish, and each payment is made once.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from asyncio.subprocess import Process
from collections import Counter
from contextlib import aclosing
from pathlib import Path

import pytest

from rxworker.log import EventLog, RunInfo, open_log
from rxworker.log.format import records_of
from rxworker.turn.stages import ENDS
from tests.log.conftest import NewAddress
from tests.whole import IS_WHOLE, SLOW_STORES

PROGRAM = Path(__file__).with_name("many_runs.py")
PROCESSES, PAUSE, AT_ONCE, KILLS = (4, 1.0, 1, 10) if IS_WHOLE else (2, 0.4, 4, 1)
PAYMENT = 0.15 if IS_WHOLE else 0.05
"""Seconds.

In the long test 200 runs of two payments in four processes last 15 seconds at least, which leaves time for ten kills on
any machine.
"""
RUNS = 200 if IS_WHOLE else 16
LEASE = 3.0 if IS_WHOLE else 2.0
"""Seconds.

A process that the machine holds up for longer loses a run that it still executes, and its payment may be made twice.
"""
SECONDS = 180 if IS_WHOLE else 100


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("store", SLOW_STORES)
async def test_all_runs_finish_whatever_is_killed(store: str, new_address: NewAddress, tmp_path: Path) -> None:
    address = new_address(store)
    effects, held = tmp_path / "effects", tmp_path / "held"
    effects.touch()
    held.touch()  # no payment ends before the first kill
    share = -(-RUNS // PROCESSES)
    infos: dict[str, RunInfo] = {}
    done, moved = asyncio.Event(), asyncio.Event()
    kills = 0

    def ended() -> int:
        return sum(info.status == "finished" for info in infos.values())

    async def start(number: int) -> Process:
        first = number * share
        return await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), address, str(effects), str(first), str(min(first + share, RUNS)), str(LEASE),
            str(AT_ONCE), str(PAYMENT),
        )  # fmt: skip

    async def watch(log: EventLog) -> None:
        async with aclosing(log.changes(limit=1000, every=0.05)) as changes:
            async for changed in changes:
                infos.update((info.run_id, info) for info in changed if info.last_seq)
                moved.set()
                if RUNS <= ended() == len(infos):
                    done.set()
                    return

    def is_busy(process: Process) -> bool:
        """Whether it owns a run, so that there is something to recover, and none that was recovered before.

        Its third death at one record would set it aside.
        """
        running = [info for info in infos.values() if info.status == "running" and f":{process.pid}:" in info.owner]
        return bool(running) and not any(info.row.recoveries for info in running)

    async def kill(processes: list[Process]) -> None:
        nonlocal kills
        choose = random.Random(1)
        # A run whose process is killed three times at one place is set aside: in the short test no run can be, in the
        # long one the runs go on between two kills.
        while kills < KILLS or IS_WHOLE:
            await asyncio.sleep(PAUSE)
            finished = ended() + 3
            while kills and ended() < finished:
                moved.clear()
                await moved.wait()
            while not (busy := [n for n, process in enumerate(processes) if is_busy(process)]):
                moved.clear()
                await moved.wait()
            number = choose.choice(busy)
            processes[number].send_signal(signal.SIGKILL)
            await processes[number].wait()
            kills += 1
            held.unlink(missing_ok=True)
            processes[number] = await start(number)

    async with open_log(address) as log:
        processes = [await start(number) for number in range(PROCESSES)]
        tasks = [asyncio.create_task(watch(log)), asyncio.create_task(kill(processes))]
        try:
            async with asyncio.timeout(SECONDS):
                await done.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for process in processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()
        assert kills >= (KILLS if IS_WHOLE else 1)
        titles = Counter(info.row.title for info in infos.values())
        assert titles == Counter(f"Run {number}" for number in range(RUNS))
        recovered = 0
        for run, info in infos.items():
            records = list(records_of([e async for e in log.read(run)], run))
            assert records[-1].seq == info.last_seq
            own = [type(record.event) for record in records if not record.path]
            assert [at for at, kind in enumerate(own, 1) if kind in ENDS] == [len(own)], own
            recovered += info.row.recoveries
        assert recovered > 0 or not IS_WHOLE
    lines = effects.read_text().splitlines()
    ends = Counter(line for line in lines if line.startswith("end"))
    assert len(ends) == 2 * RUNS
    assert max(ends.values()) == 1
