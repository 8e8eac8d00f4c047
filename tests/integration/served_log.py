"""A server over a log, in a process of its own: FILE PORT LEASE HOLDS. The tests start, stop and kill it.

What the model says depends on the conversation alone: a long answer, a call of a slow tool, or a call that needs an
approval. The tools write a line to FILE.effects when they start, and one when they end. A server that holds ends no
answer, and its slow tool waits for SIGTERM: a run is in the middle of it when the server is stopped, however slow the
machine is.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from rxworker import Worker, tool
from rxworker.log import SQLiteLog
from rxworker.messages import JsonObject
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say, stall
from rxworker.tools import Done, NotDone, ToolContext
from rxworker.ui.web import Settings, WebServer

WORDS = "".join(f"word {n}, " for n in range(60))


def answer(request: Request) -> Reply:
    """The next reply to a conversation."""
    last = request.conversation.messages[-1]
    if last.tool_results:
        return say(f"It is {last.tool_results[-1].text}.")
    if "tool" in last.text:
        return say("Let me see. ") + call("slow", n=1)
    if "order" in last.text:
        return call("order", n=1)
    return say(WORDS)


def held(request: Request) -> Reply:
    """The next reply, of which a text has no end."""
    reply = answer(request)
    return reply if reply.tool_calls else reply + stall()


def make_worker(effects: Path, stop: asyncio.Event, *, holds: bool) -> Worker:
    """The worker of each conversation."""

    def note(what: str, key: str) -> None:
        with effects.open("ab", buffering=0) as file:
            file.write(f"{what} {key}\n".encode())

    async def was_done(key: str, _: JsonObject) -> Done | NotDone:
        return Done("done before") if f"end {key}" in effects.read_text() else NotDone()  # noqa: ASYNC240

    @tool(reconcile=was_done)
    async def slow(n: int, context: ToolContext) -> str:
        """Take a while."""
        note("start", context.idempotency_key)
        if holds:
            await stop.wait()
        note("end", context.idempotency_key)
        return f"slow {n}"

    @tool(requires_approval=True)
    async def order(n: int, context: ToolContext) -> str:
        """Order something."""
        note("end", context.idempotency_key)
        return f"ordered {n}"

    return Worker(ScriptedModel(held if holds else answer, delay=0.002), tools=[slow, order])


async def main(file: str, port: int, lease: float, *, holds: bool) -> None:
    """Serve until SIGTERM, then hand the runs over."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    effects = Path(file + ".effects")
    effects.touch()  # noqa: ASYNC240
    async with SQLiteLog(file, lease=lease) as log:
        settings = Settings(writes_per_second=None)
        server = WebServer(lambda: make_worker(effects, stop, holds=holds), port=port, settings=settings, log=log)
        async with server:
            print("ready", server.url, flush=True)
            await stop.wait()


if __name__ == "__main__":
    _, file, port, lease, holds = sys.argv
    asyncio.run(main(file, int(port), float(lease), holds=bool(holds)))
