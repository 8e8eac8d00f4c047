"""A model, a tool, and three watchers of one run: one prints the text, one reads the records, one waits for the result.

Needs the environment variable ``ANTHROPIC_API_KEY``.
"""

# ruff: noqa: B007
# pyright: reportUnusedVariable=false

import asyncio

from rxworker import Worker, tool
from rxworker.operators import text_deltas
from rxworker.providers import Anthropic


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: Name of the city, for example Kyoto.
    """
    return f"{city}: 17 °C, clear"


async def main() -> None:
    worker = Worker(Anthropic("claude-sonnet-5-5"), tools=[get_weather], system="Be brief.")
    run = worker.run("What is the weather in Kyoto and in Oslo?")

    run.events.pipe(text_deltas()).subscribe(lambda text: print(text, end="", flush=True))

    async for record in run:  # a second watcher, at its own pace
        ...

    result = await run  # and a third: RunResult with conversation, text, usage, turns
    print(f"\n{result.usage}")


if __name__ == "__main__":
    asyncio.run(main())
