"""Strands Agents: ``background_tasks``, and a hook that interrupts the agent before the call."""

from __future__ import annotations

import asyncio

import kit
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.models.openai import OpenAIModel

times = kit.Times()


@tool
async def look() -> str:
    """Look."""
    return await times.look()


@tool
async def pay() -> str:
    """Pay."""
    return await times.pay()


def approve(event: BeforeToolCallEvent) -> None:
    if event.tool_use["name"] == "pay" and event.interrupt("approval", reason="pay") != "yes":
        event.cancel_tool = "It was not approved."


async def main() -> None:
    model = OpenAIModel(client_args={"base_url": f"{kit.URL}/v1", "api_key": "none"}, model_id="m")
    agent = Agent(model, tools=[look, pay], background_tasks={"always": ["look"]}, callback_handler=None)
    agent.add_hook(approve, BeforeToolCallEvent)

    async def run(prompt):
        async for event in agent.stream_async(prompt):
            if "data" in event:
                times.note("text")
            if "result" in event:
                result = event["result"]
        return result

    result = await run("Go.")
    if result.stop_reason == "interrupt":
        times.note("paused")
        await times.approve()
        answers = [{"interruptResponse": {"interruptId": each.id, "response": "yes"}} for each in result.interrupts]
        result = await run(answers)
    times.report(str(result).strip())


asyncio.run(main())
