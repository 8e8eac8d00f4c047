"""LangGraph: the events of version 3; each watcher is a branch of a ``tee`` over the messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import with_langgraph as program
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.tools import tool
from streams import InputJsonDelta, TextDelta, Told, Usage


@tool
async def look(number: int) -> str:
    """Look."""
    return f"found {number}"


@tool
async def ask(task: str) -> str:
    """Run another agent."""
    return (await program.agent().ainvoke(program.asked(task)))["messages"][-1].text


async def events(case: str, numbers: list[int]) -> AsyncIterator[object]:
    runs: dict[tuple[str, ...], Told] = {(): Told()}
    for each in runs[()].begin():
        yield each
    model = program.model().model_copy(update={"stream_usage": True})
    retry = ModelRetryMiddleware(initial_delay=0.1, on_failure="error")
    graph = create_agent(model, [ask if case == "nested" else look], middleware=[retry])
    async with await graph.astream_events(program.asked("Go."), version="v3") as run:
        async for event in run:
            numbers.append(event["seq"])
            for each in records_of(runs, event["method"], event["params"]):
                yield each
    for each in runs[()].end():
        yield each


def records_of(runs: dict[tuple[str, ...], Told], method: str, params: dict) -> Iterator[object]:
    path, data = tuple(params["namespace"]), params["data"]
    data = data[0] if isinstance(data, tuple) else data
    told = runs.setdefault(path, Told(path))
    match method, data.get("event"):
        case "lifecycle", "started":
            yield from runs.setdefault(tuple(data["namespace"]), Told(tuple(data["namespace"]))).begin()
        case "lifecycle", "completed":
            yield from runs[tuple(data["namespace"])].end()
        case "messages", "message-start":
            yield from told.response(again=True)
        case "messages", "content-block-start" if data["content"]["type"] == "text":
            yield from told.text_block(data["index"], data["content"]["text"])
        case "messages", "content-block-start":
            yield from told.call_block(data["index"], data["content"]["id"], data["content"]["name"])
        case "messages", "content-block-delta" if data["delta"]["type"] == "text-delta":
            yield from told.record(TextDelta(data["index"], data["delta"]["text"]))
        case "messages", "content-block-delta":
            yield from told.record(InputJsonDelta(data["index"], data["delta"]["args"]))
        case "messages", "content-block-finish":
            yield from told.stop(data["index"])
        case "messages", "message-finish":
            if usage := data.get("usage"):
                yield from told.record(Usage(usage["input_tokens"], usage["output_tokens"]))
            yield from told.done()
        case "tools", "tool-started":
            yield from told.call(data["tool_call_id"], data["tool_name"])
        case "tools", "tool-finished":
            yield from told.result(data["tool_call_id"])
        case _:
            pass


class Watched:
    """A run; each watcher has a branch of its messages. They are made before the run, for late watchers, too."""

    def __init__(self, run: object) -> None:
        self.branches = list(run.messages.atee(4))

    def __aiter__(self) -> AsyncIterator[str]:
        return program.texts(self.branches.pop())


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    async with await program.agent().astream_events(program.asked("Count."), version="v3") as run:
        yield Watched(run)
