"""AG2: a tool that hands its work to the stream, and ``approval_required``, for which the turn waits."""

from __future__ import annotations

import asyncio

import kit
from ag2 import Agent, Context, MemoryStream, tool
from ag2.config import OpenAIConfig
from ag2.events import HumanInputRequest, ModelMessageChunk
from ag2.middleware import approval_required

times = kit.Times()


@tool
async def look(context: Context) -> str:
    """Look."""

    async def work() -> None:
        context.enqueue(f"look has ended: {await times.look()}")

    context.spawn_background(work())
    return "look has begun in the background; its result comes as a message."


@tool(middleware=[approval_required()])
async def pay() -> str:
    """Pay."""
    return await times.pay()


async def person(_: HumanInputRequest) -> str:
    await times.approve()
    return "yes"


async def main() -> None:
    config = OpenAIConfig("m", base_url=f"{kit.URL}/v1", api_key="none", streaming=True)
    agent = Agent("worker", config=config, tools=[look, pay], hitl_hook=person)
    stream = MemoryStream()
    stream.where(ModelMessageChunk).subscribe(lambda _: times.note("text"), sync_to_thread=False)
    reply = await agent.ask("Go.", stream=stream)
    times.report(str(reply.body))


asyncio.run(main())
