"""rxworker as one of the clients that are measured side by side.

The harness finds this file by its name when it lies beside the other clients; `bench.py` runs it from here.

    default   `stream` is a client's stream through `text_deltas`, `tools` a worker's run
    uvloop    the same on uvloop
    worker    `stream` is a worker's run too, its events through `text_deltas`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# The harness; it lies beside the other clients.
import _common as c  # pyright: ignore[reportMissingModuleSource]

from rxworker import Limits, Worker, tool
from rxworker.operators import text_deltas
from rxworker.providers import Anthropic, Gemini, Ollama, OpenAIChat, OpenAIResponses
from rxworker.transport import Client, close_session

PROVIDERS = {"anthropic": Anthropic, "chat": OpenAIChat, "responses": OpenAIResponses}
OTHERS = {"gemini": Gemini, "ollama": Ollama}
"""Of which only our own server knows, and without tools."""

MODELS = {"gemini": "gemini-2.5-flash", "ollama": "llama3.2"}

OnDelta = Callable[[str], None]


class P(c.Peer):
    """The peer: a client made once, a worker for each conversation."""

    name = "rxworker"
    venv = "peers"
    packages = ("rxworker", "reactivex", "aiohttp", "msgspec")
    variants = {  # noqa: RUF012 - what the harness reads
        "default": {**dict.fromkeys(PROVIDERS, ("stream", "tools")), **dict.fromkeys(OTHERS, ("stream",))},
        "uvloop": dict.fromkeys(PROVIDERS, ("stream", "tools")),
        "worker": dict.fromkeys((*PROVIDERS, *OTHERS), ("stream",)),
    }
    repeat = 25

    async def open(self) -> None:
        """Make the client and the tools."""
        make = {**PROVIDERS, **OTHERS}[self.api]
        provider = make(self.model, api_key="bench", base_url=self.base_url)
        self.client = Client(provider)
        self.kit = [tool(function) for function in c.TOOLS.values()]

    async def close(self) -> None:
        """Close the connections."""
        await close_session()

    async def stream(self, prompt: str, on_delta: OnDelta) -> None:
        """One response, delta by delta."""
        if self.variant == "worker":
            await self._run(Worker(self.client), prompt, on_delta)
        else:
            await self._follow(prompt, on_delta)

    async def tools(self, prompt: str, on_delta: OnDelta) -> None:
        """The turn loop, until an answer calls no tool."""
        # The server asks for the same calls in every round, which is what the guard against no progress is there for.
        limits = Limits(max_repeats=None)
        await self._run(Worker(self.client, tools=self.kit, limits=limits), prompt, on_delta)

    async def _run(self, worker: Worker, prompt: str, on_delta: OnDelta) -> None:
        run = worker.run(prompt)
        run.events.pipe(text_deltas()).subscribe(on_delta)
        await run

    async def _follow(self, prompt: str, on_delta: OnDelta) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def completed() -> None:
            over.set_result(None)

        deltas = self.client.stream(prompt).pipe(text_deltas())
        deltas.subscribe(on_delta, over.set_exception, completed)
        await over


if __name__ == "__main__":
    c.MODELS.update(MODELS)
    c.run(P)
