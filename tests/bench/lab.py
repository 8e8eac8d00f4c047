"""How long stored runs take again: 500 runs of ten turns, read from a log in an SQLite file, against the same worker.

    python -m tests.bench.lab [RUNS]

Prints the CPU seconds of reading them, of running them again, and of each turn.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from rxworker import Worker, tool
from rxworker.log import open_log
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.testing.lab import LabRun, rerun

TURNS = 10
TEXT = "The quick brown fox jumps over the lazy dog. " * 8


@tool
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}. {TEXT}"


def replies() -> list[Reply]:
    return [*(say(TEXT) + call("look", n=n) for n in range(TURNS - 1)), say(TEXT)]


async def fill(address: str, count: int) -> None:
    async with open_log(address) as log:
        for _ in range(count):
            await Worker(ScriptedModel(replies()), tools=[look], system="Be brief.", log=log).run("Hi")


async def read(address: str) -> list[LabRun]:
    async with open_log(address) as log:
        return await LabRun.read(log)


async def again(runs: list[LabRun]) -> int:
    candidate = Worker(ScriptedModel([]), tools=[look], system="Be brief.")
    return sum([(await rerun(each, candidate)).same for each in runs])


def measure(count: int) -> tuple[int, float, float]:
    """How many runs are the same, and the CPU seconds of reading them and of running them again."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite:{Path(folder) / 'runs.db'}"
        asyncio.run(fill(address, count))
        began = time.process_time()
        runs = asyncio.run(read(address))
        was_read = time.process_time()
        same = asyncio.run(again(runs))
        return same, was_read - began, time.process_time() - was_read


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    same, reading, running = measure(count)
    print(f"{same} of {count} runs of {TURNS} turns are the same")
    print(f"read {reading:.2f} s, run again {running:.2f} s, together {reading + running:.2f} s of CPU")
    print(f"{running / count / TURNS * 1e3:.2f} ms a turn")


if __name__ == "__main__":
    main()
