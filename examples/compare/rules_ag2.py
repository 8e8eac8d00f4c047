"""AG2: the events of the stream of a run; each watcher joins it, and reads first what it has kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import with_ag2 as program
from ag2 import MemoryStream
from ag2.events import ModelMessage, ModelMessageChunk, ModelResponse, ToolCallEvent, ToolResultEvent, UsageEvent
from streams import TextDelta, Told, Usage


async def look(number: int) -> str:
    """Look."""
    return f"found {number}"


async def ask(task: str) -> str:
    """Run another agent."""
    return (await program.agent().ask(task)).body


async def events(case: str, numbers: list[int]) -> AsyncIterator[object]:
    told = Told()
    for each in told.begin():
        yield each
    stream = MemoryStream()
    seen: asyncio.Queue[object] = asyncio.Queue()
    stream.subscribe(seen.put_nowait, sync_to_thread=False)
    run = asyncio.create_task(program.agent([ask if case == "nested" else look]).ask("Go.", stream=stream))
    run.add_done_callback(lambda _: seen.put_nowait(None))
    block = Block(told)
    while (event := await seen.get()) is not None:
        for each in block.records_of(event):
            yield each
    await run
    for each in told.end():
        yield each


class Block:
    """The text of a response: its first chunk begins it, and the message ends it."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.is_open = False

    def records_of(self, event: object) -> Iterator[object]:
        """What an event means."""
        told = self.told
        match event:
            case ModelMessageChunk(content=text):
                yield from told.response()
                if not self.is_open:
                    self.is_open = True
                    yield from told.text_block(0)
                yield from told.record(TextDelta(0, text))
            case ModelMessage() if self.is_open:
                self.is_open = False
                yield from told.stop(0)
            case UsageEvent(usage=usage):
                yield from told.response()
                yield from told.record(Usage(int(usage.prompt_tokens), int(usage.completion_tokens)))
            case ModelResponse():
                yield from told.response()
                yield from told.done()
            case ToolCallEvent(id=name, name=tool):
                yield from told.call(name, tool)
            case ToolResultEvent(parent_id=name):
                yield from told.result(name)
            case _:
                pass


class Watched:
    """A run; each watcher joins its stream."""

    def __init__(self) -> None:
        self.stream = MemoryStream(persist_all=True)

    async def __aiter__(self) -> AsyncIterator[str]:
        with self.stream.join() as events:
            for event in list(await self.stream.history.get_events()):
                if isinstance(event, ModelResponse):
                    return
                if isinstance(event, ModelMessageChunk):
                    yield event.content
            async for event in events:
                if isinstance(event, ModelResponse):
                    return
                if isinstance(event, ModelMessageChunk):
                    yield event.content


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    run = asyncio.create_task(begin(made.stream))
    yield made
    run.cancel()
    await asyncio.wait([run])


async def begin(stream: MemoryStream) -> None:
    for _ in range(3):  # the first watchers join
        await asyncio.sleep(0)
    await program.agent().ask("Count.", stream=stream)
