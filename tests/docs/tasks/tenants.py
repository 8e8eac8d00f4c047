"""A queue with tenants: at most one run of a tenant at a time, and all finish."""

import asyncio
import tempfile
from collections import Counter

from rxworker import Worker, tool
from rxworker.log import Replica, RunInfo, SQLiteLog
from rxworker.testing import ScriptedModel, call, say
from rxworker.worker import submit, work

running: Counter[str] = Counter()
most: Counter[str] = Counter()


def make_worker(info: RunInfo) -> Worker:
    tenant = info.row.labels["tenant"]

    @tool(effect="idempotent")
    async def look_up(city: str) -> str:
        """Look up the weather."""
        running[tenant] += 1
        most[tenant] = max(most[tenant], running[tenant])
        await asyncio.sleep(0.02)
        running[tenant] -= 1
        return f"It rains in {city}."

    model = ScriptedModel([call("look_up", city="Kyoto"), say("Take an umbrella.")])
    return Worker(model, tools=[look_up])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteLog(f"{folder}/runs.db") as log:
            ids = [
                await submit(log, "And the weather?", kind="clerk", tenant=tenant)
                for tenant in ("acme", "acme", "globex")
            ]
            working = asyncio.create_task(work(log, make_worker, tenant_cap=1))
            for run_id in ids:
                replica = Replica(log, run_id)
                await replica.ended()
                assert replica.state.conversation.messages[-1].text == "Take an umbrella."
            working.cancel()
            await asyncio.wait([working])
            rows = [(info.row.labels["tenant"], info.status) for info in await log.list()]
    print(sorted(rows), dict(most))
    assert sorted(rows) == [("acme", "finished"), ("acme", "finished"), ("globex", "finished")]
    assert most == {"acme": 1, "globex": 1}


if __name__ == "__main__":
    asyncio.run(main())
