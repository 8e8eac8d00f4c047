"""The SDK of OpenAI: requests and streams; runs, consumers and stores are the program's."""

from __future__ import annotations

import sys
from collections.abc import Callable

import kit
from openai import AsyncOpenAI

PATH = "/v1/chat/completions"


async def stream(client: AsyncOpenAI) -> object:
    question = [{"role": "user", "content": "Count."}]
    return await client.chat.completions.create(model="gpt-5.2", messages=question, stream=True)


async def single(reader: kit.Reader, ended: kit.Ended) -> None:
    async with AsyncOpenAI(base_url=f"{kit.URL}/v1", api_key="none") as client:
        async for chunk in await stream(client):
            if chunk.choices and (text := chunk.choices[0].delta.content):
                await reader.read(text)
    ended(reader.text)


async def count() -> int:
    reader = kit.Reader()
    await single(reader, lambda _: None)
    return len(reader.text)


async def cancel(cancelling: Callable[[], None]) -> None:
    async with AsyncOpenAI(base_url=f"{kit.URL}/v1", api_key="none") as client:
        response = await stream(client)
        async for chunk in response:
            if chunk.choices and chunk.choices[0].delta.content:
                cancelling()
                await response.close()
                return


if __name__ == "__main__":
    kit.main(sys.modules[__name__])
