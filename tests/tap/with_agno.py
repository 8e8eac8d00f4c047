"""agno: its model for OpenAI's chat completions, before a server that answers from a script."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.team import Team
from agno.tools import tool
from agno.workflow import Loop, Parallel, Step, StepOutput, Workflow

from rxworker.tap.sources import Agno
from rxworker.testing import ReplayServer, Reply, ServedResponse, call, fail, say, stall, think
from tests.tap.kit import Figures, Recorder, main

QUESTION = "What is 1 + 2?"
FIRST = think("Two calls.") + say("I add and divide.", chunk=6) + call("add", a=1, b=2) + call("divide", a=1, b=0)
LAST = say("It is three.", chunk=6)
HALF = say("It is th", chunk=6)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def divide(a: int, b: int) -> float:
    """Divide."""
    return a / b


def served(*replies: Reply) -> ReplayServer:
    left = list(replies)
    return ReplayServer(lambda _: ServedResponse.from_reply(left.pop(0)))


def make(server: ReplayServer, kind: Any = Agent, **options: Any) -> Any:
    model = OpenAIChat("m-1", base_url=f"{server.base_url}/v1", api_key="none", max_retries=0)
    return kind(**{"name": "adder", "telemetry": False, **options}, model=model)


def figures(output: Any, status: str) -> Figures:
    """What the output of a run has."""
    own = [each for each in output.messages if each.role == "assistant"]
    results = {each.tool_call_id: each for each in output.messages if each.role == "tool"}
    calls = []
    for made in [made for each in own for made in each.tool_calls or []]:
        result = results.get(made["id"])
        outcome = (None, None) if result is None or result.content is None else (result.content, result.tool_call_error)
        calls.append([made["function"]["name"], json.loads(made["function"]["arguments"]), *outcome])
    return Figures(
        status=status,
        text=own[-1].content or "",
        thinking="".join([each.reasoning_content or "" for each in own]),
        calls=calls,
        responses=len(own),
        input=sum(each.metrics.input_tokens for each in own),
        output=sum(each.metrics.output_tokens for each in own),
    )


async def run(tap: Recorder, agent: Any, status: str = "finished") -> Figures:
    output: Any = None
    events = agent.arun(QUESTION, stream=True, stream_events=True, yield_run_output=True)
    async for event in tap(events, Agno(QUESTION), QUESTION):
        output = event
    return figures(output, status)


async def tools(tap: Recorder) -> Figures:
    with served(FIRST, LAST) as server:
        return await run(tap, make(server, tools=[add, divide]))


async def nested(tap: Recorder) -> Figures:
    """A team, whose member adds."""
    delegated = call("delegate_task_to_member", member_id="adder", task="1 + 2")
    with served(delegated, FIRST, LAST, LAST) as server:
        member = make(server, tools=[add, divide], id="adder")
        own = await run(tap, make(server, Team, members=[member], name="team"))
    assert own["input"] is not None
    assert own["output"] is not None
    return Figures(**{**own, "input": own["input"] + 20, "output": own["output"] + 10})


def summed(given: Any) -> StepOutput:
    """A step without an agent."""
    return StepOutput(content=f"{len(given.get_all_previous_content().split())} words")


async def workflow(tap: Recorder) -> Figures:
    """Steps one after the other, side by side, and twice."""
    with served(FIRST, LAST, LAST, LAST, LAST, LAST) as server:
        side_by_side = [Step(name=each, agent=make(server, name=each)) for each in ("one", "two")]
        twice = Loop([Step(name="again", agent=make(server))], name="twice", max_iterations=2)
        steps: list[Any] = [Step(name="sum", agent=make(server, tools=[add, divide])), Parallel(*side_by_side)]
        flow = Workflow(name="flow", steps=[*steps, twice, Step(name="count", executor=summed)], telemetry=False)
        events, output = flow.arun(QUESTION, stream=True, stream_events=True), None
        async for event in tap(events, Agno(QUESTION), QUESTION):
            output = event
    runs = output.step_executor_runs
    said = [("sum", runs[0].content), *((name, LAST.text) for name in ("one", "two", "again", "again"))]
    return Figures(
        status="finished",
        text="",
        calls=[*([name, {}, text, False] for name, text in said), ["count", {}, output.content, False]],
        responses=1,
        input=sum(each.metrics.input_tokens for each in runs),
        output=sum(each.metrics.output_tokens for each in runs),
    )


async def retried(tap: Recorder) -> Figures:
    with served(HALF + fail("the line is cut", "server_error"), LAST) as server:
        return await run(tap, make(server, retries=1, delay_between_retries=0))


async def paused(tap: Recorder) -> Figures:
    checked: Any = tool(requires_confirmation=True)(divide)
    with served(FIRST) as server:
        return await run(tap, make(server, tools=[add, checked]), "paused")


async def broken(tap: Recorder) -> Figures:
    with served(HALF + fail("the line is cut", "server_error")) as server:
        events = make(server).arun(QUESTION, stream=True, stream_events=True)
        async for _ in tap(events, Agno(QUESTION), QUESTION):
            pass
    return Figures(status="aborted", text="It is th", thinking="", calls=[], responses=1)


async def cancelled(tap: Recorder) -> Figures:
    with served(HALF + stall()) as server:
        seen = ""
        try:
            async for event in tap(
                make(server).arun(QUESTION, stream=True, stream_events=True), Agno(QUESTION), QUESTION
            ):
                seen += getattr(event, "content", None) or ""
                if seen == "It is th":
                    current = asyncio.current_task()
                    assert current is not None
                    current.cancel()
        except asyncio.CancelledError:
            pass
    return Figures(status="cancelled", text="It is th", thinking="", calls=[], responses=1)


if __name__ == "__main__":
    main([tools, nested, workflow, retried, paused, broken, cancelled])
