"""openai-agents: the events of ``stream_events``; each watcher iterates over them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import with_openai_agents as program
from agents import Runner, function_tool
from openai.types import responses
from streams import InputJsonDelta, TextDelta, Told, Usage


@function_tool
async def look(number: int) -> str:
    """Look."""
    return f"found {number}"


async def ask(task: str) -> str:
    """Run another agent."""
    run = Runner.run_streamed(program.agent(), task)  # `Agent.as_tool` adds no events to the outer stream, either
    async for _ in run.stream_events():
        pass
    return run.final_output


async def events(case: str, numbers: list[int]) -> AsyncIterator[object]:
    told = Told()
    for each in told.begin():
        yield each
    run = Runner.run_streamed(program.agent((function_tool(ask) if case == "nested" else look,)), "Go.")
    async for event in run.stream_events():
        for each in records_of(told, event):
            yield each
    for each in told.end():
        yield each


def records_of(told: Told, event: object) -> Iterator[object]:
    match getattr(event, "data", None) or event:
        case responses.ResponseCreatedEvent():
            yield from told.response()
        case responses.ResponseContentPartAddedEvent(output_index=index):
            yield from told.text_block(index)
        case responses.ResponseTextDeltaEvent(output_index=index, delta=text):
            yield from told.record(TextDelta(index, text))
        case responses.ResponseContentPartDoneEvent(output_index=index):
            yield from told.stop(index)
        case responses.ResponseOutputItemAddedEvent(
            output_index=index, item=responses.ResponseFunctionToolCall(call_id=name, name=tool)
        ):
            yield from told.call_block(index, name, tool)
        case responses.ResponseFunctionCallArgumentsDeltaEvent(output_index=index, delta=text):
            yield from told.record(InputJsonDelta(index, text))
        case responses.ResponseOutputItemDoneEvent(output_index=index, item=responses.ResponseFunctionToolCall()):
            yield from told.stop(index)
        case responses.ResponseCompletedEvent(response=response):
            if response.usage:
                yield from told.record(Usage(response.usage.input_tokens, response.usage.output_tokens))
            yield from told.done()
        case _ if getattr(event, "name", "") == "tool_called":
            yield from told.call(event.item.raw_item.call_id, event.item.raw_item.name)
        case _ if getattr(event, "name", "") == "tool_output":
            yield from told.result(event.item.raw_item["call_id"])
        case _:
            pass


class Watched:
    """A run; each watcher iterates over its events."""

    def __init__(self) -> None:
        self.run = Runner.run_streamed(program.agent(), "Count.")

    async def __aiter__(self) -> AsyncIterator[str]:
        async for event in self.run.stream_events():
            if text := program.text_of(event):
                yield text


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    yield made
    made.run.cancel()
