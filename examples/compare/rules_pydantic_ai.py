"""pydantic-ai: the events of ``run_stream_events``; each watcher is a ``ProcessEventStream``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import with_pydantic_ai as program
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessEventStream
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.run import AgentRunResultEvent
from streams import Handler, InputJsonDelta, TextDelta, Told


async def look(number: int) -> str:
    """Look."""
    return f"found {number}"


def agent_of(case: str) -> Agent:
    if case != "nested":
        return Agent(program.model(), tools=[look])
    inner = Agent(program.model())

    async def ask(task: str) -> str:
        """Run another agent."""
        return (await inner.run(task, event_stream_handler=program.ignore)).output

    return Agent(program.model(), tools=[ask])


async def events(case: str, numbers: list[int]) -> AsyncIterator[object]:
    told = Told()
    for each in told.begin():
        yield each
    async with agent_of(case).run_stream_events("Go.") as stream:
        async for event in stream:
            for each in records_of(told, event):
                yield each


def records_of(told: Told, event: object):
    if isinstance(event, PartStartEvent | PartDeltaEvent):
        yield from told.response()
    match event:
        case PartStartEvent(index=index, part=TextPart(content=text)):
            yield from told.text_block(index, text)
        case PartStartEvent(index=index, part=ToolCallPart() as call):
            yield from told.call_block(index, call.tool_call_id, call.tool_name)
        case PartDeltaEvent(index=index, delta=TextPartDelta(content_delta=text)):
            yield from told.record(TextDelta(index, text))
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(text))):
            yield from told.record(InputJsonDelta(index, text))
        case PartEndEvent(index=index):
            yield from told.stop(index)
        case FunctionToolCallEvent(part=call):
            yield from told.call(call.tool_call_id, call.tool_name)
        case FunctionToolResultEvent(part=result):
            yield from told.result(result.tool_call_id)
        case AgentRunResultEvent():
            yield from told.end()


class Watched:
    """A run that begins when its first watchers have come. It takes no others: handlers are given before it."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []
        self.has_begun = False

    def __aiter__(self) -> AsyncIterator[str]:
        handler = Handler()
        if self.has_begun:
            handler.end()
        else:
            self.handlers.append(handler)
        return handler.read()

    async def begin(self) -> None:
        """Run, with the handlers that have come."""
        for _ in range(3):
            await asyncio.sleep(0)
        self.has_begun = True
        agent = Agent(program.model(), capabilities=[follows(handler) for handler in self.handlers])
        failed = None
        try:
            await agent.run("Count.")
        except Exception as error:
            failed = error
        for handler in self.handlers:
            handler.end(failed)


def follows(handler: Handler) -> ProcessEventStream:
    async def handle(_: object, events: object) -> None:
        async for event in events:
            if text := program.text_of(event):
                await handler(text)

    return ProcessEventStream(handle)


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    running = asyncio.create_task(made.begin())
    yield made
    running.cancel()
    await asyncio.wait([running])
