"""What `tee` costs a program of another library: processor time and calls of functions with and without it, in turn.

    python tests/bench/taps.py pydantic_ai langgraph

It runs in the environments of `tests/tap/peers.py`. The model of each program is before a local server, in a thread of
its own, as it would be elsewhere: a long answer in small pieces, as models write them.
The processor time is that of the program's thread; it depends on what else the machine does, the calls do not.
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
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
WORDS = 500
ROUNDS = 40
OURS = str(ROOT / "rxworker")
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
MAX_CALLS = {"langgraph": 56_000, "pydantic_ai": 38_000}
"""How many functions a tap of such an answer may call: a quarter above what it does, as it wakes by the clock."""


async def spent(program: Program, url: str, is_tapped: bool) -> float:
    """The seconds of processor time that a run takes."""
    gc.collect()
    begun = time.thread_time()
    async for _ in program(url, is_tapped):
        pass
    await asyncio.sleep(0)  # the run ends
    return time.thread_time() - begun


async def called(program: Program, url: str) -> tuple[int, int]:
    """How many functions the program's thread calls in a run that is tapped, those in C included: its own, and ours."""
    own = ours = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal own, ours
        if event in ("call", "c_call"):
            if frame.f_code.co_filename.startswith(OURS):
                ours += 1
            else:
                own += 1

    sys.setprofile(note)
    try:
        async for _ in program(url, True):
            pass
        await asyncio.sleep(0)  # the run ends
    finally:
        sys.setprofile(None)
    return own, ours


class Cost(NamedTuple):
    """What a run takes, and what a tap adds to it."""

    plain: float
    added: float

    @property
    def percent(self) -> float:
        """What a tap adds, in percent."""
        return 100 * self.added / self.plain


async def measure(name: str, rounds: int) -> tuple[Cost, Cost]:
    """Milliseconds (medians, since other programs use the machine), and calls of functions."""
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
        calls = await called(PROGRAMS[name], f"{server.base_url}/v1")
    return Cost(statistics.median(plain), statistics.median(added)), Cost(*calls)


def compare(name: str, python: Path, rounds: int = ROUNDS) -> tuple[Cost, Cost]:
    """Milliseconds and calls of functions of a program, and what a tap adds to them."""
    command = [python, "-W", "ignore", __file__, "--here", name, str(rounds)]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    time_spent, calls = (Cost(*each) for each in json.loads(done.stdout.splitlines()[-1]))
    print(f"{name}: {time_spent.plain:.1f} ms, tapped {time_spent.added:+.1f} ms: {time_spent.percent:+.1f} %")
    print(f"{name}: {calls.plain:.0f} calls of functions, tapped {calls.added:+.0f}: {calls.percent:+.1f} %")
    return time_spent, calls


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
