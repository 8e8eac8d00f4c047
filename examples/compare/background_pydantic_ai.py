"""pydantic-ai: ``BackgroundTools`` of its harness, and a run that pauses with ``DeferredToolRequests``."""

from __future__ import annotations

import asyncio

import kit
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai_harness import BackgroundTools

times = kit.Times()
model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{kit.URL}/v1", api_key="none"))
agent = Agent(model, output_type=[str, DeferredToolRequests], capabilities=[BackgroundTools()])


@agent.tool_plain(metadata={"background": True})
async def look() -> str:
    """Look."""
    return await times.look()


@agent.tool_plain(requires_approval=True)
async def pay() -> str:
    """Pay."""
    return await times.pay()


async def run(*given, **options):
    async with agent.run_stream_events(*given, **options) as events:
        async for event in events:
            is_start = isinstance(event, PartStartEvent) and isinstance(event.part, TextPart)
            if is_start or (isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta)):
                times.note("text")
        return events.result


async def main() -> None:
    result = await run("Go.")
    if isinstance(result.output, DeferredToolRequests):
        times.note("paused")
        await times.approve()
        approved = DeferredToolResults(approvals={call.tool_call_id: True for call in result.output.approvals})
        result = await run(message_history=result.all_messages(), deferred_tool_results=approved)
    times.report(str(result.output))


asyncio.run(main())
