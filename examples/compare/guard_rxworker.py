"""rxworker: ``hold_back`` in the operators of the worker."""

from __future__ import annotations

import asyncio
import json
import os
import time

from rxworker import Worker, tool
from rxworker.events import TextDelta
from rxworker.operators import hold_back
from rxworker.providers import OpenAIChat


@tool
async def look(where: str) -> str:
    """Look."""
    return where


async def is_clean(text: str) -> bool:
    await asyncio.sleep(0.1)
    return "hunter2" not in text


async def main() -> None:
    model = OpenAIChat("m", api_key="none", base_url=os.environ["GUARD_URL"] + "/v1")
    gate = hold_back(is_clean, ahead=20, at_most=32, replacement="[removed]")
    seen, times, begun = list[str](), list[float](), time.perf_counter()
    text = ""
    async for record in Worker(model, tools=[look], operators=[gate]).run("Go."):
        seen.append(repr(record.event))
        if isinstance(record.event, TextDelta):
            text += record.event.text
            times.append(time.perf_counter() - begun)
    print(json.dumps({"events": "".join(seen) + text, "first": times[0], "last": times[-1]}))


asyncio.run(main())
