"""A board for a team: runs, tokens and cost of each tenant, of a log that any number of processes write.

The tenant is a label of the run, which its first record has. Needs the environment variable ``ANTHROPIC_API_KEY``.
"""

import asyncio

from reactivex import operators as ops

from rxworker import Worker
from rxworker.boards import Board, Dashboard, board_text, panel
from rxworker.events import RunStop
from rxworker.log import EventLog, MemoryLog
from rxworker.panels import cost, count, in_flight, label_of, tokens
from rxworker.providers import Anthropic

tenant_of = label_of("tenant", default="none")
TEAM = Dashboard(
    [
        panel("Running", in_flight),
        panel("Finished", count(RunStop), view="bar", group=tenant_of),
        panel("Tokens", tokens, view="bar", group=tenant_of),
        panel("Cost", cost(), view="bar", group=tenant_of, unit="USD"),
    ],
    title="Team",
)


def show(log: EventLog) -> Board:
    """The board of all runs of a log: the stored ones, and those that begin."""
    return TEAM.show(log.runs())


async def main() -> None:
    async with MemoryLog() as log:
        board = show(log)
        for tenant in ("acme", "globex", "acme"):
            worker = Worker(Anthropic("claude-sonnet-5-5"), log=log, labels={"tenant": tenant})
            await worker.run("A haiku about a pond, nothing else.")
        done = {"acme": 2, "globex": 1}
        await board.changes.pipe(ops.filter(lambda _: board.state("finished").value == done), ops.first())
        print(board_text(TEAM, board.states, width=60))


if __name__ == "__main__":
    asyncio.run(main())
