"""AG2: every reader joins the stream of the run.

A stream with ``persist_all`` keeps all events; they are stored in a file, where AG2 itself offers memory and Redis.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import kit
from ag2 import Agent, MemoryStream
from ag2.config import OpenAIConfig
from ag2.events import BaseEvent, ModelMessageChunk, ModelResponse, ToolResultsEvent

PATH = "/v1/chat/completions"


def agent(tools: Iterable[kit.Tool] = ()) -> Agent:
    config = OpenAIConfig("gpt-5.2", base_url=f"{kit.URL}/v1", api_key="none", streaming=True)
    return Agent("worker", config=config, tools=list(tools))


async def follow(stream: MemoryStream, reader: kit.Reader, joined: asyncio.Event) -> None:
    """Read what the stream has kept, and then what comes."""
    with stream.join() as events:
        joined.set()
        for event in list(await stream.history.get_events()):
            if isinstance(event, ModelResponse):
                return
            if isinstance(event, ModelMessageChunk):
                await reader.read(event.content)
        async for event in events:
            if isinstance(event, ModelResponse):
                return
            if isinstance(event, ModelMessageChunk):
                await reader.read(event.content)


async def watch(readers: list[kit.Reader], ended: kit.Ended) -> None:
    stream = MemoryStream(persist_all=True)
    joined = [asyncio.Event() for _ in readers]
    reading = [
        asyncio.create_task(follow(stream, reader, event)) for reader, event in zip(readers, joined, strict=True)
    ]
    for event in joined:
        await event.wait()
    ended((await agent().ask("Count.", stream=stream)).body)
    await asyncio.gather(*reading, return_exceptions=True)


async def count() -> int:
    stream = MemoryStream()
    texts: list[str] = []
    stream.where(ModelMessageChunk).subscribe(lambda event: texts.append(event.content), sync_to_thread=False)
    await agent().ask("Count.", stream=stream)
    return len("".join(texts))


async def late() -> str:
    stream = MemoryStream(persist_all=True)
    await agent().ask("Count.", stream=stream)
    reader = kit.Reader()
    await follow(stream, reader, asyncio.Event())
    return reader.text


async def reload(ended: kit.Ended) -> str:
    stream = MemoryStream(persist_all=True)
    half, page = kit.Reader(raises_at=kit.HALF), kit.Reader()
    joined = asyncio.Event()
    closed = asyncio.create_task(follow(stream, half, joined))
    await joined.wait()
    run = asyncio.create_task(agent().ask("Count.", stream=stream))
    await asyncio.wait([closed])
    await follow(stream, page, asyncio.Event())
    ended((await run).body)
    return page.text


class Stored:
    """AG2's protocol of a storage, over a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def save_event(self, event: BaseEvent, context: object) -> None:
        """Append an event."""
        with self._file.open("ab") as file:
            pickle.dump(event, file)

    async def get_history(self, stream_id: object) -> list[BaseEvent]:
        """All events."""
        events: list[BaseEvent] = []
        if self._file.exists():
            with self._file.open("rb") as file:
                while file.peek(1):
                    events.append(pickle.load(file))
        return events

    async def set_history(self, stream_id: object, events: Iterable[BaseEvent]) -> None:
        """Replace the events."""
        with self._file.open("wb") as file:
            for event in events:
                pickle.dump(event, file)

    async def drop_history(self, stream_id: object) -> None:
        """Delete them."""
        self._file.unlink(missing_ok=True)


async def work(tools: list[kit.Tool], again: bool) -> str:
    stream = MemoryStream(Stored(kit.FOLDER / "events"))
    worker = agent(tools)
    if not again:
        return (await worker.ask("Work.", stream=stream)).body
    events = list(await stream.history.get_events())
    # A turn is resumed from an event that starts a request: the newest results, or the question.
    starts = [at for at, event in enumerate(events) if isinstance(event, ToolResultsEvent)]
    return (await worker.resume(*events[: starts[-1] + 1 if starts else 1], stream=stream)).body


async def cancel(cancelling: Callable[[], None]) -> None:
    async with agent().run("Count.") as run:
        with run.stream.where(ModelMessageChunk).join() as events:
            run.start()
            async for _ in events:
                break
        cancelling()
    # Leaving the block cancels the turn.


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
