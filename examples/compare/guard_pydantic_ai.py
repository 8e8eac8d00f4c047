"""pydantic-ai: the guardrails of its harness, for the output and for the arguments of tools."""

from __future__ import annotations

import asyncio
import json
import os
import time

from pydantic_ai import Agent
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai_harness import GuardrailResult, OutputGuardrail
from pydantic_ai_harness.guardrails import ToolCallInfo, ToolGuardrail


async def look(where: str) -> str:
    """Look."""
    return where


async def check_output(output: object) -> GuardrailResult:
    await asyncio.sleep(0.1)
    return GuardrailResult.replace("[removed]") if "hunter2" in str(output) else GuardrailResult.allow()


async def check_call(call: ToolCallInfo) -> GuardrailResult:
    await asyncio.sleep(0.1)
    return GuardrailResult.block("refused") if "hunter2" in str(call.args) else GuardrailResult.allow()


async def main() -> None:
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=os.environ["GUARD_URL"] + "/v1", api_key="none"))
    guards = [OutputGuardrail(guard=check_output), ToolGuardrail(guard=check_call)]
    agent = Agent(model, tools=[look], capabilities=guards)
    seen, times, begun = [], [], time.perf_counter()
    text = ""
    async with agent.run_stream_events("Go.") as events:
        async for event in events:
            seen.append(repr(event))
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                text += event.part.content
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                text += event.delta.content_delta
            else:
                continue
            times.append(time.perf_counter() - begun)
    print(json.dumps({"events": "".join(seen) + text, "first": times[0], "last": times[-1]}))


asyncio.run(main())
