"""A second model answers when the first is overloaded; the retries are limited."""

import asyncio

from rxworker import Worker
from rxworker.providers import Anthropic, OpenAIChat
from rxworker.testing import ReplayServer, ServedResponse
from rxworker.transport import Client, Retry, fallback


async def main() -> None:
    busy = ServedResponse.from_status(529, headers={"retry-after": "0.01"})
    async with ReplayServer([busy, busy]) as first, ReplayServer(["Hello!"]) as second:
        claude = Anthropic("claude-sonnet-5-5", base_url=first.base_url, api_key="none")
        other = OpenAIChat("gpt-5.5", base_url=second.base_url, api_key="none")
        model = fallback(Client(claude, retry=Retry(retries=1, first=0.01)), Client(other, retry=Retry(retries=0)))
        result = await Worker(model).run("Hi")
        print(result.text, len(first.requests), len(second.requests))
        message = result.conversation.messages[-1]
        print(message.provider, message.model)
        assert result.text == "Hello!"
        assert len(first.requests) == 2, "one request and one retry"
        assert len(second.requests) == 1
        assert message.model == "gpt-5.5"


if __name__ == "__main__":
    asyncio.run(main())
