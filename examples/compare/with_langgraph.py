"""LangGraph: ``create_agent`` of LangChain; every reader is a branch of a ``tee`` over the events of version 3.

The checkpoints are in SQLite.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable

import kit
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

PATH = "/v1/chat/completions"


def model() -> ChatOpenAI:
    return ChatOpenAI(model="gpt-5.2", base_url=f"{kit.URL}/v1", api_key="none", streaming=True)


def agent(tools: tuple[object, ...] = (), checkpointer: object = None) -> object:
    retry = ModelRetryMiddleware(initial_delay=0.1, on_failure="error")
    return create_agent(model(), list(tools), middleware=[retry], checkpointer=checkpointer)


def asked(text: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}]}


async def texts(messages: AsyncIterator[object]) -> AsyncIterator[str]:
    async for message in messages:
        async for text in message.text:
            yield text


async def watch(readers: list[kit.Reader], ended: kit.Ended) -> None:
    async with await agent().astream_events(asked("Count."), version="v3") as run:

        async def follow(reader: kit.Reader, messages: AsyncIterator[object]) -> None:
            async for text in texts(messages):
                await reader.read(text)

        branches = run.messages.atee(len(readers))
        reading = [
            asyncio.create_task(follow(reader, branch)) for reader, branch in zip(readers, branches, strict=True)
        ]
        ended((await run.output())["messages"][-1].text)
        await asyncio.gather(*reading, return_exceptions=True)


async def count() -> int:
    stream = agent().astream(asked("Count."), stream_mode="messages")
    return sum([len(message.text) async for message, _ in stream])


async def late() -> str:
    # A message keeps its text: its holder reads it again from the start.
    async with await agent().astream_events(asked("Count."), version="v3") as run:
        messages = [message async for message in run.messages]
        await run.output()
        return "".join([text for message in messages async for text in message.text])


async def reload(ended: kit.Ended) -> str:
    async with await agent().astream_events(asked("Count."), version="v3") as run:
        page = ""
        async for message in run.messages:
            seen = 0
            async for _ in message.text:
                seen += 1
                if seen == kit.HALF:
                    break  # the page is closed
            page += "".join([text async for text in message.text])
        ended((await run.output())["messages"][-1].text)
        return page


async def work(tools: list[kit.Tool], again: bool) -> str:
    async with AsyncSqliteSaver.from_conn_string(str(kit.FOLDER / "checkpoints.db")) as saver:
        graph = agent(tuple(tools), saver)
        config = {"configurable": {"thread_id": "1"}}
        state = await graph.ainvoke(None if again else asked("Work."), config, durability="sync")
        return state["messages"][-1].text


async def cancel(cancelling: Callable[[], None]) -> None:
    async with await agent().astream_events(asked("Count."), version="v3") as run:
        async for message in run.messages:
            async for _ in message.text:
                cancelling()
                await run.abort()
                return


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
