"""pydantic-ai, with a function in place of a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, Tool
from pydantic_ai.exceptions import RunCancelled, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, NativeToolCallPart, NativeToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from rxworker.tap.sources import PydanticAI
from tests.tap.kit import Figures, Recorder, main


async def model(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
    turn = sum(isinstance(each, ModelResponse) for each in messages)
    if turn == 0:
        yield {0: DeltaThinkingPart(content="Two ")}
        yield {0: DeltaThinkingPart(content="calls.")}
        yield "I add "
        yield "and divide."
        yield {2: DeltaToolCall(name="add", json_args='{"a":1,', tool_call_id="c1")}
        yield {3: DeltaToolCall(name="divide", json_args='{"a":1,"b":0}', tool_call_id="c2")}
        yield {2: DeltaToolCall(json_args='"b":2}')}
    else:
        yield "It is "
        yield "three."


async def searches(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
    """A model whose provider searches the web."""
    yield {0: NativeToolCallPart("web_search", {"query": "1 + 2"}, "s1", provider_name="function")}
    yield {1: NativeToolReturnPart("web_search", {"found": "3"}, "s1", provider_name="function")}
    yield "It is three."


async def breaks(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
    yield "It is "
    yield "th"
    raise ConnectionError("the line is cut")


async def endless(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
    yield "It is "
    yield "th"
    await asyncio.Event().wait()


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def divide(a: int, b: int) -> float:
    """Divide."""
    if b == 0:
        raise ToolFailed("division by zero")
    return a / b


def retried(context: RunContext[None], a: int, b: int) -> int:
    """Add, but not at first."""
    context.enqueue("Take your time.")
    raise ModelRetry("not now")


def make(function: Any, **options: Any) -> Agent:
    return Agent(FunctionModel(stream_function=function), name="adder", **options)


def parts_of(messages: list[ModelMessage], kind: str) -> list[Any]:
    return [part for message in messages for part in message.parts if part.part_kind == kind]


def figures(messages: list[ModelMessage], status: str) -> Figures:
    responses = [each for each in messages if isinstance(each, ModelResponse)]
    results = {part.tool_call_id: part for part in parts_of(messages, "tool-return")}
    calls = []
    for call in parts_of(messages, "tool-call"):
        result = results.get(call.tool_call_id)
        if result is None:
            calls.append([call.tool_name, call.args_as_dict(), None, None])
            continue
        content = result.model_response_str(wrap_if_error=False)
        calls.append([call.tool_name, call.args_as_dict(), content, result.outcome != "success"])
    return Figures(
        status=status,
        text=responses[-1].text or "" if responses else "",
        thinking="".join([part.content for part in parts_of(messages, "thinking")]),
        calls=calls,
        responses=len(responses),
        input=sum(each.usage.input_tokens for each in responses),
        output=sum(each.usage.output_tokens for each in responses),
        provided=[[each.tool_name, each.args_as_dict()] for each in parts_of(messages, "builtin-tool-call")],
    )


async def tools(tap: Recorder) -> Figures:
    agent = make(model, tools=[add, divide], instructions="Add well.")
    async with agent.run_stream_events("What is 1 + 2?") as events:
        async for _ in tap(events, PydanticAI(agent, events), agent, events):
            pass
        return figures(events.new_messages(), "finished")


async def hosted(tap: Recorder) -> Figures:
    agent = make(searches)
    async with agent.run_stream_events("What is 1 + 2?") as events:
        async for _ in tap(events, PydanticAI(agent, events), agent, events):
            pass
        return figures(events.new_messages(), "finished")


async def alone(tap: Recorder) -> Figures:
    """The mapper has the events and nothing else."""
    agent = make(model, tools=[add, divide])
    async with agent.run_stream_events("What is 1 + 2?") as events:
        async for _ in tap(events, PydanticAI()):
            pass
        return figures(events.new_messages(), "finished")


async def handled(tap: Recorder) -> Figures:
    """The events of a handler, and the result after them."""
    agent = make(model, tools=[add, divide])
    items: asyncio.Queue[Any] = asyncio.Queue()

    async def handle(_: RunContext[None], events: AsyncIterable[Any]) -> None:
        async for event in events:
            items.put_nowait(event)

    async def each(running: asyncio.Task[Any]) -> AsyncIterator[Any]:
        running.add_done_callback(lambda done: items.put_nowait(done.result()))
        while not hasattr(item := await items.get(), "new_messages"):
            yield item
        yield item

    running = asyncio.create_task(agent.run("What is 1 + 2?", event_stream_handler=handle))
    async for _ in tap(each(running), PydanticAI(agent), agent):
        pass
    return figures(running.result().new_messages(), "finished")


async def output(tap: Recorder) -> Figures:
    """A tool that fails each time, until the structured output comes."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) == 1:
            yield {0: DeltaToolCall(name="retried", json_args='{"a":1,"b":2}', tool_call_id="c1")}
        elif len(messages) == 3:
            yield {0: DeltaToolCall(name=info.output_tools[0].name, json_args="{}", tool_call_id="c2")}
        else:
            yield {0: DeltaToolCall(name=info.output_tools[0].name, json_args='{"response": 3}', tool_call_id="c3")}

    agent = make(answer, tools=[retried], output_type=int)
    async with agent.run_stream_events("What is 1 + 2?") as events:
        async for _ in tap(events, PydanticAI(agent, events), agent, events):
            pass
        assert events.result is not None
        assert events.result.output == 3
        return figures(events.new_messages(), "finished")


async def paused(tap: Recorder) -> Figures:
    """A call that needs an approval, beside one that needs none."""
    tools: list[Any] = [add, Tool(divide, requires_approval=True)]
    agent = make(model, tools=tools, output_type=[str, DeferredToolRequests])
    async with agent.run_stream_events("What is 1 + 2?") as events:
        async for _ in tap(events, PydanticAI(agent, events), agent, events):
            pass
        return figures(events.new_messages(), "paused")


async def broken(tap: Recorder) -> Figures:
    agent = make(breaks)
    async with agent.run_stream_events("What is 1 + 2?") as events:
        try:
            async for _ in tap(events, PydanticAI(agent, events), agent, events):
                pass
        except ConnectionError:
            pass
    return Figures(status="aborted", text="It is th", thinking="", calls=[], responses=1)


async def cancelled(tap: Recorder) -> Figures:
    agent = make(endless)
    async with agent.run_stream_events("What is 1 + 2?") as events:
        try:
            async for event in tap(events, PydanticAI(agent, events), agent, events):
                if event.event_kind == "part_delta":
                    events.cancel()
        except RunCancelled:
            pass
    return Figures(status="cancelled", text="It is th", thinking="", calls=[], responses=1)


if __name__ == "__main__":
    main([tools, hosted, alone, handled, output, paused, broken, cancelled])
