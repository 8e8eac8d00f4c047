"""Strands Agents: the events of ``stream_async``; each watcher is a middleware of the model call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import with_strands as program
from strands import tool
from strands.middleware import InvokeModelStage
from streams import AttemptRetract, Handler, InputJsonDelta, TextDelta, Told, Usage


@tool
async def look(number: int) -> str:
    """Look."""
    return f"found {number}"


@tool
async def ask(task: str):
    """Run another agent."""
    async for event in program.agent().stream_async(task):
        yield event  # which the outer stream has with the call
    yield "All is done."


async def events(case: str, numbers: list[int]) -> AsyncIterator[object]:
    runs: dict[tuple[str, ...], Told] = {(): Told()}
    for each in runs[()].begin():
        yield each
    async for event in program.agent([ask if case == "nested" else look]).stream_async("Go."):
        if "tool_stream_event" in event:
            inner = event["tool_stream_event"]
            path = (inner["tool_use"]["toolUseId"],)
            if isinstance(inner["data"], dict):
                for each in records_of(runs.setdefault(path, Told(path)), inner["data"]):
                    yield each
        else:
            for each in records_of(runs[()], event):
                yield each


def records_of(told: Told, event: dict) -> Iterator[object]:
    sent: dict = event.get("event", {})
    match [*sent, *event][0]:
        case "messageStart":
            yield from told.response(again=True)
        case "contentBlockStart" if call := sent["contentBlockStart"]["start"].get("toolUse"):
            yield from told.call_block(0, call["toolUseId"], call["name"])
        case "contentBlockStart":
            yield from told.text_block(0)
        case "contentBlockDelta":
            delta = sent["contentBlockDelta"]["delta"]
            if "text" in delta:
                yield from told.record(TextDelta(0, delta["text"]))
            elif delta["toolUse"]["input"]:
                yield from told.record(InputJsonDelta(0, delta["toolUse"]["input"]))
        case "contentBlockStop":
            yield from told.stop(0)
        case "metadata":
            usage = sent["metadata"]["usage"]
            yield from told.record(Usage(usage["inputTokens"], usage["outputTokens"]))
        case "event_loop_throttled_delay":
            yield from told.record(AttemptRetract("another attempt"))
        case "message":
            for part in event["message"]["content"]:
                if result := part.get("toolResult"):
                    yield from told.result(result["toolUseId"])
                elif call := part.get("toolUse"):
                    yield from told.call(call["toolUseId"], call["name"])
            yield from told.done()
        case "result":
            yield from told.end()
        case _:
            pass


class Watched:
    """A run that begins when its first watchers have come. It takes no others: middleware is added before it."""

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
        worker = program.agent()
        for handler in self.handlers:
            worker.add_middleware(InvokeModelStage, follows(handler))
        failed = None
        try:
            await worker.invoke_async("Count.")
        except Exception as error:
            failed = error
        for handler in self.handlers:
            handler.end(failed)


def follows(handler: Handler) -> Callable[..., AsyncIterator[object]]:
    async def handle(context: object, following: Callable[..., AsyncIterator[dict]]):
        async for event in following(context):
            if text := event.get("data"):
                await handler(text)
            yield event

    return handle


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    running = asyncio.create_task(made.begin())
    yield made
    running.cancel()
    await asyncio.wait([running])
