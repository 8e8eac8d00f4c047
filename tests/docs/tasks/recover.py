"""A stored run that is handed over in the middle, and continued without a second call."""

import asyncio
import tempfile
from pathlib import Path

from rxworker import Worker, tool
from rxworker.errors import RunHandedOverError
from rxworker.events import RunRecover, ToolStop
from rxworker.log import RunInfo, SQLiteLog
from rxworker.testing import ScriptedModel, call, say, stall
from rxworker.worker import recover_all

booked: list[int] = []


@tool
async def book(seats: int) -> str:
    """Book seats."""
    booked.append(seats)
    return f"booked {seats}"


async def begin(path: Path) -> str:
    async with SQLiteLog(path) as log:
        model = ScriptedModel([call("book", seats=2), say("I have") + stall()])
        run = Worker(model, tools=[book], log=log).run("Two seats.")
        async for record in run:
            if isinstance(record.event, ToolStop):
                break
        await run.hand_over(reason="a deployment")
        try:
            await run
        except RunHandedOverError as error:
            print("handed over:", error.reason)
        return run.id


async def go_on(path: Path, run_id: str) -> None:
    async with SQLiteLog(path) as log:

        def make_worker(info: RunInfo) -> Worker:
            return Worker(ScriptedModel([say("Booked.")]), tools=[book], log=log)

        runs = [run async for run in recover_all(log, make_worker, once=True)]
        assert [run.id for run in runs] == [run_id]
        result = await runs[0]
        kinds = [entry.kind async for entry in log.read(run_id)]
        print(result.text, booked, [info.status for info in await log.list()])
        assert result.text == "Booked."
        assert booked == [2]
        assert sum(isinstance(r.event, RunRecover) for r in [r async for r in runs[0]]) == 1
        assert kinds.count("tool_stop") == 1


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        run_id = asyncio.run(begin(path))
        asyncio.run(go_on(path, run_id))


if __name__ == "__main__":
    main()
