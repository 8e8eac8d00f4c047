"""pydantic-ai: every reader is a ``ProcessEventStream``; a run that is to survive is a workflow of DBOS in SQLite."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterable, Callable

import kit
from pydantic_ai import Agent, CancellationToken
from pydantic_ai.capabilities import ProcessEventStream
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

PATH = "/v1/chat/completions"


def model() -> OpenAIChatModel:
    return OpenAIChatModel("gpt-5.2", provider=OpenAIProvider(base_url=f"{kit.URL}/v1", api_key="none"))


def text_of(event: object) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def follows(reader: kit.Reader) -> ProcessEventStream:
    async def handle(_: object, events: AsyncIterable[object]) -> None:
        async for event in events:
            if text := text_of(event):
                await reader.read(text)

    return ProcessEventStream(handle)


async def watch(readers: list[kit.Reader], ended: kit.Ended) -> None:
    agent = Agent(model(), capabilities=[follows(reader) for reader in readers])
    ended((await agent.run("Count.")).output)


async def count() -> int:
    async with Agent(model()).run_stream("Count.") as result:
        return sum([len(text) async for text in result.stream_text(delta=True, debounce_by=None)])


async def late() -> str:
    # A run keeps its messages and no events: what there is to read is the stream that was read.
    async with Agent(model()).run_stream_events("Count.") as events:
        async for _ in events:
            pass
        return "".join([text_of(event) async for event in events])


async def reload(ended: kit.Ended) -> str:
    async with Agent(model()).run_stream_events("Count.") as events:
        seen = 0
        async for event in events:
            seen += bool(text_of(event))
            if seen == kit.HALF:
                break  # the page is closed
        page = "".join([text_of(event) async for event in events])
        ended(events.result.output)
        return page


async def ignore(_: object, events: AsyncIterable[object]) -> None:
    async for _ in events:
        pass


async def work(tools: list[kit.Tool], again: bool) -> str:
    from dbos import DBOS
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    steps = [DBOS.step(name=tool.__name__)(tool) for tool in tools]
    durability = DBOSDurability(event_stream_handler=ignore)
    agent = Agent(model(), name="worker", tools=steps, capabilities=[durability])

    @DBOS.workflow(name="run")
    async def run() -> str:
        return (await agent.run("Work.")).output

    DBOS(
        config={
            "name": "compare",
            "system_database_url": f"sqlite:///{kit.FOLDER / 'dbos.sqlite'}",
            "application_version": "1",
        }
    )
    DBOS.launch()  # which continues what was cut off
    if not again:
        return await run()
    (found,) = await DBOS.list_workflows_async()
    handle = await DBOS.retrieve_workflow_async(found.workflow_id)
    return await handle.get_result()


async def cancel(cancelling: Callable[[], None]) -> None:
    token = CancellationToken()
    agent = Agent(model())
    try:
        async with agent.run_stream_events("Count.", cancellation_token=token) as events:
            async for event in events:
                if text_of(event) and not token.cancelled:
                    cancelling()
                    token.cancel()
    except (asyncio.CancelledError, RunCancelled):
        pass


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
