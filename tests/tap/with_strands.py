"""Strands Agents, with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from strands import Agent, ModelRetryStrategy, tool
from strands.hooks import BeforeToolCallEvent, HookProvider, HookRegistry
from strands.models import Model
from strands.multiagent import GraphBuilder, Swarm
from strands.multiagent.graph import Graph
from strands.types.exceptions import ModelThrottledException

from rxworker.tap.sources import Strands
from tests.tap.kit import Figures, Recorder, main

PROMPT = "What is 1 + 2?"


class Scripted(Model):
    """Answers with one turn after the other."""

    def __init__(self, *turns: list[Any]) -> None:
        self.turns = list(turns)
        self.config = {"model_id": "scripted-1"}

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> Any:
        return self.config

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        for each in self.turns.pop(0):
            if isinstance(each, Exception):
                raise each
            yield each


def block(start: Any, *deltas: Any) -> list[Any]:
    return [
        {"contentBlockStart": {"start": start}},
        *({"contentBlockDelta": {"delta": each}} for each in deltas),
        {"contentBlockStop": {}},
    ]


def text(*parts: str) -> list[Any]:
    return block({}, *({"text": each} for each in parts))


def think(*parts: str) -> list[Any]:
    return block(
        {}, *({"reasoningContent": {"text": each}} for each in parts), {"reasoningContent": {"signature": "s"}}
    )


def call(id: str, name: str, *parts: str) -> list[Any]:  # noqa: A002 - what it is
    start = {"toolUse": {"toolUseId": id, "name": name}}
    return block(start, *({"toolUse": {"input": each}} for each in parts))


def turn(stop: str, *blocks: list[Any], given: int = 10, cached: int = 0) -> list[Any]:
    usage = {"inputTokens": given, "outputTokens": 5, "totalTokens": given + cached + 5, "cacheReadInputTokens": cached}
    return [
        {"messageStart": {"role": "assistant"}},
        *(each for some in blocks for each in some),
        {"messageStop": {"stopReason": stop}},
        {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}},
    ]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def divide(a: int, b: int) -> float:
    """Divide."""
    return a / b


@tool
async def count(to: int) -> AsyncIterator[Any]:
    """Count."""
    for each in range(to):
        yield each
    yield "counted"


BOTH = [call("c1", "add", '{"a":1,', '"b":2}'), call("c2", "divide", '{"a":1,"b":0}')]
LAST = turn("end_turn", text("It is ", "three."), given=20)


def make(*turns: list[Any], **options: Any) -> Agent:
    chosen = {"tools": [add, divide, count], "name": "adder", "system_prompt": "Add well.", **options}
    return Agent(Scripted(*turns), callback_handler=None, **chosen)


def figures(agent: Agent, status: str, responses: int | None = None) -> Figures:
    messages = agent.messages
    said = [each for each in messages if each["role"] == "assistant"]
    parts = [part for each in messages for part in each["content"]]
    results = {part["toolResult"]["toolUseId"]: part["toolResult"] for part in parts if "toolResult" in part}
    calls = []
    for use in [part["toolUse"] for part in parts if "toolUse" in part]:
        result = results.get(use["toolUseId"])
        shown = (result["content"][0]["text"], result["status"] == "error") if result else (None, None)
        calls.append([use["name"], use["input"], *shown])
    usage = agent.event_loop_metrics.accumulated_usage
    return Figures(
        status=status,
        text="".join(part.get("text", "") for part in said[-1]["content"]) if said else "",
        thinking="".join(p["reasoningContent"]["reasoningText"]["text"] for p in parts if "reasoningContent" in p),
        calls=calls,
        responses=len(said) if responses is None else responses,
        input=usage["totalTokens"] - usage["outputTokens"],
        output=usage["outputTokens"],
    )


async def run(tap: Recorder, agent: Agent, status: str = "finished", **more: Any) -> Figures:
    about = SimpleNamespace(name="adder", system_prompt="Add well.", model=SimpleNamespace(config=agent.model.config))
    try:
        async for _ in tap(agent.stream_async(PROMPT), Strands(PROMPT, agent), PROMPT, about):
            pass
    except ConnectionError:
        pass
    return figures(agent, status, **more)


async def tools(tap: Recorder) -> Figures:
    return await run(tap, make(turn("tool_use", think("Two ", "calls."), text("I add."), *BOTH, cached=7), LAST))


async def throttled(tap: Recorder) -> Figures:
    busy = [*turn("end_turn", text("It "))[:3], ModelThrottledException("slow down")]
    return await run(tap, make(busy, LAST, retry_strategy=ModelRetryStrategy(initial_delay=1)))


async def broken(tap: Recorder) -> Figures:
    agent = make([*turn("end_turn", text("It is ", "th"))[:4], ConnectionError("the line is cut")])
    own = await run(tap, agent, "aborted", responses=1)
    del own["input"], own["output"]  # not known
    return {**own, "text": "It is th"}


async def progress(tap: Recorder) -> Figures:
    return await run(tap, make(turn("tool_use", call("c1", "count", '{"to":2}')), LAST))


async def inside(tap: Recorder) -> Figures:
    """An agent as a tool of another one, whose tokens are its own."""
    adder = make(turn("end_turn", text("Three."), given=3), name="adder")
    agent = make(turn("tool_use", call("c1", "adder", '{"input":"1 + 2"}')), LAST, tools=[adder.as_tool()])
    own = await run(tap, agent)
    usage = adder.event_loop_metrics.accumulated_usage
    return {**own, "input": own["input"] + usage["inputTokens"], "output": own["output"] + usage["outputTokens"]}


class Approval(HookProvider):
    """Interrupts before each call."""

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, lambda event: event.interrupt("approval", reason="May it?"))


async def paused(tap: Recorder) -> Figures:
    return await run(tap, make(turn("tool_use", BOTH[0]), hooks=[Approval()]), "paused")


def node(name: str, said: str) -> Agent:
    """An agent of a graph, which calls a tool before it answers."""
    return make(turn("tool_use", BOTH[0], given=3), turn("end_turn", text(said), given=4), name=name)


async def run_graph(tap: Recorder, built: Any, status: str = "finished") -> Figures:
    result: Any = None
    about = SimpleNamespace(name="", system_prompt="", model=None)
    async for item in tap(built.stream_async(PROMPT), Strands(PROMPT, built), PROMPT, about):
        result = item.get("result") or result
    order = result.execution_order if isinstance(built, Graph) else result.node_history
    shown = [[each.node_id, str(result.results[each.node_id]).strip()] for each in order]
    return Figures(
        status=status,
        text="",
        calls=[[name, {}, said, False] for name, said in shown],
        responses=1,
        input=result.accumulated_usage["inputTokens"],
        output=result.accumulated_usage["outputTokens"],
    )


async def graph(tap: Recorder) -> Figures:
    """Two nodes side by side, and one after them that is a graph itself."""
    within = GraphBuilder()
    within.add_node(node("last", "It is three."), "last")
    builder = GraphBuilder()
    builder.add_node(node("one", "One."), "one")
    builder.add_node(node("two", "Two."), "two")
    builder.add_node(within.build(), "sum")
    builder.add_edge("one", "sum")
    builder.add_edge("two", "sum")
    builder.set_entry_point("one")
    builder.set_entry_point("two")
    own = await run_graph(tap, builder.build())
    return {**own, "calls": [[*each[:2], "" if each[0] == "sum" else each[2], False] for each in own["calls"]]}


async def swarm(tap: Recorder) -> Figures:
    """One agent hands over to another one."""
    handed = call("h1", "handoff_to_agent", '{"agent_name":"two","message":"Your turn."}')
    first = make(turn("tool_use", handed), turn("end_turn", text("Handed over.")), name="one")
    return await run_graph(tap, Swarm([first, node("two", "It is three.")]))


async def node_waits(tap: Recorder) -> Figures:
    """A node asks whether its call may run."""
    builder = GraphBuilder()
    builder.add_node(make(turn("tool_use", BOTH[0]), hooks=[Approval()]), "one")
    own = await run_graph(tap, builder.build(), "paused")
    del own["input"], own["output"]  # the graph has none of a node that has not ended
    return {**own, "calls": [["one", {}, None, None]]}


if __name__ == "__main__":
    main([tools, throttled, broken, progress, inside, paused, graph, swarm, node_waits])
