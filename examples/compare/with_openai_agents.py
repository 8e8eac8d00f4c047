"""openai-agents: a run has one stream of events, and every reader iterates over it.

A run that is to survive is a workflow of DBOS in SQLite.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import kit
from agents import (
    Agent,
    ModelRetrySettings,
    ModelSettings,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    retry_policies,
)
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent

PATH = "/v1/responses"


def agent(tools: tuple[object, ...] = ()) -> Agent:
    client = AsyncOpenAI(base_url=f"{kit.URL}/v1", api_key="none")
    retry = ModelRetrySettings(
        max_retries=2,
        policy=retry_policies.any(
            retry_policies.provider_suggested(),
            retry_policies.network_error(),
            retry_policies.http_status([429, 500, 502, 503, 529]),
        ),
    )
    return Agent(
        name="worker",
        model=OpenAIResponsesModel("gpt-5.2", client),
        model_settings=ModelSettings(retry=retry),
        tools=list(tools),
    )


def text_of(event: object) -> str:
    data = getattr(event, "data", None)
    return data.delta if isinstance(data, ResponseTextDeltaEvent) else ""


async def watch(readers: list[kit.Reader], ended: kit.Ended) -> None:
    run = Runner.run_streamed(agent(), "Count.")

    async def follow(reader: kit.Reader) -> None:
        async for event in run.stream_events():
            if text := text_of(event):
                await reader.read(text)

    reading = [asyncio.create_task(follow(reader)) for reader in readers]
    await run.run_loop_task
    ended(run.final_output)
    await asyncio.gather(*reading, return_exceptions=True)


async def count() -> int:
    run = Runner.run_streamed(agent(), "Count.")
    return sum([len(text_of(event)) async for event in run.stream_events()])


async def late() -> str:
    run = Runner.run_streamed(agent(), "Count.")
    async for _ in run.stream_events():
        pass
    return "".join([text_of(event) async for event in run.stream_events()])


async def reload(ended: kit.Ended) -> str:
    run = Runner.run_streamed(agent(), "Count.")
    seen = 0
    async for event in run.stream_events():
        seen += bool(text_of(event))
        if seen == kit.HALF:
            break  # the page is closed
    page = "".join([text_of(event) async for event in run.stream_events()])
    ended(run.final_output)
    return page


async def work(tools: list[kit.Tool], again: bool) -> str:
    from dbos import DBOS
    from dbos_openai_agents import DBOSRunner

    steps = [function_tool(DBOS.step(name=tool.__name__)(tool)) for tool in tools]

    @DBOS.workflow(name="run")
    async def run() -> str:
        config = RunConfig(tracing_disabled=True)
        return (await DBOSRunner.run(agent(tuple(steps)), "Work.", run_config=config)).final_output

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
    run = Runner.run_streamed(agent(), "Count.")
    async for event in run.stream_events():
        if text_of(event):
            cancelling()
            run.cancel()


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
