"""Moments of a dashboard over each store, of two servers of one log, held to a fold of the records by hand."""

from __future__ import annotations

import time

from rxworker import Worker, tool
from rxworker.boards import Dashboard, panel
from rxworker.boards.moments import Moments
from rxworker.events import ToolStart
from rxworker.log import EventLog
from rxworker.panels import count, run_of, tokens
from rxworker.testing import ScriptedModel, call, say
from tests.log.conftest import OpenLog
from tests.log.processes import stored_of_all

BOARD = Dashboard([panel("Tokens", tokens, view="line"), panel("Calls", count(ToolStart), view="bar", group=run_of)])


@tool
def look() -> str:
    """Look."""
    return "x"


async def run(log: EventLog) -> str:
    worker = Worker(ScriptedModel([call("look"), say("An old pond.")]), tools=[look], log=log)
    return (await worker.run("Hi")).run_id


async def test_two_servers_show_moments_of_one_log_also_after_a_run_was_deleted(open_store: OpenLog) -> None:
    async with open_store() as one, open_store() as two:
        servers = [one, two] if one.id == two.id else [one]
        moments = [Moments(BOARD, log) for log in servers]
        runs = [await run(one) for _ in range(3)]
        for step in range(3):
            records = await stored_of_all(one)
            for moment in (time.time(), *[each.time for each in records[:: len(records) // 3]]):
                expected = [state.value for state in BOARD.at(records, moment)]
                for each in moments:
                    assert [state.value for state in await each.at(moment)] == expected
            if step == 0:
                await one.delete(runs[1])
            else:
                await run(one)
