"""AG2, with its scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

from ag2 import Agent
from ag2.events import (
    ModelMessage,
    ModelMessageChunk,
    ModelReasoning,
    ModelResponse,
    ToolCallEvent,
    ToolCallsEvent,
    ToolErrorEvent,
    ToolResultEvent,
    Usage,
    UsageEvent,
)
from ag2.testing import TestConfig

from rxworker.tap.sources import AG2, ag2_events
from tests.tap.kit import Figures, Recorder, main


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def divide(a: int, b: int) -> float:
    """Divide."""
    return a / b


def whole(
    text: str = "", *calls: ToolCallEvent, given: int = 10, provider: str = "acme", read: int | None = None
) -> Any:
    return ModelResponse(
        ModelMessage(text) if text else None,
        tool_calls=ToolCallsEvent(list(calls)),
        usage=Usage(prompt_tokens=given, completion_tokens=5, total_tokens=given + 5, cache_read_input_tokens=read),
        model="scripted-1",
        provider=provider,
        finish_reason="tool_calls" if calls else "stop",
        response_id="r1",
    )


BOTH = (
    ToolCallEvent("add", id="c1", arguments='{"a":1,"b":2}'),
    ToolCallEvent("divide", id="c2", arguments='{"a":1,"b":0}'),
)
FIRST = [ModelReasoning("Two calls."), ModelMessageChunk("I "), ModelMessageChunk("add."), whole("I add.", *BOTH)]
LAST = [ModelMessageChunk("It is "), ModelMessageChunk("three."), whole("It is three.", given=20)]


def make(*turns: Any, **options: Any) -> Agent:
    return Agent("adder", "Add well.", config=TestConfig(*turns, raise_tool_errors=False), **options)


def shown(result: Any) -> str:
    [part] = result.result.parts
    return str(part.data) if hasattr(part, "data") else part.content


def figures(events: Iterable[Any], status: str, **more: Any) -> Figures:
    events = list(events)
    responses = [each for each in events if isinstance(each, ModelResponse)]
    results = {each.parent_id: each for each in events if isinstance(each, ToolResultEvent)}
    calls = []
    for each in [call for response in responses for call in response.tool_calls.calls]:
        result = results[each.id]
        calls.append([each.name, each.serialized_arguments, shown(result), isinstance(result, ToolErrorEvent)])
    usages = [each.usage for each in events if isinstance(each, UsageEvent)]
    counted: Any = (
        {}
        if not usages
        else {
            "input": int(sum(each.prompt_tokens + (each.cache_read_input_tokens or 0) for each in usages)),
            "output": int(sum(each.completion_tokens for each in usages)),
        }
    )
    found: Any = {
        "status": status,
        "text": responses[-1].content or "" if responses else "",
        "thinking": "".join(each.content for each in events if isinstance(each, ModelReasoning)),
        "calls": calls,
        "responses": len(responses),
        **counted,
    }
    return {**found, **more}


async def shared(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The events without what describes this machine."""
    async for each in events:
        for result in (each, *getattr(each, "results", ())):
            if isinstance(result, ToolErrorEvent):
                result.result.parts[0].content = repr(result.error)
        yield each


async def run(tap: Recorder, agent: Agent, status: str = "finished", **more: Any) -> Figures:
    events: list[Any] = []
    about = SimpleNamespace(name="adder")
    try:
        async for each in tap(shared(ag2_events(agent.run("What is 1 + 2?"))), AG2(agent), about):
            events.append(each)
    except ConnectionError:
        pass
    return figures(events, status, **more)


async def tools(tap: Recorder) -> Figures:
    return await run(tap, make(*FIRST, *LAST, tools=[add, divide]))


async def plain(tap: Recorder) -> Figures:
    """Without chunks, from a provider that counts its cache apart."""
    return await run(tap, make(whole("", BOTH[0], provider="anthropic", read=7), "It is three.", tools=[add]))


async def inside(tap: Recorder) -> Figures:
    """An agent as a tool of another one."""
    inner = Agent(
        "sub", config=TestConfig(ModelMessageChunk("Thr"), ModelMessageChunk("ee."), whole("Three.", given=3))
    )
    use = ToolCallEvent("task_sub", id="c1", arguments='{"objective":"1 + 2"}')
    return await run(tap, make(whole("", use), *LAST, tools=[inner.as_tool(description="Adds")]))


async def broken(tap: Recorder) -> Figures:
    agent = make(ModelMessageChunk("It is "), ModelMessageChunk("th"), ConnectionError("the line is cut"))
    return await run(tap, agent, "aborted", text="It is th", responses=1)


if __name__ == "__main__":
    main([tools, plain, inside, broken])
