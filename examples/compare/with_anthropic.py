"""The SDK of Anthropic: requests and streams; runs, consumers and stores are the program's."""

from __future__ import annotations

import sys
from collections.abc import Callable

import kit
from anthropic import AsyncAnthropic

PATH = "/v1/messages"


def stream(client: AsyncAnthropic) -> object:
    question = [{"role": "user", "content": "Count."}]
    return client.messages.stream(model="claude-sonnet-5-5", max_tokens=4096, messages=question)


async def single(reader: kit.Reader, ended: kit.Ended) -> None:
    async with AsyncAnthropic(base_url=kit.URL, api_key="none") as client, stream(client) as response:
        async for text in response.text_stream:
            await reader.read(text)
    ended(reader.text)


async def count() -> int:
    reader = kit.Reader()
    await single(reader, lambda _: None)
    return len(reader.text)


async def cancel(cancelling: Callable[[], None]) -> None:
    async with AsyncAnthropic(base_url=kit.URL, api_key="none") as client, stream(client) as response:
        async for _ in response.text_stream:
            cancelling()
            await response.close()
            return


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
