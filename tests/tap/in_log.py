"""The case ``tools`` of a library, with its run in a log: ``python -m tests.tap.in_log NAME ADDRESS``."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

from rxworker.log import open_log
from rxworker.run.run import Run
from rxworker.tap import Mapper, Tee, tee


async def main(name: str, address: str) -> None:
    program = importlib.import_module(f"tests.tap.with_{name}")
    runs: list[Run[None]] = []
    async with open_log(address) as log:

        def record(stream: Any, mapper: Mapper[Any], *_: object) -> Tee[Any]:
            both = tee(stream, mapper, name=name, log=log)
            runs.append(both.run)
            return both

        figures = await program.tools(record)
        for run in runs:
            await run
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
