"""kill -9 in the middle of a token of a response that goes on at the service.

One request, the same text, and numbers without a gap.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rxworker.events import AttemptRetract, AttemptStart
from rxworker.log import EventLog, open_log
from rxworker.messages import Text, Thinking
from rxworker.state import fold_run
from rxworker.testing import lint
from tests.log.background import TEXT, THOUGHT, frames_of, message, thought
from tests.log.processes import stored
from tests.whole import IS_WHOLE

PROGRAM = Path(__file__).with_name("background.py")
KILLS = 200 if IS_WHOLE else 4
FRAMES = frames_of([thought(), message(TEXT * 4)], "resp_1")
ENDS = list(accumulate(map(len, FRAMES)))
SIZE = ENDS[-1]
SLOW = 60
"""Seconds for one run on a busy machine."""


class Service:
    """Sends a response up to a place, and again after a number.

    It waits with all but the start of the response until that is stored.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.cuts: list[int] = []
        self.is_started = self.sent = asyncio.Event()
        self.port = 0

    def begin(self, cuts: list[int]) -> None:
        """Forget the run before, and send the next response up to these places, one for each life but the last."""
        self.requests, self.cuts = [], cuts
        self.is_started, self.sent = asyncio.Event(), asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        self.requests.append(f"{request.method} {request.path}")
        after = int(request.query.get("starting_after", -1))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        begin, end = 0 if after < 0 else ENDS[after], self.cuts.pop(0) if self.cuts else SIZE
        body = b"".join(FRAMES)
        if request.method == "POST":
            await response.write(body[: ENDS[0]])
            begin = ENDS[0]
            await self.is_started.wait()
        await response.write(body[begin:end])
        if end < SIZE:
            self.sent.set()
            await asyncio.Event().wait()  # until the process is killed
        return response

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Serve, and give the address."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def stored_kind(log: EventLog, kind: str) -> str:
    """Wait until an event of this kind is stored; give the id of its run."""
    while True:
        for info in await log.list():
            kinds = [entry.kind async for entry in log.read(info.run_id)]
            if kind in kinds:
                return info.run_id
        await asyncio.sleep(0.002)


@pytest.mark.slow
@pytest.mark.timeout(SLOW + KILLS * 5)
async def test_a_response_is_paid_once_wherever_its_process_is_killed(tmp_path: Path) -> None:
    service, choose = Service(), random.Random(31)
    lives = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    reads, writes = lives.stdout, lives.stdin
    assert reads is not None
    assert writes is not None

    async def begin(**asked: Any) -> int:
        writes.write(json.dumps(asked).encode() + b"\n")
        return int(await reads.readline())

    killed, number = 0, 0
    try:
        async with service.serving() as url:
            while killed < KILLS:
                number += 1
                folder = tmp_path / str(number)
                folder.mkdir()
                address, error = f"sqlite:{folder}/runs.db", folder / "error"
                # Often twice; a third death at one place would set the run aside.
                cuts = sorted(choose.randrange(ENDS[0], SIZE) for _ in range(choose.choice((1, 2))))
                service.begin([*cuts])
                run = ""
                async with open_log(address) as log, asyncio.timeout(SLOW):
                    for life in range(len(cuts) + 1):
                        service.sent.clear()
                        asked = {"address": address, "url": url, "run": run, "error": str(error)}
                        child = await begin(**asked)
                        if life < len(cuts):
                            run = run or await stored_kind(log, "status")
                            service.is_started.set()
                            await service.sent.wait()
                            if life == 0 and cuts[0] > ENDS[3] and choose.random() < 0.5:
                                await stored_kind(log, "thinking_delta")
                            os.kill(child, signal.SIGKILL)
                            killed += 1
                        code = int(await reads.readline())
                        assert code == (-signal.SIGKILL if life < len(cuts) else 0), (
                            error.exists() and error.read_text()
                        )
                    records = await stored(log, run)
                # One request, and the rest for each recovery.
                assert service.requests[0].startswith("POST ")
                assert [each[:4] for each in service.requests[1:]] == ["GET "] * len(cuts), cuts
                assert [record.seq for record in records] == list(range(1, len(records) + 1))
                assert lint(records) == []
                kinds = [type(record.event) for record in records]
                assert (kinds.count(AttemptStart), kinds.count(AttemptRetract)) == (1, 0), cuts
                last = fold_run(records).conversation.messages[-1]
                assert [part.text for part in last.content if isinstance(part, Text | Thinking)] == [
                    "".join(THOUGHT),
                    "".join(TEXT * 4),
                ]
    finally:
        writes.close()
        await lives.wait()
    assert killed >= KILLS
