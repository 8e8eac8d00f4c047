"""agno: a run in the background, whose events every reader takes from its event stream, from any index.

The checkpoints are in SQLite.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable

import kit
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.os.event_streams import get_event_stream
from agno.run.agent import RunContentEvent

PATH = "/v1/chat/completions"
RUN, SESSION = "run", "session"


def agent(**options: object) -> Agent:
    model = OpenAIChat("gpt-5.2", base_url=f"{kit.URL}/v1", api_key="none")
    return Agent(model=model, retries=2, telemetry=False, **options)


def event_of(sent: str) -> dict:
    """An event, which comes as an event of SSE."""
    _, _, data = sent.partition("data: ")
    return json.loads(data) if data else {}


def text_of(event: dict) -> str:
    return event["content"] if event.get("event") == "RunContent" else ""


def begin(worker: Agent) -> AsyncIterator[str]:
    names = {"run_id": RUN, "session_id": SESSION}
    return worker.arun("Count.", background=True, stream=True, stream_events=True, **names)


async def follow(reader: kit.Reader) -> None:
    async for _, sent in get_event_stream().tail(RUN):
        event = event_of(sent)
        if event.get("event") == "RunStarted":
            reader.text = ""  # of an attempt that failed: each attempt starts the run
        elif text := text_of(event):
            await reader.read(text)


async def end(worker: Agent, events: AsyncIterator[str]) -> str:
    async for _ in events:
        pass
    return (await worker.aget_run_output(run_id=RUN, session_id=SESSION)).content


async def watch(readers: list[kit.Reader], ended: kit.Ended) -> None:
    worker = agent(db=InMemoryDb())
    events = begin(worker)
    await anext(events)
    reading = [asyncio.create_task(follow(reader)) for reader in readers]
    ended(await end(worker, events))
    await asyncio.gather(*reading, return_exceptions=True)


async def count() -> int:
    events = agent().arun("Count.", stream=True)
    return sum([len(event.content) async for event in events if isinstance(event, RunContentEvent)])


async def late() -> str:
    worker = agent(db=InMemoryDb())
    await end(worker, begin(worker))
    reader = kit.Reader()
    await follow(reader)
    return reader.text


async def reload(ended: kit.Ended) -> str:
    worker = agent(db=InMemoryDb())
    events = begin(worker)
    seen = 0
    async for sent in events:
        seen += bool(text_of(event_of(sent)))
        if seen == kit.HALF:
            break  # the page is closed
    page = kit.Reader()
    await follow(page)
    ended(await end(worker, events))
    return page.text


async def work(tools: list[kit.Tool], again: bool) -> str:
    db = SqliteDb(db_file=str(kit.FOLDER / "runs.db"))
    worker = agent(db=db, checkpoint="tool-batch", tools=tools)
    names = {"run_id": RUN, "session_id": SESSION}
    if again and await worker.aget_run_output(**names):
        events = worker.acontinue_run(stream=True, **names)
    else:  # a run is stored when its first calls have ended; before, it begins again
        events = worker.arun("Work.", stream=True, **names)
    async for _ in events:
        pass
    return (await worker.aget_run_output(**names)).content


async def cancel(cancelling: Callable[[], None]) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async for event in agent().arun("Count.", stream=True):
            if isinstance(event, RunContentEvent):
                begun.set()

    # As a client that disconnects does it. After ``cancel_run`` the connection stays open.
    reading = asyncio.create_task(read())
    await begun.wait()
    cancelling()
    reading.cancel()
    await asyncio.wait([reading])


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
