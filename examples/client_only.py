"""A response without a worker: the client's stream is an ordinary observable of events.

Queries a server that speaks Chat Completions. Needs ``OPENAI_API_KEY``, or ``OPENAI_BASE_URL`` for a server of your
own.
"""

import asyncio

from reactivex import operators as ops

from rxworker.operators import text_deltas
from rxworker.providers import OpenAIChat
from rxworker.transport import Client


async def main() -> None:
    client = Client(OpenAIChat("gpt-5.4-mini"))
    # Cold: each subscription, and so each await, makes its own request.
    words = client.stream("Name three colours.").pipe(text_deltas(), ops.reduce(str.__add__, ""), ops.map(str.split))
    print(await words)


if __name__ == "__main__":
    asyncio.run(main())
