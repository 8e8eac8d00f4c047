"""What `tee` costs a program of another library: the processor time of its thread with and without, in turn.

    python tests/bench/taps.py pydantic_ai langgraph

It runs in the environments of `tests/tap/peers.py`. The model of each program is before a local server, in a thread of
its own, as it would be elsewhere: a long answer in small pieces, as models write them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WORDS = 500
ROUNDS = 40
Program = Callable[[str, bool], AsyncIterator[object]]


async def pydantic_ai(url: str, is_tapped: bool) -> AsyncIterator[object]:
    """The events of pydantic-ai."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from rxworker.tap import tee
    from rxworker.tap.sources import PydanticAI

    agent = Agent(OpenAIChatModel("m-1", provider=OpenAIProvider(base_url=url, api_key="none")))
    async with agent.run_stream_events("Count.") as events:
        async for event in tee(events, PydanticAI(agent, events)) if is_tapped else events:
            yield event


async def langgraph(url: str, is_tapped: bool) -> AsyncIterator[object]:
    """The events of LangGraph."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    from rxworker.tap import tee
    from rxworker.tap.sources import LangGraph

    graph: Any = create_agent(ChatOpenAI(model="m-1", base_url=url, api_key="none", streaming=True), [])
    events = graph.astream_events({"messages": [{"role": "user", "content": "Count."}]}, version="v2")
    async for event in tee(events, LangGraph()) if is_tapped else events:
        yield event


PROGRAMS: dict[str, Program] = {"langgraph": langgraph, "pydantic_ai": pydantic_ai}
LIMIT = 5.0
"""What a tap may cost, in percent."""


async def spent(program: Program, url: str, is_tapped: bool) -> float:
    """The seconds of processor time that a run takes."""
    gc.collect()
    begun = time.thread_time()
    async for _ in program(url, is_tapped):
        pass
    await asyncio.sleep(0)  # the run ends
    return time.thread_time() - begun


async def measure(name: str, rounds: int) -> tuple[float, float]:
    """The milliseconds of a run, and what a tap adds: the medians, since other programs use the machine."""
    from rxworker.testing import ReplayServer, ServedResponse, say

    plain: list[float] = []
    added: list[float] = []
    answer = ServedResponse.from_reply(say("word " * WORDS, chunk=5))
    with ReplayServer(lambda _: answer) as server:
        for each in range(rounds + 1):
            without = await spent(PROGRAMS[name], f"{server.base_url}/v1", False)
            tapped = await spent(PROGRAMS[name], f"{server.base_url}/v1", True)
            if each:  # the first one imports and connects
                plain.append(1000 * without)
                added.append(1000 * (tapped - without))
    return statistics.median(plain), statistics.median(added)


def compare(name: str, python: Path, rounds: int = ROUNDS) -> float:
    """What a tap adds to a program, in percent."""
    command = [python, "-W", "ignore", __file__, "--here", name, str(rounds)]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    plain, added = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}: {plain:.1f} ms, tapped {added:+.1f} ms: {100 * added / plain:+.1f} %")
    return 100 * added / plain


def main() -> None:
    """Measure those that are named."""
    if sys.argv[1] == "--here":
        print(json.dumps(asyncio.run(measure(sys.argv[2], int(sys.argv[3])))))
        return
    sys.path.insert(0, str(ROOT))
    from tests.tap import peers

    for name in sys.argv[1:]:
        compare(name, peers.make(name))


if __name__ == "__main__":
    main()
