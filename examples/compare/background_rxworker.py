"""rxworker: ``@tool(background=True)``, and a run that pauses for the approval."""

from __future__ import annotations

import asyncio

import kit

from rxworker import Approve, Paused, Run, Worker, tool
from rxworker.events import TextDelta
from rxworker.providers import OpenAIChat

times = kit.Times()


@tool(background=True)
async def look() -> str:
    """Look."""
    return await times.look()


@tool(requires_approval=True)
async def pay() -> str:
    """Pay."""
    return await times.pay()


async def follow(run: Run) -> None:
    async for record in run:
        if isinstance(record.event, TextDelta):
            times.note("text")


async def main() -> None:
    model = OpenAIChat("m", api_key="none", base_url=kit.URL)
    session = Worker(model, tools=[look, pay]).new_session()
    run = session.run("Go.")
    await follow(run)
    result = await run
    if isinstance(result, Paused):
        times.note("paused")
        await times.approve()
        run = session.resume(result, decisions={call.id: Approve() for call in result.pending})
        await follow(run)
        result = await run
    times.report(result.text)


asyncio.run(main())
