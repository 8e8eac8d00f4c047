"""A server over a log: its dashboard, and a stored fold as a published stream; started and killed by the tests."""

from __future__ import annotations

import asyncio
import sys

import reactivex
from reactivex import Observable

from rxworker import Worker, tool
from rxworker.boards import Dashboard, panel, publish
from rxworker.events import Record, ResponseEvent, RunStop, ToolStop
from rxworker.log import open_log
from rxworker.panels import count, run_of
from rxworker.providers import Request
from rxworker.testing import call, say
from rxworker.testing.reply import reply_events
from rxworker.ui.web import WebServer

LEASE = 2.0
LOOKS = 40


@tool(effect="pure")
async def look(where: str) -> str:
    """Look somewhere."""
    await asyncio.sleep(0.02)
    return f"nothing in {where}"


class Looking:
    """A model whose answer depends on the conversation alone, so that a run that is recovered goes on."""

    name = "scripted"
    model = "looking"

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """Look forty times."""
        turn = sum(message.role == "assistant" for message in request.conversation.messages)
        reply = call("look", where=f"room {turn}") if turn < LOOKS else say("Nothing anywhere.")
        return reactivex.from_iterable(reply_events(reply, turn + 1))


def make_worker() -> Worker:
    """Its run lasts for about a second."""
    return Worker(Looking(), tools=[look])


def step(sums: dict[str, int], record: Record) -> dict[str, int]:
    """The number of records of each run."""
    return {**sums, record.run_id: sums.get(record.run_id, 0) + 1}


DESK = Dashboard(
    [
        panel("Tools", count(ToolStop)),
        panel("Ended", count(RunStop)),
        panel("Tools by run", count(ToolStop), view="bar", group=run_of),
    ],
    title="Desk",
)


async def main(address: str) -> None:
    """Serve until it is killed."""
    start: dict[str, int] = {}
    async with open_log(address, lease=LEASE) as log:
        sums = publish("sums", log.fold_stored("sums", step, start))
        async with WebServer(make_worker, port=0, log=log, dashboards=[DESK], streams=[sums]) as server:
            print(server.url, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
