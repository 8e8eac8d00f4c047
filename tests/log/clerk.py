"""A worker whose tool waits for the test."""

from __future__ import annotations

import asyncio

from rxworker import Worker, tool
from rxworker.log import EventLog
from rxworker.testing import ScriptedModel, call, say
from rxworker.tools import ToolContext
from tests.log.victim import ByTurn


class Clerk:
    """A worker whose tool waits for the test, and whose answer takes some time."""

    def __init__(self, log: EventLog, *, delay: float = 0.0) -> None:
        self.started, self.go_on = asyncio.Event(), asyncio.Event()
        self.was_cancelled = False
        self.log = log

        @tool(effect="idempotent")
        async def work(n: int, context: ToolContext) -> str:
            """Work."""
            self.started.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
            return f"worked {n}"

        replies = [call("work", n=1), say("A long answer, in many words. " * 20)]
        model = ScriptedModel(replies, delay=delay) if delay else ByTurn(replies)
        self.worker = Worker(model, tools=[work], log=log)
