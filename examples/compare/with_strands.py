"""Strands Agents: every reader is a middleware of the model call; a run that is to survive has a session in files.

Its callback handlers take part in the run too, but they are plain functions, and a reader is a coroutine function.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable

import kit
from openai import APIError
from strands import Agent, ModelRetryStrategy, tool
from strands.middleware import InvokeModelStage
from strands.models.openai import OpenAIModel
from strands.session import SnapshotSessionManager
from strands.storage import LocalFileStorage

PATH = "/v1/chat/completions"


class Retry(ModelRetryStrategy):
    """Sends a request again after an error in the middle of an answer, too."""

    def is_retryable(self, exception: Exception) -> bool:
        """Whether the request is sent again."""
        return super().is_retryable(exception) or isinstance(exception, APIError)


def agent(tools: list[object] | None = None, session: SnapshotSessionManager | None = None) -> Agent:
    client = {"base_url": f"{kit.URL}/v1", "api_key": "none"}
    return Agent(
        OpenAIModel(client_args=client, model_id="gpt-5.2"),
        tools=tools,
        session_manager=session,
        retry_strategy=Retry(max_attempts=3, initial_delay=1),
        callback_handler=None,
    )


def follows(reader: kit.Reader) -> Callable[..., AsyncIterator[object]]:
    async def handle(context: object, following: Callable[..., AsyncIterator[dict]]):
        try:
            async for event in following(context):
                if text := event.get("data"):
                    await reader.read(text)
                yield event
        except APIError:
            reader.text = ""  # what the answer that failed has left
            raise

    return handle


async def watch(readers: list[kit.Reader], ended: kit.Ended) -> None:
    worker = agent()
    for reader in readers:
        worker.add_middleware(InvokeModelStage, follows(reader))
    ended(str(await worker.invoke_async("Count.")).rstrip("\n"))


async def count() -> int:
    return sum([len(event.get("data", "")) async for event in agent().stream_async("Count.")])


async def late() -> str:
    # An agent keeps its messages and no events: what there is to read is the stream that was read.
    events = agent().stream_async("Count.")
    async for _ in events:
        pass
    return "".join([event.get("data", "") async for event in events])


async def reload(ended: kit.Ended) -> str:
    events = agent().stream_async("Count.")
    seen = 0
    async for event in events:
        seen += "data" in event
        if seen == kit.HALF:
            break  # the page is closed
    page = ""
    async for event in events:
        page += event.get("data", "")
        if "result" in event:
            ended(str(event["result"]).rstrip("\n"))
    return page


async def work(tools: list[kit.Tool], again: bool) -> str:
    storage = LocalFileStorage(str(kit.FOLDER))
    session = SnapshotSessionManager("run", storage=storage, save_latest_on="message")
    worker = agent([tool(each) for each in tools], session)
    # Without a prompt it continues its messages, and runs the calls of the last one.
    return str(await worker.invoke_async(None if again else "Work.")).rstrip("\n")


async def cancel(cancelling: Callable[[], None]) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async for event in agent().stream_async("Count."):
            if "data" in event:
                begun.set()

    # As a client that disconnects does it. ``Agent.cancel`` takes effect at the next event of the model.
    reading = asyncio.create_task(read())
    await begun.wait()
    cancelling()
    reading.cancel()
    await asyncio.wait([reading])


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
